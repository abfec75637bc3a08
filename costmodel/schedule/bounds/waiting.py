"""A lower bound on the cycles of layers that depend on one another and whose weights overflow the buffers.

A layer reads what others have made, so a layer B that follows A in the network ends after A has ended. Take
one round of the batch, and the moment at which A has made its last output. A and all layers in front of it
have then done all their work. Every layer B behind A still has to run, at least for the sample that A has
just made, and each run needs all weights of B. Those on the chip at that moment are no more than all tiles'
buffers hold, C bits; the rest come from DRAM later, whether they come for the first time or again::

    tiles   | all work of A and what is in front of it | at least the last run of each layer behind A
    DRAM    |           ...  at most C bits for later  | the rest of the weights of these layers
                                                       ^ A has ended

So a round takes at least the time in which A and those in front of it can end, and the time in which DRAM
brings the weights of all layers behind A, less C bits. In the same way the weights of B and of all layers
between A and B, less C bits, come between the ends of A and of B. So the least time at which each layer can
have ended follows from those in front of it, in the order of the network.

The bound holds for all segments, sub-batches and partitions, for pinned, streamed and shared weights, and
also where a segment's data comes while the one before it still computes: copies in several tiles, and inputs
beside the weights, only take more of the C bits. It uses two facts of the model. Rounds compute one after the
other, so the time between two layers' ends passes once a round. And data that is fetched for later lies in
some tile's buffer. Of layers that may be
mapped together with others no weights count as coming later: the last turn of such a layer may need few of
them. While a layer is mapped on the whole chip no other one runs. Its time is added to this
bound elsewhere, and its weights do not count here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.bounds.rounding import ROUNDING
from costmodel.schedule.layer_graph.graph import LayerGraph

Array = NDArray[Any]

MOST_ENDS = 400
"""The most layers whose ends are looked at, evenly chosen from a larger network: the bound holds for any
choice, and the work grows with the square of their number."""


@dataclass(frozen=True)
class LayerTimes:
    """Lower bounds on each layer's cycles in one round; arrays [layers].

    All are 0 for layers mapped on the whole chip.

    ``work``: the least cycles in which all tiles together can compute it. ``reads``: the least cycles of DRAM
    for what it reads. ``weights``: the part of these for the weights that every run of it needs.
    """

    work: Array
    reads: Array
    weights: Array


def least_cycles_in_order(graph: LayerGraph, times: LayerTimes, buffers: float, rounds: int) -> float:
    """A lower bound on the cycles of all ``rounds``; ``times`` are those of each round.

    ``buffers``: cycles in which DRAM fills all tiles' buffers. With several rounds, the buffers may be full
    of a round's data when it begins, as the round before may have fetched it.
    """
    if not np.isfinite(times.work).all():  # a layer that cannot run at all
        return inf
    chosen = np.unique(np.linspace(0, len(graph.layers) - 1, MOST_ENDS).astype(int))
    before = _in_front(graph)
    fetched = 0.0 if rounds == 1 else buffers
    ended = np.maximum(before[chosen] @ times.work, before[chosen] @ times.reads - fetched)
    behind = before.T[chosen]
    behind[np.arange(len(chosen)), chosen] = False
    # [ends, ends]: the weights of the layers behind the one and up to the other
    between = np.maximum((behind * times.weights) @ before[chosen].T - buffers, 0.0)
    follows = behind[:, chosen]
    for number in range(len(chosen)):
        earlier = follows[:, number]
        if earlier.any():
            ended[number] = max(ended[number], float((ended[earlier] + between[earlier, number]).max()))
    left = np.maximum(behind @ times.weights - buffers, 0.0)
    return rounds * float((ended + left).max()) * ROUNDING


def _in_front(graph: LayerGraph) -> Array:
    """bool [layers, layers]: whether the second layer is the first, or one that it depends on."""
    found = np.eye(len(graph.layers), dtype=bool)
    for number, layer in enumerate(graph.layers):
        for producer in (*layer.producers, *layer.weight_producers):
            found[number] |= found[producer]
    return found
