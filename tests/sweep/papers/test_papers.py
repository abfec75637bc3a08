"""Papers as studies: figures from rows by hand, what is missing, and the whole command on one network."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import archsweep
from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.mapping.mapping import Mapping
from costmodel.replay.replay import replay
from costmodel.schedule.pe_mesh.writer import mesh_program
from costmodel.workload.network import Layer, convolution, distinct_layers, gemm
from results.store.folder import RunFolder
from solvers.catalogue import solver
from sweep.cli.main import app
from sweep.cli.paper import reproduce_paper
from sweep.papers import cosa, kapla, thistle
from sweep.papers.catalogue import PAPERS, figures_of, paper_of
from sweep.papers.paper import PaperFigure, geomean
from sweep.run.session import RuntimeChoice
from sweep.solve.mapping import MappingRequest
from sweep.study.study import study_of

SOLVES = {
    "cosma": {"human-fused", "human-raw", "searched-fused", "searched-raw"},
    "thistle": {
        thistle.key(what, objective, bandwidths)
        for what in thistle.EVERYTHING
        for objective in thistle.OBJECTIVES
        for bandwidths in thistle.BANDWIDTHS
    },
    "kapla": {*kapla.KEYS.values(), *kapla.TABLE_V_KEYS},
}
"""The keys of solves that are no studies."""

LAYERS = [layer for layer, _ in distinct_layers(load_network("cosa_alexnet").layers)]


@pytest.mark.parametrize("effort", ["quick", "full"])
@pytest.mark.parametrize("name", PAPERS)
def test_studies_are_valid_and_figures_need_studies_that_are_there(name: str, effort: Any) -> None:
    paper = paper_of(name)
    studies = {study.key: study_of(study.document) for study in paper.studies(effort)}
    assert len({study.name for study in studies.values()}) == len(paper.studies(effort))
    for study in studies.values():
        assert solver(study.mapping.solver).load().Params(**study.mapping.params)
    # quick effort may leave out studies that figures need with full effort
    every = {study.key for study in paper.studies("full")} | SOLVES.get(name, set())
    for figure in paper.figures:
        assert set(figure.needs) <= every
        assert figure.table is not None or not figure.needs
        assert bool(figure.table) != bool(figure.not_reproduced)


def test_a_figure_is_the_geometric_mean_of_layers() -> None:
    """Hybrid needs half of Random's cycles on one layer, an eighth on another: 4 times; no other row."""
    rows: dict[str, dict[Any, Any]] = {key: {} for key in cosa.needed("4x4", "cycles")}
    one, other, third = LAYERS[:3]
    rows[cosa.study_key("4x4", "cycles", cosa.RANDOM)] = {
        layer: {"cycles": 800, "cpu_seconds": 1.0} for layer in (one, other, third)
    }
    rows[cosa.study_key("4x4", "cycles", "Hybrid")] = {
        one: {"cycles": 400, "cpu_seconds": 3.0},
        other: {"cycles": 100, "cpu_seconds": None},
    }
    table = cosa.speed_ups(rows, "quick")
    assert [row[0] for row in table.rows] == [cosa.RANDOM, "Hybrid"]
    assert table.rows[1][1:] == pytest.approx((4.0, 4.0, 2.0))
    assert table.bars is not None
    assert table.bars.series["Hybrid"] == pytest.approx((4.0, 4.0))
    times = cosa.solve_times(rows, "quick")
    assert times.rows[1] == ("Hybrid", 3.0, 3.0, 1.0)
    assert geomean([2.0, 8.0]) == pytest.approx(4.0)


def test_gpus_are_compared_with_the_tuner_that_measures_least() -> None:
    """On the K80 a program needs a third of the tuner's cycles; on the A100 nobody has an answer."""
    rows: dict[str, dict[Any, Any]] = {key: {} for gpu in cosa.GPUS for key in cosa.needed(gpu, "cycles")}
    rows[cosa.study_key("k80", "cycles", cosa.TUNED)] = {LAYERS[0]: {"cycles": 300, "cpu_seconds": 4.0}}
    default = "CoSA, polished (default)"
    rows[cosa.study_key("k80", "cycles", default)] = {LAYERS[0]: {"cycles": 100, "cpu_seconds": 0.5}}
    table = cosa.on_gpus(rows, "quick")
    tuned, program = table.rows
    assert tuned == (f"k80: {cosa.TUNED}", 1.0, 1.0, 1.0, 4.0)
    assert program[0] == f"k80: {default}"
    assert program[1:] == pytest.approx((3.0, 3.0, 1.0, 0.5))
    assert "No GPU ran" in table.remarks[0]
    assert table.bars is not None
    assert set(table.bars.series) == {f"k80: {cosa.TUNED}", f"k80: {default}"}


