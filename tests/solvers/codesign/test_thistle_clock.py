"""Thistle's co-design looks at the clock in Clarabel, between programs and in ranking, and it answers."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from costmodel.formats.networks import load_network
from costmodel.workload.network import gemm
from solvers.budget import Budget, OutOfTimeError
from solvers.catalogue import solver
from solvers.codesign import thistle
from solvers.codesign.family import ArchitectureFamily
from solvers.codesign.problem import CodesignProblem, violations
from solvers.codesign.thistle import Params, geometric_program, relaxed_optimum
from solvers.codesign.thistle import solver as thistle_solver
from solvers.codesign.thistle.layer_programs import LayerPrograms
from solvers.codesign.thistle.members import Members
from solvers.codesign.thistle.program import CodesignProgram
from solvers.codesign.thistle.relaxation import Joint
from solvers.mapping.thistle.convex.exponential_cones import minimise
from solvers.outcome import Status

pytestmark = pytest.mark.slow

PAPER = Params(split_windows=False)


class Watch:
    """A stopwatch that stands, but for what is added to its seconds."""

    def __init__(self) -> None:
        self.wall_seconds = self.cpu_seconds = 0.0


class Until:
    """A deadline ``seconds`` from now on a watch of that kind."""

    def __init__(self, watch: Watch, seconds: float) -> None:
        self.watch, self.end = watch, watch.wall_seconds + seconds

    @property
    def left(self) -> float:
        return self.end - self.watch.wall_seconds


def test_clarabel_ends_with_its_time(
    network_problem: CodesignProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A joint program needs dozens of steps; in a nanosecond it ends with none, and that is no optimum."""
    relaxed = relaxed_optimum(network_problem, PAPER)
    assert relaxed is not None
    answers = []

    def short(goal: Any, rows: Any, kinds: Any, _: float) -> Any:
        answers.append(minimise(goal, rows, kinds, 1e-9))
        return answers[-1]

    monkeypatch.setattr(geometric_program, "minimise", short)
    counts = [weighted.occurrences for weighted in network_problem.layers]
    layers = tuple(zip(relaxed.costs, counts, strict=True))
    program = CodesignProgram(relaxed.costs[0].hardware, network_problem.area_um2, "energy", layers)
    assert program.solve() is None
    assert [str(answer.status) for answer in answers] == ["MaxTime"]


def test_a_program_gets_the_seconds_that_are_left(
    network_problem: CodesignProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []

    def noted(*asked: Any) -> Any:
        given.append(asked[3])
        return minimise(*asked)

    monkeypatch.setattr(geometric_program, "minimise", noted)
    assert relaxed_optimum(network_problem, PAPER, lambda: False, lambda: 77.0) is not None
    # The program over all layers is solved at least once after those of the three layers.
    assert len(given) > len(network_problem.layers)
    assert all(76.0 < seconds <= 77.0 for seconds in given)


def test_without_a_joint_program_the_dominant_layer_states_the_architecture(
    network_problem: CodesignProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tuple(LayerPrograms(network_problem, w, PAPER) for w in network_problem.layers)
    own = [optimum for each in programs if (optimum := each.optimum())]
    monkeypatch.setattr(Joint, "_solved", lambda *_: None)
    found = relaxed_optimum(network_problem, PAPER)
    assert found is not None
    assert found.objective == inf
    assert found.hardware in [optimum.hardware for optimum in own]
    assert len(found.costs) == len(network_problem.layers)
    assert Members(network_problem, found, PAPER).ranked()


def test_candidates_are_ranked_while_there_is_time(
    network_problem: CodesignProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    relaxed = relaxed_optimum(network_problem, PAPER)
    assert relaxed is not None
    members = Members(network_problem, relaxed, Params(neighbours=3))
    everyone = members.ranked()
    whole, solved = CodesignProgram.solve, []

    def counted(*asked: Any) -> Any:
        solved.append(asked)
        return whole(*asked)

    monkeypatch.setattr(CodesignProgram, "solve", counted)
    for most in (0, 1, 3):
        looks = iter([*[60.0] * most, *[0.0] * 1000])
        solved.clear()
        some = members.ranked(looks.__next__)
        assert len(some) == max(1, most) < len(everyone)
        assert len(solved) == most
        assert most == 0 or all(member in everyone for member in some)


def test_infeasible_programs_are_followed_by_a_look_at_the_clock(
    network_problem: CodesignProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    solved = []
    monkeypatch.setattr(CodesignProgram, "solve", lambda *asked: solved.append(asked))

    def up() -> bool:
        raise OutOfTimeError("up")

    with pytest.raises(OutOfTimeError):
        relaxed_optimum(network_problem, PAPER, up)
    assert len(solved) == 1


@pytest.mark.parametrize("seconds_each", [0.01, 0.2, 1.0, 30.0])
def test_24_layers_have_an_answer_in_their_time(seconds_each: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program and every layer's mapping takes as long as it may, up to ``seconds_each``."""
    layers = [gemm(f"g{number}", M=4 + number, N=8, K=16) for number in range(24)]
    problem = CodesignProblem.of(ArchitectureFamily("eyeriss"), layers)
    assert len(problem.layers) == 24
    watch, whole = Watch(), CodesignProgram.solve

    def slow_program(program: CodesignProgram, rounds: int, at: Any, seconds: float) -> Any:
        watch.wall_seconds += min(seconds, seconds_each * len(program.layers))
        return whole(program, 0, at) if seconds_each * len(program.layers) <= seconds else None

    def slow_mapping(*asked: Any) -> Any:
        watch.wall_seconds += min(asked[1].wall_seconds, seconds_each)
        return mapped(*asked)

    mapper = solver("kapla").load()
    mapped = mapper.solve
    thistle.solve(problem, Budget(1e-9), Params(mapping_solver="kapla"))  # loads compiled code
    monkeypatch.setattr(CodesignProgram, "solve", slow_program)
    monkeypatch.setattr(mapper, "solve", slow_mapping)
    monkeypatch.setattr(thistle_solver, "Stopwatch", lambda: watch)
    monkeypatch.setattr(thistle_solver, "Deadline", lambda seconds: Until(watch, seconds))
    outcome = thistle.solve(problem, Budget(5.0), Params(mapping_solver="kapla", split_windows=False))
    assert outcome.status is Status.FEASIBLE
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    assert watch.wall_seconds <= 5.0 * 1.05


@pytest.mark.slow
def test_a_real_network_has_an_answer() -> None:
    """ResNet-50's 24 different layers in 5 seconds, whatever else the machine does."""
    problem = CodesignProblem.of(ArchitectureFamily("eyeriss"), load_network("resnet50").layers)
    assert len(problem.layers) == 24
    outcome = thistle.solve(problem, Budget(5.0))
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
