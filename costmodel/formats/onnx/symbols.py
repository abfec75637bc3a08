"""Symbolic lengths in ONNX files, such as ``past_sequence_length + 1``, and their values.

Exporters write a length as an expression of symbols. It is parsed as Python, but only whole numbers, symbols,
arithmetic, ``max`` and ``min`` are evaluated; any other text counts as one symbol with that name.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from operator import add, floordiv, mod, mul, sub

import onnx

from costmodel.errors import InputError, did_you_mean

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.FloorDiv: floordiv,
    ast.Div: floordiv,  # lengths are whole, so what is divided divides evenly
    ast.Mod: mod,
}
_FUNCTIONS: dict[str, Callable[[list[int]], int]] = {"max": max, "min": min}
Axis = onnx.TensorShapeProto.Dimension

_LONGEST = 500
"""Characters of the longest text that is parsed as an expression; a longer one is one symbol."""
_MOST = 2**63 - 1
"""The largest length that an ONNX file can have."""


def symbols_of(length: str) -> set[str]:
    """The symbols in a length such as ``past_sequence_length + 1``; any other text is a symbol itself."""
    tree = _parsed(length)
    if tree is None:
        return {length}
    # the name of a function is a name, too, but no symbol
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in functions}


def value_of(length: str, values: Mapping[str, int]) -> int | None:
    """The value of a length; None where a symbol has no value, the result is below 0, or it divides by 0.

    A division that leaves a rest is rounded down. A whole text that is a key of ``values`` has that value,
    also if it is an expression.
    """
    # an axis may be named by a text that is no expression, or that the user has given a length as it stands
    if length in values:
        return values[length]
    tree = _parsed(length)
    if tree is None or not symbols_of(length) <= values.keys():
        return None
    try:
        found = _evaluated(tree, values)
    except ZeroDivisionError:
        return None
    return found if found >= 0 else None


def _parsed(length: str) -> ast.expr | None:
    """The text as an expression; None where it has anything that :func:`_evaluated` does not know."""
    if len(length) > _LONGEST:
        return None
    try:
        tree = ast.parse(length, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if _is_known(tree) else None


def _is_known(tree: ast.expr) -> bool:
    if isinstance(tree, ast.BinOp):
        return type(tree.op) in _OPERATORS and _is_known(tree.left) and _is_known(tree.right)
    if isinstance(tree, ast.Call):
        # sympy, whose text exporters write, spells them Max and Min
        known = isinstance(tree.func, ast.Name) and tree.func.id.lower() in _FUNCTIONS and bool(tree.args)
        return known and not tree.keywords and all(map(_is_known, tree.args))
    return isinstance(tree, ast.Name) or (isinstance(tree, ast.Constant) and type(tree.value) is int)


def _evaluated(tree: ast.expr, values: Mapping[str, int]) -> int:
    if isinstance(tree, ast.BinOp):
        return _OPERATORS[type(tree.op)](_evaluated(tree.left, values), _evaluated(tree.right, values))
    if isinstance(tree, ast.Call):
        assert isinstance(tree.func, ast.Name)
        return _FUNCTIONS[tree.func.id.lower()]([_evaluated(item, values) for item in tree.args])
    if isinstance(tree, ast.Name):
        return values[tree.id]
    assert isinstance(tree, ast.Constant)
    assert isinstance(tree.value, int)
    return tree.value


def check_dims(inputs: list[onnx.ValueInfoProto], dims: Mapping[str, int]) -> dict[str, int]:
    """A copy of ``dims``; InputError for a symbol that the inputs do not have, and for what is no length."""
    known = sorted({symbol for _, axis in _symbolic(inputs) for symbol in symbols_of(axis.dim_param)})
    for symbol, length in dims.items():
        if symbol not in known:
            there = ", ".join(known) or "it has none"
            remedy = did_you_mean(symbol, known)
            raise InputError("dims", f"symbolic lengths of the file's inputs ({there})", symbol, remedy)
        if type(length) is not int or length < 0:
            raise InputError("dims", "a whole length of at least 0", length, key=symbol)
    return dict(dims)


def batch_symbols(inputs: list[onnx.ValueInfoProto], values: Mapping[str, int]) -> set[str]:
    """The lengths without a value that stand for the batch: each is the whole text of an input's first axis.

    Every input has at least one axis. The first axis of the first input is the batch whatever its text. That
    of another input is the batch if the input has a second axis, and if none of the symbols in the text is in
    the length of an axis that is not the first of its input.
    """
    elsewhere = {
        symbol for number, axis in _symbolic(inputs) if number for symbol in symbols_of(axis.dim_param)
    }
    found = set()
    for value in inputs:
        axes = _axes(value)
        symbol = axes[0].dim_param
        only_first = len(axes) > 1 and not symbols_of(symbol) & elsewhere
        if symbol and value_of(symbol, values) is None and (only_first or value is inputs[0]):
            found.add(symbol)
    return found


def set_lengths(graph: onnx.GraphProto, values: Mapping[str, int]) -> None:
    """Write its length to every axis of the graph whose symbols all have a value.

    InputError for a length beyond the 64 bits that a file has for one.
    """
    for value in (*graph.input, *graph.value_info, *graph.output):
        for axis in _axes(value):
            if axis.dim_param and (length := value_of(axis.dim_param, values)) is not None:
                if length > _MOST:
                    raise InputError("dims", f"lengths of at most {_MOST:,}", length, key=axis.dim_param)
                axis.dim_value = length


def missing_lengths(inputs: list[onnx.ValueInfoProto], values: Mapping[str, int]) -> InputError | None:
    """The error for an axis of an input that still has no length, with all symbols to state; None if none.

    It is for the reader to raise, where a product's shape is not known without: a mask's length often follows
    from the other operands of what reads it.
    """
    missing = {
        symbol for _, axis in _symbolic(inputs) for symbol in symbols_of(axis.dim_param)
    } - values.keys()
    stated = "State " + " ".join(f"--dim {symbol}=N" for symbol in sorted(missing))
    in_a_study = ", ".join(f"{symbol}: N" for symbol in sorted(missing))
    for value in inputs:
        for number, axis in enumerate(_axes(value)):
            if not axis.HasField("dim_value"):
                return InputError(
                    f"input {value.name}",
                    "axes of known length (of symbolic ones only the batch has one without being asked, 1)",
                    axis.dim_param or axis.dim_value or "an axis without length",
                    f"{stated}, in a study {{network: FILE, dims: {{{in_a_study}}}}}"
                    if missing
                    else "Fix the axis when exporting the model",
                    key=f"axis {number}",
                )
    return None


def _symbolic(inputs: list[onnx.ValueInfoProto]) -> Iterator[tuple[int, Axis]]:
    """Every symbolic axis of the inputs, with its position in the shape."""
    for value in inputs:
        for number, axis in enumerate(_axes(value)):
            if axis.dim_param:  # a value would stand in its place
                yield number, axis


def _axes(value: onnx.ValueInfoProto) -> list[Axis]:
    return list(value.type.tensor_type.shape.dim)
