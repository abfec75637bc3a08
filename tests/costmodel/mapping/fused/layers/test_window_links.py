"""Windows that loops slide along, read off networks: which rows they reach, followed tap by tap."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.mapping.fused.layers.group import IntermediateRead, LayerGroup, SlidingRead
from costmodel.mapping.fused.layers.links import group_of
from costmodel.workload.attributes import Attributes
from costmodel.workload.convolutions import Window, convolution_of
from costmodel.workload.network import Network, Node, Pooling, Value
from costmodel.workload.windows import Windows

CHANNELS = 4


class Slide(NamedTuple):
    """A kernel along rows, as PyTorch's operators state it."""

    taps: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    ceil_mode: bool = False

    def results(self, length: int) -> int:
        """How many outputs PyTorch's documentation says there are of so many rows."""
        left = length + 2 * self.padding - self.dilation * (self.taps - 1) - 1
        if not self.ceil_mode:
            return left // self.stride + 1
        count = -(-left // self.stride) + 1
        # the last window must begin in the rows or in the padding before them
        return count - 1 if (count - 1) * self.stride >= length + self.padding else count

    def rows(self, point: int, length: int) -> set[int]:
        """The rows under one output's window from its first to its last tap, without padding."""
        first = point * self.stride - self.padding
        return set(range(first, first + self.dilation * (self.taps - 1) + 1)) & set(range(length))

    @property
    def attributes(self) -> dict[str, int]:
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}


class Chain:
    """A pointwise convolution ``a`` of square images, poolings, and a convolution ``b``."""

    def __init__(self, rows: int, pools: list[Slide], last: Slide, *, around: bool = False) -> None:
        self.lengths, self.slides = [rows], [*pools, last]
        for slide in self.slides:
            self.lengths.append(slide.results(self.lengths[-1]))
        sizes, names = self.lengths, ["a"]
        nodes = [self._node("a", "x", Slide(1), rows, rows)]
        for number, pool in enumerate(pools):
            stated = {**pool.attributes, "kernel_size": pool.taps, "ceil_mode": pool.ceil_mode}
            window = Pooling((pool.taps,) * 2, (pool.stride,) * 2)
            names.append(f"pool{number}")
            nodes.append(
                Node(
                    names[-1],
                    "max_pool2d",
                    (names[-2],),
                    (names[-1],),
                    pooling=window,
                    attributes=Attributes(stated),
                )
            )
        if around:  # what is pooled is added to what is not
            nodes.append(Node("sum", "add", (names[-1], "a"), ("sum",)))
            names, sizes = [*names, "sum"], [*sizes[:-1], sizes[0], sizes[-1]]
        nodes.append(self._node("b", names[-1], last, sizes[-2], sizes[-1]))
        values = [Value("x", (1, CHANNELS, rows, rows), "input")]
        values += [
            Value(f"{name}.weights", (CHANNELS, CHANNELS, one.taps, one.taps), "parameter")
            for name, one in (("a", Slide(1)), ("b", last))
        ]
        values += [
            Value(name, (1, CHANNELS, size, size), "output" if name == "b" else "activation")
            for name, size in zip([*names, "b"], sizes, strict=True)
        ]
        self.network = Network("chain", tuple(nodes), tuple(values))

    def _node(self, name: str, read: str, slide: Slide, length: int, made: int) -> Node:
        layer = convolution_of(
            name,
            (1, CHANNELS, length, length),
            (CHANNELS, CHANNELS, slide.taps, slide.taps),
            (1, CHANNELS, made, made),
            Window.of(2, (slide.stride,), (slide.dilation,)),
        )
        stated = Attributes(slide.attributes)
        return Node(name, "conv2d", (read, f"{name}.weights"), (name,), (layer,), attributes=stated)

    def reached(self, point: int) -> set[int]:
        """The rows of ``a`` that a row of ``b`` follows from, with those between taps."""
        found = {point}
        for slide, length in zip(reversed(self.slides), reversed(self.lengths[:-1]), strict=True):
            found = {row for one in found for row in slide.rows(one, length)}
        return found


def read_of(group: LayerGroup) -> IntermediateRead:
    (read,) = group.intermediates[0].reads
    return read


def sliding(random: Random, *, pooling: bool) -> Slide:
    taps, dilation = random.randint(1, 3), random.choice((1, 1, 2, 3))
    # PyTorch pads a pooling by half of its window at most
    most = taps // 2 if pooling else dilation * (taps - 1)
    ceil = pooling and random.random() < 0.5
    return Slide(taps, random.randint(1, 3), random.randint(0, most), dilation, ceil)


