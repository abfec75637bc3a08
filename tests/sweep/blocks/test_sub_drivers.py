"""Shares that a sub-driver cuts up: the rows of a run without, whatever the cuts and whatever fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from clusters.in_process import InProcessRuntime
from clusters.runtime import Completion, Runtime, RuntimeSettings, Work
from sweep.blocks.block import Block
from sweep.blocks.block_work import BlockWork
from sweep.blocks.division import BlockDivision
from sweep.run.progress.run_tally import RunTally
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.search_choice import GridSearch, OptunaSearch
from sweep.study.study import AxisChoices, Study
from sweep.tasks.kinds import answer_task
from tests.sweep.run.explored import contents, family_of

HERE = RuntimeChoice(in_process=True)


class DividedHere:
    """A runtime in this process that says to have sub-drivers, and does with payloads what they do."""

    sub_drivers, workers, capacity = 2, 5, 3

    def __init__(self, work: Work, division: BlockDivision) -> None:
        self._division = division
        self._runtime = InProcessRuntime(work, RuntimeSettings())
        self.pending = self.parts = 0

    def submit(self, key: str, payload: Any) -> None:
        self._division.accept(key, payload)
        self.pending += 1

    def as_completed(self) -> Iterator[Completion]:
        while self.pending:
            # several parts are out at a time, so that shares do not end in the order of their coming
            while self._runtime.pending < 3 and (part := self._division.draw(2)) is not None:
                self._runtime.submit(*part)
                self.parts += 1
            for completion in self._runtime.as_completed():
                for done in self._division.file(completion):
                    self.pending -= 1
                    yield Completion(done.key, done.value, done.error, "", done.wall_seconds, 0.0, 1)
                if (part := self._division.draw(2)) is not None:
                    self._runtime.submit(*part)
                    self.parts += 1

    def close(self) -> None:
        self._runtime.close()

    def __enter__(self) -> DividedHere:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@dataclass(frozen=True)
class BySubDrivers(RuntimeChoice):
    """Where studies run in these tests; ``breaks``: the work, if it is not the study's own."""

    breaks: bool = False
    at_once: int = 0
    """Solves that a worker gets, whatever the driver says; 0: what it says."""

    def runtime(self, study: Study, work: Work = answer_task) -> Runtime:
        assert isinstance(work, BlockWork)
        division = _Cut(work, self.at_once) if self.at_once else BlockDivision(work)
        return cast(Runtime, DividedHere(Breaking(work) if self.breaks else work, division))


class _Cut(BlockDivision):
    def __init__(self, work: BlockWork, at_once: int) -> None:
        super().__init__(work)
        self._at_once = at_once

    def _size(self, share: Any, workers: int) -> int:
        return self._at_once


class Breaking:
    """Fails the blocks that have the fifth layer of an architecture, as a worker that dies there does."""

    def __init__(self, work: BlockWork) -> None:
        self._work = work

    def __call__(self, payload: Any) -> Any:
        if isinstance(payload, Block) and 4 in range(payload.first, payload.first + payload.solves):
            raise ArithmeticError("the fifth layer kills its worker")
        return self._work(payload)


@pytest.fixture
def family(tiny: Study) -> Study:
    return family_of(tiny, iterations=20)


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [0, 5, 30])
def test_rows_are_those_of_a_run_without(at_once: int, family: Study, tmp_path: Path) -> None:
    alone = run_study(family, tmp_path / "a" / "tiny", HERE)
    seen = RunTally()
    divided = run_study(family, tmp_path / "b" / "tiny", BySubDrivers(at_once=at_once), observer=seen)
    for table in ("layers", "designs"):
        assert contents(divided, table) == contents(alone, table)
    assert (seen.done, seen.designs.total()) == (6 * 13, 12), "nothing is counted twice"
    spent = [row["cpu_seconds"] > 0 for row in divided.read_rows("designs")]
    assert spent.count(True) == 6, "of two designs that need the same solves, one has their CPU time"


@pytest.mark.slow
@pytest.mark.parametrize(
    "search", [GridSearch(prune_by_bounds=True), OptunaSearch(method="optuna", trials=12, seed=3)]
)
def test_searches_come_to_the_same_designs(search: Any, family: Study, tmp_path: Path) -> None:
    study = family.model_copy(update={"search": search})
    alone = run_study(study, tmp_path / "a" / "tiny", HERE)
    divided = run_study(study, tmp_path / "b" / "tiny", BySubDrivers(at_once=5))
    fronts = []
    for folder in (alone, divided):
        rows = contents(folder, "designs")
        assert len(rows) == 12 or search.method == "optuna"
        found = [row for row in rows.values() if row["status"] == "complete"]
        points = {(row["energy_pj"], row["cycles"]) for row in found}
        better = {p: [o for o in points if o != p and o[0] <= p[0] and o[1] <= p[1]] for p in points}
        fronts.append({point for point, others in better.items() if not others})
    assert fronts[0] == fronts[1]


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [5, 30])
def test_stored_answers_travel_through_a_sub_driver(at_once: int, family: Study, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    narrow = family.model_copy(
        update={"axes": dict(family.axes) | {"SRAM.size": AxisChoices(choices=("2 KiB", "4 KiB"))}}
    )
    answered = run_study(narrow, runs / "tiny", HERE).answered("layers")
    assert answered
    seen = RunTally()
    own = run_study(family, runs / "tiny", BySubDrivers(at_once=at_once), observer=seen)
    assert (seen.done, seen.hits) == (6 * 13, len(answered))
    other = run_study(family.model_copy(update={"name": "other"}), runs / "other", BySubDrivers())
    copied = {row["task_id"] for row in other.read_rows("layers") if row["from_study"] == "tiny"}
    assert copied == own.answered("layers")
    alone = run_study(family, tmp_path / "alone" / "tiny", HERE)
    for table in ("layers", "designs"):
        mine, expected = contents(own, table), contents(alone, table)
        if table == "designs":
            for row in (*mine.values(), *expected.values()):
                del row["cached_solves"]
        assert mine == expected


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [5, 30])
def test_a_lost_block_is_tried_solve_by_solve_in_the_sub_driver(
    at_once: int, family: Study, tmp_path: Path
) -> None:
    alone = contents(run_study(family, tmp_path / "a" / "tiny", HERE), "layers")
    seen = RunTally()
    broken = run_study(
        family, tmp_path / "b" / "tiny", BySubDrivers(at_once=at_once, breaks=True), observer=seen
    )
    rows = contents(broken, "layers")
    failed = {task_id for task_id, row in rows.items() if row["status"] == "failed"}
    assert len(failed) == 6
    assert all("kills its worker" in rows[task_id]["error"] for task_id in failed)
    assert seen.failures == len(failed)
    assert rows.keys() == alone.keys()
    assert {task_id: rows[task_id] for task_id in rows.keys() - failed} == {
        task_id: alone[task_id] for task_id in rows.keys() - failed
    }
    assert len(contents(broken, "designs")) == 12
    healed = run_study(family, tmp_path / "b" / "tiny", BySubDrivers())
    assert {task_id: row["objective"] for task_id, row in contents(healed, "layers").items()} == {
        task_id: row["objective"] for task_id, row in alone.items()
    }
