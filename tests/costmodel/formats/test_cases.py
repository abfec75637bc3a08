"""Reading and writing the Timeloop cases' forms; malformed input names file, line, key."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.cases.folder import (
    architecture_from_json,
    evaluated_line,
    layer_from_problem,
    mapping_from_json,
    mapping_to_json,
    read_architectures,
    read_cases,
    read_shapes,
)
from costmodel.formats.cases.problem import builtin_shapes, shape_of_layer
from costmodel.workload.network import Layer, Tensor, batched_matmul, convolution, gemm

Record = dict[str, Any]
LAYERS = [
    convolution("c", N=2, K=4, C=6, P=5, Q=3, R=3, S=2, stride=(2, 1), dilation=(1, 3)),
    convolution("d", N=1, K=6, C=6, P=5, Q=3, R=3, S=2, groups=6, stride=(1, 2)),
    convolution("g", N=1, K=8, C=6, P=5, Q=3, R=3, S=2, groups=2, stride=(2, 2)),
    gemm("m", M=3, N=4, K=5),
    batched_matmul("b", B=2, M=3, N=4, K=5),
]


def first_record(folder: Path, name: str = "A_eyeriss_like") -> Record:
    with gzip.open(folder / f"{name}.jsonl.gz", "rt") as lines:
        record: Record = json.loads(next(lines))
        return record


@pytest.fixture
def record(cases_folder: Path) -> Record:
    return first_record(cases_folder)


def write(path: Path, *records: Record) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


# --- reading


def test_architectures_equal_the_library(cases_folder: Path) -> None:
    for name, architecture in read_architectures(cases_folder / "archs.json").items():
        assert architecture == load_architecture(name)


def test_builtin_shapes_equal_the_file(cases_folder: Path) -> None:
    ours = builtin_shapes()
    for name, shape in read_shapes(cases_folder / "shapes.json").items():
        assert ours[name]["dimensions"] == shape["dimensions"]
        assert ours[name]["data_spaces"] == shape["data_spaces"]
        coefficients = shape.get("coefficients", [])
        assert sorted(c["name"] for c in coefficients) == [c["name"] for c in ours[name]["coefficients"]]


def test_case_ids_and_order_are_the_files(cases_folder: Path) -> None:
    ids = [case.id for case in read_cases(cases_folder)]
    assert len(ids) == len(set(ids)) == 218
    assert [name.split("/")[0] for name in ids] == sorted(name.split("/")[0] for name in ids)


def test_convolution_of_a_problem() -> None:
    coefficients = {"Wstride": 2, "Hstride": 3, "Wdilation": 4, "Hdilation": 5}
    dims = {"R": 3, "S": 2, "P": 7, "Q": 8, "C": 4, "K": 5, "N": 6}
    layer = layer_from_problem({"id": "x", "shape": "cnn_layer", "dims": dims, "coeffs": coefficients})
    assert layer == convolution("x", **dims, stride=(2, 3), dilation=(4, 5))


def test_plain_and_packed_files_of_any_name_are_read(tmp_path: Path, record: Record) -> None:
    plain = write(tmp_path / "a.jsonl", record, record)
    packed = tmp_path / "b.txt"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert [c.mapping for c in read_cases(plain)] == [c.mapping for c in read_cases(packed)]


def test_the_folders_own_architectures_win(tmp_path: Path, cases_folder: Path, record: Record) -> None:
    path = write(tmp_path / "cases.jsonl", record)
    library = next(iter(read_cases(path)))
    own = json.loads((cases_folder / "archs.json").read_text())
    own["A_eyeriss_like"]["arithmetic"]["energy_per_op_pJ"] = 1000.0
    (tmp_path / "archs.json").write_text(json.dumps({"A_eyeriss_like": own["A_eyeriss_like"]}))
    changed = next(iter(read_cases(path)))
    assert library.architecture == load_architecture("A_eyeriss_like")
    assert changed.architecture.compute.energy_pj == 1000.0
    other = write(tmp_path / "other.jsonl", first_record(cases_folder, "C_two_level"))
    assert next(iter(read_cases(other))).architecture == load_architecture("C_two_level")


def test_the_folders_own_shapes_win(tmp_path: Path, cases_folder: Path, record: Record) -> None:
    shapes = json.loads((cases_folder / "shapes.json").read_text())
    shapes["mine"] = shapes.pop("cnn_layer")
    (tmp_path / "shapes.json").write_text(json.dumps(shapes))
    record["problem"]["shape"] = "mine"
    assert next(iter(read_cases(write(tmp_path / "cases.jsonl", record)))).layer.macs == 62146560


def test_evaluated_line(cases_folder: Path) -> None:
    for case in list(read_cases(cases_folder / "B_simba_like.jsonl.gz"))[:5]:
        line = json.loads(json.dumps(evaluated_line(case)))
        assert set(line) == {"id", "cycles", "energy_pj", "levels"}
        theirs = case.record["results"]["levels"]
        assert [level["name"] for level in line["levels"]] == [level["name"] for level in theirs]
        for ours, other in zip(line["levels"], theirs, strict=True):
            for name, counts in ours["tensors"].items():
                tensor = other["tensors"][name]
                expected = [tensor[key] for key in ("reads", "fills", "updates", "utilized_instances")]
                assert [counts[k] for k in ("reads", "fills", "updates", "instances")] == expected


# --- writing


def spelt_out(layer: Layer) -> Any:
    """The problem of a layer with its shape, as a file has it."""
    shape = shape_of_layer(layer)
    coefficients = {entry["name"]: entry["default"] for entry in shape["coefficients"]}
    problem = {"id": layer.name, "shape": shape, "dims": layer.sizes, "coeffs": coefficients}
    return json.loads(json.dumps(problem))


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_shapes_go_both_ways(layer: Layer) -> None:
    problem = spelt_out(layer)
    assert layer_from_problem(problem) == layer
    del problem["id"]
    assert layer_from_problem(problem).shape == layer.shape


def test_odd_layers_are_written_with_their_roles() -> None:
    odd = Layer(
        "odd",
        (("X", 4), ("Y", 3)),
        (
            Tensor.of_terms("Kernel", ((("Y", 2),),), "weights"),
            Tensor.of_terms("Signal", ((("X", 3), ("Y", 5)),), "inputs"),
            Tensor.of_terms("Out", ((("X", 1),),), "outputs"),
        ),
    )
    assert layer_from_problem(spelt_out(odd)) == odd


def test_mappings_go_both_ways(cases_folder: Path) -> None:
    for case in read_cases(cases_folder):
        data = json.loads(json.dumps(mapping_to_json(case.architecture, case.layer, case.mapping)))
        assert mapping_from_json(case.architecture, case.layer, data) == case.mapping
        theirs = case.record["mapping"]
        assert [(b["target"], b["type"]) for b in data["levels"]] == [
            (b["target"], b["type"]) for b in theirs["levels"]
        ]
        assert [b["factors"] for b in data["levels"]] == [b["factors"] for b in theirs["levels"]]
        assert data["bypass"] == theirs["bypass"]
        assert all(sorted(b["permutation"]) == sorted(case.layer.sizes) for b in data["levels"])


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_random_mappings_go_both_ways(layer: Layer, random_mappings: Callable[..., Any]) -> None:
    architecture = load_architecture("E_four_level")
    for mapping in random_mappings(architecture, layer, 20, 11):
        data = mapping_to_json(architecture, layer, mapping)
        assert mapping_from_json(architecture, layer, json.loads(json.dumps(data))) == mapping


def test_blocks_may_stand_in_any_order_and_idle_dims_be_absent(record: Record, tmp_path: Path) -> None:
    case = next(iter(read_cases(write(tmp_path / "a.jsonl", record))))
    record["mapping"]["levels"].reverse()
    for block in record["mapping"]["levels"]:
        block["factors"] = {dim: f for dim, f in block["factors"].items() if f > 1}
    assert next(iter(read_cases(write(tmp_path / "b.jsonl", record)))).mapping == case.mapping


# --- malformed input


def set_at(record: Record, path: str, value: Any) -> None:
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = record
    for part in parents:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value


MALFORMED: list[tuple[str, Any, str]] = [
    ("id", ..., "id"),
    ("id", 3, "id"),
    ("arch", ..., "arch"),
    ("arch", "A_eyeris_like", "arch"),
    ("arch", ["A"], "arch"),
    ("problem", ..., "problem"),
    ("problem", [], "problem"),
    ("problem.shape", "cnn_layr", "shape"),
    ("problem.shape", ..., "shape"),
    ("problem.shape", 7, "shape"),
    ("problem.dims", ..., "dims"),
    ("problem.dims.C", ..., "dims"),
    ("problem.dims.C", 0, "dims.C"),
    ("problem.dims.C", "160", "dims.C"),
    ("problem.dims.C", 160.0, "dims.C"),
    ("problem.dims.C", True, "dims.C"),
    ("problem.dims.Z", 1, "dims"),
    ("problem.coeffs.Wstride", -1, "coeffs.Wstride"),
    ("problem.coeffs.stride", 1, "coeffs"),
    ("problem.coeffs", [1], "coeffs"),
    ("problem.coefs", {}, "problem"),
    ("mapping", ..., "mapping"),
    ("mapping.levels", ..., "levels"),
    ("mapping.levels", {}, "levels"),
    ("mapping.levels.0", ..., "levels"),
    ("mapping.levels.0", 5, ""),
    ("mapping.levels.0.target", "DDR", "target"),
    ("mapping.levels.0.target", "SRAM", ""),
    ("mapping.levels.0.type", "temporl", "type"),
    ("mapping.levels.0.factors", ..., "factors"),
    ("mapping.levels.0.factors.C", 4, "mapping"),
    ("mapping.levels.0.factors.C", 0, "factors.C"),
    ("mapping.levels.0.factors.X", 1, "factors"),
    ("mapping.levels.0.permutation", ["Q", "Q"], "permutation"),
    ("mapping.levels.0.permutation", ["C", "K"], "permutation"),
    ("mapping.levels.0.permutation", [["Q"], "C"], "permutation"),
    ("mapping.levels.2.split", ..., "split"),
    ("mapping.levels.2.split", 8, "split"),
    ("mapping.levels.2.split", -1, "split"),
    ("mapping.levels.2.split", "1", "split"),
    ("mapping.bypass", ..., "bypass"),
    ("mapping.bypass.1", ..., "bypass"),
    ("mapping.bypass.1.keep", ..., "keep"),
    ("mapping.bypass.1.keep", ["Weights", "Inputs"], "keep"),
    ("mapping.bypass.1.bypass", ["Weights"], "keep"),
    ("mapping.bypass.1.keep", ["Weights", "Inputs", "Output"], "keep"),
    ("mapping.bypass.0.bypass", ["Weights", "Inputs", "Outputs"], "keep"),
]


@pytest.mark.parametrize(("path", "value", "key"), MALFORMED)
def test_malformed_records_name_file_line_and_key(
    tmp_path: Path, record: Record, path: str, value: Any, key: str
) -> None:
    good = deepcopy(record)
    set_at(record, path, value)
    file = write(tmp_path / "cases.jsonl", good, record)
    cases = read_cases(file)
    next(cases)
    with pytest.raises(InputError) as caught:
        next(cases)
    assert str(caught.value).startswith(f"{file}:2")
    assert caught.value.key == key
    assert caught.value.expected


def test_factors_that_do_not_multiply_are_named(tmp_path: Path, record: Record) -> None:
    record["mapping"]["levels"][0]["factors"]["C"] *= 2
    with pytest.raises(InputError, match="factors of C multiply to 320, the layer has C=160"):
        list(read_cases(write(tmp_path / "cases.jsonl", record)))


def test_a_near_name_is_offered(tmp_path: Path, record: Record) -> None:
    record["arch"] = "A_eyeris_like"
    with pytest.raises(InputError, match="Did you mean A_eyeriss_like"):
        list(read_cases(write(tmp_path / "cases.jsonl", record)))


@pytest.mark.parametrize("text", ['{"id": ', "[1, 2]", '"case"', "null", "{}", "[" * 100_000, '{"a": NaN}'])
def test_lines_that_are_no_case(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(f"\n{text}\n")
    with pytest.raises(InputError) as caught:
        list(read_cases(file))
    assert str(caught.value).startswith(f"{file}:2: ")


@pytest.mark.parametrize("keep", [20, 200, 3000])
def test_truncated_gzip(tmp_path: Path, cases_folder: Path, keep: int) -> None:
    file = tmp_path / "cases.jsonl.gz"
    file.write_bytes((cases_folder / "A_eyeriss_like.jsonl.gz").read_bytes()[:keep])
    with pytest.raises(InputError, match="whole gzip file"):
        list(read_cases(tmp_path))


def test_damaged_gzip_and_bytes_that_are_not_text(tmp_path: Path, cases_folder: Path) -> None:
    data = bytearray((cases_folder / "A_eyeriss_like.jsonl.gz").read_bytes())
    data[100:140] = b"\xff" * 40
    (tmp_path / "a.jsonl").write_bytes(data)
    (tmp_path / "b.jsonl").write_bytes(b"\xff\xfe{}\n")
    for name in "ab":
        with pytest.raises(InputError) as caught:
            list(read_cases(tmp_path / f"{name}.jsonl"))
        assert str(caught.value).startswith(str(tmp_path / f"{name}.jsonl"))


def test_no_cases(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none in it"):
        list(read_cases(tmp_path))
    with pytest.raises(InputError, match="missing"):
        list(read_cases(tmp_path / "missing.jsonl"))


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        ("arithmetic", ..., "arithmetic"),
        ("arithmetic.energy_per_op_pJ", -1, "arithmetic.energy_pj"),
        ("storage", ..., "storage"),
        ("storage", [], "levels"),
        ("storage.1.size_words", 0, "storage[1].size_words"),
        ("storage.1.size_words", ..., "size_words"),
        ("storage.1.fanout_below_XY", [14], "fanout_below_XY"),
        ("storage.1.fanout_below_XY", [14, "12"], "storage[1].fanout_y"),
        ("storage.1.energy_per_access_pJ.read", ..., "read"),
        ("storage.1.energy_per_access_pJ.read", "4", "storage[1].read_energy_pj"),
        ("storage.1.instances", 2, "storage[1].instances"),
        ("storage.2.size_words", 100, "levels"),
    ],
)
def test_malformed_architectures(cases_folder: Path, path: str, value: Any, key: str) -> None:
    data = json.loads((cases_folder / "archs.json").read_text())["A_eyeriss_like"]
    set_at(data, path, value)
    with pytest.raises(InputError) as caught:
        architecture_from_json("mine", data, "archs.json: mine")
    assert caught.value.key == key
    assert str(caught.value).startswith("archs.json: mine")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("dimensions", ...),
        ("dimensions", ["R", 3]),
        ("data_spaces", ...),
        ("data_spaces", []),
        ("data_spaces.0", 3),
        ("data_spaces.0.name", ...),
        ("data_spaces.0.projection", ...),
        ("data_spaces.0.projection", [["C"]]),
        ("data_spaces.0.projection", [[["C", "K", "R"]]]),
        ("data_spaces.0.projection", [[["X"]]]),
        ("data_spaces.0.projection", [[["C", "Xstride"]]]),
        ("data_spaces.0.projection", [[["C"]], [["C"]]]),
        ("data_spaces.0.role", "bias"),
        ("data_spaces.0.read_write", "yes"),
        ("data_spaces.2.read_write", False),
        ("coefficients", {}),
        ("coefficients.0", 4),
        ("coefficients.0.default", 0),
    ],
)
def test_malformed_shapes(path: str, value: Any) -> None:
    shape = builtin_shapes()["cnn_layer"]
    set_at(shape, path, value)
    dims = {"R": 3, "S": 2, "P": 7, "Q": 8, "C": 4, "K": 5, "N": 6}
    with pytest.raises(InputError) as caught:
        layer_from_problem({"shape": shape, "dims": dims}, "layer.json")
    assert str(caught.value).startswith("layer.json")


JUNK: list[Any] = [
    None,
    True,
    0,
    -1,
    2,
    1.5,
    10**30,
    "",
    "DRAM",
    "K",
    [],
    ["K"],
    [[]],
    {},
    {"K": 2},
    [{}],
    "☃",
]


def places(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = list(data) if isinstance(data, dict) else list(range(len(data))) if isinstance(data, list) else []
    return [place for key in keys for place in [(*at, key), *places(data[key], (*at, key))]]


@pytest.mark.slow
def test_junk_anywhere_is_an_input_error_or_a_case(tmp_path: Path, record: Record) -> None:
    """Every part of a case and of its architecture replaced by something else, or left out."""
    folder_archs = {record["arch"]: reference_architecture()}
    for name in ("results", "results_no_link_transfers"):
        record.pop(name, None)
    counted, complaints = 0, []
    rng = random.Random(7)
    for source, file in ((record, "cases.jsonl"), (folder_archs, "archs.json")):
        for place in places(source):
            damaged = deepcopy(source)
            owner = damaged
            for key in place[:-1]:
                owner = owner[key]
            junk = rng.choice([..., *JUNK])
            if junk is ...:
                del owner[place[-1]]
            else:
                owner[place[-1]] = junk
            (tmp_path / "archs.json").write_text(json.dumps(folder_archs))
            write(tmp_path / "cases.jsonl", record)
            (tmp_path / file).write_text(json.dumps(damaged))
            try:
                for case in read_cases(tmp_path / "cases.jsonl"):
                    evaluated_line(case)
                counted += 1
            except InputError as error:
                complaints.append(str(error))
    assert all(str(tmp_path) in text for text in complaints)
    assert len(complaints) > 100
    assert counted > 5


def reference_architecture() -> Any:
    return json.loads((Path(__file__).parents[2] / "data" / "timeloop" / "archs.json").read_text())[
        "A_eyeriss_like"
    ]
