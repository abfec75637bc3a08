"""Layers in the ``problem`` form of the Timeloop cases: a shape with projections, dims, coefficients."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from typing import Any

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.json.json_fields import field, known_names, whole_number, whole_numbers
from costmodel.workload.network import Layer, Role, Tensor
from costmodel.workload.projection import Axis

Shape = dict[str, Any]
"""``name``, ``dimensions``, ``coefficients`` (with defaults), ``data_spaces`` with their ``projection``s."""

_ROLES: dict[str, Role] = {"Weights": "weights", "B": "weights", "Inputs": "inputs", "A": "inputs"}


def builtin_shapes() -> dict[str, Shape]:
    """The three built-in shapes of cases by name.

    As in Timeloop's own shapes, coefficients with W belong to (P, R), those with H to (Q, S).
    """
    window = ["N", "C", "R*Wdilation+P*Wstride", "S*Hdilation+Q*Hstride"]
    return {
        "cnn_layer": _shape(
            "cnn_layer", "RSPQCKN", Weights=["C", "K", "R", "S"], Inputs=window, Outputs=["N", "K", "Q", "P"]
        ),
        "depthwise": _shape(
            "depthwise", "RSPQCN", Weights=["C", "R", "S"], Inputs=window, Outputs=["N", "C", "Q", "P"]
        ),
        "gemm": _shape("gemm", "MNK", A=["M", "K"], B=["N", "K"], Z=["M", "N"]),
    }


def _shape(name: str, dimensions: str, **tensors: list[str]) -> Shape:
    """A shape from axes written as sums of ``dim`` or ``dim*coefficient``; the last tensor is the output."""
    spaces: list[dict[str, Any]] = [
        {"name": tensor, "projection": [[term.split("*") for term in axis.split("+")] for axis in axes]}
        for tensor, axes in tensors.items()
    ]
    spaces[-1]["read_write"] = True
    # as in Timeloop, a case that leaves a stride or dilation out has 1
    used = sorted({term[1] for space in spaces for axis in space["projection"] for term in axis if term[1:]})
    coefficients = [{"name": coefficient, "default": 1} for coefficient in used]
    return {
        "name": name,
        "dimensions": list(dimensions),
        "coefficients": coefficients,
        "data_spaces": spaces,
    }


def layer_from_problem(
    problem: Any, where: str = "problem", shapes: ReadOnlyDict[str, Shape] | None = None
) -> Layer:
    """The layer of ``{"id", "shape", "dims", "coeffs"}``; ``id`` and coefficients at default may be absent.

    ``shape`` is a name among ``shapes`` (default: the built-in three) or a shape itself. Raises InputError
    with ``where`` and the key for anything missing, unknown or of a wrong type or value.
    """
    shape = _chosen_shape(problem, where, builtin_shapes() if shapes is None else shapes)
    known_names(problem, ("id", "shape", "dims", "coeffs"), where, "problem")
    dimensions = _texts(shape, "dimensions", where)
    sizes = whole_numbers(field(problem, "dims", dict, where), dimensions, where, "dims")
    if missing := [dim for dim in dimensions if dim not in sizes]:
        raise InputError(
            where, f"a size for each of {' '.join(dimensions)}", f"none for {' '.join(missing)}", key="dims"
        )
    coefficients = _defaults(shape, where)
    coefficients |= whole_numbers(problem.get("coeffs", {}), coefficients, where, "coeffs")
    spaces = field(shape, "data_spaces", list, f"{where}: shape")
    tensors = tuple(
        _tensor(space, coefficients, f"{where}: data_spaces[{i}]") for i, space in enumerate(spaces)
    )
    name = problem.get("id", shape.get("name", "layer"))
    # the layer knows what is wrong with it, but not where in which file it stands
    try:
        return Layer(str(name), tuple((dim, sizes[dim]) for dim in dimensions), tensors)
    except InputError as error:
        raise error.at(where, error.where) from None


def _chosen_shape(problem: Any, where: str, shapes: ReadOnlyDict[str, Shape]) -> Shape:
    if isinstance(problem, dict) and isinstance(problem.get("shape"), dict):
        return dict(problem["shape"])
    name = field(problem, "shape", str, where)
    if name not in shapes:
        raise InputError(
            where, f"one of {', '.join(shapes)}, or a shape", name, did_you_mean(name, shapes), key="shape"
        )
    return shapes[name]


def _texts(data: Any, key: str, where: str) -> list[str]:
    texts: list[str] = field(data, key, list, where)
    if not all(isinstance(text, str) for text in texts):
        raise InputError(where, "a list of names", texts, key=key)
    return texts


def _defaults(shape: Shape, where: str) -> dict[str, int]:
    entries = field({"coefficients": [], **shape}, "coefficients", list, where)
    inside = f"{where}: coefficients"
    return {
        field(entry, "name", str, inside): whole_number(entry.get("default", 1), inside, "default")
        for entry in entries
    }


def _tensor(space: Any, coefficients: ReadOnlyDict[str, int], where: str) -> Tensor:
    name = field(space, "name", str, where)
    known_names(space, ("name", "projection", "read_write", "role"), where, name)
    projection = field(space, "projection", list, where)
    axes = tuple(_axis(axis, coefficients, f"{where}.projection[{i}]") for i, axis in enumerate(projection))
    # Timeloop marks the output and tells inputs from weights by nothing: names that cases use say it, and a
    # shape of our own writes the role beside them
    written = field({"read_write": False, **space}, "read_write", bool, where)
    role: Role = "outputs" if written else space.get("role", _ROLES.get(name, "inputs"))
    try:
        return Tensor.of_terms(name, axes, role)
    except InputError as error:
        raise error.at(where) from None


def _axis(axis: Any, coefficients: ReadOnlyDict[str, int], where: str) -> Axis:
    expected = "a sum of [dim] or [dim, coefficient name] terms"
    if not isinstance(axis, list) or not all(_is_term(term) for term in axis):
        raise InputError(where, expected, axis)
    known_names((term[1] for term in axis if term[1:]), coefficients, where, "coefficient")
    return tuple((term[0], coefficients[term[1]] if term[1:] else 1) for term in axis)


def _is_term(term: Any) -> bool:
    return isinstance(term, list) and 1 <= len(term) <= 2 and all(isinstance(name, str) for name in term)


def shape_of_layer(layer: Layer) -> Shape:
    """The shape of the layer, spelt out; every step but 1 is a coefficient with a name of its own.

    InputError for a layer that adds to partial sums: a shape has no form for them.
    """
    if layer.output.begun:
        raise InputError(f"layer {layer.name}", "outputs that begin at zero", "partial sums", key="tensors")
    spaces: list[dict[str, Any]] = []
    coefficients: list[dict[str, Any]] = []
    for tensor in layer.tensors:
        projection: list[list[list[str]]] = []
        for axis in tensor.terms:
            projection.append([])
            for dim, coefficient in axis:
                # a case can only name coefficients, so every step but 1 gets a name of its own
                name = f"{tensor.name}_{dim}_step"
                projection[-1].append([dim] if coefficient == 1 else [dim, name])
                if coefficient != 1:
                    coefficients.append({"name": name, "default": coefficient})
        role = {"read_write": True} if tensor.is_output else {"role": tensor.role}
        spaces.append({"name": tensor.name, "projection": projection, **role})
    return {
        "name": layer.name,
        "dimensions": list(layer.sizes),
        "coefficients": coefficients,
        "data_spaces": spaces,
    }
