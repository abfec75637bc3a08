"""``archsweep validate``: a line a run, the errors last, a page, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sweep.ended import Command

ROWS = Path(__file__).parents[2] / "data" / "silicon" / "gemmini_dosa.jsonl"


def test_a_line_a_run_and_the_errors_last(command_line: Command) -> None:
    ended = command_line("validate", "gemmini", str(ROWS), "--json")
    assert ended.status == 0
    *lines, errors = map(json.loads, ended.out.splitlines())
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    assert [line["id"] for line in lines] == [row["id"] for row in rows]
    assert [line["measured"] for line in lines] == [row["rtl_cycles"] for row in rows]
    assert list(errors) == ["rows", "mape", "median_ape", "spearman", "geomean_ratio"]
    mape = sum(abs(line["predicted"] / line["measured"] - 1) for line in lines) / len(lines)
    assert errors["mape"] == pytest.approx(mape)
    assert errors["rows"] == len(rows)


def test_a_table_and_a_page(command_line: Command, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ended = command_line("validate", "gemmini", str(ROWS), "--page", str(page))
    assert ended.status == 0
    assert "Spearman" in ended.out
    assert "Measured against predicted" in page.read_text()


def test_an_empty_file_is_refused(command_line: Command, tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("\n")
    ended = command_line("validate", "gemmini", str(tmp_path / "none.jsonl"), "--json")
    assert ended.status == 2
    assert "at least one measured row" in ended.err
    assert ended.out == ""
