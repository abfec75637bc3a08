"""nn-dataflow's convention against what the tool counted, and against slow, plain counting."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from itertools import pairwise, permutations, product
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.formats.directives.counts import accesses, cycles, parallelism
from costmodel.formats.directives.values import LayerScheme
from costmodel.published.nn_dataflow.as_directives import scheme_directives
from costmodel.published.nn_dataflow.blocking import OFM, Blocking, NotFittingError, fetched, scheme_cost
from costmodel.published.nn_dataflow.cases import SchemeCase, evaluated_line, is_scheme_file, read_schemes
from costmodel.published.nn_dataflow.layers import LEVELS, LOOPS, TENSORS, LayerShape
from costmodel.published.nn_dataflow.row_stationary import fold, processing_passes

FILE = Path(__file__).parents[3] / "data/kapla/layer_schemes.jsonl.gz"
CASES = list(read_schemes(FILE))


def names(case: SchemeCase) -> str:
    return f"{case.record['hw']['name']}-{case.name}-{case.batch}"


@pytest.mark.parametrize("case", CASES, ids=names)
def test_every_number_is_the_tools(case: SchemeCase) -> None:
    cost, told = case.cost(), case.record
    line = evaluated_line(case)
    assert line["access"] == told["access"]
    assert (line["time_cycles"], line["net"], line["layer"]) == (
        told["time_cycles"],
        told["net"],
        told["layer"],
    )
    assert line["energy_j"] == pytest.approx(told["energy"], rel=1e-12)
    assert [list(counts) for counts in cost.fetches] == told["fetch"]
    assert [list(words) for words in cost.held_words] == told["size_words"]
    assert (cost.processing_cycles, cost.bus_cycles, cost.dram_cycles) == (
        told["proc_time"],
        told["bus_time"],
        told["dram_time"],
    )
    parts = ("cost_op", "cost_access", "cost_noc", "cost_static")
    found = (cost.operation_energy, cost.access_energy, cost.noc_energy, cost.static_energy)
    assert found == pytest.approx(tuple(told[part] for part in parts), rel=1e-12)


def test_the_sample_has_every_kind_of_layer_and_hardware() -> None:
    assert {case.record["hw"]["name"] for case in CASES} == {"edge", "node8x8", "eyeriss12x14"}
    kinds = {case.record["dims"]["kind"] for case in CASES}
    assert kinds == {"ConvLayer", "FCLayer", "PoolingLayer", "EltwiseLayer"}


# --- physics: no scheme computes faster, or moves less, than any chip can


@pytest.mark.parametrize("case", CASES, ids=names)
def test_time_and_dram_have_their_floors(case: SchemeCase) -> None:
    cost, layer = case.cost(), case.layer
    operations = layer.operations(case.batch)
    assert cost.operations == pytest.approx(operations)
    assert cost.cycles >= operations / prod(case.hardware.array)
    outputs = layer.channels_out * layer.out_h * layer.out_w * case.batch
    filters = layer.channels_in * layer.channels_out * layer.window_h * layer.window_w
    dram = dict(zip(("FIL", "IFM", "OFM"), cost.accesses[LEVELS.index("DRAM")], strict=True))
    assert dram["OFM"] >= outputs * (1 - 1e-12)
    assert dram["FIL"] >= filters * (1 - 1e-12) * layer.has_filters


# --- the fetches, by running the loops


def tiles_met(blocking: Blocking, related: tuple[int, ...], block: int) -> list[tuple[int, ...]]:
    """The tiles of a tensor that the level inside ``block`` holds one after the other, loops run in order."""
    nest = [
        (at, loop, blocking.factors[at][loop])
        for at in range(block + 1)
        for loop in sorted(range(len(LOOPS)), key=lambda loop: -blocking.orders[at][loop])
    ]
    sequence = [
        tuple(index for (_, loop, _), index in zip(nest, indices, strict=True) if loop in related)
        for indices in product(*(range(factor) for _, _, factor in nest))
    ]
    return sequence[:1] + [tile for before, tile in pairwise(sequence) if tile != before]


ORDERS = st.sampled_from(list(permutations(range(3))))
FACTORS = st.tuples(*[st.sampled_from([1, 1, 2, 3])] * 3)


@given(st.tuples(FACTORS, FACTORS), st.tuples(ORDERS, ORDERS), st.sampled_from(["convolution", "local"]))
def test_fetches_are_the_tiles_that_the_loops_meet(factors: Any, orders: Any, kind: Any) -> None:
    if kind == "local":
        factors = tuple((1, *rest) for _, *rest in factors)
    blocking = Blocking((*factors, (1, 1, 1)), orders)
    layer = LayerShape(kind, *[1] * 6)
    unit = processing_passes(layer, 1, (1, 1))[0]
    for block in (0, 1):
        for tensor, related in enumerate(unit.related):
            met = tiles_met(blocking, related, block)
            visits, rest = divmod(len(met), len(set(met)))
            assert rest == 0
            expected = 2 * visits - 1 if tensor == OFM else visits
            assert fetched(blocking, unit, block)[tensor] == expected


# --- the same schemes as directives, which count by themselves


def expressed(case: SchemeCase) -> LayerScheme | None:
    (unit,) = case.passes()
    try:
        return scheme_directives(case.name, case.layer, case.batch, unit, case.blocking, case.hardware.array)
    except InputError:
        return None


EXPRESSED = [case for case in CASES if expressed(case)]


def test_what_directives_express() -> None:
    """Everything but folds, and channels that copies and factors do not divide."""
    assert len(EXPRESSED) > len(CASES) // 2
    assert {case.layer.has_filters for case in EXPRESSED} == {True, False}


@pytest.mark.parametrize("case", EXPRESSED, ids=names)
def test_directives_count_as_the_tool_does(case: SchemeCase) -> None:
    """What is held, moved from DRAM, and computed is equal, and everything of fully connected layers.

    Where a PE slides over a row, the tool takes its registers to hold the whole row until the next pass: of
    inputs and outputs it counts fewer words at the buffer and on the bus than there are.
    """
    scheme, cost = expressed(case), case.cost()
    assert scheme is not None
    registers, buffer = accesses(scheme, "REGF"), accesses(scheme, "GBUF")
    held = [
        {tile.name: tile.words for tile in level.tensors} for level in (scheme.levels[1], scheme.levels[0])
    ]
    window = case.layer.window_w * case.layer.operands
    assert cycles(scheme, window * prod(case.blocking.factors[2])) == cost.processing_cycles
    for t, name in enumerate(TENSORS):
        if name not in registers:
            assert cost.accesses[0][t] == 0
            continue
        assert [words[name] for words in held] == [words[t] for words in cost.held_words]
        assert buffer[name].next_reads + buffer[name].next_writes == pytest.approx(cost.accesses[0][t])
        at_buffer = registers[name].next_reads + registers[name].next_writes
        on_bus = (registers[name].filled + registers[name].drained) * parallelism(scheme)
        if name == "FIL" or case.layer.out_w == 1:
            assert (at_buffer, on_bus) == pytest.approx((cost.accesses[1][t], cost.accesses[2][t]))
        elif case.layer.stride_w <= case.layer.window_w:  # it also counts what larger strides skip
            assert at_buffer >= cost.accesses[1][t] * (1 - 1e-9)
            assert on_bus >= cost.accesses[2][t] * (1 - 1e-9)


# --- folding and copies


@given(*[st.integers(1, 40)] * 4)
def test_folded_and_copied_sets_fit_the_array(set_h: int, set_w: int, height: int, width: int) -> None:
    folding = fold(set_h, set_w, (height, width))
    assert folding.pes * folding.copies_h * folding.copies_w <= height * width
    assert folding.rows * folding.fold_h >= set_h
    assert folding.columns * folding.fold_w >= set_w


SIZES = st.integers(1, 20)


@given(*[SIZES] * 4, st.integers(1, 7), st.integers(1, 3), st.integers(1, 4))
def test_passes_do_all_operations_and_touch_all_words_once(
    c: int, k: int, out_h: int, out_w: int, window: int, stride: int, batch: int
) -> None:
    layer = LayerShape("convolution", c, k, out_h, out_w, window, window, stride, stride)
    for unit in processing_passes(layer, batch, (6, 7)):
        passes = prod(unit.loop_counts)
        assert unit.operations * passes == pytest.approx(layer.operations(batch))
        assert unit.cycles * passes * 42 >= layer.operations(batch)
        assert unit.words_once(0, 0) == pytest.approx(c * k * window**2)
        assert unit.words_once(0, 2) == pytest.approx(k * out_h * out_w * batch)


def test_a_bypassed_buffer_keeps_only_what_it_saves() -> None:
    case = next(case for case in CASES if case.layer.has_filters)
    unit = processing_passes(case.layer, case.batch, case.hardware.array)[0]
    once = Blocking(((1, 1, 1), unit.loop_counts, (1, 1, 1)), ((0, 1, 2), (0, 1, 2)), (True, True, True))
    large = replace(case.hardware, buffer_words=10**9, register_words=10**9)
    cost = scheme_cost(unit, once, large)
    kept = [words > 0 for words in cost.held_words[0]]
    assert kept == [a < b for a, b in zip(*cost.fetches, strict=True)]
    assert [words > 0 for words in cost.accesses[LEVELS.index("GBUF")]] == kept


# --- files


def row(**changed: Any) -> dict[str, Any]:
    with gzip.open(FILE, "rt") as file:
        first: dict[str, Any] = json.loads(file.readline())
        return first | changed


def write(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


def test_rows_need_only_the_scheme(tmp_path: Path) -> None:
    """What the tool counted, and the sizes that name its pass, may be missing."""
    keys = ("net", "layer", "batch", "dims", "hw", "ti", "to", "tb", "orders")
    told = row()
    path = write(tmp_path, {key: told[key] for key in keys})
    assert is_scheme_file(path)
    (case,) = read_schemes(path)
    assert evaluated_line(case)["energy_j"] == pytest.approx(told["energy"], rel=1e-12)


def test_other_files_are_not_taken_for_schemes(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for text in ("", "not json", '{"id": 1}', "[1]"):
        path.write_text(text)
        assert not is_scheme_file(path)
    assert not is_scheme_file(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ti": [1, 1]}, r"rows.jsonl:1: ti: expected 3 whole numbers"),
        ({"ti": [977, 1, 1]}, r"rows.jsonl:1: ti: expected factors that multiply to \("),
        ({"orders": [[0, 1, 2]]}, "an order per level"),
        ({"orders": [[0, 1, 2], [0, 0, 1]]}, "0, 1 and 2 in some order"),
        ({"batch": 0}, "batch: expected a whole number"),
        ({"batch": 10**400}, "batch: expected a whole number from 1 to"),
        ({"unit_size": [[1, 1, 1], [9, 9, 9]]}, "the sizes of one of the layer's passes"),
        ({"dims": {"kind": "DepthwiseConvolutionLayer"}}, r"a layer that nn-dataflow 2.1 maps"),
        ({"hw": {"costs": {}, "word_bytes": 2}}, "a cost per level"),
    ],
)
def test_wrong_rows_are_named(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        [evaluated_line(case) for case in read_schemes(write(tmp_path, row(**changed)))]


def test_a_row_of_many_nodes_says_that_its_division_is_missing(tmp_path: Path) -> None:
    many = row()["hw"] | {"nodes": [4, 4]}
    with pytest.raises(InputError, match=r"hw.nodes: expected one node"):
        list(read_schemes(write(tmp_path, row(hw=many))))


def test_tiles_that_do_not_fit_are_not_possible(tmp_path: Path) -> None:
    (case,) = read_schemes(write(tmp_path, row(hw=row()["hw"] | {"gbuf_bytes": 2})))
    with pytest.raises(NotFittingError, match="buffer: tiles need"):
        case.cost()
    assert evaluated_line(case)["energy_j"] is None
