"""Layers from Timeloop problem files (YAML, versions 0.2 to 0.4)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.cases.problem import builtin_shapes
from costmodel.formats.timeloop.files import parse_timeloop
from costmodel.workload.network import Layer, Role, Tensor
from costmodel.workload.projection import Axis

_NAMED_SHAPES = {"cnn_layer": builtin_shapes()["cnn_layer"], "gemm_ABZ": builtin_shapes()["gemm"]}
"""The shapes that ship with Timeloop, which a problem can name instead of spelling them out."""
_WEIGHT_NAMES = ("weight", "filter", "kernel", "b")
_SHAPE_KEYS = {"name", "dimensions", "coefficients", "data_spaces"}
_UNUSED = ("H", "W", "Hpad", "Wpad")
"""Sizes of the unpadded image, which problem files note and Timeloop does not read."""
_REMEDY_SPARSE = "Only dense problems without flattened dims are modelled; remove the key"


def read_problem(path: str | Path) -> Layer:
    """The layer of a Timeloop problem file, named after the file.

    The shape is spelt out (``data-spaces`` of version 0.3 or ``data_spaces`` of 0.4), or named: ``cnn-layer``
    (also when there is none, as in Timeloop) and ``gemm-ABZ``. Sizes stand under ``instance`` or, as
    in old files, beside ``shape``. Raises InputError with the file and key for anything else.
    """
    name = Path(path).name.removesuffix(".gz").rsplit(".", 1)[0]
    try:
        return layer_of_problem(parse_timeloop(path), name)
    except InputError as error:
        if error.where.startswith(str(path)):
            raise
        raise error.at(str(path), error.where) from None


def layer_of_problem(data: Any, name: str) -> Layer:
    """As :func:`read_problem`, for data that is already read (the document, with its ``problem`` key)."""
    problem = _canonical(_object(data, "problem", "file"))
    shape = _shape(problem.get("shape", "cnn_layer"))
    known = {"shape", "version", "name", "instance"}
    if "instance" in problem:
        _only(problem, known, "problem")
        instance = _object(problem, "instance", "problem")
    else:
        instance = {key: value for key, value in problem.items() if key not in known}
    defaults = dict(_coefficient(entry) for entry in _list(shape, "coefficients", []))
    dims = [_text(dim, "dimensions") for dim in _list(shape, "dimensions")]
    _only(instance, {*dims, *defaults, *_UNUSED}, "instance")
    sizes = tuple((dim, _whole(instance.get(dim), dim)) for dim in dims)
    coefficients = {key: _whole(instance.get(key, value), key) for key, value in defaults.items()}
    spaces = [_canonical(space) for space in _list(shape, "data_spaces")]
    return Layer(name, sizes, tuple(_tensor(space, coefficients) for space in spaces))


def _coefficient(entry: Any) -> tuple[str, Any]:
    """Its name, and the value where an instance gives none (1 unless stated)."""
    stated = _canonical(entry)
    _only(stated, {"name", "default"}, "coefficients")
    return _name(stated, "coefficients"), stated.get("default", 1)


def _shape(shape: Any) -> dict[str, Any]:
    if isinstance(shape, str):
        key = shape.removesuffix(".yaml").removesuffix(".cfg").replace("-", "_")
        named = {name.lower(): body for name, body in _NAMED_SHAPES.items()}.get(key.lower())
        if named is None:
            raise InputError(
                "problem", f"a shape spelt out, or one of {sorted(_NAMED_SHAPES)}", shape, key="shape"
            )
        return named
    shape = _canonical(shape)
    if "dimensions" not in shape and isinstance(shape.get("shape"), dict):
        shape = _canonical(shape["shape"])
    _only(shape, _SHAPE_KEYS, "shape")
    return dict(shape)


def _tensor(space: Mapping[str, Any], coefficients: Mapping[str, int]) -> Tensor:
    _only(space, {"name", "projection", "read_write", "ranks"}, "data_spaces")
    name = _name(space, "data_spaces")
    written = space.get("read_write", False)
    if not isinstance(written, bool):
        raise InputError(f"data space {name}", "true or false", written, key="read_write")
    role: Role = "inputs"
    if written:
        role = "outputs"
    # Timeloop has no roles. They are needed where a level keeps weights only; by its name is how people tell
    # them. ``b`` must be the whole name: many names begin with it.
    elif name.lower() in _WEIGHT_NAMES or name.lower().startswith(_WEIGHT_NAMES[:-1]):
        role = "weights"
    axes = tuple(_axis(axis, name, coefficients) for axis in _list(space, "projection"))
    return Tensor.of_terms(name, axes, role)


def _axis(axis: Any, space: str, coefficients: Mapping[str, int]) -> Axis:
    """``C``, or a sum of terms ``[[R, Wdilation], [P, Wstride]]``; a coefficient is a name or a number."""
    terms = [[axis]] if isinstance(axis, str) else axis
    if not isinstance(terms, list) or not terms:
        raise InputError(
            f"data space {space}", "a dim or a list of [dim, coefficient]", axis, key="projection"
        )
    summed = []
    for term in terms:
        if not isinstance(term, list) or not 1 <= len(term) <= 2 or not isinstance(term[0], str):
            raise InputError(f"data space {space}", "[dim] or [dim, coefficient]", term, key="projection")
        factor = term[1] if len(term) == 2 else 1
        if isinstance(factor, str) and factor not in coefficients:
            expected = f"a coefficient among {sorted(coefficients)}"
            raise InputError(f"data space {space}", expected, factor, key="projection")
        summed.append((term[0], coefficients[factor] if isinstance(factor, str) else _whole(factor, space)))
    return tuple(summed)


def _canonical(data: Any) -> dict[str, Any]:
    """Keys with ``-`` for ``_`` (version 0.3) under their names of version 0.4."""
    if not isinstance(data, dict):
        raise InputError("problem", "a mapping of keys to values", data)
    return {str(key).replace("-", "_"): value for key, value in data.items()}


def _object(data: Any, key: str, where: str) -> dict[str, Any]:
    if not isinstance(data, dict) or not isinstance(data.get(key), dict):
        found = data.get(key) if isinstance(data, dict) else data
        raise InputError(where, f"a mapping under {key!r}", found, key=key)
    return dict(data[key])


def _list(data: Mapping[str, Any], key: str, default: list[Any] | None = None) -> list[Any]:
    found = data.get(key, default)
    if not isinstance(found, list):
        raise InputError("shape", "a list", found, key=key)
    return found


def _name(data: Any, key: str) -> str:
    return _text(data.get("name") if isinstance(data, dict) else data, key)


def _text(data: Any, key: str) -> str:
    if not isinstance(data, str):
        raise InputError("shape", "a name", data, "Quote it if YAML reads it as something else", key=key)
    return data


def _whole(data: Any, key: str) -> int:
    if type(data) is not int or data < 1:
        raise InputError("problem", "a whole number of at least 1", data, key=key)
    return data


def _only(data: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in data:
        # An empty one says that the problem is dense.
        if key == "densities" and not data[key]:
            continue
        if key in ("densities", "commonDensity", "flatten"):
            raise InputError(where, "a dense problem", f"the key {key!r}", _REMEDY_SPARSE, key=key)
        if key not in known:
            expected = f"keys among {sorted(known)}"
            raise InputError(where, expected, key, did_you_mean(key, sorted(known)), key=key)
