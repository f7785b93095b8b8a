"""Dictionaries of made-up words, where nothing but their size matters."""

from fairseq.data import Dictionary


def synthetic_dictionary(types: int) -> Dictionary:
    """A dictionary of *types* symbols, fairseq's four special ones included."""
    dictionary = Dictionary()
    for number in range(types - len(dictionary)):
        dictionary.add_symbol(f"w{number}")
    return dictionary
