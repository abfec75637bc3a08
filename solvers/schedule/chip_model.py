"""The cost model of a chip in the form that schedule solvers need: counting trees, and bounding them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from costmodel.errors import InputError
from costmodel.hardware.chip import Chip
from costmodel.limits import report
from costmodel.schedule.bounds.bounds import ScheduleBounds, lower_bounds
from costmodel.schedule.bounds.staying import SegmentKinds
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.fused_groups.cost import GroupCosts
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tile_cost import TileCosts, TileFloor, TileFloors
from solvers.budget import InTime, always_in_time
from solvers.divisors import divisors
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.tiles.cost_table import TabledTileCosts, limits_of


class LastEvaluator:
    """What the last search remembers, for the next one that asks the same of the same tile costs.

    Seeds, members of a portfolio, and a solver that starts over with more tile costs come back to the same
    leaves and segments. What these cost depends on nothing but themselves, so answers stay what they are.
    """

    def __init__(self) -> None:
        self._asked: tuple[tuple[object, ...], tuple[object, ...]] | None = None
        self._made: ChipEvaluator | None = None

    def of(self, model: ChipModel, graph: LayerGraph, batch: int, objective: Objective) -> ChipEvaluator:
        """The last one where it was asked for with this very graph and these very costs; else a new one."""
        same, equal = (graph, model.tile_costs, model.groups), (model.chip, batch, objective.exponents)
        last = self._asked
        known = last is not None and all(a is b for a, b in zip(last[0], same, strict=True))
        if self._made is None or last is None or not known or last[1] != equal:
            self._asked, self._made = (same, equal), model.judge(graph, batch, objective)
        return self._made


@dataclass(frozen=True, eq=False)
class ChipModel:
    """A chip, and the costs on its tiles of the layers of one network: a ``problem.ScheduleModel``.

    ``bands``: the bounds hold for trees with bands of rows, too. ``reductions``: they hold for trees with cut
    input channels, too. Without these, the bounds are higher and hold for all other trees. ``groups``: costs
    of layers that segments may map together; None: no segment does. ``searching``: what searches remember for
    one another; None: each begins with nothing.
    """

    chip: Chip
    tile_costs: TileCosts
    bands: bool = False
    reductions: bool = False
    groups: GroupCosts | None = None
    searching: LastEvaluator | None = None
    _bounds: dict[Hashable, tuple[_KnownFloors, ScheduleBounds]] = field(default_factory=dict)
    """What bounds were computed from, and these: a solve asks before its search, for its answer and its row.

    The floors are kept because their identity is a part of the key.
    """

    @property
    def name(self) -> str:
        return self.chip.name

    @property
    def tiles(self) -> int:
        return self.chip.tiles

    def evaluator(self, graph: LayerGraph, batch: int, objective: Objective) -> ChipEvaluator:
        """Counts trees for a search: it remembers leaves and segments, so a changed tree is cheap."""
        if self.searching is not None:
            return self.searching.of(self, graph, batch, objective)
        return self.judge(graph, batch, objective)

    def judge(self, graph: LayerGraph, batch: int, objective: Objective) -> ChipEvaluator:
        """Counts the answer: a new evaluator, so that no mistake in a search's memory reaches a result."""
        return ChipEvaluator(graph, self.chip, batch, self.tile_costs, objective.exponents, self.groups)

    def bound(
        self, graph: LayerGraph, batch: int, objective: Objective, in_time: InTime = always_in_time
    ) -> float | None:
        """A proven lower bound on the objective of every tree; None where some layer cannot run at all.

        It is E^n D^m of the two bounds of :meth:`bounds`: no tree has less energy, and none fewer cycles.
        """
        bounds = self.bounds(graph, batch, in_time)
        # A limit is reported when rows of the table are made, once. The table outlives this problem, so the
        # limits behind its rows are reported again for every problem whose bound rests on them.
        for limit in limits_of(self.tile_costs):
            report(limit)
        return None if bounds is None else bounds.product(objective.exponents)

    def bounds(
        self, graph: LayerGraph, batch: int, in_time: InTime = always_in_time
    ) -> ScheduleBounds | None:
        """Proven lower bounds on energy and cycles of every tree; None where some layer cannot run at all.

        They take for each layer the least that any leaf of it costs, with any batch on any number of tiles.
        That needs the costs of all leaves. A layer whose costs are not all known when the time is up counts
        only with its operations on busy units, which makes the bounds lower but keeps them proven.

        With ``bands`` or ``reductions`` they count with less (:class:`FloorsOfWork`,
        :class:`FloorsOfOperations`).
        """
        costs = self.tile_costs
        floors: TileFloors = _FloorsInTime(costs, in_time) if isinstance(costs, TabledTileCosts) else costs
        kinds = SegmentKinds(self.bands, self.reductions, groups_within(graph, self.groups))
        if self.bands or self.reductions:
            # what bands and parts of input channels cost is not in the rows that floors are read from
            if not isinstance(costs, TabledTileCosts):
                return None
            floors = floors_of(kinds, costs)
        layers = range(len(graph.layers))
        known = _KnownFloors(tuple(floors.floor(one, divisors(batch), self.tiles) for one in layers))
        key = graph, batch, known.identity
        if key not in self._bounds:
            self._bounds[key] = known, lower_bounds(graph, self.chip, batch, known, kinds)
        _, found = self._bounds[key]
        return found if isfinite(found.energy_pj) and isfinite(found.cycles) else None


