"""The tile cost table (section 4.2.2): what every share of a layer costs on a tile, by any mapping solver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf
from typing import Any

from costmodel.architecture import Architecture
from costmodel.chip.alone import AloneCost, alone_cost
from costmodel.chip.geometry import same_shapes
from costmodel.chip.hardware import Chip, Tile
from costmodel.chip.layers import LayerGraph, NetworkLayer
from costmodel.chip.tile_costs import TileCosts, TileFloor, TileRows, table_floor
from costmodel.chip.whole_chip import whole_architecture
from costmodel.errors import InputError, did_you_mean
from costmodel.evaluate import evaluate
from costmodel.workload import Layer
from solvers.budget import Budget
from solvers.catalogue import Entry, solver, solver_names
from solvers.mapping.problem import MappingProblem, Objective, executed_layer
from solvers.outcome import Outcome
from solvers.schedule.layers_alone import LayersAlone
from solvers.schedule.tile_shares import (
    Demand,
    Pruning,
    Request,
    Share,
    requested_shares,
    useful_partitions,
    vector_operations,
)


@dataclass(frozen=True)
class ShareCost:
    """Energy (pJ) and cycles of one tile for its share; ``proven``: no mapping is better by the objective."""

    energy_pj: float
    cycles: int
    proven: bool = False


@dataclass(frozen=True)
class TileProblem:
    """Compute ``share`` on a tile with the least ``objective``, energy in pJ, cycles, or their product."""

    architecture: Architecture
    share: Share
    objective: Objective = "edp"


ShareCosts = Mapping[Share, ShareCost | None]
"""None: proven or found to have no mapping on the tile."""


@dataclass(frozen=True)
class TileMapper:
    """A solver of :func:`tile_solver`, asked for the least ``objective`` within ``budget`` for every share.

    ``params`` are the solver's; its defaults if None.
    """

    solver: str = "cosa"
    objective: Objective = "edp"
    params: Any = None
    budget: Budget = field(default_factory=lambda: Budget(wall_seconds=10.0))

    def cost(self, architecture: Architecture, share: Share) -> ShareCost | None:
        """The cost model's numbers of the mapping found, or the tile solver's; None where there is none."""
        entry = tile_solver(self.solver)
        params = entry.load().Params() if self.params is None else self.params
        if entry.family == "tile":
            own = TileProblem(architecture, share, self.objective)
            found: Outcome[ShareCost] = entry.load().solve(own, self.budget, params)
            return found.solution
        problem = MappingProblem(architecture, share.layer(), self.objective)
        outcome = entry.load().solve(problem, self.budget, params)
        if outcome.solution is None:
            return None
        executed = executed_layer(problem, outcome.solution)
        evaluation = evaluate(architecture, executed, outcome.solution)
        return ShareCost(evaluation.energy_pj, evaluation.cycles, outcome.status == "optimal")

    def alone(self, chip: Chip, nest: Layer) -> AloneCost | None:
        """A layer alone from DRAM by the mapping found for the whole chip; None where there is none.

        InputError for a tile solver, and for a chip whose tiles no mapping solver can use.
        """
        entry, whole = tile_solver(self.solver), whole_architecture(chip)
        if entry.family == "tile" or whole is None:
            expected = "a mapping solver and tiles with an architecture, for layers alone from DRAM"
            raise InputError(f"chip {chip.name}", expected, self.solver, key="alone")
        params = entry.load().Params() if self.params is None else self.params
        problem = MappingProblem(whole, nest, self.objective)
        outcome = entry.load().solve(problem, self.budget, params)
        if outcome.solution is None:
            return None
        return alone_cost(chip, executed_layer(problem, outcome.solution), outcome.solution)

    def costs(self, architecture: Architecture, shares: Iterable[Share]) -> dict[Share, ShareCost | None]:
        return {share: self.cost(architecture, share) for share in shares}


def tile_solver(name: str) -> Entry:
    """A solver that tile costs can be from: one for mappings, or one of the family "tile" for shares."""
    names = [*solver_names("tile"), *solver_names("mapping")]
    if name not in names:
        raise InputError("tile solver", f"one of {', '.join(names)}", name, did_you_mean(name, names))
    return solver(name)


class MissingShareError(LookupError):
    """A share that the table lacks: it was made for another network, batch, chip or pruning."""


class TileCostsNeeded(Exception):  # noqa: N818 - a question, not an error
    """A schedule cannot go on before ``requests`` are answered."""

    def __init__(self, requests: tuple[Request, ...]) -> None:
        super().__init__(requests)
        self.requests = requests


@dataclass(frozen=True)
class TabledTileCosts:
    """Tile costs of ``graph`` from a table of shares: implements :class:`costmodel.chip.TileCosts`.

    All tiles are charged as the one with the largest share, as in the paper's evaluator. A share that is not
    in ``known`` is asked of ``solve`` and remembered; without it MissingShareError is raised, or, by
    :meth:`need`, TileCostsNeeded. ``layers_alone``: what layers cost alone from DRAM; None: not offered.
    ``solve_floors``: floors solve all they lack, for solvers of microseconds; else they rest on the work.
    """

    graph: LayerGraph
    tile: Tile
    known: ShareCosts
    solve: Callable[[Share], ShareCost | None] | None = None
    pruning: Pruning = field(default_factory=Pruning)
    layers_alone: LayersAlone | None = None
    solve_floors: bool = False

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        """All partitions worth a look that the tiles can compute; none of a layer that only runs alone."""
        key = (self._ids[layer], batch, tiles)
        if key not in self._rows:
            self._rows[key] = self._tabulated(self.graph.layers[layer], batch, tiles)
        return self._rows[key]

    def normalized_cycles(self, layer: int) -> float:
        """Cycles of one sample on one tile; where a tile has no mapping for so much, those of its MACs."""
        it = self.graph.layers[layer]
        if not it.has_weights:
            return it.operations / self.tile.vector_units
        if it.runs_alone:
            return it.operations / self.tile.macs
        cost = self._cost(Share.of(it, (1, 1, 1, 1), 1))
        return float(cost.cycles) if cost else it.operations / self.tile.macs

    @property
    def offers_alone(self) -> bool:
        """Whether layers may run alone from DRAM."""
        return self.layers_alone is not None

    def alone(self, layer: int, batch: int) -> AloneCost | None:
        """What the layer takes alone from DRAM; None where that is not offered, or no mapping was found."""
        return None if self.layers_alone is None else self.layers_alone.cost(self.graph.layers[layer], batch)

    def need(self, requests: Iterable[Request]) -> None:
        """Raises TileCostsNeeded for those of ``requests`` that are not known and cannot be solved here.

        Solves nothing: what can be solved in this process is solved when it is asked for. Equal layers are
        asked for once.
        """
        distinct = dict.fromkeys(request._replace(layer=self._same(request)) for request in requests)
        if missing := tuple(request for request in distinct if not self._answered(request)):
            raise TileCostsNeeded(missing)

    def floor(self, layer: int, batches: Sequence[int], tiles: int) -> TileFloor:
        """Least energy and tile-cycles a sample over all rows, as every schedule picks from them.

        Where not all rows of all layers are known, what its operations take with all PEs busy.
        """
        key = (self._ids[layer], tuple(batches), tiles)
        if key not in self._floors:
            self._floors[key] = self._floor(*key)
        return self._floors[key]

    def _floor(self, layer: int, batches: tuple[int, ...], tiles: int) -> TileFloor:
        if self.solve_floors or self._complete(batches, tiles):
            return table_floor(self, layer, batches, tiles)
        it, tile = self.graph.layers[layer], self.tile
        operation_pj = tile.mac_pj if it.has_weights else tile.vector_operation_pj
        energy_pj = it.operations * operation_pj
        tile_cycles = it.operations / (tile.macs if it.has_weights else tile.vector_units)
        return TileFloor(energy_pj, tile_cycles, energy_pj if self.offers_alone else inf)

    def _complete(self, batches: tuple[int, ...], tiles: int) -> bool:
        """Whether everything is known of all layers, for these batches on up to so many tiles."""
        key = batches, tiles
        if key not in self._completed:
            layers = list(enumerate(self.graph.layers))
            self._completed[key] = all(
                self._knows_alone(number, batch) for number, _ in layers for batch in batches
            ) and all(
                self._tabled(Request(number, batch, count))
                for number, layer in layers
                if layer.has_weights and self._ids[number] == number
                for batch in batches
                for count in range(1, tiles + 1)
            )
        return self._completed[key]

    def _answered(self, request: Request) -> bool:
        """Whether what is requested is known, or can be had in this process."""
        if request.alone:
            alone = self.layers_alone
            return alone is None or alone.solve is not None or self._knows_alone(request.layer, request.batch)
        return self.solve is not None or self._tabled(request)

    def _knows_alone(self, layer: int, batch: int) -> bool:
        alone = self.layers_alone
        return alone is None or alone.knows(self.graph.layers[layer], batch)

    def _tabled(self, request: Request) -> bool:
        """Whether all shares of a request are known by now."""
        shares = requested_shares(self.graph, request, self.tile, self.pruning)
        return all(share in self.known or share in self._solved for share in shares)

    def _same(self, request: Request) -> int:
        """The first layer whose costs answer a request."""
        return (self._nests if request.alone else self._ids)[request.layer]

    @cached_property
    def _nests(self) -> list[int]:
        """Of every layer the first of an equal loop nest."""
        first: dict[Any, int] = {}
        shapes = (layer.nest(2).shape if layer.has_weights else None for layer in self.graph.layers)
        return [first.setdefault(shape or place, place) for place, shape in enumerate(shapes)]

    @cached_property
    def _ids(self) -> list[int]:
        return same_shapes(self.graph)

    @cached_property
    def _rows(self) -> dict[tuple[int, int, int], TileRows]:
        return {}

    @cached_property
    def _floors(self) -> dict[tuple[int, tuple[int, ...], int], TileFloor]:
        return {}

    @cached_property
    def _completed(self) -> dict[tuple[tuple[int, ...], int], bool]:
        return {}

    @cached_property
    def _solved(self) -> dict[Share, ShareCost | None]:
        return {}

    def _tabulated(self, layer: NetworkLayer, batch: int, tiles: int) -> TileRows:
        if layer.runs_alone:
            return TileRows.of([])
        parts = useful_partitions(layer, batch, tiles, self.tile, self.pruning)
        if not layer.has_weights:
            operations = vector_operations(layer, parts, batch)
            energy_pj = operations * self.tile.vector_operation_pj * tiles
            return TileRows(parts, energy_pj, -(-operations // self.tile.vector_units))
        costs = ((part, self._cost(Share.of(layer, part, batch))) for part in map(tuple, parts.tolist()))
        return TileRows.of([(part, cost.energy_pj * tiles, cost.cycles) for part, cost in costs if cost])

    def _cost(self, share: Share) -> ShareCost | None:
        if share in self.known:
            return self.known[share]
        if share not in self._solved:
            if self.solve is None:
                raise MissingShareError(f"no cost of {share}")
            self._solved[share] = self.solve(share)
        return self._solved[share]


def need(costs: TileCosts, requests: Iterable[Request]) -> None:
    """Asks a table for what it lacks, as :meth:`TabledTileCosts.need`; other sources know everything."""
    if isinstance(costs, TabledTileCosts):
        costs.need(requests)


def offers_alone(costs: TileCosts) -> bool:
    """Whether layers may run alone from DRAM; only tables offer that."""
    return isinstance(costs, TabledTileCosts) and costs.offers_alone


def architecture_of(tile: Tile) -> Architecture:
    """What mapping solvers map shares on; InputError for a tile without."""
    if tile.architecture is None:
        raise InputError("tile", "an architecture to map layers on", "none", key="architecture")
    return tile.architecture


def solved_costs(demand: Demand, mapper: TileMapper, chip: Chip | None = None) -> TabledTileCosts:
    """Tile costs that are solved in this process when they are first asked for.

    With a ``chip`` its layers may run alone, too.
    """
    architecture = architecture_of(demand.tile)

    def solve(share: Share) -> ShareCost | None:
        return mapper.cost(architecture, share)

    alone = None if chip is None else LayersAlone(chip, {}, partial(mapper.alone, chip))
    quick = tile_solver(mapper.solver).family == "tile"
    return TabledTileCosts(demand.graph, demand.tile, {}, solve, demand.pruning, alone, quick)
