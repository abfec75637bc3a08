"""Schedulers keep to their time: first trees, tile costs, bounds and later epochs look at the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from solvers.budget import Budget
from solvers.catalogue import solver, solver_names
from solvers.outcome import Outcome, Status
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.fitting import fitted
from solvers.schedule.kapla.ranking import Ranking
from solvers.schedule.kapla.segments import Scheme, Segment, Slicing
from solvers.schedule.problem import ScheduleProblem, violations
from solvers.schedule.set import solver as set_annealing
from solvers.schedule.set.epochs import EpochOf, solve_epoch
from solvers.schedule.set.params import SetParams
from solvers.schedule.set.search import AnnealingPlan, SearchState
from solvers.schedule.tiles.cost_table import TabledTileCosts, TilePartCosts, solved_costs
from solvers.schedule.tiles.layer_parts import TileCostDemand, TilePart
from solvers.schedule.tiles.mapper import TileMapper, TilePartCost, architecture_of
from tests.thorough import also

pytestmark = pytest.mark.slow

CHIP = load_chip("set-edge")
BUDGET = Budget(wall_seconds=5)
MOST_PARTS = 150
"""What one look at the clock may stand for: the tile parts of a few leaves."""


Solve = Callable[[Iterable[TilePart]], TilePartCosts]


class Clock:
    """Stands until it has been looked at so many times, and then is far beyond every limit."""

    def __init__(self, looks: float) -> None:
        self.left = looks
        self.solved_after = 0

    def __call__(self) -> float:
        self.left -= 1
        return 0.0 if self.left >= 0 else 1e9

    def counting(self, solve: Solve) -> Solve:
        """``solve``, with the tile parts counted that are solved when the time is up."""

        def counted(parts: Iterable[TilePart]) -> TilePartCosts:
            asked = list(parts)
            self.solved_after += len(asked) if self.left < 0 else 0
            return solve(asked)

        return counted


ENDLESS = Clock(float("inf"))


graph_of = cache(lambda network: fitted(load_layer_graph(network), CHIP))
SOLVED: dict[TilePart, TilePartCost | None] = {}
"""What earlier tests have solved: a table asks for it as for anything that it lacks."""


def solve_once(parts: Iterable[TilePart]) -> TilePartCosts:
    asked = list(parts)
    new = [part for part in asked if part not in SOLVED]
    SOLVED.update(TileMapper("nvdla").costs(architecture_of(CHIP.tile), new))
    return {part: SOLVED[part] for part in asked}


def problem_of(network: str, batch: int, clock: Clock) -> ScheduleProblem:
    graph = graph_of(network)
    demand = TileCostDemand(graph, CHIP.tile, CHIP.tiles, batch)
    costs = replace(solved_costs(demand, TileMapper("nvdla")), solve=clock.counting(solve_once))
    return ScheduleProblem(graph, ChipModel(CHIP, costs), batch)


@cache
def load(module: Any) -> None:
    """Loads compiled code, once: that looks at the clock, too."""
    module.solve(problem_of("set-alexnet", 1, ENDLESS), Budget(iterations=20), module.Params())


def timed(clock: Clock, patch: pytest.MonkeyPatch, solve: Callable[[], Any]) -> Any:
    with patch.context() as patched:
        patched.setattr("time.perf_counter", clock)
        return solve()


@pytest.mark.parametrize("looks", [3, 40, 150, 500])
@pytest.mark.parametrize("name", [name for name in solver_names("schedule") if name != "exhaustive_schedule"])
def test_the_clock_is_honoured(name: str, looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole table has 13,984 tile parts; once the time is up, next to none of them is solved."""
    clock, module = Clock(looks), solver(name, "schedule").load()
    load(module)
    problem = problem_of("set-resnet50", 64, clock)
    outcome: Outcome[Any] = timed(clock, monkeypatch, lambda: module.solve(problem, BUDGET, module.Params()))
    assert clock.left < 0
    assert clock.solved_after <= MOST_PARTS
    assert outcome.status in (Status.FEASIBLE, Status.UNKNOWN)
    assert outcome.bound is not None
    if looks == 3:
        assert outcome.solution is None
    if looks == 500:  # 5 first trees of up to 72 layers, and the search began
        assert outcome.solution is not None


