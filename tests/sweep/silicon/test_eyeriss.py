"""What the model says of the Eyeriss chip, against the chip's tables and against the formula of its
passes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.machines.row_stationary import RowStationary
from sweep.silicon.eyeriss import compressed, predicted, with_accumulation
from sweep.silicon.eyeriss_rows import EyerissRow, eyeriss_rows

FILE = Path(__file__).parents[2] / "data" / "silicon" / "eyeriss.jsonl"
ROWS = eyeriss_rows(FILE)
EYERISS = load_architecture("eyeriss-v1")
OTHER_MAPPING = "eyeriss/alexnet/CONV3"
"""Its buffer accesses are not those of the mapping that the paper states."""


def cycles_of_passes(row: EyerissRow) -> float:
    """Processing cycles by the formula of docs/silicon-eyeriss.md, pass by pass and without a nest."""
    size, m = row.layer.sizes, row.mapping
    stride = 4 if row.id.endswith("/CONV1") else 1
    f = m.f or size["Q"]
    passes = size["K"] // (m.p * m.t) * (size["N"] // m.n) * (size["C"] // (m.q * m.r)) * (size["Q"] // f)
    cycles = 0.0
    for first in range(0, size["P"], m.e):
        rows = min(m.e, size["P"] - first)
        macs = m.n * f * m.p * (m.q * size["S"] + 0.54)
        sums = m.n * m.p * m.t * rows * f / 4
        inputs = m.n * m.q * m.r * ((rows - 1) * stride + size["R"]) * ((f - 1) * stride + size["S"])
        filters = m.p * m.t * m.q * m.r * size["R"] * size["S"] / 4
        cycles += passes * (max(macs, sums, inputs) + filters)
    return cycles


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_chip_is_as_predicted(row: EyerissRow) -> None:
    figures, chip = predicted(row, EYERISS), row.measured
    assert figures.processing_latency_ms == pytest.approx(cycles_of_passes(row) / 200e3, rel=1e-9)
    assert figures.processing_latency_ms == pytest.approx(chip["processing_latency_ms"], rel=0.10)
    assert figures.dram_mb == pytest.approx(chip["dram_mb"], rel=0.15)
    assert figures.power_mw == pytest.approx(chip["power_mw"], rel=0.10)
    assert figures.active_pes == chip["active_pes"]
    if row.id != OTHER_MAPPING:
        assert figures.global_buffer_mb == pytest.approx(chip["global_buffer_mb"], rel=0.05)


def test_the_row_that_does_not_fit_fits_the_next_layers_mapping() -> None:
    """51 passes over 6 of 256 channels and one over 4 would be CONV4's mapping; 252 and 4 add up to its
    words."""
    row = next(row for row in ROWS if row.id == OTHER_MAPPING)
    as_conv4 = next(row for row in ROWS if row.id == "eyeriss/alexnet/CONV4").mapping
    whole = replace(row, mapping=as_conv4, layer=_with_channels(row, 252))
    rest = replace(row, mapping=replace(as_conv4, q=2), layer=_with_channels(row, 4))
    found = [predicted(part, EYERISS) for part in (whole, rest)]
    # the two parts hand over sums through the buffer; as two layers they bring them to DRAM instead, so one
    # in and one out of the first part's last pass are the chip's too
    assert sum(part.global_buffer_mb for part in found) == pytest.approx(50.2, abs=0.1)
    assert sum(part.processing_latency_ms for part in found) == pytest.approx(21.8, rel=0.05)


def _with_channels(row: EyerissRow, channels: int) -> Any:
    dims = tuple((dim, channels if dim == "C" else size) for dim, size in row.layer.dims)
    return replace(row.layer, dims=dims)


def test_another_mapping_would_have_been_faster() -> None:
    """VGG-16's CONV1-2 with four channels a pass, so that sums no longer bind; it fits the buffer and 14 x 12
    PEs."""
    row = next(row for row in ROWS if row.id.endswith("CONV1-2"))
    better = replace(row, mapping=RowStationary(m=64, n=1, e=3, p=8, q=2, r=2, t=8))
    ran, other = predicted(row, EYERISS), predicted(better, EYERISS)
    assert (ran.binding, other.binding) == ("links", "PEs")
    assert ran.processing_latency_ms > 3.4 * other.processing_latency_ms
    assert other.dram_mb < ran.dram_mb
    assert other.active_pes == 144


def test_totals_are_left_out_and_rows_can_bring_their_own_mapping(tmp_path: Path) -> None:
    assert len(ROWS) == 18
    line = json.loads(FILE.read_text().splitlines()[1])
    own = line | {"id": "mine", "network": "mine", "zeros_in_ifmaps": 0.5, "zeros_in_ofmaps": 0.25}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(own))
    (row,) = eyeriss_rows(path)
    assert (row.zeros_in, row.zeros_out) == (0.5, 0.25)
    assert predicted(row, EYERISS).processing_latency_ms == predicted(ROWS[1], EYERISS).processing_latency_ms


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": "mine"}, "zeros_in_ofmaps: expected a fraction"),
        ({"row_stationary": None, "network": "mine"}, "row_stationary: expected the mapping that ran"),
        ({"row_stationary": {"m": 1}}, "an object with m n e p q r t"),
        ({"zeros_in_ifmaps": 2}, "zeros_in_ifmaps: expected a fraction from 0 to 1"),
        ({"dram_mb": "much"}, "dram_mb: expected a number above 0"),
        ({"layer": {"R": 3}}, "layer: expected an object with the sizes R S P Q C K N"),
        ({"id": 3}, "expected an object with id and layer"),
    ],
)
def test_wrong_rows_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(json.loads(FILE.read_text().splitlines()[1]) | change))
    with pytest.raises(InputError, match=rf"rows.jsonl:1.*{message}"):
        eyeriss_rows(path)


def test_compression() -> None:
    assert compressed(None, 16) == 1
    assert compressed(0.0, 16) == 1, "three values of 16 bits in a word of 64 would be more"
    assert compressed(0.7, 16) == pytest.approx(0.3 * 64 / 48)


def test_accumulation_is_part_of_the_latency() -> None:
    row = ROWS[1]
    slower = predicted(row, with_accumulation(EYERISS, 1.54)).processing_latency_ms
    sums = row.layer.sizes["Q"] * row.mapping.p * 1536
    assert slower - predicted(row, EYERISS).processing_latency_ms == pytest.approx(sums / 200e3)
    with pytest.raises(InputError, match="a timing of processing"):
        with_accumulation(load_architecture("eyeriss"), 1.0)
