"""The tile cost table (section 4.2.2): what every share of a layer costs on a tile, by any mapping solver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from costmodel.architecture import Architecture
from costmodel.chip.geometry import same_shapes
from costmodel.chip.hardware import Tile
from costmodel.chip.layers import LayerGraph, NetworkLayer
from costmodel.chip.partitions import Parts
from costmodel.chip.tile_costs import TileFloor, TileRows, table_floor
from costmodel.errors import InputError, did_you_mean
from costmodel.evaluate import evaluate
from solvers.budget import Budget
from solvers.catalogue import Entry, solver, solver_names
from solvers.mapping.problem import MappingProblem, Objective, executed_layer
from solvers.outcome import Outcome
from solvers.schedule.tile_shares import Demand, Pruning, Share, useful_partitions, vector_operations


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


@dataclass(frozen=True)
class TabledTileCosts:
    """Tile costs of ``graph`` from a table of shares: implements :class:`costmodel.chip.TileCosts`.

    All tiles are charged as the one with the largest share, as in the paper's evaluator. A share that is not
    in ``known`` is asked of ``solve`` and remembered; without it MissingShareError is raised.
    """

    graph: LayerGraph
    tile: Tile
    known: ShareCosts
    solve: Callable[[Share], ShareCost | None] | None = None
    pruning: Pruning = field(default_factory=Pruning)

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        """All partitions worth a look that the tiles can compute."""
        key = (self._ids[layer], batch, tiles)
        if key not in self._rows:
            self._rows[key] = self._tabulated(self.graph.layers[layer], batch, tiles)
        return self._rows[key]

    def normalized_cycles(self, layer: int) -> float:
        """Cycles of one sample on one tile; where a tile has no mapping for so much, those of its MACs."""
        it = self.graph.layers[layer]
        if not it.has_weights:
            return it.operations / self.tile.vector_units
        cost = self._cost(Share.of(it, (1, 1, 1, 1), 1))
        return float(cost.cycles) if cost else it.operations / self.tile.macs

    def floor(self, layer: int, batches: Sequence[int], tiles: int) -> TileFloor:
        """Least energy and tile-cycles a sample over all rows: every schedule picks from them."""
        key = (self._ids[layer], tuple(batches), tiles)
        if key not in self._floors:
            self._floors[key] = table_floor(self, *key)
        return self._floors[key]

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
    def _solved(self) -> dict[Share, ShareCost | None]:
        return {}

    def _tabulated(self, layer: NetworkLayer, batch: int, tiles: int) -> TileRows:
        rows = []
        for parts in map(tuple, useful_partitions(layer, batch, tiles, self.tile, self.pruning).tolist()):
            cost = self._part(layer, parts, batch)
            if cost is not None:
                rows.append((parts, cost.energy_pj * tiles, cost.cycles))
        return TileRows.of(rows)

    def _part(self, layer: NetworkLayer, parts: Parts, batch: int) -> ShareCost | None:
        if layer.has_weights:
            return self._cost(Share.of(layer, parts, batch))
        operations = vector_operations(layer, parts, batch)
        energy_pj = operations * self.tile.vector_operation_pj
        return ShareCost(energy_pj, -(-operations // self.tile.vector_units), proven=True)

    def _cost(self, share: Share) -> ShareCost | None:
        if share in self.known:
            return self.known[share]
        if share not in self._solved:
            if self.solve is None:
                raise MissingShareError(f"no cost of {share}")
            self._solved[share] = self.solve(share)
        return self._solved[share]


def architecture_of(tile: Tile) -> Architecture:
    """What mapping solvers map shares on; InputError for a tile without."""
    if tile.architecture is None:
        raise InputError("tile", "an architecture to map layers on", "none", key="architecture")
    return tile.architecture


def solved_costs(demand: Demand, mapper: TileMapper) -> TabledTileCosts:
    """Tile costs that are solved in this process when they are first asked for."""
    architecture = architecture_of(demand.tile)

    def solve(share: Share) -> ShareCost | None:
        return mapper.cost(architecture, share)

    return TabledTileCosts(demand.graph, demand.tile, {}, solve, demand.pruning)
