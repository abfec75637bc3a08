"""Reads measurements of the Eyeriss chip, a JSON object a line; docs/silicon-eyeriss.md has the keys."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.json.safe_json import first_json_object, json_lines
from costmodel.formats.machines.row_stationary import RowStationary
from costmodel.workload.network import Layer, convolution

MOST_LINE_BYTES = 1 << 20
RUNS = Path(__file__).with_name("eyeriss_runs.json")
"""What is published of the runs of AlexNet and VGG-16 beside the measurements: mappings and zeros."""
FIGURES = (
    "processing_latency_ms",
    "total_latency_ms",
    "global_buffer_mb",
    "dram_mb",
    "power_mw",
    "active_pes",
)
"""The keys of measured figures."""


@dataclass(frozen=True)
class EyerissRow:
    """One layer as the chip ran it, for the whole batch.

    ``zeros_in``, ``zeros_out``: the fractions of zeros among the inputs and the outputs in DRAM. ``zeros_in``
    is None for the first layer of a network, whose inputs are an image and not compressed. ``measured``: the
    figures that the row states, by their names in FIGURES.
    """

    id: str
    layer: Layer
    mapping: RowStationary
    zeros_in: float | None
    zeros_out: float
    # Not compared: two rows that ask for the same run are the same question, whatever was measured.
    measured: dict[str, float] = field(compare=False)


def has_eyeriss_rows(path: Path) -> bool:
    """Whether the first row of a file looks like a row of this chip; False for a file that cannot be read."""
    return "processing_latency_ms" in first_json_object(path, MOST_LINE_BYTES)


def eyeriss_rows(path: Path) -> tuple[EyerissRow, ...]:
    """The rows of a file; those without a layer, which are totals, are left out.

    Zeros and mappings that rows of AlexNet and VGG-16 leave out are those of ``eyeriss_runs.json``.
    InputError names file and line.
    """
    rows = (_row(data, where) for where, data in json_lines(path, MOST_LINE_BYTES))
    return tuple(row for row in rows if row is not None)


@lru_cache(maxsize=1)
def _runs() -> dict[str, Any]:
    """Facts about the two published runs that the rows do not have."""
    return dict(json.loads(RUNS.read_text(encoding="utf-8")))


def _row(data: Any, where: str) -> EyerissRow | None:
    """One line of a file; None for a total, which has no layer."""
    if not isinstance(data, dict) or not isinstance(data.get("id"), str) or "layer" not in data:
        raise InputError(where, "an object with id and layer", data)
    if data["layer"] is None:
        return None
    layer = _layer(data, where)
    known = _Known(data, layer)
    found = data.get("row_stationary") or known.mapping()
    # A stated null stays null, as it says that the inputs are not compressed; the library is asked only for
    # rows that leave the key out.
    zeros_in = data.get("zeros_in_ifmaps", known.zeros_in())
    zeros_out = data.get("zeros_in_ofmaps", known.zeros_out())
    if found is None:
        remedy = "Give m n e p q r t of the mapping"
        raise InputError(where, "the mapping that ran", "none", remedy, key="row_stationary")
    if zeros_out is None:
        remedy = "Give the fraction of outputs that are zero, which decides how they are compressed"
        raise InputError(where, "a fraction from 0 to 1", "none", remedy, key="zeros_in_ofmaps")
    for key, value in (("zeros_in_ifmaps", zeros_in), ("zeros_in_ofmaps", zeros_out)):
        if value is not None and (not _is_number(value) or not 0 <= value <= 1):
            raise InputError(where, "a fraction from 0 to 1", value, key=key)
    measured = {name: data[name] for name in FIGURES if data.get(name) is not None}
    for name, value in measured.items():
        if not _is_number(value) or value <= 0:
            raise InputError(where, "a number above 0", value, key=name)
    mapping = RowStationary.from_json(found, f"{where}: row_stationary")
    return EyerissRow(data["id"], layer, mapping, zeros_in, zeros_out, measured)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _layer(data: dict[str, Any], where: str) -> Layer:
    sizes, stride = data["layer"], data.get("stride", 1)
    # The rows of a filter lie in neighbouring PEs and slide over neighbouring rows of inputs.
    if data.get("dilation", 1) != 1:
        expected = "1: a row-stationary mapping cannot have a dilated filter"
        raise InputError(where, expected, data["dilation"], key="dilation")
    if not isinstance(sizes, dict) or set(sizes) != set("RSPQCKN"):
        raise InputError(where, "an object with the sizes R S P Q C K N", sizes, key="layer")
    try:
        return convolution(data["id"], **sizes, stride=(stride, stride))
    except InputError as error:
        raise error.at(where) from None


@dataclass(frozen=True)
class _Known:
    """Facts of the library about a row, found by its network and the last part of its id."""

    row: dict[str, Any]
    layer: Layer

    def _run(self) -> tuple[dict[str, Any], int] | None:
        run = _runs().get(str(self.row.get("network")))
        name = self.row["id"].rpartition("/")[2]
        if not isinstance(run, dict) or name not in run["order"]:
            return None
        return run, run["order"].index(name)

    def mapping(self) -> Any:
        found = self._run()
        return None if found is None else found[0]["mapping_by_columns"].get(str(self.layer.sizes["Q"]))

    def zeros_in(self) -> float | None:
        """None for an image, and where nothing is known: the inputs are then taken to be uncompressed."""
        found = self._run()
        if found is None or found[1] == 0:
            return None
        return float(found[0]["zeros_in_ifmaps"][found[1]])

    def zeros_out(self) -> float | None:
        """The zeros of the next layer's inputs; for the last layer, of its own inputs."""
        found = self._run()
        if found is None:
            return None
        zeros = found[0]["zeros_in_ifmaps"]
        # What a layer writes the next one reads. Pooling between the two is not undone, which docs/silicon-
        # eyeriss.md says of the layers that it concerns.
        return float(zeros[min(found[1] + 1, len(zeros) - 1)])
