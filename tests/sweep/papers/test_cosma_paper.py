"""COSMA's evaluation: means of cases by hand, what is compared, the whole command on one small network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from results.store.folder import RunFolder
from sweep.cli.main import app
from sweep.papers import cosma
from sweep.papers.cosma_cases import HEURISTICS, SCHEMES

ROOT = Path(__file__).parents[3]


def row(moved: int, status: str = "optimal", bound: float | None = None) -> dict[str, Any]:
    return {
        "objective_bytes": moved,
        "bound_bytes": float(moved) if bound is None else bound,
        "status": status,
        "cpu_seconds": 0.5,
        "budget_bytes": 1000,
        "block_bytes": {"a": 1},
    }


def rows_of(graph: str, setting: str, cosma_moves: int, schemes_move: int) -> dict[Any, Any]:
    own = {(graph, setting, "cosma"): row(cosma_moves)}
    return own | {(graph, setting, scheme): row(schemes_move, "feasible", 0.0) for scheme in SCHEMES}


def test_means_with_and_without_graphs_whose_optimum_is_nothing() -> None:
    """100 % of one that could do with nothing and 50 % of one that could not; a third, whose schemes move
    nothing, counts in neither."""
    rows = rows_of("one", "MR", 0, 10) | rows_of("two", "MR", 5, 10) | rows_of("three", "MR", 0, 0)
    table = cosma.human_means({"human-fused": rows}, "quick")
    by_setting = {line[2]: line[3:] for line in table.rows}
    assert by_setting["MR"] == pytest.approx((75.0, 50.0, 1.0))
    assert by_setting["all"] == pytest.approx((75.0, 50.0, 1.0))


def test_bars_are_megabytes_and_a_missing_plan_is_said() -> None:
    rows = rows_of("one", "MR", 2_000_000, 3_000_000)
    del rows["one", "MR", "MPMF, greedy"]
    table = cosma.figure_3({"human-fused": rows}, "quick")
    assert table.rows[0][:7] == ("one", "MR", 0.001, 2.0, 3.0, 3.0, 3.0)
    assert table.rows[0][7] == "no plan"
    assert table.bars is not None
    assert table.bars.series["cosma"] == (2.0,)


def test_a_claim_of_the_paper_that_does_not_hold_is_counted() -> None:
    rows = rows_of("one", "MP", 0, 10) | rows_of("two", "MP", 0, 0)
    table = cosma.human_claims({"human-fused": rows}, "quick")
    counted = {line[0]: line[1:] for line in table.rows}
    assert counted["cosma moves nothing at MP"][0] == "2 of 2"
    assert counted["no scheme moves anything at MP"] == ("two MP", "FCN only (section V-B2)")
    assert counted["cosma moves less than MPMF, greedy"] == ("1 of 2", "always")
    assert set(cosma.PAPER_CLAIMS) <= set(counted)


def test_the_papers_seconds_are_those_that_benchmarks_cite() -> None:
    numbers = yaml.safe_load((ROOT / "benchmarks" / "published.yaml").read_text())["numbers"]
    for network, approaches in cosma.PAPER_SECONDS.items():
        for approach, seconds in approaches.items():
            assert numbers[f"cosma/table_2/{network}/{approach}"]["value"] == list(seconds)


@pytest.mark.slow
def test_the_command_plans_a_network_and_takes_its_plans_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cosma, "QUICK_SEARCHED", ("darts",))
    asked = ["paper", "cosma", "--in-process", "--json", "-o", str(tmp_path / "out")]
    asked += ["--figure", "4", "--figure", "table-2", "--figure", "break-nodes"]
    first = CliRunner().invoke(app, asked)
    assert first.exit_code == 0, first.output
    figures = {figure["number"]: figure for figure in json.loads(first.stdout)["figures"]}
    lines = {line[1]: dict(zip(figures["4"]["headers"], line, strict=True)) for line in figures["4"]["rows"]}
    assert set(lines) == {"MR", "MH", "MP"}
    for line in lines.values():  # its greatest operator needs as much as its order of least peak
        assert line["budget MB"] == pytest.approx(0.451584)
        assert all(line[name] == 0 for name in ("cosma", *HEURISTICS))
    assert lines["MR"]["default, Belady"] > 0
    assert "by hand" in figures["table-2"]["remarks"][1]
    assert "break_nodes" in figures["break-nodes"]["not_reproduced"]
    run = RunFolder(tmp_path / "out" / "searched-fused")
    before = run.read("scratchpads", ["task_id", "finished_at"]).to_pylist()
    assert len(before) == 8  # the three budgets are one, and so are their solves
    again = CliRunner().invoke(app, asked)
    assert again.stdout == first.stdout
    assert run.read("scratchpads", ["task_id", "finished_at"]).to_pylist() == before
