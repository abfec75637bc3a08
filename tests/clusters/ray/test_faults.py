"""What the Ray runtime does about workers that die, hang or eat memory."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from clusters.ray.actors import RayRuntime
from clusters.ray.session import RaySession
from clusters.ray.worker import HEADROOM_BYTES
from clusters.runtime import (
    POISONOUS,
    WALL_LIMIT,
    Completion,
    MemoryLimitError,
    RuntimeSettings,
    WorkersUnavailableError,
    complete_all,
)
from tests.clusters.work_items import mapped, work

Payloads = dict[str, tuple[str, Any]]

STALL = 5.0
"""Seconds that a busy machine may keep a worker, which has a moment's work, from answering."""
pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("local_ray")]


def run(payloads: Payloads, **settings: Any) -> dict[str, Completion]:
    """Complete all and check that each key came once."""
    with RayRuntime(work, RuntimeSettings(**settings)) as runtime:
        completions = list(complete_all(runtime, payloads.items()))
    by_key = {completion.key: completion for completion in completions}
    assert len(completions) == len(by_key), "a key was completed twice"
    assert by_key.keys() == payloads.keys()
    return by_key


def runs(path: Path) -> int:
    return len(path.read_text(encoding="ascii").splitlines())


def with_neighbours(payloads: Payloads, folder: Path, count: int = 40) -> Payloads:
    """The payloads in the middle of others that log each run of theirs."""
    neighbours: list[tuple[str, tuple[str, Any]]] = [
        (str(n), ("log_run", str(folder / f"run{n}"))) for n in range(count)
    ]
    half = count // 2
    return dict([*neighbours[:half], *payloads.items(), *neighbours[half:]])


def test_an_item_whose_worker_is_killed_runs_again(tmp_path: Path) -> None:
    once = tmp_path / "once"
    done = run(with_neighbours({"once": ("die_once", str(once))}, tmp_path))
    assert all(c.error is None for c in done.values())
    assert runs(once) == 2
    # the killed one, or its neighbour if that one's answer was lost on the way
    assert sorted(c.attempts for c in done.values())[-2:] == [1, 2]


def test_an_item_that_kills_three_workers_is_poisonous_and_takes_nobody_along(tmp_path: Path) -> None:
    killer = tmp_path / "killer"
    done = run(with_neighbours({"killer": ("die", str(killer))}, tmp_path))
    error = done.pop("killer").error
    assert error is not None
    assert error.type == POISONOUS
    assert "died 3 times" in error.message
    assert all(c.error is None for c in done.values())
    assert runs(killer) >= 3


def test_two_killers_in_one_batch(tmp_path: Path) -> None:
    killers: Payloads = {name: ("die", str(tmp_path / name)) for name in ("first", "second")}
    done = run(with_neighbours(killers, tmp_path), max_strikes=2)
    failed = {key: c.error.type for key, c in done.items() if c.error is not None}
    assert failed == {"first": POISONOUS, "second": POISONOUS}


def test_the_wall_limit_ends_a_loop_inside_c(tmp_path: Path) -> None:
    done = run(with_neighbours({"busy": ("busy", None)}, tmp_path), wall_limit_seconds=STALL)
    error = done.pop("busy").error
    assert error is not None
    assert error.type == WALL_LIMIT
    assert all(c.error is None and c.attempts == 1 for c in done.values())
    assert all(runs(tmp_path / f"run{n}") == 1 for n in range(40))


def test_the_last_items_do_not_wait_behind_a_long_one() -> None:
    """Two workers: while one naps for long, the other does all the rest, whoever had it before."""
    payloads: Payloads = {f"warm{n}": ("echo", n) for n in range(200)}
    payloads |= {"long": ("nap", 10.0)} | {f"end{n}": ("echo", n) for n in range(30)}
    with RayRuntime(work, RuntimeSettings(target_seconds=0.3)) as runtime:
        order = [completion.key for completion in complete_all(runtime, payloads.items())]
    assert order[-1] == "long"
    assert sorted(order) == sorted(payloads)


def test_memory_beyond_the_limit_is_a_failed_item() -> None:
    payloads: Payloads = {"small": ("allocate", 1 << 20), "huge": ("allocate", 1 << 31), "after": ("echo", 1)}
    done = run(payloads, memory_limit_bytes=512 << 20)
    assert done["small"].value == 1 << 20
    assert done["after"].value == 1
    error = done["huge"].error
    assert error is not None
    assert error.type == "MemoryError"


def test_a_limit_that_the_works_code_leaves_nothing_of_ends_the_run_before_any_item(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    settings = RuntimeSettings(memory_limit_bytes=512 << 20, prepare=partial(mapped, 400 << 20))
    with RayRuntime(work, settings) as runtime:
        runtime.submit("a", ("log_run", str(ran)))
        with pytest.raises(MemoryLimitError) as refused:
            list(runtime.as_completed())
    error = refused.value
    assert 400 << 20 <= error.taken_bytes < 512 << 20
    assert error.least_bytes == error.taken_bytes + HEADROOM_BYTES
    assert not ran.exists()
    enough = replace(settings, memory_limit_bytes=error.least_bytes + (32 << 20))
    with RayRuntime(work, enough) as runtime:
        items = [("small", ("allocate", 64 << 20)), ("large", ("allocate", 300 << 20))]
        done = {c.key: c for c in complete_all(runtime, items)}
    assert done["small"].value == 64 << 20
    assert done["large"].failed


def test_a_worker_uses_one_thread() -> None:
    assert run({"threads": ("threads", None)})["threads"].value == "1"


def test_work_that_workers_cannot_import_fails_each_item() -> None:
    work_of_nowhere = FunctionType(work.__code__, work.__globals__, "work_of_nowhere")
    work_of_nowhere.__module__ = work.__module__
    work_of_nowhere.__qualname__ = "work_of_nowhere"
    work.__globals__["work_of_nowhere"] = work_of_nowhere
    with RayRuntime(work_of_nowhere) as runtime:
        completions = list(complete_all(runtime, [("a", ("echo", 1)), ("b", ("echo", 2))]))
    errors = [c.error for c in completions if c.error is not None]
    assert [error.type for error in errors] == ["AttributeError", "AttributeError"]
    assert all("work_of_nowhere" in error.message for error in errors)


def test_a_runtime_leaves_a_connection_it_found_open(local_ray: RaySession) -> None:
    with RayRuntime(work) as runtime:
        assert [c.value for c in complete_all(runtime, [("a", ("echo", 1))])] == [1]
    assert local_ray.ray.is_initialized()
    with pytest.raises(ValueError, match="connected to Ray already"):
        RayRuntime(work, RuntimeSettings(address="10.1.2.3:6379"))


def test_workers_that_cannot_start_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a single worker nothing can complete: that is an error, not an endless wait."""
    monkeypatch.setattr("clusters.ray.start.Start", NoWorker)
    with RayRuntime(work) as runtime:
        runtime.submit("a", ("echo", 1))
        with pytest.raises(WorkersUnavailableError, match="out of order"):
            list(runtime.as_completed())


class NoWorker:
    def __init__(self, *arguments: object) -> None:
        raise OSError("out of order")

    def identity(self) -> None: ...
