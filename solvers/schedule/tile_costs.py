"""The tile cost table (section 4.2.2): what every share of a layer costs on a tile, by any mapping solver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from costmodel.architecture import Architecture
from costmodel.chip.geometry import same_shapes
from costmodel.chip.hardware import Tile
from costmodel.chip.layers import LayerGraph, NetworkLayer
from costmodel.chip.partitions import Parts
from costmodel.chip.tile_costs import TileFloor, TileRows
from costmodel.errors import InputError
from costmodel.evaluate import evaluate
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping.problem import MappingProblem, Objective, executed_layer
from solvers.schedule.tile_shares import Demand, Pruning, Share, useful_partitions, vector_operations


@dataclass(frozen=True)
class ShareCost:
    """Energy (pJ) and cycles of one tile for its share; ``proven``: no mapping is better by the objective."""

    energy_pj: float
    cycles: int
    proven: bool = False


ShareCosts = Mapping[Share, ShareCost | None]
"""None: proven or found to have no mapping on the tile."""


@dataclass(frozen=True)
class TileMapper:
    """A mapping solver of the catalogue, asked for the least ``objective`` within ``budget`` for every share.

    ``params`` are the solver's; its defaults if None.
    """

    solver: str = "cosa"
    objective: Objective = "edp"
    params: Any = None
    budget: Budget = field(default_factory=lambda: Budget(wall_seconds=10.0))

    def cost(self, architecture: Architecture, share: Share) -> ShareCost | None:
        """The cost model's numbers of the mapping found; None where there is none."""
        module = solver(self.solver, "mapping").load()
        problem = MappingProblem(architecture, share.layer(), self.objective)
        params = module.Params() if self.params is None else self.params
        outcome = module.solve(problem, self.budget, params)
        if outcome.solution is None:
            return None
        executed = executed_layer(problem, outcome.solution)
        evaluation = evaluate(architecture, executed, outcome.solution)
        return ShareCost(evaluation.energy_pj, evaluation.cycles, outcome.status == "optimal")

    def costs(self, architecture: Architecture, shares: Iterable[Share]) -> dict[Share, ShareCost | None]:
        return {share: self.cost(architecture, share) for share in shares}


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

    def floor(self, layer: int, batches: Iterable[int], tiles: int) -> TileFloor:
        """Least energy and tile-cycles a sample over all rows for ``batches`` and up to ``tiles`` tiles.

        Every schedule picks one of these rows, so nothing is below. Raises InputError where there is no row.
        """
        energy, cycles = [], []
        for batch in batches:
            for count in range(1, tiles + 1):
                rows = self.rows(layer, batch, count)
                if len(rows.parts):
                    energy.append(rows.energy_pj.min() / batch)
                    cycles.append(rows.cycles.min() * count / batch)
        if not energy:
            name = self.graph.layers[layer].name
            raise InputError("tile costs", "a layer that some number of tiles can compute", name)
        return TileFloor(float(min(energy)), float(min(cycles)))

    @cached_property
    def _ids(self) -> list[int]:
        return same_shapes(self.graph)

    @cached_property
    def _rows(self) -> dict[tuple[int, int, int], TileRows]:
        return {}

    @cached_property
    def _solved(self) -> dict[Share, ShareCost | None]:
        return {}

    def _tabulated(self, layer: NetworkLayer, batch: int, tiles: int) -> TileRows:
        rows = []
        for parts in useful_partitions(layer, batch, tiles, self.tile, self.pruning):
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