def groups_within(graph: LayerGraph, costs: GroupCosts | None) -> frozenset[frozenset[int]]:
    """The groups of which all layers are in ``graph``, by their numbers there."""
    if costs is None:
        return frozenset()
    inside = (group for group in costs.groups if group <= graph.index.keys())
    return frozenset(frozenset(graph.index[name] for name in group) for group in inside)


def chip_model_of(problem: ScheduleProblem, solver: str) -> ChipModel:
    """The chip model of a problem; InputError where it has another one, by which ``solver`` cannot search.

    A segment by itself must cost the same whatever is around it.
    """
    model = problem.model
    if not isinstance(model, ChipModel):
        remedy = "Take the chip model, or one of set, layer_sequential, layer_pipeline"
        raise InputError(solver, "the chip model", model.name, remedy, key="model")
    return model


def with_bands(params: Mapping[str, Any]) -> bool:
    """Whether a scheduler with these parameters tries bands of rows: its key ``bands`` is above 1."""
    bands = params.get("bands", 1)
    return isinstance(bands, int) and bands > 1


def with_reductions(params: Mapping[str, Any]) -> bool:
    """Whether a scheduler with these parameters cuts input channels: its key ``reductions`` is true."""
    return params.get("reductions") is True


@dataclass(frozen=True)
class FloorsOfWork:
    """The floors of a table that hold for all parts of a layer, and for parts of its bands."""

    costs: TabledTileCosts

    def floor(self, layer: int, batches: Sequence[int], tiles: int) -> TileFloor:
        return self.costs.floor_of_work(layer, max(batches))


@dataclass(frozen=True)
class FloorsOfOperations:
    """The floors of a table that hold for parts of the input channels and for bands, too.

    Of a MAC only its own energy counts. The energy of its operands is bounded for parts with all input
    channels only: a tile that adds up fewer products begins more sums, and the first product of a sum reads
    no partial sum.
    """

    costs: TabledTileCosts

    def floor(self, layer: int, batches: Sequence[int], tiles: int) -> TileFloor:
        it, tile = self.costs.graph.layers[layer], self.costs.tile
        least_pj = it.operations * (tile.mac_pj if it.has_weights else tile.vector_operation_pj)
        # layers on the whole chip are never cut in this way
        return replace(self.costs.floor_of_work(layer, max(batches)), energy_pj=least_pj)


def floors_of(kinds: SegmentKinds, costs: TabledTileCosts) -> FloorsOfWork | FloorsOfOperations:
    """The floors of a table for schedules with bands, or with input channels cut."""
    return FloorsOfOperations(costs) if kinds.reductions else FloorsOfWork(costs)


@dataclass(frozen=True)
class _KnownFloors:
    """What each layer costs at least, for the batches and tiles of one chip and network."""

    floors: tuple[TileFloor, ...]

    @property
    def identity(self) -> Hashable:
        """Equal for floors from which equal bounds follow, as long as these floors are referred to.

        A table gives the rows of a layer as the same object each time.
        """
        return tuple(
            (
                one.energy_pj,
                one.tile_cycles,
                one.whole_chip_pj,
                one.whole_chip_tile_cycles,
                id(one.rows),
                *((samples, id(cost)) for samples, cost in one.on_whole_chip.items()),
            )
            for one in self.floors
        )

    def floor(self, layer: int, batches: Sequence[int], tiles: int) -> TileFloor:
        return self.floors[layer]


@dataclass(frozen=True)
class _FloorsInTime:
    """A table of tile costs as the bounds see it: it computes rows that it lacks only while there is time.

    It gives ``lower_bounds`` the ``floor`` without a clock that its protocol has.
    """

    costs: TabledTileCosts
    in_time: InTime

    def floor(self, layer: int, batches: Sequence[int], tiles: int) -> TileFloor:
        return self.costs.floor(layer, batches, tiles, self.in_time)
