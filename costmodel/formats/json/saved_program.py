"""Programs that ``torch.export.save`` wrote (``.pt2``) as networks, without PyTorch and without weights.

Such a file is a zip archive. Its program is JSON: nodes that call ATen operations, and the shape of every
tensor. Nothing else in the archive is read, so nothing is unpickled. An axis that was exported as dynamic has
a symbol such as ``s77`` for its length, and lengths may be expressions of symbols. Views are nodes here, so
that every operand has its own shape.
"""

from __future__ import annotations

import ast
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from math import prod
from operator import add, floordiv, mod, mul
from pathlib import Path
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.json.graph_json import network_of_graph
from costmodel.formats.json.safe_json import MOST_BYTES, json_of
from costmodel.formats.yaml.safe_yaml import names_a_file
from costmodel.workload.network import Network
from costmodel.workload.operators import UNKNOWN, kinds_of

PROGRAMS = ("models/model.json", "serialized_exported_program.json")
"""How the names of the archive's entry end that is the program, in today's archives and in older ones."""

WRAPPERS = frozenset({"wrap_with_set_grad_enabled", "wrap_with_autocast"})
"""Operations that run a graph once, as it stands; its nodes are read as if they stood outside."""

LONGEST_EXPRESSION = 1000
"""Characters of a length's expression: those of real programs have some dozens."""

_ARITHMETIC: Mapping[str, Callable[..., int]] = {
    "Add": lambda *terms: reduce(add, terms),
    "Mul": lambda *factors: reduce(mul, factors),
    "Pow": pow,
    "FloorDiv": floordiv,
    "CleanDiv": floordiv,
    "IntTrueDiv": floordiv,
    "Mod": mod,
    "PythonMod": mod,
    "Max": max,
    "Min": min,
}
"""What lengths may be made of, by the names of sympy's and PyTorch's functions."""


def read_saved_program(path: str | Path, batch: int | None, dims: Mapping[str, int] | None) -> Network:
    """The network of a ``.pt2`` file: a node for every operation of the program that results in a tensor.

    ``dims`` states the lengths of dynamic axes by their symbols. ``batch`` is the length of the inputs' first
    axis; None keeps the program's, or makes a dynamic one 1, as of an ONNX file. What is computed of
    parameters alone without products is a parameter. Operations that are not supported say so in
    :attr:`costmodel.workload.network.Node.uncounted`.

    Raises InputError with the file for what is no such archive; for a symbol without a length, or a length
    that depends on data, where neither is stated; and for a batch of a program whose first axis is another
    number.
    """
    where = str(path)
    content = _program(Path(path))
    try:
        graph = content["graph_module"]["graph"]
        signature = content["graph_module"]["signature"]
        reading = _Reading(where, graph, signature, dict(dims or {}))
        document = reading.document(Path(path).name.removesuffix(".pt2"), batch)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        expected = "the program of torch.export, with graph_module, nodes and tensor_values"
        raise InputError(where, expected, f"{type(error).__name__}: {error}") from None
    try:
        return network_of_graph(document)
    except InputError as error:
        raise error.at(where, "" if error.where == "graph" else error.where) from None


def _program(path: Path) -> Any:
    """The JSON of the program; InputError for a file that is no archive, or has no program or a huge one."""
    where = str(path)
    if not names_a_file(path):
        raise InputError(where, "a file that can be read", "a folder" if path.is_dir() else "no plain file")
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(PROGRAMS)]
            if len(names) != 1:
                expected = "one program (models/model.json), as torch.export.save writes it"
                raise InputError(where, expected, f"{len(names)} programs")
            with archive.open(names[0]) as file:
                data = file.read(MOST_BYTES + 1)
    # zipfile raises RuntimeError for an entry that is encrypted or packed in a way that it does not know
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise InputError(where, "a zip archive of torch.export.save", str(error)) from None
    except OSError as error:
        raise InputError(where, "a file that can be read", error.strerror or str(error)) from None
    if len(data) > MOST_BYTES:
        raise InputError(where, f"a program of at most {MOST_BYTES:,} bytes", "a larger one")
    return json_of(data, where)


