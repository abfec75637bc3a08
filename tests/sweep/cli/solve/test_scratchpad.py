"""``archsweep solve scratchpad``: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from costmodel.errors import InputError
from sweep.cli.main import app

GRAPH = str(Path(__file__).parents[3] / "data" / "scratchpad" / "resnet50.json.gz")
KEYS = ["status", "objective_bytes", "bound_bytes", "gap", "cpu_seconds", "budget_bytes", "plan", "note"]


def run(*options: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["solve", "scratchpad", *options])
    if isinstance(result.exception, InputError):
        raise result.exception
    return result.exit_code, result.stdout


def test_json_holds_the_proof_and_the_plan() -> None:
    code, out = run("--graph", GRAPH, "--budget", "MH", "--parameters", "--json")
    answer = json.loads(out)
    assert code == 0
    assert list(answer) == KEYS
    assert answer["status"] == "optimal"
    assert answer["objective_bytes"] == answer["bound_bytes"] == 200704
    assert answer["budget_bytes"] == 2534912
    assert len(answer["plan"]["order"]) == 72
    moved = [t for t in answer["plan"]["tensors"].values() if t["retrieved_at"]]
    assert [(len(t["residency"]), t["spilled_at"] is None) for t in moved] == [(2, False)]


def test_a_library_network_and_every_solver_s_name() -> None:
    code, out = run("--graph", "resnet18", "--solver", "comparison", "--in-place", "--budget", "4000000")
    assert code == 0
    assert "objective bytes" in out


def test_a_budget_that_is_too_small_ends_with_status_1() -> None:
    code, out = run("--graph", GRAPH, "--budget", "1000", "--json")
    assert code == 1
    assert json.loads(out)["status"] == "infeasible"
    assert "needs 2408448 bytes (MR)" in json.loads(out)["note"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--budget", "half"], "MR, MH, MP or a number"),
        (["--solver", "cosa"], "one of cosma"),
        (["--params", "[1]"], "a JSON object"),
        (["--params", "{"], "a JSON object"),
        (["--params", '{"speed": 1}'], "parameters of cosma"),
        (["--bits", "0"], "bits_per_element"),
    ],
)
def test_wrong_input_is_named(options: list[str], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        run("--graph", GRAPH, *options)
