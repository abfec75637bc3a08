"""What a tile part costs on a tile (SET, section 4.2.2), and a layer on the whole chip, by a mapping solver.

A tile solver can give the costs of tile parts, too: it knows one kind of tile and needs no mapping.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from costmodel.errors import InputError, did_you_mean
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.chip import Chip, Tile
from costmodel.hardware.whole_chip import whole_architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.uneven import AnyMapping
from costmodel.schedule.whole_chip_cost import WholeChipCost, whole_chip_cost
from costmodel.workload.network import Layer
from solvers.budget import Budget
from solvers.catalogue import Entry, solver, solver_names
from solvers.mapping.problem import MappingProblem, Objective, executed_layer
from solvers.outcome import Outcome, Status
from solvers.schedule.tiles.layer_parts import TilePart


@dataclass(frozen=True)
class TilePartCost:
    """Energy (pJ) and cycles of one tile for its part.

    ``proven``: the solver has proven that no mapping is better by its objective.
    """

    energy_pj: float
    cycles: int
    proven: bool = False


@dataclass(frozen=True)
class TileProblem:
    """Compute the tile part ``share`` with the least ``objective``: energy (pJ), cycles, or their product."""

    architecture: Architecture
    share: TilePart
    objective: Objective = "edp"


@dataclass(frozen=True)
class TileMapper:
    """The solver that costs of tile parts come from, by its name (see :func:`tile_solver`).

    It looks for the least ``objective`` and may spend ``budget`` on every part. ``params`` are the solver's
    ``Params``; None stands for its defaults.
    """

    solver: str = "cosa"
    objective: Objective = "edp"
    params: Any = None
    budget: Budget = field(default_factory=lambda: Budget(wall_seconds=10.0))

    def cost(self, architecture: Architecture, share: TilePart) -> TilePartCost | None:
        """The cost model's numbers of the mapping found, or the tile solver's; None where there is none."""
        entry = tile_solver(self.solver)
        if entry.family == "tile":
            problem = TileProblem(architecture, share, self.objective)
            found: Outcome[TilePartCost] = entry.load().solve(problem, self.budget, self._params(entry))
            return found.solution
        mapped = self._mapped(entry, architecture, share.layer())
        if mapped is None:
            return None
        executed, mapping, proven = mapped
        evaluation = evaluate(architecture, executed, mapping)
        return TilePartCost(evaluation.energy_pj, evaluation.cycles, proven)

    def whole_chip_cost(self, chip: Chip, nest: Layer) -> WholeChipCost | None:
        """What a layer costs by the mapping found for the whole chip; None where there is none.

        InputError for a tile solver, and for a chip whose tiles no mapping solver can use.
        """
        entry, whole = tile_solver(self.solver), whole_architecture(chip)
        if entry.family == "tile" or whole is None:
            expected = "a mapping solver and tiles with an architecture, for layers alone from DRAM"
            raise InputError(f"chip {chip.name}", expected, self.solver, key="alone")
        mapped = self._mapped(entry, whole, nest)
        return None if mapped is None else whole_chip_cost(chip, *mapped[:2])

    def _mapped(
        self, entry: Entry, architecture: Architecture, layer: Layer
    ) -> tuple[Layer, AnyMapping, bool] | None:
        """The layer as executed (with its padding), its mapping, and whether this is proven to be the best.

        None where no mapping was found.
        """
        problem = MappingProblem(architecture, layer, self.objective)
        outcome: Outcome[AnyMapping] = entry.load().solve(problem, self.budget, self._params(entry))
        if outcome.solution is None:
            return None
        return executed_layer(problem, outcome.solution), outcome.solution, outcome.status is Status.OPTIMAL

    def _params(self, entry: Entry) -> Any:
        return entry.load().Params() if self.params is None else self.params

    def costs(
        self, architecture: Architecture, shares: Iterable[TilePart]
    ) -> dict[TilePart, TilePartCost | None]:
        return {share: self.cost(architecture, share) for share in shares}


def tile_solver(name: str) -> Entry:
    """The catalogue's entry of a solver that tile costs can come from: a mapping solver or a tile solver."""
    names = [*solver_names("tile"), *solver_names("mapping")]
    if name not in names:
        raise InputError("tile solver", f"one of {', '.join(names)}", name, did_you_mean(name, names))
    return solver(name)


def architecture_of(tile: Tile) -> Architecture:
    """The architecture that parts are mapped on; InputError for a tile that has none."""
    if tile.architecture is None:
        raise InputError("tile", "an architecture to map layers on", "none", key="architecture")
    return tile.architecture
