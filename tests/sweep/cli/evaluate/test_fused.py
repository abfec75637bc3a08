"""``archsweep evaluate`` of fused mappings."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sweep.cli.main import app

DATA = Path(__file__).parents[3] / "data" / "fusion"


@pytest.mark.slow
def test_one_object_a_case_with_counts_or_violations() -> None:
    ended = CliRunner().invoke(app, ["evaluate", str(DATA / "tiny_counts.jsonl.gz"), "--json"])
    assert ended.exit_code == 0, ended.output
    with gzip.open(DATA / "tiny_counts.jsonl.gz", "rt") as file:
        told = [json.loads(line) for line in file]
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(lines) == len(told)
    for line, case in zip(lines, told, strict=True):
        assert line["id"] == case["id"]
        if "invalid" in case:
            assert set(line) == {"id", "violations"}
            continue
        assert list(line) == ["id", "energy_pj", "cycles", "counts", "peak"]
        assert line["counts"] == case["counts"]


def test_text_says_costs_and_reasons(tmp_path: Path) -> None:
    with gzip.open(DATA / "tiny_counts.jsonl.gz", "rt") as file:
        case = json.loads(file.readline())
    wrong = json.loads(json.dumps(case))
    wrong["mapping"]["own"][0][0][0][1] = 5
    path = tmp_path / "cases.jsonl"
    path.write_text(f"{json.dumps(case)}\n{json.dumps(wrong)}\n")
    ended = CliRunner().invoke(app, ["evaluate", str(path)])
    assert ended.exit_code == 0, ended.output
    first, second = ended.stdout.splitlines()
    assert first == "g2-L2-1-0  284 cycles  38399 pJ  5 words at most"
    assert "the loop over n1 of e0 has step 5, no divisor of 3" in second


def test_a_line_that_is_wrong_is_named(tmp_path: Path) -> None:
    with gzip.open(DATA / "tiny_counts.jsonl.gz", "rt") as file:
        case = json.loads(file.readline())
    del case["mapping"]["own"]
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(case))
    ended = CliRunner().invoke(app, ["evaluate", str(path), "--json"])
    assert f"{path}:1: mapping: own: expected 'own'" in str(ended.exception)
