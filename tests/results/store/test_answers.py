"""Earlier answers are found in every run, and only answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from results.store.folder import Buffering, RunWriter
from results.store.known_answers import StoredAnswers, answer_columns
from results.store.parts import list_parts
from results.store.schema.tables import LAYERS, SCRATCHPADS

Row = dict[str, Any]
Make = Callable[..., Row]


def _write(path: Path, rows: list[Row], rows_per_part: int = 10) -> None:
    with RunWriter(path, Buffering(rows=rows_per_part, seconds=3600)) as run:
        for row in rows:
            run.append("layers", row)


def test_answers_of_all_runs_are_found(tmp_path: Path, make_layer: Make) -> None:
    _write(tmp_path / "one", [make_layer(n) for n in range(25)])
    _write(tmp_path / "two", [make_layer(n) for n in range(25, 50)])
    (tmp_path / "a file").write_text("not a run")
    wanted = [make_layer(n)["task_id"] for n in (3, 24, 25, 49, 77)]
    answers = StoredAnswers(tmp_path).find(LAYERS, iter(wanted))
    assert set(answers) == set(wanted[:4])
    for number in (3, 24, 25, 49):
        row = make_layer(number)
        found = dict(answers[row["task_id"]])
        assert set(found) == set(answer_columns())
        assert {name: found[name] for name in answer_columns() if name in row} == {
            name: row[name] for name in answer_columns() if name in row
        }


def test_scratchpad_plans_are_answers_too(tmp_path: Path, make_layer: Make, make_scratchpad: Make) -> None:
    rows = [make_scratchpad(0), make_scratchpad(1, status="failed", plan=None, error="no memory")]
    with RunWriter(tmp_path / "run") as run:
        run.append("layers", make_layer(0))
        for row in rows:
            run.append("scratchpads", row)
    wanted = [row["task_id"] for row in (*rows, make_layer(0))]
    (answer,) = StoredAnswers(tmp_path).find(SCRATCHPADS, wanted).values()
    assert answer["plan"] == rows[0]["plan"]
    assert "params" not in answer


def test_only_answered_rows_count(tmp_path: Path, make_layer: Make) -> None:
    statuses = ("optimal", "feasible", "infeasible", "unknown", "failed")
    rows = [make_layer(number, status=status) for number, status in enumerate(statuses)]
    _write(tmp_path / "run", rows)
    answers = StoredAnswers(tmp_path).find(LAYERS, [row["task_id"] for row in rows])
    assert sorted(row["status"] for row in answers.values()) == ["feasible", "infeasible", "optimal"]


def test_rows_are_found_by_another_column_that_is_not_asked_for(tmp_path: Path, make_layer: Make) -> None:
    rows = [make_layer(1), make_layer(2, status="failed"), make_layer(3, architecture_id="another")]
    _write(tmp_path / "run", rows)
    found = StoredAnswers(tmp_path).matching(
        LAYERS, "architecture_id", [rows[0]["architecture_id"]], ("task_id",)
    )
    assert [row["task_id"] for row in found] == [rows[0]["task_id"]]
    assert StoredAnswers(tmp_path).matching(LAYERS, "architecture_id", [], ("task_id",)) == []


def test_an_original_beats_a_copy_and_the_first_finished_wins(tmp_path: Path, make_layer: Make) -> None:
    first = make_layer(1, study="first", worker="original")
    copy = make_layer(1, cached=True, worker="copy", finished_at=first["finished_at"] - timedelta(hours=1))
    later = make_layer(1, worker="later", finished_at=first["finished_at"] + timedelta(hours=1))
    _write(tmp_path / "a", [copy])
    _write(tmp_path / "b", [later])
    _write(tmp_path / "c", [make_layer(2), first, make_layer(3)])
    answers = StoredAnswers(tmp_path).find(LAYERS, [first["task_id"]], columns=("worker",))
    assert answers[first["task_id"]]["worker"] == "original"
    assert StoredAnswers(tmp_path / "nowhere").find(LAYERS, [first["task_id"]]) == {}
    assert StoredAnswers(tmp_path).find(LAYERS, []) == {}


def test_repeated_rows_within_a_part_follow_the_same_rule(tmp_path: Path, make_layer: Make) -> None:
    first = make_layer(1, worker="original")
    copy = make_layer(1, cached=True, worker="copy", finished_at=first["finished_at"] + timedelta(hours=1))
    _write(tmp_path / "a", [first, make_layer(2), copy])
    assert StoredAnswers(tmp_path).find(LAYERS, [first["task_id"]])[first["task_id"]]["worker"] == "original"


def test_a_damaged_part_is_left_out_with_a_warning(tmp_path: Path, make_layer: Make) -> None:
    _write(tmp_path / "run", [make_layer(n) for n in range(30)])
    victim = list_parts(tmp_path / "run" / "layers")[0]
    victim.write_bytes(victim.read_bytes()[:500])
    wanted = [make_layer(n)["task_id"] for n in range(30)]
    with pytest.warns(UserWarning, match=r"left out of the lookup: .*00000001"):
        answers = StoredAnswers(tmp_path).find(LAYERS, wanted)
    assert set(answers) == set(wanted[10:])
