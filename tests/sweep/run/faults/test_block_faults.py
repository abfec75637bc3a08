"""Blocks on Ray whose workers die: what is lost is solved again, and the one to blame is a failed row."""

from __future__ import annotations

import ctypes
import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from clusters.ray.actors import RayRuntime
from clusters.runtime import RuntimeSettings
from results.store.folder import RunFolder, RunWriter
from solvers.mapping.problem import MappingProblem
from sweep import PACKAGES
from sweep.blocks.block import BlockTally
from sweep.blocks.block_work import solve
from sweep.design.mapping_workload import LayerSolve
from sweep.forecast.plan import plan
from sweep.run.block_run import BlockRun
from sweep.run.progress.observer import RunObserver
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import Study, load_study
from tests.sweep.run.faults.many_solves import PROBLEM, SOLVES, many_solves

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@dataclass(frozen=True)
class Deadly:
    """Ends its process at one problem: at every one with ``size`` words in a level, or once, by a file."""

    size: int
    once: str = ""

    def __call__(self, problem: MappingProblem, asked: LayerSolve) -> Any:
        sizes = [level.size_words for level in problem.architecture.levels]
        if self.size in sizes and problem.architecture.mac_units == 4:
            if not self.once:
                ctypes.string_at(0)
            elif not os.path.exists(self.once):
                Path(self.once).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return solve(problem, asked)


class Growing(RunObserver):
    """Sees how many solves the largest block had."""

    largest = 0

    def block_done(self, tally: BlockTally) -> None:
        self.largest = max(self.largest, tally.solves)


@pytest.fixture
def many(tmp_path: Path) -> Study:
    (tmp_path / "problem.yaml").write_text(PROBLEM)
    (tmp_path / "many.yaml").write_text(many_solves("many"))
    return load_study(str(tmp_path / "many.yaml"))


def run_with(study: Study, path: Path, deadly: Deadly) -> Growing:
    planned, seen = plan(study), Growing()
    assert planned.table is not None
    with RunWriter(path) as writer:
        run = BlockRun(study, planned.table, planned.workload, writer, seen)
        run._seconds_each = 0.005  # as after some blocks: the first have many solves, too
        settings = RuntimeSettings(workers=2, packages=PACKAGES)
        with RayRuntime(replace(run.work, solve=deadly), settings) as runtime:
            run.explore(runtime)
    return seen


def objectives(path: Path) -> dict[str, Any]:
    rows = RunFolder(path).read_rows("layers", ["task_id", "objective"])
    found = {row["task_id"]: row["objective"] for row in rows}
    assert len(found) == len(rows), "no task has two rows"
    return found


@pytest.fixture
def expected(many: Study, tmp_path: Path) -> dict[str, Any]:
    return objectives(run_study(many, tmp_path / "a" / "many", RuntimeChoice(in_process=True)).path)


@pytest.mark.thorough
@pytest.mark.usefixtures("local_ray")
def test_a_killed_worker_loses_the_block_that_it_has(
    many: Study, tmp_path: Path, expected: dict[str, Any]
) -> None:
    path = tmp_path / "b" / "many"
    seen = run_with(many, path, Deadly(size_of_many(many), str(tmp_path / "died")))
    assert (tmp_path / "died").exists()
    assert seen.largest > 1
    assert objectives(path) == expected
    rows = RunFolder(path).read_rows("layers", ["status", "attempts"])
    assert len(rows) == SOLVES
    assert "failed" not in {row["status"] for row in rows}
    assert max(row["attempts"] for row in rows) == 2, "those of the lost block were started twice"


@pytest.mark.usefixtures("local_ray")
def test_a_solve_that_kills_its_worker_is_the_only_one_that_fails(
    many: Study, tmp_path: Path, expected: dict[str, Any]
) -> None:
    path = tmp_path / "b" / "many"
    run_with(many, path, Deadly(size_of_many(many)))
    rows = RunFolder(path).read_rows("layers")
    failed = [row for row in rows if row["status"] == "failed"]
    assert len(rows) == SOLVES
    assert len(failed) == 1
    assert "PoisonousItem" in failed[0]["error"]
    others = {task_id: found for task_id, found in objectives(path).items() if found is not None}
    assert others == {task_id: expected[task_id] for task_id in expected.keys() - {failed[0]["task_id"]}}
    assert len(RunFolder(path).read_rows("designs")) == SOLVES
    resumed = run_study(many, path, RuntimeChoice(in_process=True))
    assert objectives(resumed.path) == expected


def size_of_many(study: Study) -> int:
    """The words of a level that one of the smallest designs has, and no other of them."""
    planned = plan(study)
    assert planned.table is not None
    every = [planned.table.design(row).architecture for row in range(len(planned.table))]
    sizes = [one.levels[1].size_words for one in every if one.mac_units == 4]
    once = [size for size in sizes if size is not None and sizes.count(size) == 1]
    return once[len(once) // 2]
