"""What passes DRAM because a layer is mapped on the whole chip, and with which end of an edge it counts.

Such a layer is a segment of its own, so all that it reads and writes passes DRAM. An edge whose two ends may
be in one segment stays on the chip only if neither end is mapped so. Let x be 1 for a layer mapped on the
whole chip, and 0 for others. Take an edge from a to b, of which b reads r bits, and let a have w bits of
outputs::

    only a is mapped so: b reads r bits from DRAM    r max(0, x_a - x_b) >= r x_a - r x_b
    only b is mapped so: a writes w bits, once       w max(0, x_b - x_a) >= w x_b - w x_a

The right sides are sums of terms of single layers, so each layer can be bounded by itself: in the first line
a pays for what b reads, and b is paid back, whose own cost counts that already. Zero is less than either left
side, too: then each end pays for its own. Any choice between the two is a bound, for each edge. Here the end
pays that is dearer on tiles, as it is the one that is more surely mapped on the whole chip. Of a layer with
several readers each edge has its own first line, but only one reader the second, as outputs are written once.

A layer of unknown costs on the whole chip pays nothing and is paid nothing, as its other floors hold for
either way to run it, and count nothing of what may stay on the chip. So the other end of an edge pays for
both. That is not too much: if the layer is mapped on the whole chip it moves these bits itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from costmodel.hardware.chip import Chip
from costmodel.schedule.bounds.compulsory import Compulsory, touched_inputs
from costmodel.schedule.bounds.staying import Edge
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph


class Paid(NamedTuple):
    """Bits of the whole batch that a layer mapped on the whole chip pays for more, or less, than its own."""

    read: int = 0
    written: int = 0


def paid_by_layers(
    graph: LayerGraph,
    chip: Chip,
    batch: int,
    staying: frozenset[Edge],
    traffic: Sequence[Compulsory],
    dearness: Sequence[float | None],
) -> list[Paid]:
    """What each layer pays for where it is mapped on the whole chip; 0 for layers of unknown costs.

    ``staying``: the edges that can stay on the chip. ``traffic``: what all schedules move of each layer.
    ``dearness``: how much more energy each layer takes on tiles; None: its costs on the whole chip are not
    known, or there are none.
    """
    read, written = [0] * len(graph.layers), [0] * len(graph.layers)
    readers: dict[int, set[int]] = {}
    for consumer, layer in enumerate(graph.layers):
        inputs, weights = graph.reads(layer)
        for one in (*inputs, *weights):
            if (one.producer, consumer) in staying:
                readers.setdefault(one.producer, set()).add(consumer)
        bits = batch * ElementBits.of(layer, chip.tile.widths).inputs
        for one in inputs:
            if (one.producer, consumer) in staying and _pays(dearness[one.producer], dearness[consumer]):
                read[one.producer] += bits * touched_inputs(layer, one.channels)
                if dearness[consumer] is not None:
                    read[consumer] -= bits * touched_inputs(layer, one.channels)
    for producer, all_readers in readers.items():
        if traffic[producer].dram_write:
            continue  # it is written anyway
        dearest = max(all_readers, key=lambda reader: (dearness[reader] is not None, dearness[reader] or 0.0))
        if not _pays(dearness[producer], dearness[dearest]) and dearness[dearest] is not None:
            written[dearest] += traffic[producer].emptied
            if dearness[producer] is not None:
                written[producer] -= traffic[producer].emptied
    return [Paid(*both) for both in zip(read, written, strict=True)]


def _pays(producer: float | None, consumer: float | None) -> bool:
    """Whether the producer of an edge pays for both ends; else each reader pays, or nobody."""
    return producer is not None and (consumer is None or producer >= consumer)
