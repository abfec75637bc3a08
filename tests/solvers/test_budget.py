"""Budgets are checked when built; a stopwatch counts from when it was made."""

from __future__ import annotations

import time
from dataclasses import FrozenInstanceError

import pytest

from costmodel.errors import InputError
from solvers.budget import Budget, Stopwatch


def test_the_default_has_only_a_wall_limit() -> None:
    assert Budget() == Budget(wall_seconds=60.0, iterations=None, seed=0)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"wall_seconds": 0}, "wall_seconds"),
        ({"wall_seconds": -1.0}, "wall_seconds"),
        ({"wall_seconds": float("nan")}, "wall_seconds"),
        ({"iterations": 0}, "iterations"),
        ({"iterations": -5}, "iterations"),
    ],
)
def test_empty_budgets_are_refused(given: dict[str, float], key: str) -> None:
    with pytest.raises(InputError, match=f"budget: {key}: expected"):
        Budget(**given)  # type: ignore[arg-type]


def test_budgets_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Budget().seed = 2  # type: ignore[misc]


def test_wall_time_passes_without_work() -> None:
    watch = Stopwatch()
    time.sleep(0.05)
    wall, later = watch.wall_seconds, watch.wall_seconds
    assert 0.05 <= wall <= later


def test_work_takes_processor_time() -> None:
    watch = Stopwatch()
    before = watch.cpu_seconds
    while watch.cpu_seconds < before + 0.01:
        sum(range(1000))
    assert Stopwatch().cpu_seconds < watch.cpu_seconds


def test_a_pause_is_left_out() -> None:
    watch = Stopwatch()
    time.sleep(0.05)
    pause = Stopwatch()
    time.sleep(0.2)
    rest = watch.without(pause)
    assert 0.05 <= rest.wall_seconds < watch.wall_seconds - 0.19
    assert rest.cpu_seconds <= watch.cpu_seconds
