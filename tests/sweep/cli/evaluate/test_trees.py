"""``archsweep evaluate`` of files of RA trees."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sweep.cli.main import app

TREES = Path(__file__).parents[3] / "data/set/trees.json.gz"


def record(**changed: Any) -> dict[str, Any]:
    with gzip.open(TREES) as file:
        trees = json.load(file)["trees"]
    found = next(
        tree for tree in trees if (tree["net"], tree["search"], tree["batch"]) == ("resnet", "SET", 64)
    )
    return {key: found[key] for key in ("net", "platform", "batch", "objective_param", "text")} | changed


@pytest.mark.slow
def test_one_object_a_tree_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "trees.json"
    path.write_text(json.dumps({"trees": [record(), record(objective_param=1)]}))
    ended = CliRunner().invoke(app, ["evaluate", str(path), "--json"])
    assert ended.exit_code == 0, ended.output
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [set(line) for line in lines] == [
        {"energy_pj", "latency_cycles", "dram_bytes", "noc_hop_bytes"}
    ] * 2
    # another objective makes other choices within the leaves
    assert lines[0] != lines[1]


def test_a_tree_that_cannot_run_says_why_and_fails(tmp_path: Path) -> None:
    layers = [line.split()[0] for line in record()["text"].splitlines() if line.split()[0] not in "ST"]
    together = "T 64/1\n\tS 64/1\n" + "".join(f"\t\t{layer} 64\n" for layer in layers)
    path = tmp_path / "trees.json.gz"
    path.write_bytes(gzip.compress(json.dumps(record(text=together, platform="edge")).encode()))
    ended = CliRunner().invoke(app, ["evaluate", str(path), "--json"])
    assert ended.exit_code == 1
    line = json.loads(ended.stdout)
    assert line["energy_pj"] is None
    assert "16 tiles cannot be shared" in line["not_possible"]
    shown = CliRunner().invoke(app, ["evaluate", str(path)])
    assert "resnet batch 64  S cut 64/1: 16 tiles" in shown.stdout


def test_trees_do_not_mix_with_mappings(tmp_path: Path) -> None:
    from costmodel.errors import InputError

    ended = CliRunner().invoke(app, ["evaluate", str(TREES), str(tmp_path), "--json"])
    assert isinstance(ended.exception, InputError)
    with pytest.raises(InputError, match="RA trees or of mappings, not both"):
        raise ended.exception
