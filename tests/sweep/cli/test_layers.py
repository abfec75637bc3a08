"""Layers of files on the command line: symbolic lengths, shared caches, and what is not counted."""

import json
from pathlib import Path

import pytest

from costmodel.formats.yaml.safe_yaml import parse_yaml
from tests.sweep.ended import Command

DECODER = str(Path(__file__).parents[2] / "data/onnx/llama_script_eager_stripped.onnx")
LENGTHS = ("--dim", "seq=1", "--dim", "past=2048")


def test_layers_of_a_file_with_symbolic_lengths(command_line: Command) -> None:
    ended = command_line("list", f"layers/{DECODER}", *LENGTHS, "--json")
    *layers, last = json.loads(ended.out)
    assert (ended.status, ended.err) == (0, "")
    assert last == {"total_macs": 639232, "uncounted": []}
    assert sum(layer["macs"] * layer["count"] for layer in layers) == 639232
    assert layers[3] == {
        "name": f"{DECODER}//MatMul",
        "kind": "MatMul",
        "count": 1,
        "dims": {"B": 2, "M": 4, "N": 2049, "K": 16},
        "strides": {},
        "macs": 262272,
        "bits": {"A": 32, "B": 32, "Z": 32},
    }
    text = command_line("list", f"layers/{DECODER}", *LENGTHS).out.splitlines()
    assert text[0].split() == ["name", "kind", "count", "macs", "dims"]
    assert text[-1] == "total MACs: 639,232"
    assert any(line.split()[1:4] == ["MatMul", "2", "24576"] for line in text)


SMALL_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}


def test_layers_of_a_model_by_its_configuration(command_line: Command, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(SMALL_LLAMA))
    ended = command_line("list", f"layers/{file}", "--dim", "seq=1", "--dim", "past=9", "--json")
    *layers, last = json.loads(ended.out)
    assert (ended.status, ended.err) == (0, "")
    blocks = 64 * (64 + 16 + 16 + 64) + 2 * 10 * 64 + 3 * 64 * 160
    assert last == {"total_macs": 2 * blocks + 64 * 100, "uncounted": []}
    assert layers[3]["name"] == f"{file}/block0.attention.scores"
    assert layers[3]["dims"] == {"B": 2, "M": 4, "N": 10, "K": 8}
    assert layers[3]["bits"] == {"A": 16, "B": 16, "Z": 16}
    missing = command_line("list", f"layers/{file}")
    assert (missing.status, missing.out) == (2, "")
    assert "dims: expected a number for each length, found none for seq" in missing.err.replace("\n", " ")


def test_strides_are_listed(command_line: Command) -> None:
    first = json.loads(command_line("list", "layers/resnet18", "--json").out)[0]
    assert first["strides"] == {"P": 2, "Q": 2}
    assert first["dims"]["R"] == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((f"layers/{DECODER}",), "State --dim past=N --dim seq=N"),
        ((f"layers/{DECODER}", "--dim", "seq"), "--dim: expected NAME=LENGTH"),
        ((f"layers/{DECODER}", "--dim", "seq=1", "--dim", "seq=2"), "expected every name once, found seq"),
        ((f"layers/{DECODER}", *LENGTHS, "--dim", "tokens=2"), "found tokens"),
        (("layers/resnet18", "--dim", "seq=1"), "no dims but for ONNX files"),
        (("networks", "--dim", "seq=1"), "--dim: expected layers/NETWORK"),
    ],
)
def test_lengths_that_cannot_be(command_line: Command, arguments: tuple[str, ...], message: str) -> None:
    ended = command_line("list", *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert message in ended.err


def test_the_cache_is_read_once_for_all_heads_that_share_it(command_line: Command) -> None:
    command = ("solve", "mapping", "--architecture", "eyeriss", "--solver", "exact", "--objective", "energy")
    ended = command_line(*command, "--layer", f"{DECODER}//MatMul", *LENGTHS, "--json")
    answer = json.loads(ended.out)
    dram = answer["evaluation"]["levels"][-1]["tensors"]["B"]
    assert (answer["status"], dram["reads"]) == ("optimal", 2 * 2049 * 16)


def _partly_counted(folder: Path) -> Path:
    tensors = [
        {"name": "x", "shape": [1, 4, 6], "kind": "input"},
        {"name": "w", "shape": [5, 6], "kind": "parameter"},
        {"name": "a", "shape": [1, 4, 5], "kind": "activation"},
        {"name": "y", "shape": [1, 4, 5], "kind": "output"},
    ]
    ops = [
        {"name": "fc", "type": "linear", "inputs": ["x", "w"], "outputs": ["a"], "attrs": {}},
        {"name": "odd", "type": "twist", "inputs": ["a"], "outputs": ["y"], "attrs": {}},
    ]
    path = folder / "partly.json"
    path.write_text(json.dumps({"name": "partly", "tensors": tensors, "ops": ops}))
    return path


@pytest.mark.slow
def test_what_is_not_counted_is_said_by_every_command(command_line: Command, tmp_path: Path) -> None:
    path = _partly_counted(tmp_path)
    said = "warning: network partly: 1 of 2 operators are not counted: 1 twist"
    listed = command_line("list", f"layers/{path}", "--json")
    assert json.loads(listed.out)[-1] == {
        "total_macs": 120,
        "uncounted": [{"node": "odd", "kind": "twist", "why": "twist is not supported"}],
    }
    assert "not counted: odd (twist): twist is not supported" in command_line("list", f"layers/{path}").out
    mapped = command_line(
        "solve", "mapping", "--architecture", "C_two_level", "--layer", f"{path}/fc", "--json"
    )
    file = tmp_path / "study.yaml"
    file.write_text(f"name: x\nnetworks: [{path}]\narchitecture: C_two_level\n")
    planned = command_line("plan", str(file))
    ran = command_line("run", str(file), "--in-process", "-o", str(tmp_path / "run"))
    for ended in (listed, mapped, planned, ran):
        assert ended.status == 0, ended.err
        assert ended.err.replace("\n", " ").count(said) == 1, ended.err
    lock = parse_yaml((tmp_path / "run/study.lock.yaml").read_text(), "lock")
    assert lock["warnings"] == [said.removeprefix("warning: ")]


@pytest.mark.slow
def test_the_report_says_what_is_not_counted(command_line: Command, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(f"name: x\nnetworks: [{_partly_counted(tmp_path)}]\narchitecture: C_two_level\n")
    ended = command_line("run", str(file), "--in-process", "-o", str(tmp_path / "run"))
    assert ended.status == 0, ended.err
    page = (tmp_path / "run/report.html").read_text()
    assert page.count("network partly: 1 of 2 operators are not counted: 1 twist") == 1
