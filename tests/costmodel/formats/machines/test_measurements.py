"""Measured runs: Gemmini's RTL rows by hand, files of a user's own, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.cases.mapping import mapping_to_json
from costmodel.formats.machines.gemmini_runs import gemmini_run
from costmodel.formats.machines.measurements import predicted, read_measurements
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping
from costmodel.mapping.timing.accuracy import Accuracy
from costmodel.workload.network import convolution

SILICON = Path(__file__).parents[3] / "data" / "silicon"


def row(**changed: Any) -> dict[str, Any]:
    return {
        "layer": {"R": 3, "S": 3, "P": 14, "Q": 14, "C": 32, "K": 64},
        "rtl_tile": {"R": 3, "S": 3, "P": 14, "Q": 7, "C": 32, "K": 16},
        "rtl_tile_loops": [["K", 4], ["Q", 2]],
        "rtl_cycles": 1000,
    } | changed


def test_an_odd_window_runs_as_the_row_says() -> None:
    run = gemmini_run(row(), "row")
    assert {dim: run.tile[dim] for dim in "PQCK"} == {"P": 14, "Q": 7, "C": 32, "K": 16}
    assert run.loops == (("K", 4), ("Q", 2))
    assert run.overrides == {"Scratchpad.fanout.x": 16, "Accumulator.fanout.y": 16}


def test_an_even_window_has_an_output_more_a_side() -> None:
    run = gemmini_run(row(layer={"R": 2, "S": 2, "P": 14, "Q": 14, "C": 32, "K": 64}), "row")
    assert run.layer.sizes["P"] == run.layer.sizes["Q"] == 15
    # three rows of tiles, and a column that the row's loops do not have, innermost
    assert run.loops == (("K", 4), ("Q", 3), ("P", 2))


def test_a_layer_that_is_not_square_runs_as_wide_as_it_is() -> None:
    run = gemmini_run(row(layer={"R": 3, "S": 3, "P": 14, "Q": 28, "C": 32, "K": 64}), "row")
    assert run.layer.sizes["Q"] == 14
    assert run.loops == (("K", 4), ("Q", 2))


def test_products_on_other_meshes_count_tiles_in_blocks_of_sixteen() -> None:
    product = row(
        layer={"P": 128, "C": 128, "K": 512},
        rtl_tile={"P": 32, "C": 4, "K": 16},
        rtl_tile_loops=[["K", 32], ["C", 32], ["P", 4]],
        mesh_inferred=[4, 4],
    )
    run = gemmini_run(product, "row")
    assert {dim: run.tile[dim] for dim in "PCK"} == {"P": 8, "C": 4, "K": 4}
    assert run.loops == (("K", 128), ("C", 32), ("P", 16))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows", "mape", "spearman"),
    [("gemmini_dosa", 117, 0.09, 0.99), ("gemmini_random", 707, 0.16, 0.99)],
)
def test_gemminis_rows_are_within_the_errors_that_the_docs_state(
    name: str, rows: int, mape: float, spearman: float
) -> None:
    runs = read_measurements("gemmini", SILICON / f"{name}.jsonl")
    found = Accuracy.of([run.cycles for run in runs], [predicted(run)[0] for run in runs])
    assert found.rows == rows
    assert found.mape <= mape
    assert found.spearman is not None
    assert found.spearman >= spearman


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(one)}\n" for one in rows))
    return path


def test_a_users_own_rows_by_mapping_and_by_tile_are_the_same_run(tmp_path: Path) -> None:
    layer = convolution("own", K=64, C=16, P=32, Q=8, R=3, S=3)
    machine = load_architecture("gemmini")
    mapping = Mapping(
        (
            LevelMapping((("P", 16),), (), (), frozenset({"Weights"})),
            LevelMapping((("P", 2), ("Q", 4), ("R", 3), ("S", 3)), (), (("C", 16),), frozenset({"Outputs"})),
            LevelMapping((), (("K", 16),), (), frozenset({"Weights", "Inputs"})),
            LevelMapping((("Q", 2), ("K", 4)), (), (), frozenset({"Weights", "Inputs", "Outputs"})),
        )
    )
    sizes = {dim: size for dim, size in layer.dims if size > 1}
    by_mapping = {"layer": sizes, "cycles": 9000, "mapping": mapping_to_json(machine, layer, mapping)}
    tile = {"P": 32, "Q": 4, "C": 16, "K": 16, "R": 3, "S": 3}
    by_tile = {"id": "b", "layer": sizes, "cycles": 9000, "tile": tile, "loops": [["K", 4], ["Q", 2]]}
    runs = read_measurements("gemmini", write(tmp_path / "own.jsonl", [by_mapping, by_tile]))
    assert [run.id for run in runs] == ["1", "b"]
    assert runs[0].group == runs[1].group
    assert {predicted(run)[0] for run in runs} == {evaluate(machine, layer, mapping).cycles}
    cells = [json.dumps(by_tile[key]).replace('"', '""') for key in ("layer", "tile", "loops")]
    text = "id,cycles,layer,tile,loops\n" + 'b,9000,"{}","{}","{}"\n'.format(*cells)
    (tmp_path / "own.csv").write_text(text)
    assert read_measurements("gemmini", tmp_path / "own.csv")[0] == runs[1]


@pytest.mark.parametrize("missing", ["rtl_tile", "rtl_tile_loops", "rtl_cycles"])
def test_a_row_that_lacks_a_part_is_named(tmp_path: Path, missing: str) -> None:
    lacking = {key: value for key, value in row().items() if key != missing}
    with pytest.raises(InputError) as error:
        read_measurements("gemmini", write(tmp_path / "rows.jsonl", [row(), lacking]))
    assert (error.value.where, error.value.key) == (f"{tmp_path / 'rows.jsonl'}:2", missing)


def test_rows_may_say_one_number_for_both_sides_and_measure_fractions() -> None:
    run = gemmini_run(row(mesh=32, stride=2, dilation=1, rtl_cycles=1000.5), "row")
    assert run.overrides == {"Scratchpad.fanout.x": 32, "Accumulator.fanout.y": 32}
    assert run == gemmini_run(
        row(mesh=[32, 32], stride={"P": 2, "Q": 2}, dilation={"P": 1, "Q": 1}, rtl_cycles=1000.5), "row"
    )
    assert run.cycles == 1000.5


def test_filters_are_square_as_the_program_takes_one_number() -> None:
    tall = {"R": 1, "S": 3, "P": 14, "Q": 14, "C": 32, "K": 64}
    with pytest.raises(InputError, match="square filters"):
        gemmini_run(row(layer=tall, rtl_tile={"S": 3, "P": 14, "Q": 7, "C": 32, "K": 16}), "row")


def test_own_rows_say_strides_dilations_groups_and_batches(tmp_path: Path) -> None:
    """What a row says makes its layer: nothing is left out without a word."""
    conv = {"K": 8, "C": 8, "P": 10, "Q": 10, "R": 3, "S": 3}
    walk = {"tile": dict(conv), "loops": [], "cycles": 900}
    grouped = {"tile": {"C": 8, "P": 10, "Q": 10, "R": 3, "S": 3}, "loops": [], "cycles": 900}
    product = {"B": 4, "M": 32, "N": 16, "K": 16}
    rows = [
        {"layer": conv, **walk},
        {"layer": conv, "stride": 2, "dilation": {"P": 2}, **walk},
        {"layer": conv, "groups": 8, **grouped},
        {"layer": product, "tile": {"M": 32, "N": 16, "K": 16}, "loops": [["B", 4]], "cycles": 900},
    ]
    layers = [run.layer for run in read_measurements("gemmini", write(tmp_path / "own.jsonl", rows))]
    assert layers[1].tensors == convolution("other", **conv, stride=(2, 2), dilation=(2, 1)).tensors
    assert [layer.macs for layer in layers] == [57600, 57600, 7200, 4 * 32 * 16 * 16]
    assert len({layer.name for layer in layers}) == 4
    for wrong in ({"stride": 2}, {"groups": 2}):
        with pytest.raises(InputError, match="none, in a matrix product"):
            read_measurements("gemmini", write(tmp_path / "wrong.jsonl", [rows[3] | wrong]))
    with pytest.raises(InputError, match="groups that divide"):
        read_measurements("gemmini", write(tmp_path / "wrong.jsonl", [rows[2] | {"groups": 3}]))


def test_a_run_may_have_layouts_of_its_own(tmp_path: Path) -> None:
    """Inputs channel by channel have short rows, and a calibration keeps them so."""
    conv = {"K": 16, "C": 64, "P": 8, "Q": 8, "R": 3, "S": 3}
    one = {"layer": conv, "tile": dict(conv), "loops": [], "cycles": 900}
    other = one | {"layouts": {"inputs": ["N", "C", "Q", "P"]}}
    plain, planar = read_measurements("gemmini", write(tmp_path / "own.jsonl", [one, other]))
    assert predicted(planar)[0] > predicted(plain)[0]
    assert predicted(planar.on(load_architecture("gemmini"))) == predicted(planar)
    for wrong in ({"inputs": "NCQP"}, {"input": ["N"]}, {"inputs": ["C", "C"]}):
        with pytest.raises(InputError, match=r"own\.jsonl:1"):
            read_measurements("gemmini", write(tmp_path / "own.jsonl", [one | {"layouts": wrong}]))
    with pytest.raises(InputError, match="timing"):
        read_measurements("simba", write(tmp_path / "own.jsonl", [other]))
    twice = {"layer": conv, "cycles": 900, "mapping": {"layouts": {}}, "layouts": {}}
    with pytest.raises(InputError, match="of the row or of its mapping, found both"):
        read_measurements("gemmini", write(tmp_path / "own.jsonl", [twice]))


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"rtl_cycles": 0}, "rtl_cycles"),
        ({"rtl_tile": {"X": 3}}, "rtl_tile"),
        ({"rtl_tile_loops": [["K"]]}, "rtl_tile_loops"),
        ({"mesh": [16]}, "mesh"),
        ({"layer": {"P": 1.5}}, "layer.P"),
        ({"rtl_cycles": None}, "rtl_cycles"),
        ({"rtl_tile_loops": [["K", 5], ["Q", 2]]}, "rtl_tile_loops"),
        ({"rtl_tile_loops": [["K", 2], ["Q", 2], ["K", 2]]}, "rtl_tile_loops"),
        ({"dilation": {"P": 2, "Q": 2}}, "dilation"),
        ({"kind": "depthwise"}, "kind"),
        ({"mesh_inferred": None}, "mesh_inferred"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, wrong: dict[str, Any], key: str) -> None:
    path = write(tmp_path / "rows.jsonl", [row(), row(**wrong)])
    with pytest.raises(InputError) as error:
        read_measurements("gemmini", path)
    assert error.value.where == f"{path}:2"
    assert error.value.key == key


def test_a_tile_needs_a_machine_with_timing(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [{"layer": {"K": 2}, "cycles": 3, "tile": {}, "loops": [["K", 2]]}])
    with pytest.raises(InputError, match="timing"):
        read_measurements("eyeriss", path)


def test_rows_that_a_machine_cannot_have_run_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [row()])
    with pytest.raises(InputError, match=r"rows\.jsonl:1: expected a machine with Gemmini's levels"):
        read_measurements("eyeriss-v1", path)
    path = write(tmp_path / "rows.jsonl", [{"layer": {"K": 2}, "cycles": 3}])
    with pytest.raises(InputError, match=r"rows\.jsonl:1: mapping: expected a mapping, or a tile"):
        read_measurements("gemmini", path)


def test_accuracy_by_hand() -> None:
    found = Accuracy.of([100, 200, 400], [110, 160, 400])
    assert found.mape == pytest.approx(0.1)
    assert found.median_ape == pytest.approx(0.1)
    assert found.spearman == pytest.approx(1)
    assert found.geomean_ratio == pytest.approx((1.1 * 0.8) ** (1 / 3))
