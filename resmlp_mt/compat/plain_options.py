"""Options that some of fairseq's models hand to Python's ``eval``, read without it.

fairseq's ``fconv`` and others keep lists in strings, such as ``[(512, 3)] * 20``, and evaluate them
when the model is built. The options of a model are in its checkpoint: a file of nothing but data,
which PyTorch's weights-only loader lets pass, could thus run anything.
"""

import ast
import operator
import sys

from resmlp_mt.errors import UserError

_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_LONGEST = 1 << 20  # items, of all lists and strings that sums and products make together


def evaluate(expression):
    """The value of an expression of numbers, strings, lists, tuples, dictionaries, sums, products.

    Raises:
        TypeError: if it is no string, like ``eval``.
        UserError: if there is anything else in it.
    """
    if not isinstance(expression, str):
        raise TypeError("evaluate() arg 1 must be a string")
    try:
        return _Value().of(ast.parse(expression.strip(), mode="eval").body)
    except (ValueError, SyntaxError, TypeError, ArithmeticError, MemoryError, RecursionError):
        raise UserError(
            f"the option {expression[:60]!r} is refused: it may hold numbers, words, lists, sums "
            "and products, and nothing that would be run"
        ) from None


class _Value:
    """Of one expression; in all its parts no more than ``_LONGEST`` items are made."""

    def __init__(self):
        self.made = 0

    def of(self, node: ast.AST):
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = self.of(node.left), self.of(node.right)
            self.made += _items(node.op, left, right)
            if self.made > _LONGEST:
                raise ValueError
            return _OPERATORS[type(node.op)](left, right)
        if isinstance(node, ast.List):
            return [self.of(item) for item in node.elts]
        if isinstance(node, ast.Tuple):
            return tuple(self.of(item) for item in node.elts)
        return ast.literal_eval(node)


def _items(sign: ast.operator, left, right) -> int:
    """How many items the sum or product of the two has; 0 where it is a number."""
    lengths = [len(value) for value in (left, right) if hasattr(value, "__len__")]
    if isinstance(sign, ast.Mult) and len(lengths) == 1:
        times = right if hasattr(left, "__len__") else left
        return max(times, 0) * lengths[0] if isinstance(times, int) else 0
    return sum(lengths)


def install() -> None:
    """Have the modules of fairseq that are imported so far call :func:`evaluate` for ``eval``."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "fairseq" and module is not None:
            # a global of this name comes before the built-in function
            vars(module).setdefault("eval", evaluate)
