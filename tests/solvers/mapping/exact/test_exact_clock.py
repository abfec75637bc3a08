"""The exact mapper keeps to its time where its tables take seconds, and what it then says still holds."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_layer
from costmodel.workload.network import convolution, gemm
from solvers.budget import Budget, OutOfTimeError, always_in_time
from solvers.mapping.exact import bound as exact_bound
from solvers.mapping.exact import code, solve
from solvers.mapping.exact.bound import bound_in_time
from solvers.mapping.exact.kernels import choice_kernel
from solvers.mapping.exact.kernels.search_kernel import begin
from solvers.mapping.exact.parts import part_space
from solvers.mapping.exact.solver import TINY
from solvers.mapping.exact.spatial import spreads
from solvers.mapping.exact.tables import assignment_workspace, lattice_workspace, space_of
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.rules import SpaceRules
from solvers.outcome import Status

LARGE = convolution("large", K=5040, C=720, P=60, Q=60, R=3, S=3)
"""A million tiles, two thirds of what is searched at all, and 600,000 ways to spread it over B_simba_like."""


@pytest.mark.parametrize("uneven", [False, True], ids=["even", "uneven"])
def test_a_bound_in_parts_is_the_bound(uneven: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is looked at between two looks at the clock, bound and tables are the same."""
    layer = convolution("small", K=16, C=8, P=12, Q=4, R=3, S=1)
    problem = MappingProblem(load_architecture("eyeriss"), layer, "edp", SpaceRules(uneven=uneven))
    parts = part_space(problem)
    tables = space_of(problem, parts, True)
    rows = spreads(parts.space)
    assert rows is not None
    size = int(tables.divisor_count.prod())
    found: dict[int, list[tuple[float, float]]] = {}
    looks = []

    def looking() -> bool:
        looks.append(0)
        return True

    for at_once in (10**9, 1000, 1):
        monkeypatch.setattr(exact_bound, "AT_ONCE", at_once)
        for row in range(0, len(rows), max(1, len(rows) // 5)):
            assignment, lattice = assignment_workspace(tables), lattice_workspace(tables, size)
            lattice.opened[:] = lattice.closed[:] = 0.0
            assignment.spatial[:], assignment.keep[:] = rows[row], parts.keeps[row % len(parts.keeps)]
            bound = bound_in_time(tables, assignment, lattice, uneven, looking)
            inside = [table[table < float("inf")].sum() for table in (lattice.opened, lattice.closed)]
            found.setdefault(at_once, []).append((bound, sum(inside)))
    assert found[1] == found[1000] == found[10**9]
    assert len(looks) > 100


def test_a_bound_ends_when_the_time_does() -> None:
    problem = MappingProblem(load_architecture("eyeriss"), gemm("g", M=48, N=48, K=48))
    parts = part_space(problem)
    tables = space_of(problem, parts, True)
    assignment, lattice = (
        assignment_workspace(tables),
        lattice_workspace(tables, int(tables.divisor_count.prod())),
    )
    assignment.spatial[:], assignment.keep[:] = 1, parts.keeps[0]
    lattice.steps.left[0] = 1
    with pytest.raises(OutOfTimeError):
        bound_in_time(tables, assignment, lattice, False, lambda: False)
    again = bound_in_time(tables, assignment, lattice, False, always_in_time)
    other = lattice_workspace(tables, int(tables.divisor_count.prod()))
    assert again == bound_in_time(tables, assignment, other, False, always_in_time)


@pytest.mark.slow
@pytest.mark.parametrize("looks", [3, 20, 40, 60])
def test_little_is_done_when_the_time_is_up(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All bounds of spatial factors and the tables of one assignment are 50 such pieces of work."""
    from solvers.mapping.exact.kernels import bound_kernel

    problem = MappingProblem(load_architecture("B_simba_like"), LARGE)
    solve(MappingProblem(load_architecture("B_simba_like"), gemm("small", M=8, N=8, K=8)), Budget())
    left, work_after = looks, 0

    def clock() -> float:
        nonlocal left
        left -= 1
        return 0.0 if left >= 0 else 1e9

    def counted(work: Any) -> Any:
        def call(*arguments: Any) -> Any:
            nonlocal work_after
            work_after += left < 0
            return work(*arguments)

        return call

    with monkeypatch.context() as patched:
        patched.setattr("time.perf_counter", clock)
        patched.setattr(bound_kernel, "bound_of_assignment", counted(bound_kernel.bound_of_assignment))
        patched.setattr(choice_kernel, "spread_bounds", counted(choice_kernel.spread_bounds))
        outcome = solve(problem, Budget(wall_seconds=5))
    assert left < 0
    assert work_after <= 2
    assert outcome.status is Status.FEASIBLE
    assert outcome.bound is not None
    assert outcome.objective is not None
    assert 0 < outcome.bound < outcome.objective


@pytest.mark.parametrize("name", ["eyeriss", "gemmini", "eyeriss-v1"])
def test_what_is_compiled_ahead_is_what_solves_call(name: str) -> None:
    """No kernel is called with other types of arguments, for which a first solve would have to wait."""
    architecture = load_architecture(name)
    ahead: dict[Any, set[Any]] = {}
    for machine in (TINY, load_architecture("gemmini")):
        for call in (call for part in code(machine) for call in part):
            types = tuple(call.function.typeof_pyval(argument) for argument in call.arguments)
            ahead.setdefault(call.function, set()).add(types)
    assert [len(kinds) for kinds in ahead.values()] == [2] * 7, "with timing and without"
    before = {function: set(function.overloads) for function in ahead}
    outcome = solve(MappingProblem(architecture, load_layer("alexnet/conv3"), "cycles"), Budget(20.0))
    assert outcome.solution is not None
    for function, kinds in ahead.items():
        assert set(function.overloads) <= kinds | before[function]
    assert begin.overloads  # type: ignore[attr-defined]
