"""Cuts layers whose weights do not fit all tiles together into several layers of fewer outputs that do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from costmodel.hardware.chip import Chip, Tile
from costmodel.schedule.layer_graph.graph import Channels, LayerGraph, NetworkLayer
from solvers.schedule.tiles.layer_parts import factorization_array, held_bytes


def fitted(graph: LayerGraph, chip: Chip) -> LayerGraph:
    """``graph`` with its too large layers cut along K, each into as few parts as fit the chip's buffers.

    A leaf of an RA tree pins all its weights, so a layer that is too large makes every tree impossible: the
    large products of AlexNet and VGG are so on a small chip. A part is named after its layer, ``fc6[0]``; it
    reads all of the layer's inputs, and the layer's readers read all parts.
    A graph that fits is returned as it is. Layers stay whole that no cut makes fit, that have activations as
    weights, that only run on the whole chip, or of which some reader takes only some channels.
    """
    whole = _read_in_part(graph)
    parts = [[it] if number in whole else _parts(it, chip) for number, it in enumerate(graph.layers)]
    if max(map(len, parts)) == 1:
        return graph
    first = np.cumsum([0, *map(len, parts)]).tolist()

    def moved(producers: tuple[int, ...]) -> tuple[int, ...]:
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


def _read_in_part(graph: LayerGraph) -> set[int]:
    """The numbers of layers of which some reader takes some but not all channels."""
    reads = (one for layer in graph.layers for kind in graph.reads(layer) for one in kind)
    return {one.producer for one in reads if one.channels < graph.layers[one.producer].k}


def _channels(
    graph: LayerGraph, layer: NetworkLayer, parts: Sequence[Sequence[NetworkLayer]]
) -> tuple[Channels, ...]:
    """The channels that a layer reads of each producer, with producers in parts; () if it reads all.

    A producer in parts is read whole, as :func:`fitted` leaves others uncut.
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
    """The parts of a layer, as equal as they can be; just the layer where it fits or cannot be cut."""
    if layer.kind not in ("conv", "fc") or layer.weight_producers or layer.needs_whole_chip:
        return [layer]
    if _fits(layer, chip.tile, chip.tiles):
        return [layer]
    if not _fits(replace(layer, k=1), chip.tile, chip.tiles):
        return [layer]
    largest = ((count, replace(layer, k=-(-layer.k // count))) for count in range(2, layer.k + 1))
    fewest = next(count for count, part in largest if _fits(part, chip.tile, chip.tiles))
    return list(_cut(layer, fewest))


def _cut(layer: NetworkLayer, count: int) -> Iterator[NetworkLayer]:
    """``count`` parts of nearly equal K, the largest first."""
    for part in range(count):
        k = (layer.k + count - 1 - part) // count
        yield replace(layer, name=f"{layer.name}[{part}]", k=k)


def _fits(layer: NetworkLayer, tile: Tile, tiles: int) -> bool:
    """Whether some partition of one sample among all tiles fits their buffers."""
    held = held_bytes(layer, -(-np.array(layer.sizes(1)) // factorization_array(tiles)))
    return bool((held <= tile.buffer.size_bytes - tile.output_stream_bytes).any())
