"""Evaluates the leaves of one segment on their tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.schedule.leaf.leaf import LeafSearch
from costmodel.schedule.leaf.leaf_cost import LeafCost
from costmodel.schedule.leaf.sharing import most_slices
from costmodel.schedule.leaf.streams import FREE, BufferPrices, LeafRun, Placement
from costmodel.schedule.row_bands import LeafBands
from costmodel.schedule.segment.buffers import Held, leaf_held, overflow_reason, streamed
from costmodel.schedule.segment.known_nodes import KnownNodes
from costmodel.schedule.segment.node_cost import NodeCost, Sent
from costmodel.schedule.segment.planned_nodes import Coming, PlannedNode
from costmodel.schedule.tree.tree import Leaf
from costmodel.schedule.tree.validity import NotPossibleError

Array = NDArray[Any]


class LeafNodes:
    """Evaluates the leaves of one segment, which runs ``batch`` samples.

    ``bands``: the bands of rows of each layer, by number; empty for a segment without bands.

    The leaves of a tree are in topological order from left to right, and are asked for in that order.
    ``placements``: that of each layer, by number, because the layers that read its outputs fetch them from
    these tiles.
    """

    def __init__(
        self, search: LeafSearch, known: KnownNodes, batch: int, bands: Mapping[int, LeafBands]
    ) -> None:
        self._search, self._known = search, known
        self._batch, self._bands = batch, bands
        self._chip, self._graph = search.chip, search.graph
        self.placements: dict[int, Placement] = {}

    def key(self, coming: Coming) -> tuple[int, ...]:
        """What a node's cost depends on of all that comes to it over the NoC."""
        # Equal placements are one object, which the leaf search never forgets. So its id stands for it, and
        # is faster to hash.
        placements = self.placements
        return tuple([part for number, cuts in coming for part in (number, id(placements[number]), cuts)])

    def cost(
        self,
        planned: PlannedNode,
        first: int,
        tiles: int,
        prices: BufferPrices,
        may_share: bool = False,
        coming: Coming = (),
        going: int = 0,
    ) -> NodeCost:
        """What a leaf costs on the tiles ``first`` to ``first + tiles - 1``, as cheap as it can be there.

        The leaf pins or streams its weights, whichever costs it less, or tiles share them where they
        ``may_share``. ``prices``: of the bits of buffers that it takes. ``coming``: whose outputs it reads
        over the NoC; ``going``: the layers that read its own so. Outputs that others read, or none, go to
        DRAM.
        Raises NotPossibleError where no partition fits.
        """
        leaf, (layer,), placements = planned.node, planned.numbers, self.placements
        assert isinstance(leaf, Leaf)
        to_dram, bands = not planned.consumers or planned.consumers != going, self._bands.get(layer)
        may_share = may_share and leaf.reduced == 1
        if leaf.reduced > 1:  # its weights are pinned, and its partition is the cheapest
            prices = FREE
        elif prices.kept and not self._search.layers[layer].has_parameters:
            prices = BufferPrices(0.0, prices.running)  # it keeps nothing between runs
        where = (planned, first, tiles, self._batch, to_dram, prices, bands, may_share)
        key = (*where, *self.key(coming))
        found = self._known.leaf(key)
        if found is None:
            runs = self._batch // leaf.batch
            run = LeafRun(
                leaf.batch,
                first,
                tiles,
                runs,
                to_dram,
                bands=bands,
                reduced=leaf.reduced,
                may_share=may_share,
                prices=prices,
            )
            found = self._searched(leaf, layer, run, dict(coming))
            self._known.add_leaf(key, found)
        if isinstance(found, str):
            raise NotPossibleError(found)
        assert found.leaf is not None
        placements[layer] = found.leaf.placement
        return found

    def _searched(self, leaf: Leaf, layer: int, run: LeafRun, coming: Mapping[int, int]) -> NodeCost | str:
        """The cost of a leaf that was not evaluated before, or why it is not possible.

        ``coming``: the layers whose outputs come over the NoC, and how many cuts further up each of them is.
        The outputs of other producers come from DRAM.
        """
        cost = self._search.cost(layer, run, {number: self.placements[number] for number in coming})
        if cost is None and run.tiles % leaf.reduced:
            return (
                f"{leaf.layer}: its input channels are in {leaf.reduced} parts, which do not divide "
                f"{run.tiles} tiles"
            )
        if cost is None:
            return (
                f"{leaf.layer}: no partition of {leaf.batch} samples among {run.tiles} tiles fits the "
                "buffers of tiles and PEs"
            )
        # Where the data of each stream comes from: how many cuts further up, or from DRAM.
        levels = tuple(
            [
                coming.get(stream.producer, -1)
                for stream in self._search.layers[layer].streams
                if stream.producer is not None
            ]
        )
        found = self._known.alike(cost, levels, lambda: self._counted(leaf, layer, run, cost, coming))
        if isinstance(found, str):
            # The reason may name another leaf.
            held = self._held(layer, cost, coming)
            return overflow_reason(leaf.layer, held.most, self._chip.tile.buffer)
        return found if found.node is leaf else found.but(node=leaf, received=self._received(layer, cost))

    def _received(self, layer: int, cost: LeafCost) -> Sent:
        """What a leaf gets over the NoC, by the layers that make it."""
        streams = self._search.layers[layer].streams
        made = [(streams[number].producer, links) for number, links in cost.received]
        return tuple([(producer, links) for producer, links in made if producer is not None])

    def _counted(
        self, leaf: Leaf, layer: int, run: LeafRun, cost: LeafCost, coming: Mapping[int, int]
    ) -> NodeCost | str:
        """The cost of a leaf of which the search found ``cost``, or why it does not fit the buffers."""
        tiles = run.tiles
        held = self._held(layer, cost, coming)
        if reason := overflow_reason(leaf.layer, held.most, self._chip.tile.buffer):
            return reason
        return NodeCost(
            node=leaf,
            first_tile=run.first_tile,
            tiles=tiles,
            cycles=cost.cycles,
            parts_pj=self._parts_pj(cost),
            dram_read_bits=cost.dram_read_bits,
            dram_write_bits=cost.dram_write_bits,
            busy=run.runs * (tiles * cost.tile_cycles - _waiting_for_sums(tiles, cost)),
            links=cost.links,
            held=held,
            received=self._received(layer, cost),
            leaf=cost,
        )

    def _parts_pj(self, cost: LeafCost) -> tuple[float, float, float, float]:
        """Energy by ENERGY_PARTS, in pJ. Links count bits times ports, so their sum is divided by ports."""
        noc, dram = self._chip.noc, self._chip.dram
        hop_bits = int(cost.links.sum()) / len(self._chip.ports)
        dram_pj = cost.dram_read_bits * dram.read_pj_per_bit
        dram_pj += cost.dram_write_bits * dram.write_pj_per_bit
        return cost.tiles_pj, cost.transfers_pj, hop_bits * noc.hop_pj_per_bit, dram_pj

    def _held(self, layer: int, cost: LeafCost, coming: Mapping[int, int]) -> Held:
        """The bits that a leaf holds: pinned weights, inputs from DRAM and inputs ``coming`` from producers.

        Inputs from producers are sorted by the number of cuts between producer and consumer, because a
        producer further up the tree sends its data earlier (:class:`.buffers.Held`).
        """
        weights = from_dram = np.zeros(self._chip.tiles, np.int64)
        arriving: list[Array] = []
        for stream, held in zip(self._search.layers[layer].streams, cost.held, strict=True):
            if stream.pinned:
                weights = held
            elif stream.producer is not None and stream.producer in coming:
                # Index 0 is filled by siblings; missing indices in between are zeros, since the cuts add up
                # levels by position.
                above = coming[stream.producer]
                arriving += [np.zeros_like(held)] * (above + 1 - len(arriving))
                arriving[above] = arriving[above] + held
            elif stream.kind != "outputs":
                from_dram = from_dram + held
        found = leaf_held(weights, from_dram, tuple(arriving), self._chip.tile.output_stream_bits)
        if cost.slices:
            # While a slice is computed the next one arrives, so a tile holds two of them, or the only one.
            of_slice = self._search.layers[layer].slice_bits(weights, cost.slices)
            at_once = min(cost.slices, 2)
            if cost.sharing is not None:
                at_once = most_slices(cost.slices, cost.sharing.sharers)
            found = streamed(found, of_slice, at_once * of_slice)
            if cost.sharing is not None:
                found = replace(found, weights=cost.sharing.kept)
        if cost.kept is not None:
            # Rows for the next band stay beside the weights while other leaves run.
            return replace(found, weights=found.weights + cost.kept)
        if cost.gathering is not None:
            # Partial sums come while the leaf runs, and are gone when it ends.
            return replace(found, busy=found.busy + cost.gathering.sums)
        return found


def _waiting_for_sums(tiles: int, cost: LeafCost) -> int:
    """Tile-cycles of a run in which tiles that own no outputs wait while the owners add partial sums."""
    return 0 if cost.gathering is None else (tiles - cost.gathering.owners) * cost.gathering.cycles
