"""Programs of ``torch.export`` count as PyTorch counts the models; what is wrong with a file is said."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.json import saved_program
from costmodel.formats.json.safe_json import load_json
from costmodel.formats.json.saved_program import read_saved_program
from costmodel.formats.networks import load_network
from costmodel.workload.counting import uncounted_rows

PROGRAMS = Path(__file__).parents[3] / "data" / "exports"
COUNTED: dict[str, Any] = load_json(PROGRAMS / "programs.json")
Write = Callable[..., Path]


def test_every_program_is_in_the_table() -> None:
    assert {file.stem for file in PROGRAMS.glob("*.pt2")} == COUNTED.keys()
    assert len(COUNTED) > 15


@pytest.mark.parametrize("name", sorted(COUNTED))
def test_a_program_counts_as_pytorch_does(name: str) -> None:
    """At lengths other than those it was traced at."""
    network = load_network(PROGRAMS / f"{name}.pt2", None, COUNTED[name]["dims"])
    assert sum(layer.macs for layer in network.layers) == COUNTED[name]["macs"]
    assert uncounted_rows(network) == []


def tensor(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


def sizes(*lengths: int | str) -> dict[str, Any]:
    """A length is a number, or an expression as PyTorch writes it."""
    return {
        "sizes": [
            {"as_int": one} if isinstance(one, int) else {"as_expr": {"expr_str": one, "hint": None}}
            for one in lengths
        ]
    }


def call(operation: str, result: str, **arguments: Any) -> dict[str, Any]:
    return {
        "target": f"torch.ops.aten.{operation}.default",
        "inputs": [{"name": name, "arg": arg, "kind": 1} for name, arg in arguments.items()],
        "outputs": [tensor(result)],
    }


S = "Symbol('s0', positive=True, integer=True)"
LINEAR = call("linear", "y", input=tensor("x"), weight=tensor("w"))


def program(*nodes: dict[str, Any], leaves: str = "y", **tensors: dict[str, Any]) -> dict[str, Any]:
    """A program of an input x (s0, 4) and a parameter w (6, 4)."""
    known = {"x": sizes(S, 4), "w": sizes(6, 4), "y": sizes(S, 6)} | tensors
    specs = [
        {"parameter": {"arg": {"name": "w"}, "parameter_name": "w"}},
        {"user_input": {"arg": tensor("x")}},
    ]
    graph = {
        "inputs": [tensor("w"), tensor("x")],
        "outputs": [tensor(leaves)],
        "nodes": list(nodes or (LINEAR,)),
        "tensor_values": known,
    }
    return {"graph_module": {"graph": graph, "signature": {"input_specs": specs, "output_specs": []}}}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(content: Any, name: str = "net/models/model.json") -> Path:
        path = tmp_path / "net.pt2"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, content if isinstance(content, str) else json.dumps(content))
        return path

    return written


def test_lengths_are_stated_by_their_symbols_or_as_the_batch(write: Write) -> None:
    path = write(program())
    assert read_saved_program(path, None, None).layers[0].macs == 6 * 4
    for stated in ({"dims": {"s0": 5}}, {"batch": 5}):
        network = load_network(path, **stated)
        assert network.name == "net"
        (layer,) = network.layers
        assert layer.macs == 5 * 6 * 4
        assert {value.name: value.kind for value in network.values} == {
            "w": "parameter",
            "x": "input",
            "y": "output",
        }


def test_a_program_of_fixed_lengths_needs_none(write: Write) -> None:
    path = write(program(x=sizes(3, 4), y=sizes(3, 6)))
    assert sum(layer.macs for layer in read_saved_program(path, None, None).layers) == 72
    assert read_saved_program(path, 3, None).layers
    with pytest.raises(InputError, match="Export it with a dynamic first axis"):
        read_saved_program(path, 2, None)
    with pytest.raises(InputError, match="no lengths, as no axis is dynamic"):
        read_saved_program(path, None, {"s0": 2})


@pytest.mark.parametrize(
    ("expression", "length"),
    [
        (f"Add({S}, Integer(2))", 9),
        (f"Add(Integer(-1), Mul(Integer(2), {S}))", 13),
        (f"FloorDiv({S}, Integer(2))", 3),
        (f"Pow({S}, Integer(2))", 49),
        (f"Max(Integer(3), Mod({S}, Integer(4)))", 3),
    ],
)
def test_lengths_are_arithmetic_of_symbols(expression: str, length: int, write: Write) -> None:
    path = write(program(call("relu", "y", self=tensor("x")), y=sizes(expression, 4)))
    network = read_saved_program(path, None, {"s0": 7})
    assert next(value for value in network.values if value.name == "y").shape == (length, 4)


def test_what_is_computed_of_parameters_alone_is_a_parameter(write: Write) -> None:
    turned = call("t", "v", self=tensor("w"))
    product = call("mm", "y", self=tensor("x"), mat2=tensor("v"))
    network = read_saved_program(write(program(turned, product, v=sizes(4, 6))), 2, None)
    assert [node.operator for node in network.nodes] == ["mm"]
    assert next(value for value in network.values if value.name == "v").kind == "parameter"


def test_what_writes_in_place_is_known_by_its_twin(write: Write) -> None:
    network = read_saved_program(
        write(program(LINEAR, call("relu_", "z", self=tensor("y")), leaves="z", z=sizes(S, 6))), 2, None
    )
    assert [(node.operator, node.uncounted) for node in network.nodes] == [("linear", None), ("relu", None)]


def test_wrapped_graphs_are_read_in_their_place(write: Write) -> None:
    """The name y is another tensor inside; a result of the wrapper is known by its name outside."""
    inside = {
        "inputs": [tensor("a"), tensor("b")],
        "outputs": [tensor("y")],
        "nodes": [call("linear", "y", input=tensor("a"), weight=tensor("b"))],
        "tensor_values": {"a": sizes(S, 4), "b": sizes(6, 4), "y": sizes(S, 6)},
    }
    wrapper = {
        "target": "torch.ops.higher_order.wrap_with_set_grad_enabled",
        "inputs": [
            {"name": "", "arg": {"as_bool": False}, "kind": 1},
            {"name": "", "arg": {"as_graph": {"name": "part", "graph": inside}}, "kind": 1},
            {"name": "", "arg": tensor("x"), "kind": 1},
            {"name": "", "arg": tensor("w"), "kind": 1},
        ],
        "outputs": [{"as_tensors": [{"name": "got"}]}],
    }
    after = call("relu", "y", self=tensor("got"))
    network = read_saved_program(write(program(wrapper, after, got=sizes(S, 6))), 2, None)
    first, second = network.nodes
    assert (first.name, first.inputs, first.outputs) == ("part.y", ("x", "w"), ("part.y",))
    assert second.inputs == ("part.y",)
    assert sum(layer.macs for layer in network.layers) == 2 * 6 * 4


def test_operations_that_nobody_knows_say_so(write: Write) -> None:
    network = read_saved_program(write(program(call("fold_time", "y", self=tensor("x")))), 2, None)
    (row,) = uncounted_rows(network)
    assert "fold_time is not supported" in str(row)


@pytest.mark.parametrize(
    ("content", "lengths", "said"),
    [
        (program(x=sizes(2, S)), {}, r"dims: expected a length for s0 \(x, axis 1\)"),
        (program(x=sizes(S, S)), {}, r"dims: expected a length for s0 \(x, axis"),
        (program(), {"s0": 2, "s1": 3}, "lengths of s0, found s1"),
        (program(y=sizes("Symbol('u0', integer=True)", 6)), {"s0": 2}, "u0, which depends on data"),
        (program(y=sizes(f"sin({S})", 6)), {"s0": 2}, "sin is not supported"),
        (program(y=sizes(f"Pow({S}, Integer(99))", 6)), {"s0": 2}, "a power of 99"),
        (program(y=sizes(f"open('file').read({S})", 6)), {"s0": 2}, "not arithmetic"),
        (program(y=sizes("Add(" * 999 + S, 6)), {"s0": 2}, "characters, of 1,000"),
        ({"graph_module": {}}, {}, "the program of torch.export"),
        ([1, 2], {}, "the program of torch.export"),
        ("{", {}, "valid JSON"),
    ],
)
def test_what_is_wrong_with_a_program_is_said(
    content: Any, lengths: dict[str, int], said: str, write: Write
) -> None:
    with pytest.raises(InputError, match=said) as error:
        read_saved_program(write(content), None, lengths)
    assert "net.pt2" in str(error.value)


def test_files_that_are_no_archives_of_a_program(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="0 programs"):
        read_saved_program(write(program(), "net/data/weights.json"), None, None)
    text = tmp_path / "text.pt2"
    text.write_text("a line")
    with pytest.raises(InputError, match="a zip archive"):
        read_saved_program(text, None, None)
    with pytest.raises(InputError, match="a folder"):
        read_saved_program(tmp_path, None, None)
    monkeypatch.setattr(saved_program, "MOST_BYTES", 64)
    with pytest.raises(InputError, match="at most 64 bytes"):
        read_saved_program(write(program()), None, None)