@pytest.mark.parametrize("looks", [500, *also(3600, 9000)])
def test_kapla_has_a_first_chain_and_prepares_nothing_after_the_end(
    looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ResNet-50 has 4,676 segments for each of 7 numbers of passes, with 32,732 schemes for the first: each
    is a step of preparation."""
    module = solver("kapla_schedule").load()
    load(module)
    clock, prepared = Clock(looks), [0]
    segments, likely = Slicing.segments, Ranking.likely

    def steps_of_segments(slicing: Slicing) -> Iterator[Segment]:
        for segment in segments(slicing):
            prepared[0] += clock.left < 0
            yield segment

    def rankings(ranking: Ranking, most: int) -> list[Scheme]:
        prepared[0] += clock.left < 0
        return likely(ranking, most)

    monkeypatch.setattr(Slicing, "segments", steps_of_segments)
    monkeypatch.setattr(Ranking, "likely", rankings)
    problem = problem_of("set-resnet50", 64, clock)
    outcome: Outcome[Any] = timed(clock, monkeypatch, lambda: module.solve(problem, BUDGET, module.Params()))
    assert clock.left < 0
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    # the last layer before the end; chains of what was costed are joined whatever the clock says
    assert prepared[0] <= 2 * outcome.evaluations + 3 * len(problem.graph.layers)


@cache
def first_epoch(plan: AnnealingPlan) -> SearchState:
    """Where the first of two epochs ends, with all the time it wants."""
    problem = problem_of("set-alexnet", 8, ENDLESS)
    _, state = solve_epoch(problem, Budget(wall_seconds=1e4), plan, EpochOf(0, 2, 0), ())
    assert state is not None
    return state


@pytest.mark.parametrize("looks", [3, 20, 300])
def test_later_epochs_honour_it_too(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their answer is a tree that is known already: it is counted, whatever the clock says, and no more."""
    params = SetParams(beta=1)
    plan = AnnealingPlan(set_annealing.spaces_of(params), params, 40)
    state = first_epoch(plan)
    recount = Clock(-1)
    judge = problem_of("set-alexnet", 8, recount).judge()
    judge.evaluate(state.best[1])
    judge.evaluate(state.progress.tree)
    clock = Clock(looks)
    problem = problem_of("set-alexnet", 8, clock)
    outcome, later = timed(
        clock, monkeypatch, lambda: solve_epoch(problem, BUDGET, plan, EpochOf(1, 2, 0), [state])
    )
    assert clock.left < 0
    assert clock.solved_after <= recount.solved_after + MOST_PARTS
    assert outcome.solution is not None
    assert later is not None


def test_a_bound_cut_short_is_lower_and_goes_on_when_asked_again() -> None:
    problem, left = problem_of("set-googlenet", 8, ENDLESS), [0]

    def in_time() -> bool:
        left[0] -= 1
        return left[0] >= 0

    whole = problem_of("set-googlenet", 8, ENDLESS).bound()
    found = []
    for looks in (0, 200, 1000, 100_000):
        left[0] = looks
        found.append(problem.bound(in_time))
    assert None not in found
    assert found == sorted(found)  # type: ignore[type-var]
    assert found[0] < found[1] < found[2] < found[3]  # type: ignore[operator]
    assert found[-1] == whole
    assert problem.bound(lambda: False) == whole


def test_a_known_table_is_looked_through_within_the_time() -> None:
    """Whether all parts are known takes a look at each; what was missing is asked for again when solved."""
    problem = problem_of("set-alexnet", 4, ENDLESS)
    assert isinstance(problem.model, ChipModel)
    solved = problem.model.tile_costs
    assert isinstance(solved, TabledTileCosts)
    lazy = replace(solved, solve_floors=False)
    work = lazy.floor(0, (1, 2, 4), CHIP.tiles)
    for layer in range(len(problem.graph.layers)):
        for batch in (1, 2, 4):
            for tiles in range(1, CHIP.tiles + 1):
                lazy.rows(layer, batch, tiles)
        lazy.normalized_cycles(layer)
    looks = []

    def no_time() -> bool:
        looks.append(0)
        return False

    assert lazy.floor(0, (1, 2, 4), CHIP.tiles, no_time) == work
    assert len(looks) == 1
    full = solved.floor(0, (1, 2, 4), CHIP.tiles)
    assert full.energy_pj >= work.energy_pj
