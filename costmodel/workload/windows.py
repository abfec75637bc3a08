"""Windows that slide over rows or columns: how many, how long, where the first one begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel.errors import InputError
from costmodel.workload.attributes import Attributes
from costmodel.workload.network import Node

Two = tuple[int, int]
"""Two numbers of one axis: before and behind it, or as the function says."""


@dataclass(frozen=True)
class Windows:
    """``count`` windows of ``size`` rows (or columns), each beginning ``stride`` rows after the one before.

    ``before`` is the padding above the first row, where the first window begins; if it is negative, the first
    window begins -``before`` rows below the first row.
    """

    count: int
    size: int = 1
    stride: int = 1
    before: int = 0

    def __post_init__(self) -> None:
        if min(self.count, self.size, self.stride) < 1:
            found = (self.count, self.size, self.stride)
            raise InputError("", "windows, their size and their stride of at least 1", found)

    @property
    def extent(self) -> int:
        """Rows from the beginning of the first window to the end of the last one."""
        return (self.count - 1) * self.stride + self.size

    def reach(self, length: int) -> int:
        """How many of ``length`` rows lie above the end of the last window: those of the layer's input."""
        extent = self.extent
        if extent <= self.before or -self.before >= length:
            raise InputError("", f"windows over some of {length} rows", f"{self.before} rows before them")
        return min(length, extent - self.before)


def stated_windows(
    attributes: Attributes,
    lengths: Sequence[int],
    counts: Sequence[int],
    windows: tuple[Sequence[int], ...],
    *,
    dilated: bool = False,
) -> list[Windows]:
    """The windows of a node along every spatial axis, with the padding that it states (0 if it states none).

    ``lengths`` are those of its input's axes, ``counts`` those of its output's, and ``windows`` the sizes of
    the windows and their strides. ``dilated``: windows may leave out rows between those that they read; their
    size is then from the first row to the last one. InputError for them otherwise, and where padding, size
    and stride do not make as many outputs as the node has.
    """
    sizes, strides = windows
    if not len(lengths) == len(counts) == len(sizes) == len(strides):
        raise InputError("", f"a window over {len(lengths)} axes", (tuple(sizes), tuple(strides)))
    dilations = each(attributes.numbers("dilations", attributes.numbers("dilation", (1,))), len(sizes))
    if not dilated and any(size > 1 and step > 1 for size, step in zip(sizes, dilations, strict=True)):
        raise InputError("", "a dilation of 1", dilations, key="dilation")
    sizes = [1 + (size - 1) * step for size, step in zip(sizes, dilations, strict=True)]
    paddings = _paddings(attributes, lengths, sizes, strides)
    found = []
    for axis, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        window = Windows(count, sizes[axis], strides[axis], paddings[axis][0])
        padded = length + sum(paddings[axis])
        if count not in _counts(padded, window, attributes.flag("ceil_mode")):
            expected = f"an output that windows of {window.size} every {window.stride} make of {length}"
            remedy = "State the padding, the stride and ceil_mode as the operator has them"
            raise InputError("", f"{expected}, padded by {paddings[axis]}", count, remedy, key="padding")
        found.append(window)
    return found


def pooling_windows(
    node: Node, lengths: Sequence[int], counts: Sequence[int], *, dilated: bool = False
) -> list[Windows]:
    """The windows of a pooling along every spatial axis: stated ones, or those that divide it evenly.

    ``lengths``, ``counts`` and ``dilated`` as in :func:`stated_windows`, and so are the errors.
    """
    if node.pooling is not None:
        sizes, strides = (each(one, len(counts)) for one in (node.pooling.size, node.pooling.stride))
        return stated_windows(node.attributes, lengths, counts, (sizes, strides), dilated=dilated)
    if not node.kind.name.startswith("adaptive"):
        raise InputError("", "the size of its window", "none")
    return [even_window(count, length) for count, length in zip(counts, lengths, strict=True)]


def _counts(padded: int, window: Windows, ceil_mode: bool) -> set[int]:
    """The numbers of outputs that fit ``padded`` rows, padding included.

    Usually one number. With ``ceil_mode`` a last window may reach over the end, unless only padding is under
    it; both numbers are then allowed.
    """
    spare = padded - window.size
    whole = spare // window.stride + 1
    return {whole, -(-spare // window.stride) + 1} if ceil_mode else {whole}


def _paddings(
    attributes: Attributes, lengths: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> list[Two]:
    """Rows of padding before and behind every spatial axis, under ONNX's or PyTorch's attributes.

    ONNX states ``pads`` (all before the axes, then all behind) or ``auto_pad``; PyTorch states ``padding``, a
    number for both sides of an axis or a word. ``fused_pad`` is a padding node that was fused into this one,
    and comes on top.
    """
    axes = len(lengths)
    policy = attributes.text("auto_pad", "NOTSET")
    if isinstance(attributes.get("padding"), str):
        policy = {"same": "SAME_UPPER", "valid": "VALID"}.get(attributes.text("padding", ""), "unknown")
    if policy in ("SAME_UPPER", "SAME_LOWER"):
        return [_same(*one, policy == "SAME_LOWER") for one in zip(lengths, sizes, strides, strict=True)]
    if policy not in ("NOTSET", "VALID"):
        raise InputError("", "padding by numbers, same or valid", policy, key="padding")
    if policy == "NOTSET" and "pads" in attributes:
        pads = _exactly(attributes.numbers("pads"), 2 * axes, "pads")
        found = [(pads[i], pads[axes + i]) for i in range(axes)]
    else:
        found = [(one, one) for one in each(attributes.numbers("padding", (0,)), axes)]
    if "fused_pad" in attributes:  # ATen's order: the last axis first
        more = _exactly(attributes.numbers("fused_pad"), 2 * axes, "fused_pad")
        pairs = [(more[2 * i], more[2 * i + 1]) for i in reversed(range(axes))]
        found = [(a + c, b + d) for (a, b), (c, d) in zip(found, pairs, strict=True)]
    return found


def _same(length: int, size: int, stride: int, more_before: bool) -> Two:
    """The padding with which there are length / stride windows, rounded up ("same" padding).

    Where it is odd, the extra row is before the axis if ``more_before``, else behind it.
    """
    missing = max((-(-length // stride) - 1) * stride + size - length, 0)
    return (missing - missing // 2, missing // 2) if more_before else (missing // 2, missing - missing // 2)


def each(numbers: Sequence[int], axes: int) -> tuple[int, ...]:
    """``axes`` numbers, one for each axis; a single number holds for all of them."""
    return tuple(numbers) * axes if len(numbers) == 1 else _exactly(numbers, axes, "padding")


def _exactly(numbers: Sequence[int], count: int, key: str) -> tuple[int, ...]:
    if len(numbers) != count:
        raise InputError("", f"{count} whole numbers", tuple(numbers), key=key)
    return tuple(numbers)


def even_window(count: int, length: int) -> Windows:
    """The ``count`` windows of an adaptive pooling over ``length`` rows.

    They divide the rows where ``count`` divides ``length``. Otherwise the operator's own windows may differ
    in length; here all have the same, begin every length / count rows (rounded down) and end with the last.
    """
    stride = max(length // count, 1)
    return Windows(count, length - (count - 1) * stride, stride)
