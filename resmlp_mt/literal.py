"""Numbers, strings, lists, tuples and dicts written as text, such as ``[(512, 3)] * 20``."""

import ast

from resmlp_mt_runtime.errors import UserError

LONGEST, MOST = 10_000, 1000  # characters of the text, times that a value is repeated


def literal(text, *_):
    """Stands for ``eval``: the value of numbers, strings, lists, tuples, dicts, their sums and
    products. Raises UserError for any other text, TypeError for what is not text."""
    if not isinstance(text, (str, bytes)):
        raise TypeError(f"{type(text).__name__} instead of text")
    try:
        if isinstance(text, bytes) or len(text) > LONGEST:
            raise ValueError
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        wrong = f"the option {text!r:.60} is refused, because fairseq would run it"
        allowed = f"numbers, strings, lists, tuples, dicts, sums, and repeats up to {MOST}"
        raise UserError(f"{wrong}: give only {allowed}") from None


def _value(node: ast.expr):
    """The value of a sum of literals, each of which may be times a whole number."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _value(node.left) + _value(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        value, times = ast.literal_eval(node.left), ast.literal_eval(node.right)
        if isinstance(value, int):
            value, times = times, value
        if not isinstance(times, int) or times > MOST:
            raise ValueError
        return value * times
    return ast.literal_eval(node)
