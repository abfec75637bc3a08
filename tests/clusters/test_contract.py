"""What every runtime promises, asked of each of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from clusters.in_process import InProcessRuntime
from clusters.ray.actors import RayRuntime
from clusters.runtime import WALL_LIMIT, Completion, Runtime, RuntimeSettings, complete_all
from tests.clusters.work_items import work

pytestmark = pytest.mark.cluster
Build = Callable[..., Runtime]
STALL = 5.0
"""Seconds that a busy machine may keep a worker, which has a moment's work, from answering."""


class Usual:
    """A runtime with usual settings, opened when it is asked for: starting Ray's workers takes seconds."""

    def __init__(self, kind: Build) -> None:
        self._kind = kind
        self._runtime: Runtime | None = None

    def opened(self) -> Runtime:
        if self._runtime is None:
            self._runtime = self._kind(work, RuntimeSettings())
        return self._runtime

    def close(self) -> None:
        """Give its CPUs to another one."""
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = None


@pytest.fixture(scope="module", params=[InProcessRuntime, RayRuntime], ids=["in_process", "ray"])
def kind(request: pytest.FixtureRequest) -> Build:
    """A runtime's class; there is a Ray for the one that needs it."""
    if request.param is RayRuntime:
        request.getfixturevalue("local_ray")
    chosen: Build = request.param
    return chosen


@pytest.fixture(scope="module")
def usual(kind: Build) -> Iterator[Usual]:
    one = Usual(kind)
    yield one
    one.close()


@pytest.fixture
def runtime(usual: Usual) -> Iterator[Runtime]:
    """The usual runtime of all tests that take every completion."""
    yield usual.opened()
    assert usual.opened().pending == 0


@pytest.fixture
def build(kind: Build, usual: Usual) -> Iterator[Build]:
    """A function that makes a runtime with other settings; what it made is closed after the test."""
    usual.close()
    opened: list[Runtime] = []

    def make(**settings: Any) -> Runtime:
        opened.append(kind(work, RuntimeSettings(**settings)))
        return opened[-1]

    yield make
    for runtime in opened:
        runtime.close()


def run(runtime: Runtime, payloads: dict[str, tuple[str, Any]]) -> dict[str, Completion]:
    completions = list(complete_all(runtime, payloads.items()))
    by_key = {completion.key: completion for completion in completions}
    assert len(completions) == len(by_key), "a key was completed twice"
    assert by_key.keys() == payloads.keys()
    return by_key


def test_every_key_is_completed_once_with_its_own_value(runtime: Runtime) -> None:
    done = run(runtime, {f"key{number}": ("echo", number * number) for number in range(700)})
    assert {key: c.value for key, c in done.items()} == {f"key{n}": n * n for n in range(700)}
    assert all(c.error is None and not c.failed and c.attempts == 1 for c in done.values())
    assert runtime.pending == 0


def test_errors_are_completions_and_the_rest_goes_on(runtime: Runtime) -> None:
    payloads: dict[str, tuple[str, Any]] = {str(n): ("echo", n) for n in range(20)}
    payloads |= {
        "arithmetic": ("fail", "seven"),
        "missing module": ("import_nothing", "no_such_module_here"),
        "exit": ("leave", 4),
        "unknown": ("no such action", None),
    }
    done = run(runtime, payloads)
    errors = {key: c.error for key, c in done.items() if c.error is not None}
    assert {key: error.type for key, error in errors.items()} == {
        "arithmetic": "ArithmeticError",
        "missing module": "ModuleNotFoundError",
        "exit": "SystemExit",
        "unknown": "KeyError",
    }
    assert errors["arithmetic"].message == "seven"
    assert "work_items.py" in errors["arithmetic"].traceback
    assert done["arithmetic"].value is None


def test_results_that_cannot_travel_are_failures(runtime: Runtime) -> None:
    done = run(runtime, {"generator": ("generator", 3), "bad": ("unloadable", None), "good": ("echo", 1)})
    assert done["generator"].error is not None
    assert "generator" in done["generator"].error.message
    assert "plain data" in done["generator"].error.message
    assert done["bad"].error is not None
    assert done["bad"].error.message == "not to be loaded"
    assert done["good"].value == 1


def test_a_payload_that_cannot_travel_is_the_callers_error(runtime: Runtime) -> None:
    with pytest.raises((TypeError, AttributeError)):
        runtime.submit("lock", ("echo", threading.Lock()))
    assert runtime.pending == 0


def test_payloads_and_values_are_copies(runtime: Runtime) -> None:
    payload = [1, 2, 3]
    done = run(runtime, {"list": ("echo", payload)})
    assert done["list"].value == payload
    assert done["list"].value is not payload


