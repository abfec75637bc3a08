"""SET (ISCA 2023): resource-allocation trees by simulated annealing with six operators (section 4.2)."""

from __future__ import annotations

from dataclasses import replace

from costmodel.errors import InputError
from solvers.budget import Budget
from solvers.outcome import Outcome, noting_limits
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution
from solvers.schedule.set.params import SetParams as Params
from solvers.schedule.set.solving import solve_by_annealing
from solvers.schedule.set.space import SpaceName
from solvers.schedule.tiles.cost_table import TabledTileCosts

__all__ = ["VERSION", "Params", "solve", "spaces_of"]

VERSION = "26"
DEFAULT = Params()
PATTERNS: tuple[SpaceName, ...] = ("layer_pipeline", "layer_sequential")


@noting_limits
def solve(problem: ScheduleProblem, budget: Budget, params: Params = DEFAULT) -> Outcome[ScheduleSolution]:
    """The best tree that the annealings of one seed find for ``problem``.

    The spaces of :func:`spaces_of` are annealed one after the other, each for beta times the number of layers
    rounds; ``budget.iterations`` limits the rounds of all of them together. UNKNOWN: the chip cannot run the
    first tree, or the time is up before there is one.

    With ``params.bands`` above 1 the tile costs that are needed depend on the bands that the annealing draws,
    so they cannot be asked for in advance. InputError then for a table of tile costs that does not solve
    costs on demand, and for a model other than the chip's.
    """
    if params.bands > 1:
        problem = _with_bands(problem)
    return solve_by_annealing(problem, budget, params, spaces_of(params), params.deepest)


def _with_bands(problem: ScheduleProblem) -> ScheduleProblem:
    """The problem whose bound holds for trees with bands, too."""
    model = problem.model
    if not isinstance(model, ChipModel):
        raise InputError(
            "set", "the chip model, as SET has no bands", model.name, "Take bands: 1", key="bands"
        )
    costs = model.tile_costs
    if isinstance(costs, TabledTileCosts) and costs.solve is None:
        expected = "tile costs that are solved as they are needed, for they depend on the bands"
        remedy = "Take segment_chain or kapla_schedule, which ask for them, or bands: 1"
        raise InputError("set", expected, "a table of known costs", remedy, key="bands")
    return replace(problem, model=replace(model, bands=True))


def spaces_of(params: Params) -> tuple[SpaceName, ...]:
    """The spaces that are annealed one after the other, the two patterns first if ``start`` asks for them."""
    return (*(PATTERNS if params.start == "patterns" else ()), params.space)
