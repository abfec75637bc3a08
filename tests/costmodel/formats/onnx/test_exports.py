"""Files of both of PyTorch's exporters count as PyTorch counts the models, at lengths other than traced."""

from __future__ import annotations

import gzip
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from costmodel.formats.json.safe_json import load_json
from costmodel.formats.onnx.reader import read_onnx
from costmodel.workload.counting import uncounted_rows
from costmodel.workload.network import Network

ROOT = Path(__file__).parents[4]
EXPORTS = ROOT / "tests" / "data" / "exports"
DATA_DEPENDENT = {
    "mixtral_loop.script": 16,
    "experts_masked.script": 8,
    "experts_masked.dynamo": 8,
    "experts_sorted.script": 8,
}
"""Loops over experts, with how many products are of rows that data pick: no file tells how many these are."""


FOLDED = {"swin_v2.dynamo": 4 * 49 * 2 * 512, "xcit.dynamo": 4 * 4 * 64 * 128}
"""Products of constants that the exporter computes itself: four of position tables, (49, 2) by (2, 512), and
a convolution of the positions of 4 by 4 patches, 64 channels to 128."""

SLOW = {"swin", "swin_v2", "mamba2", "segformer", "levit", "shufflenet", "deepseek_v3", "gpt_oss"}
"""Models that take more than a third of a second to read."""


@cache
def counted() -> dict[str, Any]:
    found: dict[str, Any] = load_json(EXPORTS / "counted.json")
    return found


def network_of(folder: Path, name: str) -> Network:
    """The export's network at the lengths at which PyTorch counted the model."""
    path = folder / f"{name}.onnx"
    path.write_bytes(gzip.decompress((EXPORTS / f"{name}.onnx.gz").read_bytes()))
    return read_onnx(path, None, counted()[name]["dims"])


def test_every_export_is_in_the_table() -> None:
    assert {file.name.removesuffix(".onnx.gz") for file in EXPORTS.glob("*.onnx.gz")} == counted().keys()
    assert len(counted()) > 120
    assert counted().keys() > DATA_DEPENDENT.keys()


def cases() -> list[Any]:
    names = sorted(counted().keys() - DATA_DEPENDENT)
    return [
        pytest.param(name, marks=[pytest.mark.slow] if name.partition(".")[0] in SLOW else [])
        for name in names
    ]


@pytest.mark.parametrize("name", cases())
def test_an_export_counts_as_pytorch_does(tmp_path: Path, name: str) -> None:
    network = network_of(tmp_path, name)
    assert uncounted_rows(network) == []
    assert network.macs == counted()[name]["macs"] - FOLDED.get(name, 0)


@pytest.mark.parametrize("name", DATA_DEPENDENT)
def test_a_loop_over_experts_is_said(tmp_path: Path, name: str) -> None:
    network = network_of(tmp_path, name)
    rows = uncounted_rows(network)
    assert len(rows) == DATA_DEPENDENT[name]
    assert all("NonZero" in row["why"] or "depends on data" in row["why"] for row in rows)
    assert network.macs < counted()[name]["macs"]


def test_the_table_of_the_docs_has_these_counts() -> None:
    page = (ROOT / "docs" / "onnx-exports.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", page, re.MULTILINE))
    assert rows == {name.partition(".")[0]: f"{entry['macs']:,}" for name, entry in counted().items()}
