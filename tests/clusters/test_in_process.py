"""What only the runtime without other processes does."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from clusters.in_process import InProcessRuntime
from clusters.runtime import WALL_LIMIT, RuntimeSettings, complete_all


def test_nothing_runs_before_completions_are_asked_for() -> None:
    ran: list[str] = []
    runtime = InProcessRuntime(ran.append)
    runtime.submit("a", "first")
    runtime.submit("b", "second")
    assert ran == []
    next(runtime.as_completed())
    assert ran == ["first"]


def test_ctrl_c_passes_and_leaves_the_item_pending() -> None:
    calls: list[int] = []

    def interrupted_once(payload: int) -> int:
        calls.append(payload)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return payload

    runtime = InProcessRuntime(interrupted_once)
    for number in range(3):
        runtime.submit(str(number), number)
    completions = runtime.as_completed()
    seen = [next(completions).value]
    with pytest.raises(KeyboardInterrupt):
        next(completions)
    seen += [completion.value for completion in runtime.as_completed()]
    assert seen == [0, 1, 2]
    assert calls == [0, 1, 1, 2]


def test_the_callers_alarm_handler_is_restored() -> None:
    def mine(signum: int, frame: Any) -> None:
        raise AssertionError("the caller's alarm rang")

    previous = signal.signal(signal.SIGALRM, mine)
    try:
        runtime = InProcessRuntime(time.sleep, RuntimeSettings(wall_limit_seconds=0.05))
        done = {c.key: c for c in complete_all(runtime, [("long", 30.0), ("short", 0.0)])}
        assert signal.getsignal(signal.SIGALRM) is mine
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert done["long"].error is not None
    assert done["long"].error.type == WALL_LIMIT
    assert done["short"].error is None


@pytest.mark.parametrize(
    "settings", [{"memory_limit_bytes": 1 << 30}, {"address": "host:6379"}, {"workers": 2}], ids=str
)
def test_settings_it_cannot_keep_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="use the Ray runtime"):
        InProcessRuntime(len, RuntimeSettings(**settings))


def test_a_wall_limit_outside_the_main_thread_is_refused() -> None:
    with ThreadPoolExecutor(1) as pool:
        attempt = pool.submit(InProcessRuntime, len, RuntimeSettings(wall_limit_seconds=1))
        with pytest.raises(ValueError, match="main thread"):
            attempt.result()
