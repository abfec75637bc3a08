"""The iteration spaces of layers: of those that a chip's scheduler sees, and of loop nests.

The dims have a loop nest's letters: N samples, K output channels, P and Q rows and columns of outputs, C
input channels, R and S rows and columns of the window. K counts the channels of all groups, so that a cut may
go through a group; C counts those of one group. Inputs and outputs have the axes channels, samples, rows and
columns:

    kind                   outputs       inputs                           weights
    conv, fc               K  N  P  Q    C             N  P, R  Q, S      K  C  R  S
    groupconv              K  N  P  Q    K // group, C N  P, R  Q, S      K  C  R  S
    pool                   K  N  P  Q    K             N  P, R  Q, S
    eltwise, ptp           K  N  P  Q    K             N  P     Q         (eltwise: a tensor for each operand)
    transpose              K  N  P  Q    the same in another order
    normalisation          K  N  P  Q    the same, but J in place of the dims that it goes along

Weights that another layer computes have that layer's axes instead: K, N (each sample has weights of its own),
C, and the points of the filter, R * columns + S. A layer of a training step that scatters, or an update, has
the space of its forward layer, in which the roles of the tensors are exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from costmodel.errors import InputError
from costmodel.schedule.boxes.space import IterationSpace, ProjectedTensor, Projection, Stride
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.workload.network import Layer, Role

OUTPUT_DIMS = ("K", "N", "P", "Q")
"""The dims that outputs follow, in the order of their axes: channels, samples, rows, columns."""
IMAGE_AXES = 2, 3
"""The axes of rows and columns."""


def space_of_nest(nest: Layer) -> IterationSpace:
    """The iteration space of a loop nest of any kind; its padding counts as data."""
    tensors = tuple(
        ProjectedTensor(
            tensor.name,
            tensor.role,
            tuple(
                Projection(tuple(Stride(dim, coefficient) for dim, coefficient in axis), length)
                for axis, length in zip(tensor.axes, tensor.extents(nest.sizes), strict=True)
            ),
        )
        for tensor in nest.tensors
    )
    return IterationSpace(nest.name, nest.dims, tensors)


@lru_cache(maxsize=4096)
def space_of_layer(layer: NetworkLayer, batch: int) -> IterationSpace:
    """The iteration space of ``batch`` samples of a layer; built once, as the same few are asked for often.

    The inputs of an element-wise layer of several operands are ``Inputs0``, ``Inputs1`` and so on.
    What a softmax or normalisation takes from other elements than its own is not in a
    :class:`~.graph.NetworkLayer`, which has them as ``ptp``: see :func:`normalisation_space`.
    """
    if layer.kind in ("conv", "fc", "groupconv", "pool"):
        return _window_space(layer, batch)
    sizes = {"K": layer.k, "N": batch, "P": layer.h, "Q": layer.w}
    outputs = _plain(sizes)
    if layer.kind == "transpose":
        axes = list(outputs)
        for made, read in zip((0, 2, 3), layer.order, strict=True):
            axes[read + 1 if read else 0] = outputs[made]
        inputs = [_tensor("Inputs", "inputs", axes)]
    elif layer.operands == 1:
        inputs = [_tensor("Inputs", "inputs", outputs)]
    else:
        inputs = [_tensor(f"Inputs{one}", "inputs", outputs) for one in range(layer.operands)]
    return IterationSpace(layer.name, tuple(sizes.items()), (*inputs, _tensor("Outputs", "outputs", outputs)))


def normalisation_space(name: str, sizes: tuple[int, int, int, int], along: Sequence[str]) -> IterationSpace:
    """A softmax or normalisation of ``sizes`` K, N, P, Q outputs: each follows from all along some dims.

    ``along``: these dims. Each has a second dim, ``J`` and its letter, for the elements that are read; the
    outputs do not depend on it, as a sum over them goes into every output.
    """
    dims = dict(zip(OUTPUT_DIMS, sizes, strict=True))
    if not along or not set(along) <= dims.keys():
        raise InputError(f"layer {name}", f"some of the dims {OUTPUT_DIMS}", tuple(along), key="along")
    outputs = _plain(dims)
    read = {f"J{dim}" if dim in along else dim: size for dim, size in dims.items()}
    tensors = _tensor("Inputs", "inputs", _plain(read)), _tensor("Outputs", "outputs", outputs)
    return IterationSpace(name, tuple({**dims, **read}.items()), tensors)


def _window_space(layer: NetworkLayer, batch: int) -> IterationSpace:
    """The space of a layer whose windows slide over its inputs, the roles as the layer's part has them."""
    k, c, p, q, rows, columns = layer.k, layer.c, layer.h, layer.w, layer.input_h, layer.input_w
    if layer.scatters:  # its fields are those of the error; back to those of the forward layer
        k, c, p, q, rows, columns = c, k, rows, columns, p, q
    made: Role = "outputs"
    read: Role = "inputs"
    weights: Role = "weights"
    if layer.scatters:
        made, read = read, made
    elif layer.part == "update":
        made, weights = weights, made
    sizes = {"K": k, "N": batch, "P": p, "Q": q}
    if layer.kind != "pool":
        sizes["C"] = c // layer.groups
    sizes |= {"R": layer.r, "S": layer.s}
    groups = (Stride("K", c // layer.groups, k // layer.groups),) if layer.groups > 1 else ()
    channels = (Stride("K"),) if layer.kind == "pool" else (*groups, Stride("C"))
    inputs = (
        Projection(channels, c),
        Projection((Stride("N"),), batch),
        Projection((Stride("P", layer.stride_h), Stride("R")), rows, -layer.pad_h),
        Projection((Stride("Q", layer.stride_w), Stride("S")), columns, -layer.pad_w),
    )
    tensors = [_tensor("Inputs", read, inputs), _tensor("Outputs", made, _plain(sizes))]
    if layer.has_weights:
        tensors.insert(0, _weights(layer, sizes, weights))
    return IterationSpace(layer.name, tuple(sizes.items()), tuple(tensors))


def _weights(layer: NetworkLayer, sizes: dict[str, int], role: Role) -> ProjectedTensor:
    """The weights: parameters, or activations with the axes of the layer that computes them."""
    one = {dim: Projection((Stride(dim),), sizes[dim]) for dim in "KNCRS"}
    if not layer.weight_producers or layer.part == "update":
        return _tensor("Weights", role, [one[dim] for dim in "KCRS"])
    points = Projection((Stride("R", layer.s), Stride("S")), layer.r * layer.s)
    return _tensor("Weights", role, [one["K"], one["N"], one["C"], points])


def _plain(sizes: dict[str, int]) -> tuple[Projection, ...]:
    """Axes that each follow one dim: the first four of ``sizes``."""
    return tuple(Projection((Stride(dim),), size) for dim, size in list(sizes.items())[:4])


def _tensor(name: str, role: Role, axes: Sequence[Projection]) -> ProjectedTensor:
    return ProjectedTensor(name, role, tuple(axes))
