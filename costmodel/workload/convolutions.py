"""From the shapes of a convolution's tensors to its loop nest (layer)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from costmodel.errors import InputError
from costmodel.workload.digits import Digits, Shape
from costmodel.workload.network import Layer, Role, Tensor, convolution
from costmodel.workload.products import Counted
from costmodel.workload.projection import Projection, Stride
from costmodel.workload.views import View


@dataclass(frozen=True)
class Window:
    """How a filter slides: a stride and a dilation per spatial axis.

    Padding is not needed: it only shows in the shape of the output.
    """

    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1

    @classmethod
    def of(
        cls, axes: int, stride: Sequence[int] = (), dilation: Sequence[int] = (), groups: int = 1
    ) -> Window:
        """A window over ``axes`` spatial axes; what is left out is 1, a single number holds for all axes."""
        return cls(_spread(stride, axes), _spread(dilation, axes), groups)


def _spread(numbers: Sequence[int], axes: int) -> tuple[int, ...]:
    """A number for each axis: a single one holds for all, and none means 1."""
    return tuple(numbers) * axes if len(numbers) == 1 else tuple(numbers) or (1,) * axes


def convolution_of(name: str, inputs: Shape, weights: Shape, output: Shape, window: Window) -> Layer:
    """The layer of a 1-D, 2-D or 3-D convolution.

    ``inputs`` is (N, C, *rows), ``weights`` (K, C / groups, *filter) and ``output`` (N, K, *positions). A
    1-D convolution runs along Q and S (P = R = 1); a 3-D one has two more dims, D, the output depth, and T,
    the filter depth.
    """
    axes = len(weights) - 2
    if not 1 <= axes <= 3 or len(output) != len(weights) or output[1] != weights[0]:
        found = f"weights {weights} and output {output}"
        raise InputError(f"layer {name}", "weights (K, C/groups, *filter) and output (N, K, *out)", found)
    if len(inputs) != len(weights) or inputs[1] != weights[1] * window.groups:
        found = f"input {inputs} with weights {weights} and groups {window.groups}"
        raise InputError(f"layer {name}", "an input (N, C, *rows) with C = groups * weights[1]", found)
    for key, numbers in (("stride", window.stride), ("dilation", window.dilation)):
        if len(numbers) != axes:
            raise InputError(f"layer {name}", f"{axes} whole numbers, one per spatial axis", numbers, key=key)
    size = (1,) * (2 - axes) + output[2:]
    filters = (1,) * (2 - axes) + weights[2:]
    stride = (1,) * (2 - axes) + window.stride
    dilation = (1,) * (2 - axes) + window.dilation
    plane = convolution(
        name,
        N=output[0],
        K=weights[0],
        C=weights[1] * window.groups,
        P=size[-2],
        Q=size[-1],
        R=filters[-2],
        S=filters[-1],
        stride=(stride[-2], stride[-1]),
        dilation=(dilation[-2], dilation[-1]),
        groups=window.groups,
    )
    if axes < 3:
        return plane
    # depth is the first of three spatial axes, in front of rows and columns
    return _deepened(plane, size[0], filters[0], (Stride("T", dilation[0]), Stride("D", stride[0])))


def transposed_convolution_of(
    name: str, inputs: Shape, weights: Shape, output: Shape, window: Window
) -> Counted:
    """The layer of a 1-D, 2-D or 3-D transposed convolution, which adds a scaled filter for every input.

    ``inputs`` is (N, C, *rows), ``weights`` (C, K / groups, *filter) and ``output`` (N, K, *positions). P, Q
    and D run over the positions of the input; all other dims are those of :func:`convolution_of`. Every point
    is one product. Where filters of neighbouring inputs overlap, or padding crops the result, the outputs of
    the nest are the products' sums over the channels before they are added and cropped, and the note says so:
    no tensor of a layer may count an element that it lacks, and none of its dims both moves and sums outputs.
    """
    axes = len(weights) - 2
    if not 1 <= axes <= 3 or len(output) != len(weights) or output[1] != weights[1] * window.groups:
        found = f"weights {weights} and output {output} with groups {window.groups}"
        raise InputError(f"layer {name}", "weights (C, K/groups, *filter) and output (N, K, *out)", found)
    if len(inputs) != len(weights) or inputs[1] != weights[0] or inputs[1] % window.groups:
        found = f"input {inputs} with weights {weights} and groups {window.groups}"
        raise InputError(f"layer {name}", "an input (N, C, *rows) with C = weights[0]", found)
    for key, numbers in (("stride", window.stride), ("dilation", window.dilation)):
        if len(numbers) != axes:
            raise InputError(f"layer {name}", f"{axes} whole numbers, one per spatial axis", numbers, key=key)
    rows, taps = (("D", "P", "Q"), ("T", "R", "S")) if axes == 3 else (("P", "Q"), ("R", "S"))
    flat = (1,) * (2 - axes)  # a 1-D one has a single row
    sizes = dict(zip((*taps, *rows), (*flat, *weights[2:], *flat, *inputs[2:]), strict=True))
    sizes |= {"C": inputs[1] // window.groups, "K": weights[1], "N": inputs[0]}
    group = ("G",) if window.groups > 1 else ()
    sizes |= dict.fromkeys(group, window.groups)
    names: tuple[tuple[str, tuple[str, ...], Role], ...] = (
        ("Weights", (*group, "C", "K", *taps), "weights"),
        ("Inputs", ("N", *group, "C", *rows), "inputs"),
        ("Outputs", ("N", *group, "K", *rows, *taps), "outputs"),
    )
    tensors = tuple(
        Tensor.of_terms(tensor, (((dim, 1),) for dim in dims), role) for tensor, dims, role in names
    )
    layer = Layer(name, tuple(sizes.items()), tensors)
    apart = layer.output.words(sizes) == prod(output)
    note = (
        "" if apart else "its outputs are counted before those that overlap are added and padding is cropped"
    )
    return Counted((layer,), note)


def _deepened(plane: Layer, positions: int, filter_depth: int, depth: tuple[Stride, ...]) -> Layer:
    """A 2-D convolution with a depth axis: dims D (``positions``, output depth) and T (``filter_depth``).

    ``depth`` are the steps of the input's depth axis.
    """
    extra = {"weights": (Stride("T"),), "inputs": depth, "outputs": (Stride("D"),)}
    tensors = tuple(replace(t, axes=(*t.axes, Projection(extra[t.role]))) for t in plane.tensors)
    return Layer(plane.name, (("T", filter_depth), ("D", positions), *plane.dims), tensors)


_REPEATED = {"N": "B", "C": "E"}
"""The dims for repeated samples (B) and repeated channels (E), by those for different ones."""


def reading_once(layer: Layer, inputs: View) -> Counted:
    """The convolution as a layer that reads each element of its input once, though the input may repeat it.

    An example is a grey image that is read as three colours. Repeated samples or channels become a dim of
    their own (B or E), along which the input does not move. Repeated channels of a grouped convolution, and
    repeated rows and columns, are counted as if all were different; a note says so.
    """
    samples, channels, *space = inputs.axes
    note = inputs.lost
    repeats = {"N": _repeats(samples)}
    if "G" in layer.sizes and _repeats(channels) > 1:
        note = note or "its input repeats channels across groups: counted as read whole"
    elif "G" not in layer.sizes:
        repeats["C"] = _repeats(channels)
    if any(_repeats(axis) > 1 for axis in space):
        note = note or "its input repeats rows or columns: counted as read whole"
    for dim, times in repeats.items():
        if times > 1:
            layer = _split(layer, dim, times)
    return Counted((layer,), note)


def _repeats(axis: Digits) -> int:
    """How often the axis shows each of its elements."""
    return prod(digit.size for digit in axis if not digit.stride)


def _split(layer: Layer, dim: str, times: int) -> Layer:
    """The layer with a dim cut in two, of which the second, of ``times`` steps, does not move the input."""
    extra = _REPEATED[dim]
    steps = Projection((Stride(extra),))
    steps = Projection((Stride(extra),))
    dims = ((name, size // times if name == dim else size) for name, size in layer.dims)
    tensors = tuple(
        t if t.role == "inputs" or dim not in t.dims else replace(t, axes=(*t.axes, steps))
        for t in layer.tensors
    )
    return Layer(layer.name, (*dims, (extra, times)), tensors)
