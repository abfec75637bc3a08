"""KAPLA's evaluation: bounds and proofs in sums by hand, what pruning's note says, the command on the MLP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sweep.cli.main import app
from sweep.papers import kapla
from sweep.papers.kapla import SOLVERS, chain_key, compared, counts_of, figure_cases


def found(energy_pj: float, status: str = "feasible", bound: float = 0.0) -> dict[str, Any]:
    return {"energy_pj": energy_pj, "cycles": 1, "cpu_seconds": 1.0, "status": status, "bound": bound}


def test_layers_without_a_proof_count_over_their_bound_and_over_the_best_found() -> None:
    """Of the LSTM's one layer R found 100, S 90 with a bound of 80 at first, K 96."""
    of = figure_cases()["9"]
    ((layer, count),) = of.layers("lstm", "quick")
    rows = {
        ("lstm", layer.name, "S"): found(90, bound=80),
        ("lstm", layer.name, "R"): found(100),
        ("lstm", layer.name, "K"): found(96),
    }
    one = compared(rows, of, "lstm", "quick")
    assert one is not None
    assert (one.proven, one.distinct) == (0, 1)
    assert (one.best, one.least) == (90 * count, 80 * count)
    assert one.line(1.0)[2:] == ("6.67 %", "20.00 %", "11.11 %", "25.00 %")
    rows["lstm", layer.name, "S"] = found(90, "optimal", 90)
    proven = compared(rows, of, "lstm", "quick")
    assert proven is not None
    assert proven.line(1.0)[2:4] == ("6.67 %", "6.67 %")
    del rows["lstm", layer.name, "R"]
    assert compared(rows, of, "lstm", "quick") is None


def test_a_figure_has_the_mean_of_all_networks_and_the_papers() -> None:
    of = figure_cases()["9"]
    rows: dict[Any, dict[str, Any]] = {}
    for network, over in (("alexnet", 1.1), ("mlp", 1.3), ("lstm", 1.2)):
        for layer, _ in of.layers(network, "quick"):
            energies = {"S": found(100, "optimal", 100), "R": found(200), "K": found(100 * over)}
            rows |= {(network, layer.name, method): energies[method] for method in SOLVERS}
    table = kapla.figure("9", {of.key: rows}, "quick")
    assert [line[0] for line in table.rows] == [
        "alexnet",
        "mlp",
        "lstm",
        "mean of 3",
        "the paper, mean of 7",
    ]
    assert table.rows[3][3:] == ("20.00 %", "20.00 %", "100.00 %", "100.00 %")
    assert table.rows[4][3] == "7.7 % over B"


def test_r_draws_a_part_of_the_space_and_s_has_its_time() -> None:
    of = figure_cases()["10"]
    for layer, _ in of.layers("mlp", "quick"):
        for method, name in SOLVERS.items():
            task = kapla.task(of, layer, method, "quick")
            assert task.settings.solver == name
        assert kapla.task(of, layer, "S", "full").settings.budget.wall_seconds == 60
        drawn = kapla.task(of, layer, "R", "quick").settings.budget.iterations
        assert drawn is not None
        asked = 0.85 * kapla.factorisations(of.device, layer)
        assert drawn == kapla.MOST_DRAWS["quick"] <= asked or asked <= drawn < asked + 1


def test_causes_of_pruning_add_up() -> None:
    note = "segments=10 schemes=112 fitting=37 drawn=37 undominated=33 costed=36 possible=30; a limit: x"
    rows = {("kapla-mlp", "kapla_schedule", 0): found(1.0) | {"note": note}}
    table = kapla.table_6({chain_key("default"): rows}, "quick")
    assert table.rows == (("mlp", 112.0, 75.0, 4.0, 36.0, "70.5 %", "784 to 18, 97.7 %"),)
    assert counts_of("words, and a=b") == {}


@pytest.mark.slow
def test_the_command_maps_and_chains_and_takes_it_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(kapla.CHAINED, "quick", ("mlp",))
    monkeypatch.setattr(kapla, "CHAINS", {"default": {}, "all": {"chains": 0}})
    asked = ["paper", "kapla", "--figure", "table-6", "--in-process", "--json", "-o", str(tmp_path / "out")]
    first = CliRunner().invoke(app, asked)
    assert first.exit_code == 0, first.output
    (figure,) = json.loads(first.stdout)["figures"]
    own = dict(zip(figure["headers"], figure["rows"][0], strict=True))
    assert own["schemes"] > own["do not fit"] > 0
    again = CliRunner().invoke(app, asked)
    assert again.stdout == first.stdout
