"""Programs in the store: those of the best schedules, of no others, and all of them after a killed run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.formats.json.programs import unpacked_program
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.checker import violations
from costmodel.schedule.program.program import Program
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tree.validity import NotPossibleError
from results.store.folder import RunFolder
from results.store.schema.rows import AnswerRow
from solvers.budget import Deadline
from sweep.run.progress.observer import RunObserver
from sweep.run.progress.run_tally import RunTally
from sweep.study.study import Study, load_study
from sweep.tasks.kinds import answer_task
from tests.costmodel.schedule.program.program_counts import dram_bytes
from tests.sweep.run.explored import MakeRuntime, explored, schedules
from tests.sweep.run.studies.test_schedule_study import STUDY, write


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return load_study(str(write(tmp_path, STUDY)))


def best(folder: RunFolder) -> list[str]:
    """The best schedule of every design."""
    entries = (row["networks"].values() for row in folder.read_rows("designs"))
    return [entry["schedule"] for entries_of in entries for entry in entries_of]


@pytest.mark.slow
def test_each_designs_best_schedule_has_its_program(
    study: Study, tmp_path: Path, in_process: MakeRuntime
) -> None:
    tally = RunTally()
    folder = explored(study, tmp_path / "runs" / "skip", in_process(answer_task), tally)
    rows, programs = schedules(folder), folder.read_rows("programs")
    assert sorted(row["schedule_id"] for row in programs) == sorted(best(folder))
    assert len(programs) == 4 < len(rows)
    for row in programs:
        schedule = rows[row["schedule_id"]]
        program = unpacked_program(row["program"])
        assert (row["status"], row["tree"], row["no_program"]) == ("feasible", schedule["tree"], None)
        assert sum(dram_bytes(program)) == schedule["dram_bytes"]
        assert violations(program) == []
    assert 0 < tally.program_cpu_seconds < tally.schedule_cpu_seconds + tally.layer_cpu_seconds


@pytest.mark.slow
def test_a_run_that_ends_while_programs_are_written_goes_on_there(
    study: Study, tmp_path: Path, in_process: MakeRuntime
) -> None:
    class Interrupting(RunObserver):
        def answered(self, row: AnswerRow) -> None:
            if row.get("solver") == "program_writer":
                raise KeyboardInterrupt

    class Kinds(RunObserver):
        def __init__(self) -> None:
            self.solved: list[str] = []

        def answered(self, row: AnswerRow) -> None:
            if not row["cached"]:
                self.solved.append(row["solver"])

    path, again, nothing = tmp_path / "runs" / "skip", Kinds(), Kinds()
    with pytest.raises(KeyboardInterrupt):
        explored(study, path, in_process(answer_task), Interrupting())
    (kept,) = RunFolder(path).read_rows("programs")
    folder = explored(study, path, in_process(answer_task), again)
    assert again.solved == ["program_writer"] * 3
    programs = folder.read_rows("programs")
    assert sorted(row["schedule_id"] for row in programs) == sorted(best(folder))
    assert kept["task_id"] in {row["task_id"] for row in programs}
    explored(study, path, in_process(answer_task), nothing)
    assert nothing.solved == []


@pytest.mark.slow
def test_a_program_that_fails_is_a_failure_and_tried_again(
    study: Study, tmp_path: Path, in_process: MakeRuntime
) -> None:
    def no_programs(content: Any) -> Any:
        if content["kind"] == "program":
            raise RuntimeError("no writer today")
        return answer_task(content)

    tally = RunTally()
    folder = explored(study, tmp_path / "runs" / "skip", in_process(no_programs), tally)
    assert {row["status"] for row in folder.read_rows("designs")} == {"complete"}
    assert tally.failures == 4
    assert {row["error"] for row in folder.read_rows("programs")} == {"RuntimeError: no writer today"}
    folder = explored(study, folder.path, in_process(answer_task))
    assert {row["status"] for row in folder.read_rows("programs")} == {"feasible"}


@pytest.mark.slow
def test_a_schedule_without_a_program_says_why(
    study: Study, tmp_path: Path, in_process: MakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a row is an answer: nobody tries it again."""

    def nothing(*_: object) -> None:
        raise NotPossibleError("a: no program yet for a layer mapped on the whole chip")

    monkeypatch.setattr("sweep.tasks.chips.program.write_program", nothing)
    folder = explored(study, tmp_path / "runs" / "skip", in_process(answer_task))
    for row in folder.read_rows("programs"):
        assert (row["status"], row["program"]) == ("infeasible", None)
        assert row["no_program"] == "a: no program yet for a layer mapped on the whole chip"
    again = RunTally()
    explored(study, folder.path, in_process(answer_task), again)
    assert again.hits == again.done


@pytest.mark.slow
def test_a_program_that_is_not_written_in_time_is_tried_again(
    study: Study, tmp_path: Path, in_process: MakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer has the wall seconds of the schedule's solve, and each of its checks looks at the clock."""

    def late(graph: LayerGraph, evaluation: ChipEvaluation, check: Callable[[], None]) -> Program:
        monkeypatch.setattr(Deadline, "in_time", lambda self: False)
        try:
            return write_program(graph, evaluation, check)
        finally:
            monkeypatch.undo()

    monkeypatch.setattr("sweep.tasks.chips.program.write_program", late)
    first = replace_seconds(study, 7.0)
    folder = explored(first, tmp_path / "runs" / "skip", in_process(answer_task))
    (late_row, *others) = folder.read_rows("programs")
    assert (late_row["status"], late_row["program"]) == ("unknown", None)
    assert late_row["no_program"] == "not done in 7 s, the time limit of its schedule"
    assert {row["status"] for row in others} == {"feasible"}
    assert {row["status"] for row in folder.read_rows("designs")} == {"complete"}
    again = RunTally()
    explored(first, folder.path, in_process(answer_task), again)
    assert again.done - again.hits == 1
    assert {row["status"] for row in folder.read_rows("programs")} == {"feasible"}


def replace_seconds(study: Study, wall_seconds: float) -> Study:
    assert study.schedule is not None
    schedule = study.schedule.model_copy(update={"wall_seconds": wall_seconds})
    return study.model_copy(update={"schedule": schedule})
