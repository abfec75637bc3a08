"""Random search that waits for a test, in the processes of hosts that have this folder on their PYTHONPATH.

Python imports a module of this name when it starts. Tests that stop, follow or spread a study need solves
that last until something has happened. These wait for just that, so that no test guesses how long to compute
for, and nobody lacks the processors. `tests.clusters.holds` says what a solve can wait for.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

RULE, FOLDER = os.environ.get("ARCHSWEEP_TEST_HOLD", ""), Path(os.environ.get("ARCHSWEEP_TEST_HELD", "."))


def job() -> str:
    """Of this worker. Ray is there already, and a worker that it started ahead has its job by now."""
    import ray

    return str(ray.get_runtime_context().get_job_id())


def begun(what: str) -> int:
    """How many solves of this kind have begun before, on all hosts. This one is counted from now on."""
    for number in count():
        try:
            (FOLDER / f"{what}.{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return number
    raise AssertionError


def hold(seed: int) -> None:
    """Wait as the RULE says."""
    rule, _, number = RULE.partition(":")
    if rule == "workers":
        mine = job()
        (FOLDER / f"{mine}@{socket.gethostname()}.{os.getpid()}").touch()
        wait_while(lambda: len([*FOLDER.glob(f"{mine}@*")]) < int(number))
    elif rule == "seed" and (held := FOLDER / f"{seed}.held").exists() and begun(str(seed)) >= int(number):
        wait_while(held.exists)


def wait_while(holds: Callable[[], object]) -> None:
    while holds():
        time.sleep(0.05)


def hold_solves(solver: Any) -> None:
    solve = solver.solve

    def held(problem: Any, budget: Any, *params: Any) -> Any:
        hold(budget.seed)
        return solve(problem, budget, *params)

    solver.solve = held


def say_every_solve(command: Any) -> None:
    """As a line of a job's log, where otherwise ten seconds pass between two of them."""
    command.LINE_SECONDS = -1.0


CHANGES = {"solvers.mapping.random_search": hold_solves, "sweep.cli.run": say_every_solve}


class Finder(MetaPathFinder):
    """Finds these modules as others do, and changes them once they are loaded."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in CHANGES:
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next(found for found in others if found is not None)
        assert spec.loader is not None
        load = spec.loader.exec_module

        def load_and_change(module: ModuleType) -> None:
            load(module)
            CHANGES[name](module)

        spec.loader.exec_module = load_and_change  # type: ignore[method-assign]
        return spec


if RULE:
    sys.meta_path.insert(0, Finder())
