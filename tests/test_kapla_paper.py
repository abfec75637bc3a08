"""``benchmarks/kapla_paper.py`` on a small network: what it prints, keeps and draws."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.formats.multi_nodes import load_multi_node
from costmodel.formats.networks import load_network

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
Program = Callable[..., dict[str, Any]]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Program:
    """Runs the program on the small MLP and returns its JSON."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import kapla_paper

    def run(*options: str) -> dict[str, Any]:
        given = (
            "--networks",
            "mlp-s",
            "--exact-networks",
            "--cells",
            str(tmp_path / "cells.jsonl"),
            *options,
        )
        monkeypatch.setattr(sys, "argv", ["kapla_paper.py", *given])
        assert kapla_paper.main() == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
        return found

    return run


@pytest.mark.slow
def test_edge_figure_is_proven_drawn_and_not_solved_again(program: Program, tmp_path: Path) -> None:
    found = program("--parts", "fig10", "--charts", str(tmp_path / "charts.html"))
    (network,) = found["fig10"]["networks"]
    methods = network["methods"]
    assert network["proven"] == network["distinct"]
    assert methods["S"]["total"] == pytest.approx(network["bound"])
    for method in methods.values():
        assert method["total"] >= network["bound"] * (1 - 1e-9)
        assert sum(method["parts_pj"]) == pytest.approx(method["energy_pj"])
    macs = load_network("kapla-mlp-s", 1).macs
    assert methods["K"]["cycles"] >= macs / load_multi_node("kapla-edge", "released").macs
    assert "plotly" in (tmp_path / "charts.html").read_text(encoding="utf-8")
    lines = (tmp_path / "cells.jsonl").read_text(encoding="utf-8")
    assert program("--parts", "fig10") == found
    assert (tmp_path / "cells.jsonl").read_text(encoding="utf-8") == lines


@pytest.mark.slow
def test_cell_that_was_cut_off_is_solved_again(program: Program, tmp_path: Path) -> None:
    found = program("--parts", "fig10", "--methods", "K")
    cells = tmp_path / "cells.jsonl"
    whole = cells.read_text(encoding="utf-8")
    cells.write_text(whole[:-40], encoding="utf-8")
    again = program("--parts", "fig10", "--methods", "K")
    assert cells.read_text(encoding="utf-8").startswith(whole[: whole.rfind("{")])
    for key in ("total", "energy_pj", "cycles"):
        old, new = (one["fig10"]["networks"][0]["methods"]["K"][key] for one in (found, again))
        assert old == new


@pytest.mark.slow
def test_whole_network_costs_what_its_parts_do_and_pruning_is_counted(program: Program) -> None:
    found = program("--parts", "whole", "table6", "--methods", "K", "--steps", "inference")
    (row,) = found["whole"]["whole"]
    k = row["methods"]["K"]
    assert k["objective"] == pytest.approx(sum(k["parts_pj"]))
    assert k["objective"] >= k["bound"]
    assert not k["below_floors"]
    (counts,) = found["table6"]["pruning"]
    assert counts["schemes"] >= counts["fitting"] >= counts["undominated"] > 0