def test_windows_reach_the_rows_that_their_taps_reach() -> None:
    random, slid, met = Random(4), 0, set[str]()
    machine = load_architecture("simba")
    while slid < 300:
        pools = [sliding(random, pooling=True) for _ in range(random.randint(0, 2))]
        rows, last = random.randint(4, 24), sliding(random, pooling=False)
        length = rows
        for one in (*pools, last):
            length = one.results(length) if length > 0 else 0
        if length < 1:
            continue
        chain = Chain(rows, pools, last)
        columns = random.random() < 0.5
        read = read_of(group_of(machine, chain.network, ["a", "b"], columns=columns))
        assert read.dims[0] == ("K", "C")
        reached = [chain.reached(point) for point in range(length)]
        if all(one.taps == one.stride == 1 for one in (*pools, last)) and not pools:
            assert read.dims[1:] == ((("P", "P"), ("Q", "Q")) if length > 1 else ())
            continue
        assert len(read.dims) == 1
        # windows that lie in padding alone, and images of one row, have nothing to slide along
        if length == 1 or not read.windows:
            assert not read.windows or length > 1
            assert length == 1 or not all(reached)
            continue
        slid += 1
        found, *others = read.windows
        assert [replace(one, made="P", used="P") for one in others] == [found] * columns
        assert all(one.made == one.used == "Q" for one in others)
        assert (found.made, found.used, len(found.pools)) == ("P", "P", len(pools))
        for point, touched in enumerate(reached):
            assert found.begins(point) == min(touched)
            assert found.needed(point + 1, rows) == max(touched) + 1
        assert found.needed(0, rows) == 0
        met |= {f"{len(pools)} poolings"}
        met |= {"beyond the end" for one in pools if one.ceil_mode}
        met |= {"dilated" for one in pools if one.dilation > 1 and one.taps > 1}
        met |= {"rows between" for one in chain.slides if one.taps * one.dilation < one.stride}
    assert met == {"0 poolings", "1 poolings", "2 poolings", "beyond the end", "dilated", "rows between"}


def test_a_loop_over_rows_passes_through_the_poolings_of_networks() -> None:
    machine = load_architecture("simba")
    alexnet = group_of(machine, load_network("alexnet"), ["conv1", "conv2", "conv3"])
    assert alexnet.slides == ({"P2": "P", "P3": "P"}, {"P3": "P"}, {})
    assert read_of(alexnet).windows == (
        SlidingRead("P", "P", Windows(27, 5, 1, 2), pools=(Windows(27, 3, 2, 0),)),
    )
    # channels are those of the rows that are pooled
    assert alexnet.cutting == {(0, 1): {"K"}, (1, 2): {"K2"}}
    names = ["conv1", "layer1.0.downsample", "layer1.0.conv1"]
    resnet = group_of(machine, load_network("resnet50"), names)
    pooled = SlidingRead("P", "P", Windows(56), pools=(Windows(56, 3, 2, 1),))
    assert [read.windows for read in resnet.intermediates[0].reads] == [(pooled,)] * 2
    assert not resnet.intermediates[0].leaves
    bare = group_of(machine, load_network("resnet50"), names, windows=False)
    assert bare.slides == ({}, {}, {})
    with pytest.raises(InputError, match="columns: expected loops over rows that pass through windows"):
        group_of(machine, load_network("resnet50"), names, windows=False, columns=True)


def test_a_loop_over_rows_passes_through_dilated_windows() -> None:
    network, machine = load_network("deeplabv3_resnet50.raw"), load_architecture("simba")
    group = group_of(machine, network, ["conv2d_28", "conv2d_29", "conv2d_30"])
    assert read_of(group).windows == (SlidingRead("P", "P", Windows(28, 5, 1, 2)),)
    assert group.slides == ({"P2": "P"}, {}, {})


@pytest.mark.parametrize("stride", [1, 2])
def test_what_is_pooled_as_a_whole_is_needed_whole(stride: int) -> None:
    """Of one row nothing slides; a sum of what is pooled and what is not follows no windows."""
    machine = load_architecture("simba")
    chain = Chain(6, [Slide(6, stride)], Slide(1))
    assert read_of(group_of(machine, chain.network, ["a", "b"])) == IntermediateRead(
        1, "Inputs", (("K", "C"),)
    )
    chain = Chain(6, [Slide(3, 1, 1)], Slide(3, stride, 1), around=True)
    assert read_of(group_of(machine, chain.network, ["a", "b"])) == IntermediateRead(
        1, "Inputs", (("K", "C"),)
    )
