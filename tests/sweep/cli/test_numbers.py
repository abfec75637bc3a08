"""Numbers and names that a user gives: finite, in their bounds, each once; else one message."""

from __future__ import annotations

import operator
from itertools import product
from math import inf, nan
from pathlib import Path

import pytest

from costmodel.errors import InputError
from solvers.budget import MOST_ITERATIONS, MOST_SECONDS, MOST_SEED, Budget
from solvers.catalogue import CATALOGUE
from sweep.study.designs.design_space import Constraint, check_together
from sweep.study.identity import checked_params
from tests.sweep.ended import Command

GEMM = Path(__file__).parents[2] / "data" / "problems" / "gemm.yaml"
SOLVE = {
    "mapping": ["solve", "mapping", "--architecture", "eyeriss", "--layer", str(GEMM)],
    "codesign": ["solve", "codesign", "--architecture", "eyeriss", "--network", "alexnet"],
    "scratchpad": ["solve", "scratchpad", "--graph", "resnet18"],
    "schedule": ["solve", "schedule", "--chip", "set-edge", "--network", "alexnet"],
}
SOLVERS = [entry for entry in CATALOGUE if entry.family in SOLVE and entry.name != "nvdla"]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda entry: entry.name)
@pytest.mark.parametrize("seed", ["-1", str(2**31), str(10**30)])
def test_a_seed_that_no_solver_takes_is_refused_for_every_solver(
    command_line: Command, solver: object, seed: str
) -> None:
    ended = command_line(*SOLVE[solver.family], "--solver", solver.name, "--seed", seed)  # type: ignore[attr-defined]
    assert ended.status == 2
    assert "Traceback" not in ended.err
    assert "seed: expected" in ended.err
    assert ended.err.rstrip().endswith(f"found {seed}")


@pytest.mark.parametrize("family", SOLVE)
@pytest.mark.parametrize("seconds", ["1e400", "inf", "nan", "0", "-3", "1e9"])
def test_seconds_are_finite_and_above_nothing(command_line: Command, family: str, seconds: str) -> None:
    ended = command_line(*SOLVE[family], "--wall-seconds", seconds)
    assert ended.status == 2
    assert "expected" in ended.err
    assert "wall-seconds" in ended.err.replace("_", "-")
    assert str(float(seconds)) in ended.err


@pytest.mark.parametrize(
    ("family", "options", "fragments"),
    [
        ("mapping", ["--iterations", "0"], ["--iterations", "1 to", "0"]),
        ("mapping", ["--iterations", str(2**60)], ["--iterations", str(MOST_ITERATIONS)]),
        ("mapping", ["--padding", "nan"], ["padding", "nan"]),
        ("mapping", ["--solver", "exact", "--tolerance", "inf"], ["tolerance", "inf"]),
        (
            "mapping",
            ["--solver", "cosa", "--params", '{"kicks": NaN}'],
            ["params.kicks", "a finite number", "nan"],
        ),
        (
            "mapping",
            ["--solver", "cosa", "--params", '{"kicks": 1e400}'],
            ["params.kicks", "a finite number", "inf"],
        ),
        ("mapping", ["--set", "SRAM.size=1e400"], ["SRAM.size", "inf"]),
        ("mapping", ["--set", "SRAM.size=1 KiB", "--set", "SRAM.size=2 KiB"], ["--set", "every key once"]),
        ("codesign", ["--area-um2", "nan"], ["area_um2", "nan"]),
        ("codesign", ["--free", "SRAM.size", "--free", "SRAM.size"], ["--free", "SRAM.size again"]),
        ("schedule", ["--seeds", "4", "--seed", str(MOST_SEED)], ["schedule.seed", str(MOST_SEED + 3)]),
        ("schedule", ["--seeds", "10001"], ["schedule.seeds", "at most 10000"]),
        ("schedule", ["--params", '{"beta": Infinity}'], ["beta", "inf"]),
    ],
)
def test_options_are_finite_and_within_bounds(
    command_line: Command, family: str, options: list[str], fragments: list[str]
) -> None:
    ended = command_line(*SOLVE[family], *options)
    assert ended.status == 2
    for fragment in fragments:
        assert fragment in ended.err


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (["--x", "cycles", "--y", "cycles"], "--y: expected another objective than --x"),
        (["--x", "speed", "--y", "cycles"], "--x: expected an objective of a design"),
    ],
)
def test_a_front_has_two_different_objectives(command_line: Command, axes: list[str], message: str) -> None:
    ended = command_line("pareto", "runs/nowhere", *axes)
    assert ended.status == 2
    assert message in ended.err


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("wall_seconds", value) for value in (0, -1, inf, nan, 2 * MOST_SECONDS)),
        *(("seed", value) for value in (-1, MOST_SEED + 1)),
        *(("iterations", value) for value in (0, -5, MOST_ITERATIONS + 1)),
    ],
)
def test_a_budget_is_bounded(field: str, value: float) -> None:
    with pytest.raises(InputError) as caught:
        Budget(**{field: value})  # type: ignore[arg-type]
    assert (caught.value.key, caught.value.found) == (field, value) or value != value


def test_the_limits_themselves_are_taken() -> None:
    assert Budget(MOST_SECONDS, MOST_ITERATIONS, MOST_SEED).seed == MOST_SEED


@pytest.mark.parametrize("number", [inf, -inf, nan])
@pytest.mark.parametrize("solver", CATALOGUE, ids=lambda entry: entry.name)
def test_no_parameter_of_any_solver_takes_what_is_not_finite(solver: object, number: float) -> None:
    for key in solver.load().Params.__dataclass_fields__:  # type: ignore[attr-defined]
        with pytest.raises(InputError, match=f"{key}: expected"):
            checked_params(solver.name, {key: number})  # type: ignore[attr-defined]


@pytest.mark.parametrize("upper", ["<", "<="])
@pytest.mark.parametrize("lower", [">", ">="])
@pytest.mark.parametrize(("low", "high"), list(product((3, 4, 5), repeat=2)))
def test_constraints_contradict_where_no_number_meets_both(
    upper: str, lower: str, low: int, high: int
) -> None:
    """Against trying numbers below, at, between and above the limits."""
    first, second = Constraint("mac_units", lower, low), Constraint("mac_units", upper, high)
    tried = [number / 4 for number in range(0, 40)]
    meets = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
    possible = any(meets[lower](number, low) and meets[upper](number, high) for number in tried)
    assert first.excludes(second) == second.excludes(first) == (not possible)
    if not possible:
        with pytest.raises(InputError, match="constraints that some number meets"):
            check_together([first, second])
    else:
        check_together([first, second])


def test_constraints_on_different_quantities_do_not_contradict() -> None:
    check_together([Constraint("mac_units", "<=", 1), Constraint("area_um2", ">=", 5)])
