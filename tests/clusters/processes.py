"""Processes that tests start: waiting for what they do, finding what they leave, ports that nobody takes.

A test waits for what happens, never for a time that it should take: another job may have the machine.
"""

from __future__ import annotations

import os
import random
import select
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 900.0
"""Seconds after which a test gives up. It guards against hanging, and is no measure of anything."""
MARK = "ARCHSWEEP_TEST_PROCESS"
"""Environment variable whose value all processes share that one of ours has started, directly or not."""
PORTS = range(20_000, 32_000)
"""Below those that the kernel gives to outgoing connections, which could take one before it is used."""


NO_LESS_URGENT = {"RAY_worker_niceness": "0"}
"""Environment of Ray, whose workers have niceness 15 else: other test processes leave them nearly nothing."""


def machine_code() -> dict[str, str]:
    """Environment of a process with a home of its own that shall find machine code compiled already."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    numba = {name: os.environ[name] for name in ("NUMBA_CACHE_DIR",) if name in os.environ}
    return {"XDG_CACHE_HOME": cache, **numba}


def until(
    condition: Callable[[], object],
    what: str,
    process: subprocess.Popen[str] | subprocess.Popen[bytes] | None = None,
) -> None:
    """Wait for a condition; AssertionError when the ``process`` that shall bring it about has ended."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        ended = None if process is None else process.poll()
        assert ended is None or condition(), f"waited for {what}, and the process ended with {ended}"
        assert time.monotonic() < deadline, f"waited {PATIENCE:.0f} s for {what}"
        time.sleep(0.05)


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line on the standard output of a process; empty where it ended."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
    assert ready, f"waited {PATIENCE:.0f} s for a line"
    return process.stdout.readline()


def marked(mark: str) -> list[int]:
    """Ids of the processes that have MARK with this value in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in environment:
            found.append(int(process.name))
    return found


LINGERING = frozenset({"ray::DashboardA", "ray::RuntimeEnv"})
"""After kill -9 of the driver Ray's two idle agents take a minute to notice that all the rest is gone."""


def name(process: int) -> str:
    """What the kernel calls a process; empty where it has ended."""
    try:
        return Path(f"/proc/{process}/comm").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def left_of(mark: str) -> set[str]:
    """Names of the processes that are left of a killed driver, its LINGERING ones apart."""
    return {name(process) for process in marked(mark)} - LINGERING - {""}


def free_port() -> int:
    """A port of this machine that nobody listens at, out of PORTS."""
    for port in random.SystemRandom().sample(PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError(f"no free port in {PORTS}")
