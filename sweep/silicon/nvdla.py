"""Compares NVIDIA's performance sheet for NVDLA with the least cycles of each layer by the cost model.

The sheet is a roofline and no measurement. So this checks that such a machine and such layers can be
expressed: Winograd's form; packing, which turns the pixels that a stride passes over into channels; the
second operand of a sum that is fused into a convolution; a batch of 16 for fully connected layers.
docs/silicon-eyeriss.md has the other rules of the sheet.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.json.safe_json import json_lines
from costmodel.hardware.architecture import Architecture
from costmodel.workload.convolution_forms import packed, winograd
from costmodel.workload.network import Layer, convolution
from solvers.budget import Budget
from solvers.mapping import exact
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.rules import SpaceRules
from solvers.outcome import Status

MOST_LINE_BYTES = 1 << 20
FULLY_CONNECTED_BATCH = 16
"""Samples that share the weights of a fully connected layer in the sheet, which states the cycles of one of
them."""

LEAST_CHANNELS, PADDING = 64, 0.06
"""A layer of fewer than LEAST_CHANNELS channels cannot fill the array by channels, so its rows and columns
fill it. These may be padded by the fraction PADDING, to have factors that use all MACs: the sheet takes all
MACs to be busy."""


@dataclass(frozen=True)
class NvdlaRow:
    """A layer of the sheet as the machine computes it, ``samples`` samples at once.

    ``sheet_cycles``: the sheet's cycles of one sample, with DRAM and no other memory.
    """

    id: str
    layer: Layer
    samples: int
    sheet_cycles: float | None = field(compare=False)


@dataclass(frozen=True)
class NvdlaCycles:
    """The least cycles of a sample, and whether they are proven to be the least."""

    cycles: float
    proven: bool


def nvdla_rows(path: Path) -> tuple[NvdlaRow, ...]:
    """The rows of a file; those without a layer (poolings, branches that share cycles) are left out.

    InputError names file and line.
    """
    rows = (_row(data, where) for where, data in json_lines(path, MOST_LINE_BYTES))
    return tuple(row for row in rows if row is not None)


def _row(data: Any, where: str) -> NvdlaRow | None:
    if not isinstance(data, dict) or not isinstance(data.get("id"), str) or "layer" not in data:
        raise InputError(where, "an object with id and layer", data)
    if data["layer"] is None:
        return None
    sizes = data["layer"]
    if not isinstance(sizes, dict) or set(sizes) != set("RSPQCKN"):
        raise InputError(where, "an object with the sizes R S P Q C K N", sizes, key="layer")
    stride = data.get("stride") or {}
    samples = FULLY_CONNECTED_BATCH if data.get("kind") == "fc" else 1
    try:
        plain = convolution(
            data["id"],
            **{**sizes, "N": samples * sizes["N"]},
            stride=(stride.get("P", 1), stride.get("Q", 1)),
        )
        layer = _as_computed(plain, stride, data)
    except InputError as error:
        raise error.at(where) from None
    cycles = (data.get("dram_only") or {}).get("cycles")
    return NvdlaRow(data["id"], layer, samples, cycles)


def _as_computed(plain: Layer, stride: dict[str, int], data: dict[str, Any]) -> Layer:
    """The form in which the machine computes the layer, with the second operand of a fused sum.

    Only filters smaller than the stride are packed: for them the sheet fetches all pixels, and weights for
    each. Packing larger ones would make products with weights of zero, which the sheet does not count.
    """
    if data.get("winograd"):
        form = winograd(plain)
    elif max(plain.sizes["R"], plain.sizes["S"]) < max(stride.values(), default=1):
        form = packed(plain)
    else:
        form = plain
    if "elwise" not in str(data.get("kind")):
        return form
    return replace(form, tensors=(*form.tensors, replace(form.output, name="Addend", role="inputs")))


def least_cycles(row: NvdlaRow, architecture: Architecture, budget: Budget) -> NvdlaCycles | None:
    """The cycles of one sample by the best mapping that ``exact`` finds; None if it finds none."""
    rules = SpaceRules(keep="free")
    if row.layer.sizes.get("C", 1) < LEAST_CHANNELS:
        rules = SpaceRules(keep="free", padding=PADDING, padded_dims=("P", "Q"))
    problem = MappingProblem(architecture, row.layer, "cycles", rules)
    outcome = exact.solve(problem, budget)
    if outcome.objective is None:
        return None
    return NvdlaCycles(outcome.objective / row.samples, outcome.status == Status.OPTIMAL)
