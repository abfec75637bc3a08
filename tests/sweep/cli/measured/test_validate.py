"""``archsweep validate``: a line a run, the errors last, a page, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sweep.ended import Command

ROWS = Path(__file__).parents[3] / "data" / "silicon" / "gemmini_dosa.jsonl"


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


EYERISS = ROWS.with_name("eyeriss.jsonl")


def test_rows_of_the_eyeriss_chip(command_line: Command) -> None:
    ended = command_line("validate", "eyeriss-v1", str(EYERISS), "--json")
    assert ended.status == 0
    *lines, errors = map(json.loads, ended.out.splitlines())
    rows = [json.loads(line) for line in EYERISS.read_text().splitlines()]
    layers = [row for row in rows if row["layer"] is not None]
    assert [line["id"] for line in lines] == [row["id"] for row in layers]
    assert [line["measured"] for line in lines] == [row["processing_latency_ms"] for row in layers]
    assert [line["dram_mb"]["measured"] for line in lines] == [row["dram_mb"] for row in layers]
    assert max(abs(line["predicted"] / line["measured"] - 1) for line in lines) < 0.1
    assert errors["rows"] == 18
    shown = command_line("validate", "eyeriss-v1", str(EYERISS))
    assert "dram_mb: 18 rows" in shown.out


def test_eyeriss_rows_need_its_levels_and_a_latency(command_line: Command, tmp_path: Path) -> None:
    ended = command_line("validate", "gemmini", str(EYERISS), "--json")
    assert ended.status == 2
    assert "Take eyeriss-v1" in ended.err
    row = json.loads(EYERISS.read_text().splitlines()[0])
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps(row | {"processing_latency_ms": None}))
    ended = command_line("validate", "eyeriss-v1", str(path), "--json")
    assert ended.status == 2
    assert "a measured latency in every row" in ended.err
    path.write_text(json.dumps(row | {"layer": None}))
    ended = command_line("validate", "eyeriss-v1", str(path), "--json")
    assert ended.status == 2
    assert "at least one measured row" in ended.err
