"""No process of Ray's outlives the driver, however it ends; callers' signal handlers stay theirs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.clusters.processes import MARK, PATIENCE, left_of, line_of, marked, until

pytestmark = pytest.mark.cluster

DRIVER = """
import signal, sys
from tests.clusters.work_items import work
from clusters.ray.actors import RayRuntime
from clusters.runtime import RuntimeSettings

class Stop(Exception):
    pass

def on_term(signum, frame):
    raise Stop

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit none
if "{mode}" == "handler":
    signal.signal(signal.SIGTERM, on_term)
try:
    with RayRuntime(work, RuntimeSettings(workers=2)) as runtime:
        for number in range(6):
            runtime.submit(str(number), ("nap", 0.01 if number == 0 else 600))
        for completion in runtime.as_completed():
            print("ready", flush=True)
            if "{mode}" == "error":
                raise Stop
except Stop:
    assert "{mode}" == "error" or signal.getsignal(signal.SIGTERM) is on_term
    sys.exit(7)
except KeyboardInterrupt:
    sys.exit(8)
"""


def start_driver(mode: str, mark: str) -> subprocess.Popen[str]:
    environment = os.environ | {MARK: mark, "PYTHONPATH": str(Path(__file__).parents[3])}
    environment.pop("RAY_ADDRESS", None)
    # a session of its own is a process group of its own, as a shell gives to a job
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER.format(mode=mode)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end_and_count(mode: str, number: int | None, group: bool = False) -> tuple[int, str, int]:
    """Start a driver, signal it when it is at work, wait for the end of all that it had started.

    Returns its exit status, its stderr, and how many processes there were.
    """
    mark = uuid.uuid4().hex
    with start_driver(mode, mark) as driver:
        first = line_of(driver)
        before = len(marked(mark))
        if number is not None:
            (os.killpg if group else os.kill)(driver.pid, number)
        try:
            rest, errors = driver.communicate(timeout=PATIENCE)
        finally:
            driver.kill()
    assert first + rest == "ready\n", f"only the driver's own line belongs on stdout; stderr: {errors}"
    killed = number == signal.SIGKILL
    until(lambda: not (left_of(mark) if killed else marked(mark)), "Ray's processes to end")
    return driver.returncode, errors, before


@pytest.mark.parametrize(
    ("mode", "number", "group", "status"),
    [
        pytest.param("error", None, False, 7, marks=pytest.mark.thorough),
        ("handler", signal.SIGTERM, False, 7),
        pytest.param("plain", signal.SIGTERM, False, None, marks=pytest.mark.thorough),
        ("plain", signal.SIGINT, True, 8),
        ("plain", signal.SIGKILL, False, -signal.SIGKILL),
    ],
    ids=["exception", "sigterm-handled", "sigterm", "ctrl-c", "sigkill"],
)
def test_nothing_outlives_the_driver(mode: str, number: int | None, group: bool, status: int | None) -> None:
    """``status`` None: Ray's own handler ends the driver, with 15, or 1 where its core worker is first."""
    returned, errors, before = end_and_count(mode, number, group)
    assert returned != 0 if status is None else returned == status, errors
    assert before >= 4, "the driver, the GCS, the raylet and a worker at least"
    assert "Traceback" not in errors
