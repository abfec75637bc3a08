"""Sub-drivers on Ray: equal rows with them and without, though a sub-driver, a worker or the driver dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusters.ray.actors import RayRuntime
from results.store.folder import RunFolder, RunWriter
from sweep.blocks.block import BlockTally
from sweep.forecast.plan import plan
from sweep.run.block_run import BlockRun
from sweep.run.progress.run_tally import RunTally
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import Study, load_study
from tests.clusters.processes import MARK, left_of, until
from tests.sweep.run.faults.many_solves import PROBLEM, SOLVES, many_solves
from tests.sweep.run.faults.test_block_faults import Deadly, objectives, size_of_many

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
CHOICE = RuntimeChoice(workers=2, sub_drivers=2)


@pytest.fixture
def many(tmp_path: Path) -> Study:
    (tmp_path / "problem.yaml").write_text(PROBLEM)
    (tmp_path / "many.yaml").write_text(many_solves("many"))
    return load_study(str(tmp_path / "many.yaml"))


@pytest.fixture
def expected(many: Study, tmp_path: Path) -> dict[str, Any]:
    return objectives(run_study(many, tmp_path / "a" / "many", RuntimeChoice(in_process=True)).path)


class Acting(RunTally):
    """Does something once, after so many solves."""

    def __init__(self, solves: int, act: Callable[[], None]) -> None:
        super().__init__()
        self.solves, self.act = solves, act
        self.acted = 0

    def block_done(self, tally: BlockTally) -> None:
        super().block_done(tally)
        if not self.acted and self.done >= self.solves:
            self.acted = self.done
            self.act()


def run_with(study: Study, path: Path, deadly: Deadly | None, killed: Callable[[RayRuntime], int]) -> Acting:
    """A run by two sub-drivers, in the middle of which the process that ``killed`` names dies; 0: none."""
    planned = plan(study)
    assert planned.table is not None
    with RunWriter(path) as writer:
        opened: list[RayRuntime] = []

        def act() -> None:
            if number := killed(opened[0]):
                os.kill(number, signal.SIGKILL)

        seen = Acting(40, act)
        run = BlockRun(study, planned.table, planned.workload, writer, seen)
        run._seconds_each = 0.01  # as after some blocks
        work = replace(run.work, solve=deadly) if deadly else run.work
        with CHOICE.runtime(study, work) as runtime:
            assert isinstance(runtime, RayRuntime)
            assert runtime.sub_drivers == 2
            assert runtime.workers == 2
            opened.append(runtime)
            run.explore(runtime)
    return seen


def check(study: Study, path: Path, expected: dict[str, Any]) -> None:
    assert objectives(path) == expected
    designs = RunFolder(path).read_rows("designs", ["design_id", "status"])
    assert len({row["design_id"] for row in designs}) == len(designs) == SOLVES


@pytest.mark.usefixtures("local_ray")
def test_a_killed_sub_driver_loses_the_shares_that_it_has(
    many: Study, tmp_path: Path, expected: dict[str, Any]
) -> None:
    path = tmp_path / "b" / "many"

    def first(runtime: RayRuntime) -> int:
        return int(runtime._pool._actors[0].name.rpartition(":")[2])

    seen = run_with(many, path, None, first)
    assert 40 <= seen.acted < SOLVES, "in the middle of the run"
    check(many, path, expected)
    assert seen.done == SOLVES, "what the dead one had done for lost shares is counted once"


@pytest.mark.thorough
@pytest.mark.usefixtures("local_ray")
def test_a_killed_worker_of_a_sub_driver_loses_its_block(
    many: Study, tmp_path: Path, expected: dict[str, Any]
) -> None:
    path = tmp_path / "b" / "many"
    run_with(many, path, Deadly(size_of_many(many), str(tmp_path / "died")), lambda _: 0)
    assert (tmp_path / "died").exists()
    check(many, path, expected)
    rows = RunFolder(path).read_rows("layers", ["status", "attempts"])
    assert "failed" not in {row["status"] for row in rows}
    assert max(row["attempts"] for row in rows) == 2, "those of the lost block were started twice"


@pytest.mark.thorough
@pytest.mark.usefixtures("local_ray")
def test_a_solve_that_kills_its_worker_is_the_only_one_that_fails(
    many: Study, tmp_path: Path, expected: dict[str, Any]
) -> None:
    path = tmp_path / "b" / "many"
    run_with(many, path, Deadly(size_of_many(many)), lambda _: 0)
    rows = RunFolder(path).read_rows("layers")
    failed = [row for row in rows if row["status"] == "failed"]
    assert len(rows) == SOLVES
    assert ["PoisonousItem" in row["error"] for row in failed] == [True]
    resumed = run_study(many, path, RuntimeChoice(in_process=True))
    check(many, resumed.path, expected)


DRIVER = """
import sys
from pathlib import Path
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import load_study

run_study(load_study(sys.argv[1]), Path(sys.argv[2]), RuntimeChoice(workers=2, sub_drivers=2))
"""


def test_a_killed_driver_s_command_goes_on(many: Study, tmp_path: Path, expected: dict[str, Any]) -> None:
    path, mark = tmp_path / "b" / "many", uuid.uuid4().hex
    command = [sys.executable, "-c", DRIVER, str(tmp_path / "many.yaml"), str(path)]
    environment = {**os.environ, MARK: mark, "PYTHONPATH": str(Path(__file__).parents[4])}
    environment.pop("RAY_ADDRESS", None)
    journal = path / "layers"
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as driver:

        def begun() -> bool:
            return any(file.stat().st_size for file in journal.glob(".journal*")) or any(
                journal.glob("*.parquet")
            )

        until(begun, "answers in the folder", driver)
        driver.kill()
    until(lambda: not left_of(mark), "sub-drivers and workers of the dead driver to end")
    with RunWriter(path):
        pass  # opening takes in the journal
    kept = RunFolder(path).answered("layers")
    assert 0 < len(kept) < SOLVES
    seen = RunTally()
    again = [sys.executable, "-c", DRIVER, str(tmp_path / "many.yaml"), str(path)]
    subprocess.run(again, env=environment, check=True, stdout=subprocess.DEVNULL)
    check(many, path, expected)
    run_study(many, path, RuntimeChoice(in_process=True), observer=seen)
    assert seen.hits == SOLVES
