"""AmoebaNet-D and DARTS as PyTorch modules: two networks of COSMA's evaluation that no package on PyPI has.

Both are stacks of cells. A cell has two inputs (the outputs of the two cells before it), brings them to its
number of channels, computes nodes that each add two operations on earlier states, and concatenates some of
the states. Which operations, on which states, was found by a search and is what the authors published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Genotype(NamedTuple):
    """What a search found for a kind of cell.

    ``operations`` are (name, number of the state that it reads). Each two of them are a node, which adds
    their results: the first two make state 2, the next two state 3, and so on. States 0 and 1 are the cell's
    inputs; which of the two outputs is 0 differs between families (``_Family.newest_first``).
    ``concatenated``: the numbers of the states that make the output.
    """

    operations: tuple[tuple[str, int], ...]
    concatenated: tuple[int, ...]


AMOEBANET_D_NORMAL = Genotype(
    (
        ("conv_1x1", 1),
        ("avg_pool_3x3", 1),
        ("none", 1),
        ("conv_1x7_7x1", 0),
        ("conv_1x1", 0),
        ("conv_1x7_7x1", 0),
        ("avg_pool_3x3", 2),
        ("none", 2),
        ("avg_pool_3x3", 1),
        ("conv_1x1", 5),
    ),
    (0, 3, 4, 6),
)
AMOEBANET_D_REDUCTION = Genotype(
    (
        ("max_pool_2x2", 0),
        ("avg_pool_3x3", 0),
        ("none", 2),
        ("conv_3x3", 1),
        ("conv_1x7_7x1", 2),
        ("avg_pool_3x3", 2),
        ("none", 3),
        ("max_pool_2x2", 1),
        ("avg_pool_3x3", 2),
        ("conv_1x1", 3),
    ),
    (4, 5, 6),
)
DARTS_V2_NORMAL = Genotype(
    (
        ("sep_conv_3x3", 0),
        ("sep_conv_3x3", 1),
        ("sep_conv_3x3", 0),
        ("sep_conv_3x3", 1),
        ("sep_conv_3x3", 1),
        ("none", 0),
        ("none", 0),
        ("dil_conv_3x3", 2),
    ),
    (2, 3, 4, 5),
)
DARTS_V2_REDUCTION = Genotype(
    (
        ("max_pool_3x3", 0),
        ("max_pool_3x3", 1),
        ("none", 2),
        ("max_pool_3x3", 1),
        ("max_pool_3x3", 0),
        ("none", 2),
        ("none", 2),
        ("max_pool_3x3", 1),
    ),
    (2, 3, 4, 5),
)


def amoebanet_d(classes: int = 1000, cells: int = 18, filters: int = 208) -> nn.Module:
    """AmoebaNet-D (Real et al. 2019, figure 5 and appendix D), for 224 x 224 images.

    Cells are stacked as torchgpipe does: two reductions behind the stem, ``cells`` normal cells in three
    equal groups, and a reduction between groups. A cell of the first group has ``filters`` channels, each
    reduction doubles them.
    """
    few = filters // 4
    stem = nn.Sequential(nn.ReLU(), nn.Conv2d(3, few, 3, 2, 1, bias=False), nn.BatchNorm2d(few))
    network = _Stack((stem, nn.Identity()), few, _AMOEBANET, has_shrunk=False)
    network.add(AMOEBANET_D_REDUCTION, filters // 2, reduces=True)
    network.add(AMOEBANET_D_REDUCTION, filters, reduces=True)
    for group in range(3):
        if group:
            network.add(AMOEBANET_D_REDUCTION, filters * 2**group, reduces=True)
        for _ in range(cells // 3):
            network.add(AMOEBANET_D_NORMAL, filters * 2**group)
    network.classify(classes)
    return network


def darts_v2(classes: int = 1000, cells: int = 14, filters: int = 48) -> nn.Module:
    """DARTS with its second-order cells (Liu et al. 2019, figures 4 and 5), for 224 x 224 images.

    The cells at one third and at two thirds of the way are reductions and double the channels; the first
    cells have ``filters``.
    """
    few = filters // 2
    stem = nn.Sequential(
        *(nn.Conv2d(3, few, 3, 2, 1, bias=False), nn.BatchNorm2d(few), nn.ReLU()),
        *(nn.Conv2d(few, filters, 3, 2, 1, bias=False), nn.BatchNorm2d(filters), nn.ReLU()),
    )
    second = nn.Sequential(nn.Conv2d(filters, filters, 3, 2, 1, bias=False), nn.BatchNorm2d(filters))
    network = _Stack((stem, second), filters, _DARTS, has_shrunk=True)
    channels = filters
    for index in range(cells):
        reduces = index in (cells // 3, 2 * cells // 3)
        channels *= 2 if reduces else 1
        network.add(DARTS_V2_REDUCTION if reduces else DARTS_V2_NORMAL, channels, reduces)
    network.classify(classes)
    return network


class _Stack(nn.Module):
    """A stem, cells that each read the outputs of the two before them, average pooling and a classifier.

    ``stem`` has two modules: the first makes an output of ``channels`` channels of the image, the second
    another one of that. They are what the first cell reads. ``has_shrunk``: whether the last one added has
    halved rows and columns. Its output is then smaller than the one before it, so the next cell has to halve
    the older one of its inputs.
    """

    def __init__(self, stem: tuple[nn.Module, nn.Module], channels: int, family: _Family, has_shrunk: bool):
        super().__init__()
        self.stem = nn.ModuleList(stem)
        self.cells = nn.ModuleList()
        self.channels = (channels, channels)
        self.family = family
        self.has_shrunk = has_shrunk

    def add(self, genotype: Genotype, channels: int, reduces: bool = False) -> None:
        """A cell whose nodes have ``channels`` channels, after all others."""
        self.cells.append(
            _Cell(
                genotype,
                self.family,
                self.channels,
                channels,
                older_is_larger=self.has_shrunk,
                reduces=reduces,
            )
        )
        self.channels = (self.channels[1], channels * len(genotype.concatenated))
        self.has_shrunk = reduces

    def classify(self, classes: int) -> None:
        """End the stack. Of an image of 224 rows and columns 7 are left, which are averaged."""
        self.classifier = nn.Sequential(nn.AvgPool2d(7), nn.Flatten(), nn.Linear(self.channels[1], classes))

    def forward(self, image: Tensor) -> Tensor:
        older = self.stem[0](image)
        newer = self.stem[1](older)
        for cell in self.cells:
            older, newer = newer, cell(older, newer)
        logits: Tensor = self.classifier(newer)
        return logits


class _Cell(nn.Module):
    """Two inputs of ``before`` channels, nodes of ``channels`` channels, and a concatenation of some of them.

    ``older_is_larger``: whether the older input has twice the rows and columns of the newer one, so that it
    is halved first. ``reduces``: whether the cell halves rows and columns: operations on its inputs have
    stride 2.
    """

    def __init__(
        self,
        genotype: Genotype,
        family: _Family,
        before: tuple[int, int],
        channels: int,
        *,
        older_is_larger: bool,
        reduces: bool,
    ):
        super().__init__()
        self.genotype, self.newest_first = genotype, family.newest_first
        self.newer = _relu_convolution(before[1], channels, 1)
        if older_is_larger:
            self.older: nn.Module = _HalvedMaps(before[0], channels, family.pads_odd_maps)
        else:
            self.older = _relu_convolution(before[0], channels, 1)
        self.operations = nn.ModuleList(
            family.operation(name, channels, 2 if reduces and state < 2 else 1)
            for name, state in genotype.operations
        )

    def forward(self, older: Tensor, newer: Tensor) -> Tensor:
        if self.newest_first:
            states = [self.newer(newer), self.older(older)]
        else:
            states = [self.older(older), self.newer(newer)]
        steps = list(zip(self.operations, self.genotype.operations, strict=True))
        for (left, (_, of_left)), (right, (_, of_right)) in zip(steps[::2], steps[1::2], strict=True):
            states.append(left(states[of_left]) + right(states[of_right]))
        return torch.cat([states[index] for index in self.genotype.concatenated], 1)


class _HalvedMaps(nn.Module):
    """Half the rows and columns, and ``channels`` channels, without leaving out every other row and column.

    Two convolutions of 1 x 1 with stride 2 make half of the channels each: one of the even rows and columns,
    the other of the odd ones.
    """

    def __init__(self, before: int, channels: int, pads_odd_maps: bool):
        super().__init__()
        self.relu = nn.ReLU()
        self.even = nn.Conv2d(before, channels // 2, 1, 2, bias=False)
        # without the first row and column, and with another one of zeros behind the last: the export folds
        # slices away, where a padding of -1 stays and says which rows are read
        self.pad = nn.ZeroPad2d((-1, 1, -1, 1)) if pads_odd_maps else None
        self.odd = nn.Conv2d(before, channels // 2, 1, 2, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, maps: Tensor) -> Tensor:
        maps = self.relu(maps)
        even = self.even(maps)
        odd = self.odd(maps[:, :, 1:, 1:] if self.pad is None else self.pad(maps))
        halves = torch.cat([even, odd], 1)
        normed: Tensor = self.norm(halves)
        return normed


def _relu_convolution(
    before: int, channels: int, kernel: int | tuple[int, int], stride: int = 1
) -> nn.Sequential:
    """ReLU, a convolution, batch normalisation. Rows and columns are kept, or divided by ``stride``."""
    rows, columns = (kernel, kernel) if isinstance(kernel, int) else kernel
    # a filter of 1 x 7 strides along columns only, the 7 x 1 behind it along rows
    strides = (stride if rows > 1 or kernel == 1 else 1, stride if columns > 1 or kernel == 1 else 1)
    padding = (rows // 2, columns // 2)
    convolution = nn.Conv2d(before, channels, (rows, columns), strides, padding, bias=False)
    return nn.Sequential(nn.ReLU(), convolution, nn.BatchNorm2d(channels))


def _amoebanet_operation(name: str, channels: int, stride: int) -> nn.Module:
    """An operation of AmoebaNet: convolutions larger than 1 x 1 run on a quarter of the channels."""
    few = channels // 4
    if name == "none":
        return nn.Identity()
    if name == "avg_pool_3x3":
        return nn.AvgPool2d(3, stride, 1, count_include_pad=False)
    if name == "max_pool_2x2":
        return nn.MaxPool2d(2, stride)
    if name == "conv_1x1":
        return _relu_convolution(channels, channels, 1, stride)
    kernels: dict[str, tuple[int | tuple[int, int], ...]] = {
        "conv_3x3": (3,),
        "conv_1x7_7x1": ((1, 7), (7, 1)),
    }
    inner = (_relu_convolution(few, few, kernel, stride) for kernel in kernels[name])
    return nn.Sequential(_relu_convolution(channels, few, 1), *inner, _relu_convolution(few, channels, 1))


def _darts_operation(name: str, channels: int, stride: int) -> nn.Module:
    """An operation of DARTS: depthwise and pointwise convolutions, separable ones twice."""

    def separable(stride: int, dilation: int) -> nn.Sequential:
        depthwise = nn.Conv2d(channels, channels, 3, stride, dilation, dilation, groups=channels, bias=False)
        pointwise = nn.Conv2d(channels, channels, 1, bias=False)
        return nn.Sequential(nn.ReLU(), depthwise, pointwise, nn.BatchNorm2d(channels))

    if name == "none":
        return nn.Identity()
    if name == "max_pool_3x3":
        return nn.MaxPool2d(3, stride, 1)
    if name == "dil_conv_3x3":
        return separable(stride, 2)
    return nn.Sequential(separable(stride, 1), separable(1, 1))


class _Family(NamedTuple):
    """Where two families of searched networks differ beside their genotypes."""

    operation: Callable[[str, int, int], nn.Module]
    """Makes an operation from its name, its channels and its stride."""
    newest_first: bool
    """Whether state 0 is the output of the cell before; otherwise of the one before that."""
    pads_odd_maps: bool
    """Whether the odd rows and columns are padded by a last one, so that an odd number of them halves to as
    many as the even ones do."""


_AMOEBANET = _Family(_amoebanet_operation, newest_first=True, pads_odd_maps=True)
_DARTS = _Family(_darts_operation, newest_first=False, pads_odd_maps=False)
