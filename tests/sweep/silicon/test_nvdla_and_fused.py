"""NVIDIA's sheet and fused chips against the model: rows by hand, and files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from solvers.budget import Budget
from sweep.silicon import fused, nvdla

DATA = Path(__file__).parents[2] / "data" / "silicon"
SHEET = {row.id: row for row in nvdla.nvdla_rows(DATA / "nvdla_open.jsonl")}
QUIRK = 1.024
"""Kilobytes of 1,024 bytes that the sheet divides by gigabytes of 10^9."""


def test_the_library_file_is_the_sheets_machine() -> None:
    chip = load_architecture("nvdla-full")
    assert chip.mac_units == 2048
    assert chip.levels[-1].shared_bandwidth == 10
    assert chip.levels[0].size_words == 512 * 1024


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rounding"),
    [
        ("alexnet/10", 1e-3),  # fully connected: a batch of 16
        ("resnet50/04", None),  # Winograd
        ("resnet50/05", 1e-3),  # with the operand of a sum
        ("resnet50/26", 1e-3),  # packed pixels
        ("resnet50/29", 1e-3),
    ],
)
def test_least_cycles_are_the_sheets_roofline(name: str, rounding: float | None) -> None:
    row = SHEET[name]
    assert row.sheet_cycles is not None
    found = nvdla.least_cycles(row, load_architecture("nvdla-full"), Budget(60))
    assert found is not None
    assert found.proven
    if rounding is not None:
        assert found.cycles == pytest.approx(row.sheet_cycles * QUIRK, rel=rounding)
    else:
        # the sheet's MACs bind, as it rounds 64 filters up to 128; without that DRAM does, with 48,154 bytes'
        # cycles
        words = 56 * 56 * 64 + 58 * 58 * 64 + 16 * 64 * 64
        assert found.cycles == -(-words // 10) < row.sheet_cycles


@pytest.mark.slow
def test_fused_runs_are_bound_by_arrays_and_links() -> None:
    found = {
        run.id: fused.least_cycles(run, Budget(60)) for run in fused.fused_runs(DATA / "fused_silicon.jsonl")
    }
    depfin = found["depfin/fsrcnn"]
    assert depfin.steps[2] == 540 * 8 * 12 * 9, (
        "960 columns in 8 parts, 12 of 16 filters, channels and windows"
    )
    assert depfin.cycles == sum(depfin.steps)
    jia = found["jia/resnet50-segment"]
    assert jia.cycles == jia.link == 56 * 56 * 256 / 16
    diana = found["diana/resnet18-start"]
    assert diana.steps[0] == 112 * 7 * 4 * 3 * 49
    assert diana.steps[1] == 56 * 56 * 64 * 4 / 64


def test_wrong_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"id": "mine", "layers": []}))
    with pytest.raises(InputError, match=r"rows.jsonl:1: id: expected one of depfin/fsrcnn"):
        fused.fused_runs(path)
    path.write_text(json.dumps({"id": "depfin/fsrcnn", "layers": []}))
    with pytest.raises(InputError, match="expected 8 layers, as ran"):
        fused.fused_runs(path)
    path.write_text(json.dumps({"id": "mine", "layer": {"R": 3}}))
    with pytest.raises(InputError, match="the sizes R S P Q C K N"):
        nvdla.nvdla_rows(path)
    path.write_text("{}")
    with pytest.raises(InputError, match="an object with id and layer"):
        nvdla.nvdla_rows(path)
