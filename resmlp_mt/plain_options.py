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
_LONGEST = 1 << 20  # items of a list that is written as a product


def evaluate(expression):
    """The value of an expression of numbers, strings, lists, tuples, dictionaries, sums, products.

    Raises:
        TypeError: if it is no string, like ``eval``.
        UserError: if there is anything else in it.
    """
    if not isinstance(expression, str):
        raise TypeError("evaluate() arg 1 must be a string")
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (ValueError, SyntaxError, TypeError, ArithmeticError, MemoryError, RecursionError):
        raise UserError(
            f"the option {expression[:60]!r} is refused: it may hold numbers, words, lists, sums "
            "and products, and nothing that would be run"
        ) from None


def _value(node: ast.AST):
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Mult):
            _check_product(left, right)
        return _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.List):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(item) for item in node.elts)
    return ast.literal_eval(node)


def _check_product(left, right) -> None:
    for many, times in ((left, right), (right, left)):
        if hasattr(many, "__len__") and isinstance(times, int) and len(many) * times > _LONGEST:
            raise ValueError


def install() -> None:
    """Have the modules of fairseq that are imported so far call :func:`evaluate` for ``eval``."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "fairseq" and module is not None:
            # a global of this name comes before the built-in function
            vars(module).setdefault("eval", evaluate)
