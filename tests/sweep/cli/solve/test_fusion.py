"""``archsweep solve fusion``: problems from files and from the command, answers that can be counted again."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from costmodel.errors import InputError
from sweep.cli.main import app
from sweep.cli.messages import WorkFailedError

DATA = Path(__file__).parents[3] / "data" / "fusion"


def line(name: str) -> dict[str, Any]:
    with gzip.open(DATA / "tiny_optima.jsonl.gz", "rt") as file:
        found = (json.loads(text) for text in file)
        return next(one for one in found if one["id"] == name)


def asked(*words: str) -> Any:
    return CliRunner().invoke(app, ["solve", "fusion", *words])


@pytest.mark.parametrize("inline", [True, False])
def test_the_answer_is_proven_and_evaluates_to_itself(inline: bool, tmp_path: Path) -> None:
    told = line("g3-L3-2-edp")
    text = json.dumps(told["problem"])
    path = tmp_path / "problem.json"
    path.write_text(text)
    ended = asked("--problem", text if inline else str(path), "--objective", "edp", "--json")
    assert ended.exit_code == 0, ended.output
    answer = json.loads(ended.stdout)
    assert answer["status"] == "optimal"
    assert answer["objective"] == answer["bound"] == pytest.approx(told["optimum"], rel=1e-12)
    assert answer["gap"] == 0
    assert answer["mapping"].keys() == told["witness"].keys()
    path.write_text(ended.stdout)
    again = CliRunner().invoke(app, ["evaluate", str(path), "--json"])
    counted = json.loads(again.stdout)
    assert counted["energy_pj"] * counted["cycles"] == pytest.approx(answer["objective"])


def test_people_see_the_tree(tmp_path: Path) -> None:
    path = tmp_path / "line.json"
    path.write_text(json.dumps(line("att-L2-6-energy")))
    ended = asked("--problem", str(path), "--objective", "energy")
    assert ended.exit_code == 0, ended.output
    assert "for m by 2" in ended.stdout
    assert "L0 keeps S: 2 words, qk to softmax" in ended.stdout


def test_what_does_not_fit_fails_with_the_reason() -> None:
    problem = line("g2-L2-1-edp")["problem"]
    problem["levels"][0]["capacity"] = 2
    ended = asked("--problem", json.dumps(problem), "--json")
    answer = json.loads(ended.stdout)
    assert (answer["status"], answer["mapping"]) == ("infeasible", None)
    assert isinstance(ended.exception, WorkFailedError)
    assert "L0, which has a capacity of 2 words" in str(ended.exception)


@pytest.mark.parametrize(
    ("change", "words", "said"),
    [
        ({"mac_pj": -1}, (), "mac_pj: expected a number of at least 0"),
        ({"levels": []}, (), "levels: expected at least one level on the chip"),
        ({"einsums": [{"name": "e"}]}, (), "einsums[0]: dims"),
        ({"extra": 1}, (), "names among einsums, levels, mac_pj, halo"),
        ({}, ("--objective", "latency"), "--objective: expected one of energy, cycles, edp"),
        ({}, ("--tolerance", "2"), "tolerance"),
        ({}, ("--solver", "exact"), "--solver"),
        (
            {},
            ("--columns", "--pipelined", "--longest", "2"),
            "--problem: expected no options of --layers beside it, found --longest, --columns, --pipelined",
        ),
        ({}, ("--set", "DRAM.size=1", "--no-windows"), "found --no-windows, --set"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], words: tuple[str, ...], said: str) -> None:
    problem = {**line("g2-L2-1-edp")["problem"], **change}
    ended = asked("--problem", json.dumps(problem), *words)
    assert isinstance(ended.exception, InputError)
    assert said in str(ended.exception)


MLP = ("--architecture", "simba", "--network", "bert_base")
PAIR = "block0.attention.scores,block0.attention.values"


@pytest.mark.slow
def test_layers_of_a_network_are_mapped_together() -> None:
    ended = asked(*MLP, "--layers", PAIR, "--objective", "energy", "--json")
    assert ended.exit_code == 0, ended.output
    answer = json.loads(ended.stdout)
    assert answer["bound"] <= answer["objective"] == answer["energy_pj"]
    assert answer["gap"] < 0.05
    mapping = answer["mapping"]
    assert mapping["backing"] == {"block0.attention.scores": "GlobalBuffer"}
    assert mapping["nests"].keys() == set(PAIR.split(","))
    assert answer["peak"]["GlobalBuffer"] <= 65536
    assert any("GlobalBuffer holds Z of block0.attention.scores" in line for line in answer["tree"])
    assert sum(layer["energy_pj"] for layer in answer["layers"].values()) == answer["energy_pj"]


@pytest.mark.slow
def test_rows_are_made_anew_if_asked() -> None:
    """Channels inside rows: no line buffer can stay, and partial sums are those of some rows only."""
    names = [f"block3.1.{part}" for part in ("expand", "depthwise", "project")]
    words = ("--architecture", "simba", "--network", "mobilenet_v2", "--layers", ",".join(names))
    answers = []
    for more in ((), ("--recompute",)):
        ended = asked(*words, "--objective", "energy", "--json", *more)
        assert ended.exit_code == 0, ended.output
        answers.append(json.loads(ended.stdout))
    kept, anew = answers
    assert anew["mapping"]["recompute"] == {names[0]: ["P2"]}
    assert "recompute" not in kept["mapping"]
    assert any("words, rows made anew" in line for line in anew["tree"])
    # the space is wider: what is proven to be best in one, the other may beat
    assert kept["status"] == anew["status"] == "optimal"
    assert anew["objective"] < kept["objective"]


@pytest.mark.slow
def test_a_loop_over_rows_passes_through_a_pooling() -> None:
    """The first convolution of ResNet-50, and both that read it behind its pooling."""
    layers = "conv1,layer1.0.downsample,layer1.0.conv1"
    words = ("--architecture", "simba", "--network", "resnet50", "--layers", layers, "--objective", "energy")
    answers = []
    for more in ((), ("--no-windows",)):
        ended = asked(*words, "--tolerance", "0.01", "--json", *more)
        assert ended.exit_code == 0, ended.output
        answers.append(json.loads(ended.stdout))
    through, bare = answers
    assert through["mapping"]["slides"]["conv1"] == {"P2": "P"}
    assert through["mapping"]["paths"][0][0][0] == "P2"
    assert through["mapping"]["backing"] == {"conv1": "GlobalBuffer"}
    # whatever is within 1 % without windows costs more than what was found with them
    assert through["objective"] < bare["bound"]


@pytest.mark.slow
def test_layers_run_at_the_same_time_if_asked() -> None:
    """The depthwise layer waits for its outputs' way to DRAM, the one before it for MAC units."""
    names = ["block3.1.expand", "block3.1.depthwise"]
    words = ("--architecture", "simba", "--network", "mobilenet_v2", "--layers", ",".join(names))
    answers = []
    for more in ((), ("--pipelined",)):
        ended = asked(*words, "--objective", "cycles", "--tolerance", "0.02", "--json", *more)
        assert ended.exit_code == 0, ended.output
        answers.append(json.loads(ended.stdout))
    apart, together = answers
    assert "pipelines" not in apart
    assert "pipelines" not in apart["mapping"]
    assert together["objective"] < 0.8 * apart["bound"]
    assert together["gap"] <= 0.02
    (parts,) = together["mapping"]["pipelines"]
    assert list(parts) in (["columns"], ["rows"])
    assert list(*(of_layers for of_layers in parts.values())) == names
    (pipeline,) = together["pipelines"]
    assert pipeline["layers"] == names
    assert pipeline["cycles"] == together["cycles"] == sum(pipeline["bound_by"].values())
    assert any(line.strip().startswith("pipelined on 4 ") for line in together["tree"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            (*MLP, "--layers", PAIR, "--columns", "--no-windows"),
            "columns: expected loops over rows that pass",
        ),
        ((), "expected either --problem, or all of --architecture, --network and --layers, found neither"),
        (("--problem", "{}", *MLP, "--layers", PAIR), "found --problem, --architecture, --network"),
        (MLP, "found --architecture, --network"),
        ((*MLP, "--layers", "block0.query,block0.nobody"), "the name of a layer, found block0.nobody"),
        ((*MLP, "--layers", "block0.query,block0.value"), "layers that pass tensors to one another"),
        ((*MLP, "--layers", PAIR, "--longest", "0"), "--longest: expected a whole number of at least 1"),
        ((*MLP, "--layers", PAIR, "--objective", "area"), "--objective: expected one of energy"),
        ((*MLP, "--layers", PAIR, "--solver", "fusion_exact"), "--solver"),
        (
            (*MLP, "--layers", PAIR, "--timeloop", "a.yaml"),
            "Timeloop, which has no form for loops that layers",
        ),
        (("--architecture", "gemmini", *MLP[2:], "--layers", PAIR), "an architecture without timing"),
    ],
)
def test_what_is_wrong_with_layers_is_named(words: tuple[str, ...], said: str) -> None:
    ended = asked(*words)
    assert isinstance(ended.exception, InputError)
    assert said in str(ended.exception)
