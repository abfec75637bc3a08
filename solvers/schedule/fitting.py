"""Layers that all tiles together cannot hold: cut along channels or experts, or named where no cut helps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from costmodel.hardware.chip import Chip, Tile
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer, Read
from costmodel.schedule.layer_graph.layer import Channels, pointwise
from solvers.divisors import divisors
from solvers.schedule.tiles.layer_parts import factorization_array, held_bits
from solvers.schedule.tiles.partition_ranking import held_inputs


def fitted(graph: LayerGraph, chip: Chip) -> LayerGraph:
    """``graph`` with its too large layers cut along K, each into the fewest parts that fit the buffers.

    A leaf of an RA tree pins all its weights (SET, section 3.3.1), so one layer that is too large makes every
    tree impossible. The large products of AlexNet and VGG are too large for a small chip. A part is named
    after its layer, ``fc6[0]``. It reads all inputs of the layer, and the layer's readers read all parts.

    A graph that fits is returned as it is. Some layers are never cut: those that do not fit even with one
    output channel, those with activations as weights, those that run on the whole chip only, and those of
    which some reader takes only some channels.
    """
    whole = _read_in_part(graph)
    parts = [[it] if number in whole else _parts(it, chip) for number, it in enumerate(graph.layers)]
    if max(map(len, parts)) == 1:
        return graph
    # Layer i of the old graph becomes the layers first[i] to before first[i + 1] of the new one.
    first = np.cumsum([0, *map(len, parts)]).tolist()

    def moved(producers: tuple[int, ...]) -> tuple[int, ...]:
        """The new numbers of producers: all parts of each."""
        return tuple(number for i in producers for number in range(first[i], first[i + 1]))

    layers = (
        replace(
            part,
            producers=moved(part.producers),
            weight_producers=moved(part.weight_producers),
            channels=_channels(graph, part, parts),
        )
        for pieces in parts
        for part in pieces
    )
    return LayerGraph(graph.name, tuple(layers))


def summed_in_groups(graph: LayerGraph, chip: Chip) -> LayerGraph:
    """``graph`` with sums over more experts than tiles can hold as sums over groups of them, added in pairs.

    A ``combine`` needs the rows of all experts for any output, so the most that a cut can leave a tile is one
    channel of all of them::

        experts 0 to 63  ---- sum[0] --+
        experts 64 to 127 --- sum[1] --+-- sum+0 --+
        experts 128 to 191 -- sum[2] --+           +-- sum
        experts 192 to 255 -- sum[3] --+-- sum+1 --+

    There are as few groups as let a tile hold the rows of two at a time, as one arrives while the other is
    used, or of one. Their number divides the rows that are added for an output, so that all groups together
    add as many; the additions between them come on top. A graph whose sums fit is returned as it is.
    """
    groups = [_groups(it, chip) if it.kind == "combine" else 1 for it in graph.layers]
    if max(groups) == 1:
        return graph
    layers: list[NetworkLayer] = []
    at: list[int] = []  # where each layer of the old graph is in the new one
    for it, count in zip(graph.layers, groups, strict=True):
        moved = replace(
            it,
            producers=tuple(at[number] for number in it.producers),
            weight_producers=tuple(at[number] for number in it.weight_producers),
        )
        first = len(layers)
        if count == 1:
            layers.append(moved)
        else:
            inputs, choices = graph.reads(it)
            inputs = [read._replace(producer=at[read.producer]) for read in inputs]
            layers += (_group(moved, number, count, inputs, choices) for number in range(count))
            layers += _added(it, first, count)
        at.append(len(layers) - 1)
    return LayerGraph(graph.name, tuple(layers))


def _groups(layer: NetworkLayer, chip: Chip) -> int:
    """In how many groups of experts a sum is computed; 1 where it fits, or no number of groups helps."""
    experts, bits = layer.input_tensors, ElementBits.of(layer, chip.tile.widths)
    largest = -(-np.array(layer.sizes(1)) // factorization_array(chip.tiles))
    choices = layer.groups * largest[:, 2] * largest[:, 3] * bits.weights
    rows = held_inputs(layer, largest) * bits.inputs

    def fits(groups: int, times: int) -> bool:
        held = rows * (experts // groups) + choices
        return bool((times * held <= chip.tile.free_bits).any())

    if layer.external_c or fits(1, 1):
        return 1
    counts = [count for count in divisors(layer.r) if experts % count == 0]
    return next((count for times in (2, 1) for count in counts if fits(count, times)), 1)


def _group(
    layer: NetworkLayer, number: int, count: int, inputs: Sequence[Read], choices: Sequence[Read]
) -> NetworkLayer:
    """The sum over one of ``count`` groups of experts, with all choices of the tokens."""
    size = layer.c // count
    begin, end = number * size, (number + 1) * size
    own: list[Read] = []
    first = 0
    for read in inputs:
        low, high = max(begin, first), min(end, first + read.channels)
        if low < high:
            own.append(Read(read.producer, read.first + low - first, read.first + high - first))
        first += read.channels
    return replace(
        layer,
        name=f"{layer.name}[{number}]",
        c=size,
        r=layer.r // count,
        producers=tuple(read.producer for read in own),
        channels=tuple((read.first, read.end) for read in (*own, *choices)),
    )


def _added(layer: NetworkLayer, first: int, count: int) -> Iterator[NetworkLayer]:
    """The additions, two by two, of ``count`` sums from position ``first`` on; the last one is ``layer``."""
    waiting = list(range(first, first + count))
    for number in range(count - 1):
        last = number == count - 2
        name = layer.name if last else f"{layer.name}+{number}"
        yield replace(pointwise(name, "eltwise", layer, 2), producers=(waiting[0], waiting[1]))
        waiting = [*waiting[2:], first + count + number]


def too_large(graph: LayerGraph, chip: Chip) -> Iterator[NetworkLayer]:
    """The layers that no tree can have as leaves, unless they run on the whole chip, with their data in DRAM.

    Of these, no partition of one sample among all tiles fits the buffers. Rows of a layer in bands, which
    need less, are not looked at.
    """
    return (it for it in graph.layers if it.needs_whole_chip or not _fits(it, chip.tile, chip.tiles))


def _read_in_part(graph: LayerGraph) -> set[int]:
    """The numbers of layers of which some reader takes only some of the channels.

    They stay whole: a reader of some channels would read some parts in part, and others not at all.
    """
    reads = (one for layer in graph.layers for kind in graph.reads(layer) for one in kind)
    return {one.producer for one in reads if one.channels < graph.layers[one.producer].k}


def _channels(
    graph: LayerGraph, layer: NetworkLayer, parts: Sequence[Sequence[NetworkLayer]]
) -> tuple[Channels, ...]:
    """The ranges of channels that a layer reads of each producer in the new graph; () if it reads all.

    A producer that was cut is read whole, because :func:`fitted` cuts no other: all channels of every part.
    A producer that was not cut keeps its range.
    """
    if not layer.channels:
        return ()
    reads = (one for kind in graph.reads(layer) for one in kind)
    return tuple(
        (one.first, one.end) if len(parts[one.producer]) == 1 else (0, part.k)
        for one in reads
        for part in parts[one.producer]
    )


def _parts(layer: NetworkLayer, chip: Chip) -> list[NetworkLayer]:
    """The parts of a layer, as equal as whole channels allow; just the layer where it fits or stays whole."""
    if layer.kind not in ("conv", "fc") or layer.weight_producers or layer.needs_whole_chip:
        return [layer]
    if _fits(layer, chip.tile, chip.tiles):
        return [layer]
    # One output channel is the smallest part: where not even that fits, no cut helps.
    if not _fits(replace(layer, k=1), chip.tile, chip.tiles):
        return [layer]
    # If the largest part fits, so do the others, which have at most as many channels.
    largest = ((count, replace(layer, k=-(-layer.k // count))) for count in range(2, layer.k + 1))
    fewest = next(count for count, part in largest if _fits(part, chip.tile, chip.tiles))
    return list(_cut(layer, fewest))


def _cut(layer: NetworkLayer, count: int) -> Iterator[NetworkLayer]:
    """``count`` parts of nearly equal K, the largest first."""
    for part in range(count):
        k = (layer.k + count - 1 - part) // count
        yield replace(layer, name=f"{layer.name}[{part}]", k=k)


def _fits(layer: NetworkLayer, tile: Tile, tiles: int) -> bool:
    """Whether the layer can be a leaf: some partition of one sample among all tiles fits their buffers."""
    largest = -(-np.array(layer.sizes(1)) // factorization_array(tiles))
    return bool((held_bits(layer, largest, tile.widths) <= tile.free_bits).any())
