"""What a layer touches element by element, in numpy: arrays of element numbers instead of projections.

Every element of a tensor has a number, -1 is padding. Windows are numpy's views of the padded numbers, so
nothing here knows of coefficients, offsets or intervals.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from costmodel.schedule.layer_graph.graph import NetworkLayer

Numbers = NDArray[Any]
Ranges = dict[str, tuple[int, int]]
"""By dim, the points of a box."""


def numbered(*shape: int) -> Numbers:
    return np.arange(int(np.prod(shape))).reshape(shape)


def padded(numbers: Numbers, axis: int, before: int, length: int) -> Numbers:
    """``length`` positions along an axis, ``before`` of which are padding (negative: left out) in front."""
    if before < 0:
        numbers = np.take(numbers, range(-before, numbers.shape[axis]), axis)
        before = 0
    widths = [(0, 0)] * numbers.ndim
    widths[axis] = (before, max(length - before - numbers.shape[axis], 0))
    return np.take(np.pad(numbers, widths, constant_values=-1), range(length), axis)


def windows(layer: NetworkLayer, images: Numbers, counts: tuple[int, int]) -> Numbers:
    """The numbers [c, n, p, q, r, s] under ``counts`` windows along rows and columns of ``images``."""
    rows = (counts[0] - 1) * layer.stride_h + layer.r
    columns = (counts[1] - 1) * layer.stride_w + layer.s
    image = padded(padded(images, 2, layer.pad_h, rows), 3, layer.pad_w, columns)
    found = sliding_window_view(image, (layer.r, layer.s), axis=(2, 3))
    return found[:, :, :: layer.stride_h, :: layer.stride_w]


def touched(layer: NetworkLayer, batch: int, box: Ranges) -> dict[str, Numbers]:
    """By tensor, the different elements that the points of a box touch, of a forward layer's tensors."""
    images = numbered(layer.c, batch, layer.input_h, layer.input_w)
    found = touched_of(layer, batch, box, images)
    for operand in range(1, layer.operands):  # every operand is a tensor of its own
        found[f"Inputs{operand}"] -= operand * images.size // layer.operands
    return found


def touched_of(layer: NetworkLayer, batch: int, box: Ranges, images: Numbers) -> dict[str, Numbers]:
    """The same for inputs of these numbers [c, n, rows, columns]."""
    at = {dim: slice(*ends) for dim, ends in box.items()}
    out = at["K"], at["N"], at["P"], at["Q"]
    found = {"Outputs": numbered(layer.k, batch, layer.h, layer.w)[out]}
    if layer.kind in ("conv", "fc", "groupconv", "pool"):
        under = windows(layer, images, (layer.h, layer.w))
        inside = under[:, at["N"], at["P"], at["Q"], at["R"], at["S"]]
        group = np.arange(layer.k)[at["K"]] // (layer.k // layer.groups)
        channels = group * layer.group_c if layer.kind != "pool" else np.arange(layer.k)[at["K"]]
        one = np.arange(layer.group_c)[at["C"]] if layer.kind != "pool" else np.zeros(1, int)
        found["Inputs"] = inside[np.unique(channels[:, None] + one)]
        if layer.weight_producers:
            weights = numbered(layer.k, batch, layer.group_c, layer.r, layer.s)
            found["Weights"] = weights[at["K"], at["N"], at["C"], at["R"], at["S"]]
        elif layer.has_weights:
            weights = numbered(layer.k, layer.group_c, layer.r, layer.s)
            found["Weights"] = weights[at["K"], at["C"], at["R"], at["S"]]
    elif layer.kind == "transpose":
        c, h, w = layer.order
        made = np.transpose(images, (axis(c), 1, axis(h), axis(w)))
        found["Inputs"] = made[out]
    else:
        for operand in range(layer.operands):
            name = f"Inputs{operand}" if layer.operands > 1 else "Inputs"
            found[name] = images[operand * layer.k : (operand + 1) * layer.k][out]
    return {name: np.setdiff1d(numbers, [-1]) for name, numbers in found.items()}


def axis(image_axis: int) -> int:
    """The axis of rows, columns or channels in an array that has the samples behind the channels."""
    return image_axis + 1 if image_axis else 0


def random_layer(random: Random, kind: str | None = None) -> NetworkLayer:
    """A small layer of any kind: uneven sizes, strides beyond the window, padding on any side or none."""
    kind = kind or random.choice(["conv", "fc", "groupconv", "pool", "eltwise", "ptp", "transpose"])
    size = [random.randint(1, 5) for _ in range(4)]
    k, c, h, w = size
    if kind in ("eltwise", "ptp"):
        operands = random.randint(1, 3) if kind == "eltwise" else 1
        return _layer(kind, c=k * operands, k=k, h=h, w=w, input_h=h, input_w=w, operands=operands)
    if kind == "transpose":
        order, read = tuple(random.sample(range(3), 3)), size[1:]
        k, h, w = (read[dim] for dim in order)
        return _layer(kind, c=read[0], k=k, h=h, w=w, input_h=read[1], input_w=read[2], order=order)
    groups = random.randint(1, 3) if kind == "groupconv" else 1
    along = [window(random, count) for count in (h, w)]
    if kind == "fc":
        h = w = 1
        along = [(rows, 1, 0, rows) for rows in (random.randint(1, 4), random.randint(1, 4))]
    (r, stride_h, pad_h, input_h), (s, stride_w, pad_w, input_w) = along
    c, k = (k, k) if kind == "pool" else (c * groups, k * groups)
    sizes = {"r": r, "s": s, "stride_h": stride_h, "stride_w": stride_w, "pad_h": pad_h, "pad_w": pad_w}
    return _layer(kind, c=c, k=k, h=h, w=w, input_h=input_h, input_w=input_w, groups=groups, **sizes)


def window(random: Random, count: int) -> tuple[int, int, int, int]:
    """A window, its stride, the padding in front, and the length of the input for ``count`` windows."""
    size, stride = random.randint(1, 3), random.randint(1, 4)
    pad = random.randint(-1, size - 1)
    extent = (count - 1) * stride + size - pad
    return size, stride, pad, max(extent - random.randint(0, size - 1), 1, 1 - pad)


def random_box(random: Random, dims: tuple[tuple[str, int], ...]) -> Ranges:
    """A box that is not empty; often whole along a dim."""
    found = {}
    for dim, size in dims:
        first, last = sorted((random.randrange(size), random.randrange(size)))
        found[dim] = (0, size) if random.random() < 0.4 else (first, last + 1)
    return found


def _layer(kind: str, **sizes: Any) -> NetworkLayer:
    plain = {"r": 1, "s": 1, "stride_h": 1, "stride_w": 1, "pad_h": 0, "pad_w": 0}
    return NetworkLayer(name="layer", kind=kind, **{**plain, **sizes})
