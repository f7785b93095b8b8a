"""The binary data that is trained on: its languages, and what tells it from other data."""

import re
from hashlib import file_digest, sha256
from pathlib import Path
from typing import List, Optional, Tuple

from resmlp_mt.errors import UserError
from resmlp_mt.text.dictionaries import dictionaries, dictionary_digest, joint_dictionary


def find_languages(
    data: Path, source_lang: Optional[str] = None, target_lang: Optional[str] = None
) -> Tuple[str, str]:
    """Source and target language, from the names ``train.SOURCE-TARGET.SOURCE.idx``.

    Args:
        data: folder of binary data.
        source_lang, target_lang: to choose among several pairs. None takes any.

    Raises:
        UserError: if there is no such pair, or more than one.
    """
    pairs = set()
    for path in data.glob("train.*-*.*.idx"):
        _, pair, language, _ = path.name.split(".", 3)
        if pair.startswith(f"{language}-"):
            found = language, pair[len(language) + 1 :]
            if source_lang in (None, found[0]) and target_lang in (None, found[1]):
                pairs.add(found)
    if len(pairs) > 1:
        names = ", ".join(sorted("-".join(pair) for pair in pairs))
        raise UserError(f"{data} has several pairs ({names}): add --source-lang and --target-lang")
    if not pairs:
        pair = f"{source_lang or 'SOURCE'}-{target_lang or 'TARGET'}"
        raise UserError(
            f"{data} has no train.{pair}.*.idx: give the folder data-bin that resmlp-mt prepare or "
            "fairseq-preprocess made for this direction"
        )
    return pairs.pop()


def check_data(
    data: Path, languages: Tuple[str, str], shared_embedding: bool, validated: bool = True
) -> dict:
    """
    Args:
        data: folder of binary data.
        languages: source and target.
        shared_embedding: whether source and target have one embedding.
        validated: whether a validation set is needed.

    Returns:
        what tells it from another: checksums of the dictionaries, of the training text and of the
        validation set.

    Raises:
        UserError: if it lacks a file, or has two different dictionaries for a shared embedding.
    """
    pair = "-".join(languages)
    names = [f"dict.{language}.txt" for language in languages]
    for split in ("train", "valid") if validated else ("train",):
        for language in languages:
            names += [f"{split}.{pair}.{language}.{kind}" for kind in ("bin", "idx")]
    for name in names:
        if not (data / name).is_file():
            raise UserError(f"{data / name}: no such file: prepare the data again")
    if shared_embedding and joint_dictionary(data, languages) is None:
        raise UserError(
            f"{data / names[0]} and {names[1]} differ, and one embedding for both sides needs one "
            "dictionary: make the data with fairseq-preprocess --joined-dictionary"
        )
    facts = {"dictionary": dictionary_digest(dictionaries(data, languages))}
    for split in ("train", "valid"):
        # fairseq reads train1 and so on as further parts of train
        one = re.compile(rf"{split}\d*\.{re.escape(pair)}\..*\.(bin|idx)")
        facts[split] = _checksum(sorted(p for p in data.iterdir() if one.fullmatch(p.name)))
    return facts


def _checksum(files: List[Path]) -> str:
    """Of their names and contents."""
    total = sha256()
    for path in files:
        with open(path, "rb") as file:
            total.update(f"{path.name} {file_digest(file, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()[:16]
