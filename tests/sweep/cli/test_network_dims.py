"""Symbolic lengths in a study and on the commands that solve: the same file at several lengths."""

import json
from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.formats.yaml.safe_yaml import parse_yaml
from results.store.folder import RunFolder
from sweep.design.mapping_workload import layer_demands
from sweep.study.lock import study_id
from sweep.study.study import load_study
from tests.sweep.ended import Command

DECODER = Path(__file__).parents[2] / "data/onnx/llama_dynamo_sdpa_stripped.onnx"
LENGTHS = ("--dim", "seq=2", "--dim", "past=6")


def written(folder: Path, *networks: str) -> Path:
    file = folder / "study.yaml"
    entries = "\n".join(f"  - {network}" for network in networks)
    more = "mapping: {solver: random_search, iterations: 200}\n"
    file.write_text(f"name: x\nnetworks:\n{entries}\narchitecture: C_two_level\n{more}")
    return file


def entry(**dims: int) -> str:
    return f"{{network: {DECODER}, dims: {json.dumps(dims)}}}"


@pytest.mark.slow
def test_a_study_of_prefill_and_decode(command_line: Command, tmp_path: Path) -> None:
    file = written(tmp_path, entry(seq=8, past=1), entry(seq=1, past=8))
    ended = command_line("run", str(file), "--in-process", "-o", str(tmp_path / "run"))
    assert ended.status == 0, ended.err
    (design,) = RunFolder(tmp_path / "run").read_rows("designs")
    assert list(design["networks"]) == [f"{DECODER.name} seq=8 past=1", f"{DECODER.name} seq=1 past=8"]
    sizes = {(d.network.split()[1], d.layer.sizes.get("N")) for d in layer_demands(load_study(str(file)))}
    assert {("seq=8", 9), ("seq=1", 9), ("seq=1", 128)} <= sizes
    lock = parse_yaml((tmp_path / "run/study.lock.yaml").read_text(), "lock")
    assert lock["study"]["networks"][1]["dims"] == {"seq": 1, "past": 8}


def test_what_a_study_cannot_state(command_line: Command, tmp_path: Path) -> None:
    for network, message in (
        (entry(seq=8), "State --dim past=N, in a study {network: FILE, dims: {past: N}}"),
        (entry(seq=8, past=1, tokens=2), "found tokens"),
        (entry(seq=0, past=1), "dims.seq"),
        ("{network: resnet18, dims: {seq: 1}}", "no dims but for ONNX files"),
    ):
        ended = command_line("plan", str(written(tmp_path, network)))
        assert (ended.status, ended.out) == (2, ""), network
        assert message in ended.err
    twice = written(tmp_path, entry(seq=8, past=1), entry(seq=8, past=1))
    with pytest.raises(InputError, match="every network once at each batch and dims"):
        load_study(str(twice))


def test_studies_of_other_dims_are_other_studies(tmp_path: Path) -> None:
    stated = load_study(str(written(tmp_path, entry(seq=8, past=1))))
    assert stated.identity["networks"][0]["dims"] == {"seq": 8, "past": 1}
    other = load_study(str(written(tmp_path, entry(seq=8, past=2))))
    assert study_id(stated) != study_id(other)


@pytest.mark.slow
def test_commands_that_solve_take_them(command_line: Command) -> None:
    planned = command_line("solve", "scratchpad", "--graph", str(DECODER), *LENGTHS, "--json")
    assert json.loads(planned.out)["status"] == "optimal", planned.err
    chosen = command_line(
        "solve", "codesign", "--architecture", "eyeriss", "--network", str(DECODER), *LENGTHS,
        "--wall-seconds", "5", "--json",
    )  # fmt: skip
    assert sum(layer["occurrences"] for layer in json.loads(chosen.out)["layers"]) == 9
    refused = command_line("solve", "codesign", "--architecture", "eyeriss", "--network", str(DECODER))
    assert (refused.status, refused.out) == (2, "")
    scheduled = command_line("solve", "schedule", "--chip", "set-edge", "--network", str(DECODER))
    assert scheduled.status == 2
    assert "State --dim past=N --dim seq=N" in scheduled.err


def test_a_network_of_nothing_counted_is_listed_with_the_reason_and_refused_otherwise(
    command_line: Command, tmp_path: Path
) -> None:
    tensors = [{"name": n, "shape": [5, 7], "kind": k} for n, k in (("x", "input"), ("y", "output"))]
    twist = {"name": "odd", "type": "twist", "inputs": ["x"], "outputs": ["y"], "attrs": {}}
    path = tmp_path / "made.json"
    path.write_text(json.dumps({"name": "made", "tensors": tensors, "ops": [twist]}))
    codesign = ("solve", "codesign", "--architecture", "eyeriss", "--network", str(path))
    for command in (
        ("plan", str(written(tmp_path, str(path)))),
        codesign,
        ("list", f"layers/{path}"),
    ):
        ended = command_line(*command)
        assert (ended.status, ended.out) == (2, ""), command
        assert (
            "network made: expected an operator whose multiply-accumulates are counted, found 1 twist"
            in ended.err
        )
    listed = command_line("list", f"layers/{path}", "--json")
    assert (listed.status, json.loads(listed.out)) == (
        0,
        [{"total_macs": 0, "uncounted": [{"node": "odd", "kind": "twist", "why": "twist is not supported"}]}],
    )
