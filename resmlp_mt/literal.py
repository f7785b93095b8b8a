"""Numbers, strings, lists, tuples and dicts written as text, such as ``[(512, 3)] * 20``."""

import ast
import operator

from resmlp_mt_runtime.errors import UserError

LARGEST = 10_000  # characters of the text, and values that it stands for
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def literal(text, *_):
    """Stands for ``eval``: the value of numbers, strings, lists, tuples, dicts, their sums and
    products. Raises UserError for any other text; like ``eval``, TypeError for what is none."""
    if not isinstance(text, (str, bytes)):
        raise TypeError(f"{type(text).__name__} instead of text")
    try:
        if isinstance(text, bytes) or len(text) > LARGEST:
            raise ValueError
        return _bounded(_value(ast.parse(text.strip(), mode="eval").body))
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise UserError(
            f"the option {text!r:.60} is refused, which fairseq would run: it may hold numbers, "
            f"strings, lists, sums and products, at most {LARGEST:,} values"
        ) from None


def _value(node: ast.expr):
    if not isinstance(node, ast.BinOp) or type(node.op) not in OPERATORS:
        return ast.literal_eval(node)
    left, right = _value(node.left), _value(node.right)
    if isinstance(node.op, ast.Mult):
        for one, other in ((left, right), (right, left)):
            if isinstance(one, int):
                _bounded(other, times=one)
    return _bounded(OPERATORS[type(node.op)](left, right))


def _bounded(value, times: int = 1):
    if not isinstance(value, (int, float)) and _size(value) * times > LARGEST:
        raise ValueError
    return value


def _size(value) -> int:
    if isinstance(value, dict):
        return _size([*value, *value.values()])
    if isinstance(value, (list, tuple)):
        return 1 + sum(map(_size, value))
    return len(value) if isinstance(value, (str, bytes)) else 1
