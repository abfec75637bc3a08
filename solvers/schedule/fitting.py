"""Layers that all tiles together cannot hold: cut into fewer output channels, or named where no cut helps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from costmodel.hardware.chip import Chip, Tile
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.layer_graph.layer import Channels
from solvers.schedule.tiles.layer_parts import factorization_array, held_bits


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