@dataclass
class _Reading:
    """A program while it is read: the tensors known so far by name, and which of them are parameters."""

    where: str
    graph: Mapping[str, Any]
    signature: Mapping[str, Any]
    lengths: dict[str, int]
    shapes: dict[str, list[int]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)

    def document(self, name: str, batch: int | None) -> dict[str, Any]:
        """The program as the content of an operator-graph file (:mod:`costmodel.formats.json.graph_json`)."""
        inputs = [
            spec["user_input"]["arg"]["as_tensor"]["name"]
            for spec in self.signature["input_specs"]
            if "as_tensor" in spec.get("user_input", {}).get("arg", {})
        ]
        known = {
            symbol: f"{tensor}, axis {axis}"
            for tensor in inputs
            for axis, size in enumerate(self.graph["tensor_values"][tensor]["sizes"])
            for symbol in _symbols(size)
        }
        self._state_batch(inputs, batch)
        self._check_lengths(known)
        for spec in self.graph["inputs"]:
            for tensor in _tensors_of(spec):
                self._declare(tensor, self.graph, "input" if tensor in inputs else "parameter")
        ops = list(self._operators(self.graph, {}, ""))
        for tensor in (one for spec in self.graph["outputs"] for one in _tensors_of(spec)):
            if self.kinds.get(tensor) == "activation":
                self.kinds[tensor] = "output"
        tensors = [
            {"name": tensor, "shape": shape, "bytes_int8": prod(shape), "kind": self.kinds[tensor]}
            for tensor, shape in self.shapes.items()
        ]
        return {"name": name, "source": self.where, "granularity": "raw", "ops": ops, "tensors": tensors}

    def _state_batch(self, inputs: list[str], batch: int | None) -> None:
        """The length of the inputs' first axis; InputError for a batch where that is another number."""
        sizes = [self.graph["tensor_values"][tensor]["sizes"] for tensor in inputs]
        # of a symbol that is another axis, too, nobody can say that it is the batch
        others = {symbol for axes in sizes for size in axes[1:] for symbol in _symbols(size)}
        for tensor, axes in zip(inputs, sizes, strict=True):
            for size in axes[:1]:
                for symbol in _symbols(size) - others:
                    self.lengths.setdefault(symbol, batch or 1)
                if batch is not None and size.get("as_int", batch) != batch:
                    expected = f"{size['as_int']}, the first axis of {tensor}"
                    remedy = "Export it with a dynamic first axis, or at the batch you want"
                    raise InputError(self.where, expected, batch, remedy, key="batch")

    def _check_lengths(self, known: Mapping[str, str]) -> None:
        """InputError for an axis of an input without a length, and for a symbol that nothing has."""
        for symbol, where in known.items():
            if symbol not in self.lengths:
                expected, remedy = f"a length for {symbol} ({where})", f"--dim {symbol}=N"
                raise InputError(self.where, expected, dict(self.lengths), remedy, key="dims")
        # lengths that depend on data are no axes of inputs: their symbols are u0, u1, ...
        strange = [one for one in self.lengths if one not in known and not one.startswith("u")]
        if strange:
            expected = f"lengths of {', '.join(known)}" if known else "no lengths, as no axis is dynamic"
            raise InputError(self.where, expected, strange[0], key="dims")

    def _operators(
        self, graph: Mapping[str, Any], outer: dict[str, str], prefix: str
    ) -> Iterator[dict[str, Any]]:
        """The operations of a graph, those of graphs that it wraps in their place.

        ``outer``: the tensors of the program by the names that they have in this graph. ``prefix`` keeps the
        names of different graphs apart.
        """
        names = dict(outer)
        for node in graph["nodes"]:
            operation = _operation(node["target"])
            arguments = {one["name"]: one["arg"] for one in node["inputs"]}
            if operation in WRAPPERS:
                yield from self._wrapped(node, names, prefix)
                continue
            results = [name for one in node["outputs"] for name in _tensors_of(one)]
            if not results:
                continue  # lengths and assertions are no work
            operands = [
                names.get(name, prefix + name) for arg in arguments.values() for name in _tensors_of(arg)
            ]
            # products of parameters alone are made in every run, too, as by networks that compute positions
            stated = (
                bool(operands)
                and kinds_of(operation)[0].nest is None
                and all(self.kinds.get(one) == "parameter" for one in operands)
            )
            for result in results:
                self._declare(result, graph, "parameter" if stated else "activation", prefix)
            if not stated:
                yield self._operator(operation, arguments, operands, results, prefix)

    def _wrapped(
        self, node: Mapping[str, Any], names: dict[str, str], prefix: str
    ) -> Iterator[dict[str, Any]]:
        """The operations inside a wrapper; its results are then known by the names inside."""
        inner = next(one["arg"]["as_graph"] for one in node["inputs"] if "as_graph" in one["arg"])
        passed = [
            names.get(name, prefix + name)
            for one in node["inputs"]
            if "as_graph" not in one["arg"]
            for name in _tensors_of(one["arg"])
        ]
        taken = [name for one in inner["graph"]["inputs"] for name in _tensors_of(one)]
        below = f"{prefix}{inner['name']}."
        of_inner = dict(zip(taken, passed, strict=True))
        yield from self._operators(inner["graph"], of_inner, below)
        made = [name for one in inner["graph"]["outputs"] for name in _tensors_of(one)]
        results = [name for one in node["outputs"] for name in _tensors_of(one)]
        for result, name in zip(results, made, strict=True):
            names[result] = of_inner.get(name, below + name)

    def _operator(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        operands: list[str],
        results: list[str],
        prefix: str,
    ) -> dict[str, Any]:
        attrs = {key: value for key, arg in arguments.items() if (value := _plain(arg)) is not None}
        if operation == "linear" or operation.startswith("conv"):
            attrs["weight_shape"] = self.shapes[operands[1]]
        return {
            "name": prefix + results[0],
            "type": operation,
            "inputs": operands,
            "outputs": [prefix + result for result in results],
            "attrs": attrs,
        }

    def _declare(self, name: str, graph: Mapping[str, Any], kind: str, prefix: str = "") -> None:
        sizes = graph["tensor_values"][name]["sizes"]
        self.shapes[prefix + name] = [self._length(size, name) for size in sizes]
        self.kinds[prefix + name] = kind

    def _length(self, size: Mapping[str, Any], tensor: str) -> int:
        """A length of a tensor; InputError for a symbol without one, or an expression that cannot be read."""
        if "as_int" in size:
            return int(size["as_int"])
        text = size["as_expr"]["expr_str"]
        if unknown := sorted(_symbols(size) - self.lengths.keys()):
            expected = "lengths that are known before the program runs"
            found, remedy = f"{unknown[0]}, which depends on data", f"To count with one: --dim {unknown[0]}=N"
            raise InputError(f"{self.where}: tensor {tensor}", expected, found, remedy, key="dims")
        try:
            return _value(_tree(text), self.lengths)
        except (ValueError, SyntaxError, ZeroDivisionError, OverflowError) as error:
            expected = "lengths that are sums, products and quotients of symbols"
            raise InputError(f"{self.where}: tensor {tensor}", expected, f"{text:.80} ({error})") from None