def test_large_payloads_and_values(runtime: Runtime) -> None:
    payloads: dict[str, tuple[str, Any]] = {str(n): ("echo", bytes([n]) * 3_000_000) for n in range(6)}
    done = run(runtime, payloads)
    assert all(c.value == payloads[key][1] for key, c in done.items())


def test_none_stops_the_drawing_until_a_completion_was_taken(runtime: Runtime) -> None:
    """Each item but the first follows from the value of the one before it."""
    taken: list[int] = []

    def items() -> Iterator[tuple[str, Any] | None]:
        for number in range(6):
            while len(taken) < number:
                yield None
            yield str(number), ("echo", 2 * taken[-1] + 1 if taken else 1)

    for completion in complete_all(runtime, items()):
        taken.append(completion.value)  # noqa: PERF401, items() looks at it meanwhile
    assert taken == [1, 3, 7, 15, 31, 63]
    assert runtime.workers >= 1


def test_waiting_for_nothing_is_refused(runtime: Runtime) -> None:
    with pytest.raises(RuntimeError, match="nothing is pending"):
        list(complete_all(runtime, [None, ("a", ("echo", 1))]))


def test_items_can_be_submitted_while_completions_are_taken(runtime: Runtime) -> None:
    runtime.submit("0", ("echo", 0))
    seen = []
    for completion in runtime.as_completed():
        seen.append(completion.value)
        if completion.value < 5:
            runtime.submit(str(completion.value + 1), ("echo", completion.value + 1))
    assert seen == [0, 1, 2, 3, 4, 5]


def test_iterating_can_stop_and_go_on(runtime: Runtime) -> None:
    for number in range(10):
        runtime.submit(str(number), ("echo", number))
    with closing(runtime.as_completed()) as completions:  # type: ignore[type-var]
        first = next(completions).value
    assert runtime.pending == 9
    assert {first, *(c.value for c in runtime.as_completed())} == set(range(10))


def test_a_pending_key_is_refused_and_a_completed_one_welcome(runtime: Runtime) -> None:
    runtime.submit("a", ("echo", 1))
    with pytest.raises(ValueError, match="'a', which is still pending"):
        runtime.submit("a", ("echo", 2))
    assert [c.value for c in runtime.as_completed()] == [1]
    runtime.submit("a", ("echo", 3))
    assert [c.value for c in runtime.as_completed()] == [3]


def test_no_items_no_completions(runtime: Runtime) -> None:
    assert list(runtime.as_completed()) == []


def test_completions_say_what_the_work_cost(runtime: Runtime) -> None:
    done = run(runtime, {"nap": ("nap", 0.2)})["nap"]
    assert done.wall_seconds >= 0.2
    assert 0 <= done.cpu_seconds < done.wall_seconds, "a nap does not compute"
    host, pid = done.worker.rsplit(":", 1)
    assert host
    assert int(pid) > 0


def test_a_caller_that_asks_for_capacity_holds_a_bounded_number(build: Build) -> None:
    runtime = build(window=8)
    drawn = held = most = 0

    def items() -> Iterator[tuple[str, Any]]:
        nonlocal drawn
        for drawn in range(1, 201):
            yield str(drawn), ("echo", drawn)

    for number, _ in enumerate(complete_all(runtime, items()), start=1):
        held = drawn - number
        most = max(most, held)
    assert drawn == 200
    assert held == 0
    assert most <= 2 * 8


def test_the_wall_limit_ends_a_sleeping_item_and_only_that(build: Build) -> None:
    payloads: dict[str, tuple[str, Any]] = {str(n): ("echo", n) for n in range(30)}
    payloads |= {"sleeper": ("nap", 600), "stubborn": ("nap_swallowing_errors", 600)}
    done = run(build(wall_limit_seconds=STALL), payloads)
    for key in ("sleeper", "stubborn"):
        error = done.pop(key).error
        assert error is not None
        assert error.type == WALL_LIMIT
        assert f"{STALL:g} s" in error.message
    assert all(c.error is None for c in done.values())


def test_close_with_pending_items_is_quick_and_final(build: Build) -> None:
    with build() as runtime:
        for number in range(4):
            runtime.submit(str(number), ("nap", 0.01 if number == 0 else 600))
        assert next(runtime.as_completed()).key == "0"
    runtime.close()
    assert runtime.pending == 0
    assert list(runtime.as_completed()) == []
    with pytest.raises(RuntimeError, match="closed"):
        runtime.submit("late", ("echo", 1))


@pytest.mark.parametrize(
    "bad",
    [
        {"window": 0},
        {"workers": 0},
        {"target_seconds": 0},
        {"wall_limit_seconds": -1},
        {"max_strikes": 0},
        {"memory_limit_bytes": 2},
    ],
)
def test_settings_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        RuntimeSettings(**bad)
