"""``archsweep evaluate`` of nn-dataflow's rows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from costmodel.errors import InputError
from sweep.cli.main import app

FILE = Path(__file__).parents[3] / "data/kapla/layer_schemes.jsonl.gz"


def rows() -> list[dict[str, Any]]:
    with gzip.open(FILE, "rt") as file:
        return [json.loads(line) for line in file]


def test_one_object_a_row_in_the_files_own_form() -> None:
    ended = CliRunner().invoke(app, ["evaluate", str(FILE), "--json"])
    assert ended.exit_code == 0, ended.output
    told = rows()
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(lines) == len(told)
    for line, row in zip(lines, told, strict=True):
        assert list(line) == ["net", "layer", "energy_j", "time_cycles", "access"]
        assert (line["access"], line["time_cycles"]) == (row["access"], row["time_cycles"])
        assert line["energy_j"] == pytest.approx(row["energy"], rel=1e-12)


def test_what_does_not_fit_says_why_and_fails(tmp_path: Path) -> None:
    row = rows()[0]
    row["hw"]["gbuf_bytes"] = 2
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    ended = CliRunner().invoke(app, ["evaluate", str(path)])
    assert ended.exit_code == 1
    assert "buffer: tiles need" in ended.stdout
    ended = CliRunner().invoke(app, ["evaluate", str(path), "--json"])
    assert json.loads(ended.stdout)["access"] is None


def test_schemes_do_not_mix_with_mappings(tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["evaluate", str(FILE), str(tmp_path)])
    assert isinstance(ended.exception, InputError)
    assert "nn-dataflow's schemes or of mappings, not both" in str(ended.exception)