def _operation(target: str) -> str:
    """The operation of a node's target, such as ``conv2d`` of torch.ops.aten.conv2d.default.

    Of one that writes in place it is the twin that makes a new tensor.
    """
    parts = target.removeprefix("torch.ops.").split(".")
    operation = parts[1] if len(parts) > 1 else target
    twin = operation.removesuffix("_")
    in_place = kinds_of(operation)[0] is UNKNOWN and twin and kinds_of(twin)[0] is not UNKNOWN
    return twin if in_place else operation


def _tensors_of(argument: Mapping[str, Any]) -> list[str]:
    """The names of the tensors that an argument or a result is, or has in a list."""
    (form, value), *_ = argument.items()
    if form == "as_tensor":
        return [value["name"]]
    if form == "as_tensors":
        return [one["name"] for one in value]
    if form == "as_optional_tensors":
        return [one["as_tensor"]["name"] for one in value if "as_tensor" in one]
    return []


def _plain(argument: Mapping[str, Any]) -> Any:
    """A number, a text, or a list of numbers; None for tensors, symbols and what is not stated."""
    (form, value), *_ = argument.items()
    if form in ("as_int", "as_float", "as_bool", "as_string"):
        return value
    if form in ("as_ints", "as_floats", "as_bools"):
        return list(value) or None
    if form == "as_sym_int":
        return value.get("as_int")
    if form == "as_sym_ints":
        whole = [one.get("as_int") for one in value]
        return None if None in whole else whole or None
    return None


def _symbols(size: Mapping[str, Any]) -> set[str]:
    """The symbols in a length."""
    if "as_expr" not in size:
        return set()
    try:
        tree = _tree(size["as_expr"]["expr_str"])
    except (ValueError, SyntaxError):
        return set()
    return {
        str(node.args[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Symbol"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


def _tree(text: str) -> ast.expr:
    """The expression as a syntax tree, of which nothing is run; ValueError for a long one."""
    if len(text) > LONGEST_EXPRESSION:
        raise ValueError(f"{len(text):,} characters, of {LONGEST_EXPRESSION:,} that are read")
    return ast.parse(text, mode="eval").body


def _value(node: ast.expr, lengths: Mapping[str, int]) -> int:
    """The value of an expression as sympy writes it; ValueError for other than whole numbers' arithmetic."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, lengths)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
        raise ValueError("not arithmetic of whole numbers")
    function = node.func.id
    if function == "Symbol" and isinstance(node.args[0], ast.Constant):
        return lengths[str(node.args[0].value)]
    if function == "Integer":
        return _value(node.args[0], lengths)
    if function not in _ARITHMETIC:
        raise ValueError(f"{function} is not supported")
    values = [_value(argument, lengths) for argument in node.args]
    if function == "Pow" and not 0 <= values[1] <= 8:
        raise ValueError(f"a power of {values[1]}")
    return int(_ARITHMETIC[function](*values))