def test_replayed_speed_ups_are_those_of_the_mappings_programs() -> None:
    """Two schedulers' mappings of one layer, of which Random's stands for Hybrid's as well. The other
    machines have no answers, so they have no rows."""
    layer, simba = LAYERS[-1], load_architecture("simba")
    answers = {
        name: MappingRequest(simba, layer, one, "cycles", params=params).solved()
        for name, (one, params) in cosa.SCHEDULERS.items()
        if name in (cosa.RANDOM, "CoSA, as printed, one shot")
    }
    answers["Hybrid"] = answers[cosa.RANDOM]
    rows: dict[str, dict[Any, Any]] = {
        cosa.mesh_key(machine, name): {} for machine in cosa.MESHES for name in cosa.MESH_SCHEDULERS
    }
    cycles = {}
    for name, answer in answers.items():
        found = answer.to_json()
        row = {"cycles": found["evaluation"]["cycles"], "mapping": json.dumps(found["mapping"])}
        rows[cosa.study_key("4x4", "cycles", name)] = {layer: row}
        assert isinstance(answer.mapping, Mapping)
        cycles[name] = replay(mesh_program(simba, layer, answer.mapping), cosa.ON_MESH).cycles
    table = cosa.on_meshes(rows, "quick")
    random, hybrid, printed = table.rows
    assert random[:4] == ("4x4: Random", 1.0, 1.0, 1.0)
    assert hybrid[0] == "4x4: Hybrid"
    ratio = cycles[cosa.RANDOM] / cycles["CoSA, as printed, one shot"]
    counted = rows[cosa.study_key("4x4", "cycles", "CoSA, as printed, one shot")][layer]["cycles"]
    over_counted = cycles["CoSA, as printed, one shot"] / counted
    assert printed[1:] == pytest.approx((ratio, ratio, ratio, over_counted, 1.0))


@pytest.mark.parametrize("gpu", ["gpu-k80", "gpu-a100"])
@pytest.mark.parametrize(
    "layer", [convolution("window", N=2, K=8, C=6, P=4, Q=4, R=3, S=3), gemm("product", M=8, N=12, K=6)]
)
def test_no_thread_of_a_gpu_adds_to_anothers_outputs(gpu: str, layer: Layer) -> None:
    mapping = archsweep.solve_mapping(layer, gpu, "cycles").mapping
    assert isinstance(mapping, Mapping)
    spread = {dim for level in mapping.levels for dim, _ in level.spatial}
    assert spread
    (output,) = (tensor for tensor in layer.tensors if tensor.is_output)
    assert spread <= output.dims


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="cosa"):
        paper_of("cosaa")
    with pytest.raises(InputError, match="table-6") as caught:
        figures_of(paper_of("cosa"), ["6", "99"])
    assert caught.value.where == "--figure"
    assert [figure.number for figure in figures_of(paper_of("cosa"), ["9", "6", "9"])] == ["9", "6"]
    with pytest.raises(ValueError, match="reason"):
        PaperFigure("1", "neither")


def test_an_output_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(InputError, match="the file"):
        reproduce_paper("cosma", ["break-nodes"], "quick", file, RuntimeChoice(in_process=True), False)
    assert file.read_text() == "mine"


def test_what_is_not_reproduced_is_said_and_asks_for_no_study(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["paper", "cosma", "--figure", "break-nodes", "-o", str(tmp_path / "out"), "--json"]
    )
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert "break_nodes" in said["figures"][0]["not_reproduced"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["paper.html"]


@pytest.mark.slow
def test_the_command_runs_studies_and_takes_them_up_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = [
        "paper",
        "cosa",
        "--figure",
        "6",
        "--figure",
        "8",
        "--figure",
        "table-6",
        "--in-process",
        "-o",
        str(out),
        "--json",
    ]
    first = CliRunner().invoke(app, asked)
    assert first.exit_code == 0, first.output
    figures = {figure["number"]: figure for figure in json.loads(first.stdout)["figures"]}
    rows = {row[0]: row[1:] for row in figures["6"]["rows"]}
    assert rows[cosa.RANDOM] == pytest.approx([1.0, 1.0, len(LAYERS)])
    assert set(rows) == set(cosa.SCHEDULERS)
    parts = {row[0]: row[1:] for row in figures["8"]["rows"]}
    assert set(parts) == set(cosa.SCHEDULERS)
    # the scheduler that minimises the sum has less of it than one that draws mappings
    assert parts["CoSA, as printed, one shot"][3] < parts[cosa.RANDOM][3]
    with (out / "figure-6.csv").open() as file:
        written = list(csv.reader(file))
    assert [row[0] for row in written[1:]] == list(cosa.SCHEDULERS)
    assert "Hybrid" in (out / "paper.html").read_text(encoding="utf-8")
    hybrid = RunFolder(out / cosa.study_key("4x4", "cycles", "Hybrid"))
    before = hybrid.read("layers", ["task_id", "finished_at"]).to_pylist()
    again = CliRunner().invoke(app, asked)
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["figures"] == json.loads(first.stdout)["figures"]
    assert hybrid.read("layers", ["task_id", "finished_at"]).to_pylist() == before
