"""The tile cost table (SET, section 4.2.2): the costs of layers on tiles, from the costs of their tile parts.

A schedule asks for the rows of a layer, a batch and a number of tiles. There is a row for each partition that
pruning leaves, with its energy and cycles. The cost of a part is known beforehand, or it is solved when a row
needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip, Tile
from costmodel.limits import Reached, recording
from costmodel.mapping.bounds.refills import least_pj_per_mac
from costmodel.schedule.bounds.compulsory import touched_inputs
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.leaf.geometry import same_shapes
from costmodel.schedule.leaf.partitions import Parts
from costmodel.schedule.tile_cost import TileCosts, TileFloor, TileRows, table_floor
from costmodel.schedule.whole_chip.cost import WholeChipCost
from solvers.budget import InTime, always_in_time
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.space_bounds import innermost_levels
from solvers.schedule.tiles.layer_parts import (
    Four,
    Pruning,
    Request,
    TileCostDemand,
    TilePart,
    band_of,
    band_partitions,
    channel_pieces,
    distinct_boxes,
    reduced_partitions,
    requested_parts,
    shared_band_partitions,
    shared_partitions,
    sliced,
    streamed_partitions,
    useful_partitions,
    vector_operations,
)
from solvers.schedule.tiles.mapper import TileMapper, TilePartCost, architecture_of, tile_solver
from solvers.schedule.whole_chip_costs import WholeChipCosts, WholeChipNests, nest_shape

Array = NDArray[Any]
TilePartCosts = Mapping[TilePart, TilePartCost | None]
"""The cost of each part; None where no mapping on the tile was found, or none exists."""


class MissingTilePartError(LookupError):
    """The table lacks a tile part: it was made for another network, batch, chip or pruning."""


class TileCostsNeeded(Exception):  # noqa: N818 - a question, not an error
    """A schedule cannot go on before ``requests`` are answered: its caller solves them and tries again."""

    def __init__(self, requests: tuple[Request, ...]) -> None:
        super().__init__(requests)
        self.requests = requests


@dataclass(frozen=True)
class TabledTileCosts:
    """Tile costs of ``graph`` from a table of tile parts; a :class:`costmodel.schedule.tile_cost.TileCosts`.

    Energies of all tiles add up, each for its own part, and the cycles are those of the slowest tile. (SET's
    evaluator charges each tile the energy of the largest part.)

    ``known``: costs that are there beforehand. ``solve``: solves parts that are not known, in this process;
    the answers are remembered. Without it, an unknown part raises MissingTilePartError, and :meth:`need`
    raises TileCostsNeeded. ``whole_chip``: costs of layers mapped on the whole chip; None where that is not
    offered. ``solve_floors``: :meth:`floor` may solve all parts that it lacks, which suits solvers that take
    microseconds; otherwise it falls back on :meth:`floor_of_work`.
    """

    graph: LayerGraph
    tile: Tile
    known: TilePartCosts
    solve: Callable[[Iterable[TilePart]], TilePartCosts] | None = None
    pruning: Pruning = field(default_factory=Pruning)
    whole_chip: WholeChipCosts | None = None
    solve_floors: bool = False

    def of_part(self, graph: LayerGraph) -> TabledTileCosts:
        """The same costs for a part of the network, ``graph``: what either table solves, both know."""
        part = replace(self, graph=graph)
        vars(part)["_solved"] = self._solved
        return part

    def learn(self, parts: TilePartCosts, whole_chip: WholeChipNests) -> None:
        """Add costs that were solved elsewhere; those that were known are as they were, and so are rows."""
        self._solved.update((part, cost) for part, cost in parts.items() if part not in self.known)
        if self.whole_chip is not None:
            self.whole_chip.learn(whole_chip)

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        """The partitions that pruning leaves and tiles can compute; none for a whole-chip-only layer."""
        key = (self._ids[layer], batch, tiles)
        if key not in self._rows:
            self._rows[key] = self._counted(layer, batch, tiles)
        return self._rows[key]

    def streamed_rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        """The partitions that pruning leaves for streamed weights, each in its number of slices."""
        key = (self._ids[layer], batch, tiles)
        if key not in self._streamed:
            self._streamed[key] = self._counted(layer, batch, tiles, True)
        return self._streamed[key]

    def partitions(self, layer: int, batch: int, tiles: int, streamed: bool) -> tuple[Array, Array]:
        """The partitions [n, 4] and slices [n] of :meth:`rows` or :meth:`streamed_rows`, with no part mapped.

        Those of which some part turns out to have no mapping are among them. None for a layer that is only
        mapped on the whole chip.
        """
        key = (self._ids[layer], batch, tiles, streamed)
        if key not in self._partitions:
            with recording() as reached:
                self._partitions[key] = self._pruned(self.graph.layers[layer], *key[1:])
            self.limits.update(reached)
        return self._partitions[key]

    def _pruned(self, layer: NetworkLayer, batch: int, tiles: int, streamed: bool) -> tuple[Array, Array]:
        if layer.needs_whole_chip:
            return np.zeros((0, 4), np.int64), np.zeros(0, np.int64)
        if streamed:
            return streamed_partitions(layer, batch, tiles, self.tile, self.pruning)
        parts = useful_partitions(layer, batch, tiles, self.tile, self.pruning)
        return parts, np.ones(len(parts), np.int64)

    @property
    def shares_weights(self) -> bool:
        """Whether tiles may share weights."""
        return self.pruning.share_weights

    def shared_rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        """The ways to share weights that pruning leaves."""
        key = (self._ids[layer], batch, tiles)
        if key not in self._shared:
            with recording() as reached:
                it = self.graph.layers[layer]
                cut = shared_partitions(it, batch, tiles, self.tile, self.pruning)
                self._shared[key] = self._counted_parts(it, batch, *cut)
            self.limits.update(reached)
        return self._shared[key]

    def shared_band_rows(
        self, layer: int, batch: int, tiles: int, heights: Sequence[int]
    ) -> Sequence[TileRows]:
        """The ways to share weights that pruning leaves for the highest band, and tiles can compute."""
        key = (self._ids[layer], batch, tiles, tuple(heights))
        if key not in self._shared_bands:
            it = self.graph.layers[layer]
            with recording() as reached:
                cut = shared_band_partitions(it, batch, tiles, max(heights), self.tile, self.pruning)
                found = [self._counted_parts(band_of(it, height), batch, *cut) for height in heights]
            self._shared_bands[key] = _common(found)
            self.limits.update(reached)
        return self._shared_bands[key]

    def band_rows(self, layer: int, batch: int, tiles: int, heights: Sequence[int]) -> Sequence[TileRows]:
        """The partitions along K, B and W that pruning leaves for the highest band, and tiles can compute."""
        key = (self._ids[layer], batch, tiles, tuple(heights))
        if key not in self._bands:
            with recording() as reached:
                self._bands[key] = self._counted_bands(self.graph.layers[layer], *key[1:])
            self.limits.update(reached)
        return self._bands[key]

    def reduced_rows(self, layer: int, batch: int, tiles: int, reduced: int) -> TileRows:
        """The partitions that pruning leaves for the largest part of the input channels."""
        key = (self._ids[layer], batch, tiles, reduced)
        if key not in self._reduced:
            with recording() as reached:
                self._reduced[key] = self._counted_channels(self.graph.layers[layer], *key[1:])
            self.limits.update(reached)
        return self._reduced[key]

    def normalized_cycles(self, layer: int) -> float:
        """Cycles of one sample of a layer on one tile.

        They only decide how many tiles a layer gets. So where the layer has no mapping on one tile, the
        cycles with all MAC units busy are good enough.
        """
        it = self.graph.layers[layer]
        if not it.has_weights:
            return it.operations / self.tile.vector_units
        if it.needs_whole_chip:
            return it.operations / self.tile.macs
        (cost,) = self._costs_of(it, [it.sizes(1)]).values()
        return float(cost.cycles) if cost else it.operations / self.tile.macs

    @property
    def offers_whole_chip(self) -> bool:
        """Whether layers may be mapped on the whole chip."""
        return self.whole_chip is not None

    def on_whole_chip(self, layer: int, batch: int) -> WholeChipCost | None:
        """The layer's cost mapped on the whole chip; None where that is not offered or has no mapping."""
        return None if self.whole_chip is None else self.whole_chip.cost(self.graph.layers[layer], batch)

    def need(self, requests: Iterable[Request]) -> None:
        """Raises TileCostsNeeded for those ``requests`` that are unknown and that this process cannot solve.

        What this process can solve is solved later, when a row needs it. Requests of layers with equal costs
        are merged into one.
        """
        if self.solve is not None and (self.whole_chip is None or self.whole_chip.solve is not None):
            return
        distinct = dict.fromkeys(request._replace(layer=self._same(request)) for request in requests)
        if missing := tuple(request for request in distinct if not self._answered(request)):
            raise TileCostsNeeded(missing)

    def floor(
        self, layer: int, batches: Sequence[int], tiles: int, in_time: InTime = always_in_time
    ) -> TileFloor:
        """The least energy and tile-cycles a sample of a layer, over all its rows.

        It is a lower bound for every schedule, because every schedule picks one of these rows. If some rows
        of some layer are unknown and cannot be made in time, the bound is :meth:`floor_of_work`. Such a bound
        is not remembered: a later call with more known parts, or more time, finds a better one.
        """
        key = (self._ids[layer], tuple(batches), tiles)
        if key in self._floors:
            return self._floors[key]
        if not self._floor_is_known(*key, in_time):
            return replace(
                self.floor_of_work(layer, max(batches)), on_whole_chip=self._known_on_whole_chip(*key[:2])
            )
        self._floors[key] = table_floor(self, self.graph, *key)
        return self._floors[key]

    def _floor_is_known(self, layer: int, batches: tuple[int, ...], tiles: int, in_time: InTime) -> bool:
        """Make all rows of a layer, from which its bound follows; False where they cannot be made in time."""
        if not (self.solve_floors or self._complete(batches, tiles, in_time)):
            return False
        for batch in batches:
            for count in range(1, tiles + 1):
                if not in_time():
                    return False
                self.rows(layer, batch, count)
                self.streamed_rows(layer, batch, count)
                self.shared_rows(layer, batch, count)
        return True

    def floor_of_work(self, layer: int, batch: int) -> TileFloor:
        """The bound that needs no rows: every operation once, with all MAC or vector units busy.

        The energy of a product includes reading its operands, and refilling the levels that are too small to
        hold them (:mod:`costmodel.mapping.bounds.refills`). The mappings of :class:`.mapper.TileMapper` keep
        each tensor at certain levels, of which the buffer is one. So on the whole chip every input and weight
        is written to some buffer, too. ``batch``: the largest batch that is asked for.
        """
        it, tile = self.graph.layers[layer], self.tile
        bits = ElementBits.of(it, tile.widths)
        filled_pj = self._filled_bits(it, batch, bits) * tile.buffer.write_pj_per_bit
        if not it.has_weights or tile.architecture is None:
            operation_pj = tile.mac_pj if it.has_weights else tile.vector_operation_pj
            whole_chip_pj = energy_pj = it.operations * operation_pj
            if not it.has_weights:
                outputs = it.compulsory_elements(1).outputs * bits.outputs
                whole_chip_pj += filled_pj + outputs * tile.buffer.read_pj_per_bit
        else:
            nest = replace(it.nest(batch), name="")  # the name decides nothing, and equal nests cost once
            innermost = innermost_levels(MappingProblem(tile.architecture, nest))
            products = nest.macs / batch
            whole_chip_pj = energy_pj = products * least_pj_per_mac(tile.architecture, nest, innermost)
            if self.whole_chip is not None:
                mesh = ((self.whole_chip.chip.columns, self.whole_chip.chip.rows),)
                least_pj = least_pj_per_mac(tile.architecture, nest, innermost, mesh)
                whole_chip_pj = products * least_pj + filled_pj
        tile_cycles = it.operations / (tile.macs if it.has_weights else tile.vector_units)
        return TileFloor(energy_pj, tile_cycles, whole_chip_pj if self.offers_whole_chip else inf)

    def _filled_bits(self, layer: NetworkLayer, batch: int, bits: ElementBits) -> float:
        """Bits of one sample that enter some buffer, with its part of weights that serve the whole batch."""
        weights = layer.compulsory_elements(1).weights * bits.weights
        own = layer.weight_producers or layer.part == "update"
        return touched_inputs(layer, layer.c) * bits.inputs + weights / (1 if own else batch)

    def _complete(self, batches: tuple[int, ...], tiles: int, in_time: InTime) -> bool:
        """Whether the costs of all layers are known, for ``batches`` on up to ``tiles`` tiles.

        False, too, where the time is up before that is clear.
        """
        # The number of solves is part of the key, as a cost that was missing may have been solved since.
        key = batches, tiles, self._solves
        if key in self._completed:
            return self._completed[key]
        layers = list(enumerate(self.graph.layers))
        requests = (
            Request(number, batch, count)
            for number, layer in layers
            if layer.has_weights and self._ids[number] == number
            for batch in batches
            for count in range(1, tiles + 1)
        )
        known = all(self._knows_on_whole_chip(number, batch) for number, _ in layers for batch in batches)
        while known and (request := next(requests, None)) is not None:
            if not in_time():
                return False
            known = self._tabled(request)
        self._completed[key] = known
        return known

    @property
    def _solves(self) -> int:
        """How many costs were solved in this process so far."""
        return len(self._solved) + (0 if self.whole_chip is None else self.whole_chip.solves)

    def _answered(self, request: Request) -> bool:
        """Whether the requested costs are known, or this process can solve them."""
        if request.on_whole_chip:
            if self.whole_chip is None or self.whole_chip.solve is not None:
                return True
            return self._knows_on_whole_chip(request.layer, request.batch)
        return self.solve is not None or self._tabled(request)

    def _knows_on_whole_chip(self, layer: int, batch: int) -> bool:
        """Whether the layer's cost on the whole chip is known; True where that is not offered."""
        return self.whole_chip is None or self.whole_chip.knows(self.graph.layers[layer], batch)

    def _known_on_whole_chip(self, layer: int, batches: Sequence[int]) -> Mapping[int, WholeChipCost | None]:
        """The costs of the layer on the whole chip that are known, by samples; empty where not offered."""
        if self.whole_chip is None:
            return {}
        known = (batch for batch in batches if self._knows_on_whole_chip(layer, batch))
        return {batch: self.on_whole_chip(layer, batch) for batch in known}

    def _tabled(self, request: Request) -> bool:
        """Whether all tile parts of a request are known or have been solved in this process."""
        if request not in self._answers:
            parts = requested_parts(self.graph, request, self.tile, self.pruning)
            if not all(part in self.known or part in self._solved for part in parts):
                return False
            self._answers.add(request)
        return True

    def _same(self, request: Request) -> int:
        """The first layer of the network that has the same costs as the requested one."""
        return (self._nests if request.on_whole_chip else self._ids)[request.layer]

    @cached_property
    def _nests(self) -> list[int]:
        """For every layer the number of the first one with an equal loop nest.

        Nests are compared for two samples: with one, the dim of samples would look like any dim of size 1.
        """
        first: dict[Any, int] = {}
        shapes = (
            nest_shape(layer, 2, self.tile.widths) if layer.has_weights else None
            for layer in self.graph.layers
        )
        return [first.setdefault(shape or number, number) for number, shape in enumerate(shapes)]

    @cached_property
    def _ids(self) -> list[int]:
        """For every layer the number of the first one with the same costs on tiles."""
        return same_shapes(self.graph)

    @cached_property
    def _partitions(self) -> dict[tuple[int, int, int, bool], tuple[Array, Array]]:
        return {}

    @cached_property
    def _rows(self) -> dict[tuple[int, int, int], TileRows]:
        return {}

    @cached_property
    def _streamed(self) -> dict[tuple[int, int, int], TileRows]:
        return {}

    @cached_property
    def _shared(self) -> dict[tuple[int, int, int], TileRows]:
        return {}

    @cached_property
    def _shared_bands(self) -> dict[tuple[int, int, int, tuple[int, ...]], Sequence[TileRows]]:
        return {}

    @cached_property
    def _bands(self) -> dict[tuple[int, int, int, tuple[int, ...]], Sequence[TileRows]]:
        return {}

    @cached_property
    def _reduced(self) -> dict[tuple[int, int, int, int], TileRows]:
        return {}

    @cached_property
    def _floors(self) -> dict[tuple[int, tuple[int, ...], int], TileFloor]:
        return {}

    @cached_property
    def _completed(self) -> dict[tuple[tuple[int, ...], int, int], bool]:
        return {}

    @cached_property
    def _answers(self) -> set[Request]:
        """Requests of which all tile parts are known; none of them is forgotten."""
        return set()

    @cached_property
    def _solved(self) -> dict[TilePart, TilePartCost | None]:
        return {}

    @cached_property
    def limits(self) -> Reached:
        """The limits that were reached while rows were made: on partitions, and the solver's own."""
        return {}

    def _counted(self, layer: int, batch: int, tiles: int, streamed: bool = False) -> TileRows:
        it, (parts, slices) = self.graph.layers[layer], self.partitions(layer, batch, tiles, streamed)
        if not it.has_weights:
            return self._counted_operations(it, batch, parts)
        with recording() as reached:
            rows = self._counted_parts(it, batch, parts, slices)
        self.limits.update(reached)
        return rows

    def _counted_operations(self, layer: NetworkLayer, batch: int, parts: Array) -> TileRows:
        """The costs of partitions of a layer without weights, which vector units compute."""
        operations = vector_operations(layer, parts, batch)
        energy_pj = np.full(len(parts), layer.operations * batch * self.tile.vector_operation_pj)
        cycles = -(-operations // self.tile.vector_units)
        return TileRows(parts, energy_pj, cycles, np.zeros(len(parts)))

    def _counted_bands(
        self, layer: NetworkLayer, batch: int, tiles: int, heights: tuple[int, ...]
    ) -> Sequence[TileRows]:
        """The rows of each height, of those partitions that tiles can compute for all heights."""
        parts = band_partitions(layer, batch, tiles, max(heights), self.tile, self.pruning)
        if not layer.has_weights:
            return [self._counted_operations(band_of(layer, height), batch, parts) for height in heights]
        ones = np.ones(len(parts), np.int64)
        found = [self._counted_parts(band_of(layer, height), batch, parts, ones) for height in heights]
        return _common(found)

    def _counted_channels(self, layer: NetworkLayer, batch: int, tiles: int, reduced: int) -> TileRows:
        """The rows of all parts of the input channels together: energies add up, and the slowest part counts.

        Only partitions that tiles can compute for all parts have a row.
        """
        parts = reduced_partitions(layer, batch, tiles, reduced, self.tile, self.pruning)
        if not len(parts):
            return TileRows.of([])
        ones = np.ones(len(parts), np.int64)
        found = [
            (self._counted_parts(piece, batch, parts, ones), count)
            for piece, count in channel_pieces(layer, reduced)
        ]
        rows = _common([one for one, _ in found])
        kept = [(one, count) for one, (_, count) in zip(rows, found, strict=True)]
        return TileRows(
            kept[0][0].parts,
            np.sum([count * one.energy_pj for one, count in kept], axis=0),
            np.max([one.cycles for one, _ in kept], axis=0),
            np.sum([count * one.leakage_pj_per_cycle for one, count in kept], axis=0),
        )

    def _counted_parts(
        self, layer: NetworkLayer, batch: int, parts: Array, slices: Array, sharers: Array | None = None
    ) -> TileRows:
        """The costs of partitions [n, 4] of a layer with weights; ``slices`` [n]: of each tile's part.

        The slices of a part are parts themselves, and each takes the cycles of the slowest one. ``sharers``
        [n]: of the weights; None: none are shared.
        """
        cut = zip(parts.tolist(), sliced(parts, slices).tolist(), slices.tolist(), strict=True)
        boxes_of = [
            (tuple(part), distinct_boxes(layer.sizes(batch), tuple(each)), count) for part, each, count in cut
        ]
        of_box = self._costs_of(layer, (box for _, boxes, _ in boxes_of for box, _ in boxes))
        sharing = (np.ones(len(parts), np.int64) if sharers is None else sharers).tolist()
        rows, leakage, counts, among = [], [], [], []
        for (part, boxes, in_turn), tiles in zip(boxes_of, sharing, strict=True):
            costs = [(of_box[box], count) for box, count in boxes]
            known = [(cost, count) for cost, count in costs if cost]
            if len(known) == len(costs):
                energy = sum(count * cost.energy_pj for cost, count in known)
                rows.append((part, energy, in_turn * max(cost.cycles for cost, _ in known)))
                leakage.append(sum(count * cost.leakage_pj_per_cycle for cost, count in known) / in_turn)
                counts.append(in_turn)
                among.append(tiles)
        return TileRows.of(rows, leakage, counts, among)

    def mappings(self, layer: int, batch: int, parts: Parts) -> dict[Four, str]:
        """The mapping of each distinct part when ``batch`` samples are cut into ``parts``, as text.

        By the part's channels, samples, rows and columns of outputs. None for layers without weights, and
        for parts whose costs came without their mappings.
        """
        it = self.graph.layers[layer]
        boxes = distinct_boxes(it.sizes(batch), parts) if it.has_weights else []
        costs = self._costs_of(it, (box for box, _ in boxes))
        return {box: cost.mapping for box, cost in costs.items() if cost and cost.mapping}

    def _costs_of(self, layer: NetworkLayer, boxes: Iterable[Four]) -> dict[Four, TilePartCost | None]:
        """The costs of parts of a layer, by their channels, samples, rows and columns of outputs.

        All that are unknown are solved together; None where a part has no mapping.
        """
        parts = {box: TilePart.of_outputs(layer, box) for box in dict.fromkeys(boxes)}
        missing = dict.fromkeys(
            part for part in parts.values() if part not in self.known and part not in self._solved
        )
        if missing:
            if self.solve is None:
                raise MissingTilePartError(f"no cost of {next(iter(missing))}")
            self._solved.update(self.solve(missing))
        return {
            box: self.known[part] if part in self.known else self._solved[part] for box, part in parts.items()
        }


def _common(tables: Sequence[TileRows]) -> list[TileRows]:
    """Of several tables the rows whose partition, slices and sharers all of them have."""
    ways = [
        list(map(tuple, np.column_stack([one.parts, one.slices, one.sharers]).tolist())) for one in tables
    ]
    common = set.intersection(*map(set, ways))
    return [
        one.kept(np.array([way in common for way in own], bool))
        for one, own in zip(tables, ways, strict=True)
    ]


def need(costs: TileCosts, requests: Iterable[Request]) -> None:
    """Calls :meth:`TabledTileCosts.need` of a table. Other sources of costs lack nothing."""
    if isinstance(costs, TabledTileCosts):
        costs.need(requests)


def offered_partitions(
    costs: TileCosts, layer: int, batch: int, tiles: int, streamed: bool
) -> tuple[Array, Array]:
    """The partitions [n, 4] and slices [n] of a source's rows; of a table, with no part mapped."""
    if isinstance(costs, TabledTileCosts):
        return costs.partitions(layer, batch, tiles, streamed)
    rows = (costs.streamed_rows if streamed else costs.rows)(layer, batch, tiles)
    return rows.parts, rows.slices


def limits_of(costs: TileCosts) -> Reached:
    """The limits that a table reached; other sources of costs have none."""
    return costs.limits if isinstance(costs, TabledTileCosts) else {}


def offers_whole_chip(costs: TileCosts) -> bool:
    """Whether layers may be mapped on the whole chip; only tables offer that."""
    return isinstance(costs, TabledTileCosts) and costs.offers_whole_chip


def solved_costs(demand: TileCostDemand, mapper: TileMapper, chip: Chip | None = None) -> TabledTileCosts:
    """Tile costs that are solved in this process when they are first asked for.

    With a ``chip``, layers may also be mapped on the whole of it.
    """
    solve = partial(mapper.costs, architecture_of(demand.tile))
    on_chip = None if chip is None else WholeChipCosts(chip, {}, partial(mapper.whole_chip_cost, chip))
    quick = tile_solver(mapper.solver).family == "tile"
    return TabledTileCosts(demand.graph, demand.tile, {}, solve, demand.pruning, on_chip, quick)
