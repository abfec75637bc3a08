"""The evaluation's parts that map layer by layer: Figs 7 to 10, Table V."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from costmodel.formats.multi_nodes import load_multi_node
from costmodel.hardware.multi_node.template import MultiNode
from kapla_evaluation.cells import CellFile
from kapla_evaluation.layers import PARTS, Effort, LayerCells
from kapla_evaluation.networks import Case, NetworkResult, results
from kapla_evaluation.tables import Table, number, percent

COSTS = "released"
EDGE_PROBABILITY = 0.85
"""What the paper's R needs on the edge device, instead of 0.1."""

TABLE_V = ((64, 4, 8, 32), (64, 4, 8, 64), (64, 4, 8, 128), (8, 4, 16, 32), (1, 16, 8, 64))
"""Batch, nodes of a side, PEs of a side, bytes of registers of a PE; all with buffers of 32 KiB."""


@dataclass(frozen=True)
class LayerRun:
    """What was asked for: networks, methods (S first: the others are compared with it), effort, cells."""

    networks: Sequence[str]
    methods: Sequence[str]
    effort: Effort
    file: CellFile


def training_energy(run: LayerRun) -> dict[str, Any]:
    """Fig 7, Table IV: a training step's layers for least energy, batch 64 on 16 x 16 nodes."""
    device = load_multi_node("kapla-16x16", COSTS)
    return _compared(run, Case("training, energy", device, 64, ".training"))


def training_time(run: LayerRun) -> dict[str, Any]:
    """Fig 8: the same layers for the fewest cycles."""
    device = load_multi_node("kapla-16x16", COSTS)
    return _compared(run, Case("training, cycles", device, 64, ".training", "cycles"))


def inference_energy(run: LayerRun) -> dict[str, Any]:
    """Fig 9, without segments: inference, batch 64 on 16 x 16 nodes."""
    return _compared(run, Case("inference, energy", load_multi_node("kapla-16x16", COSTS), 64))


def edge_energy(run: LayerRun) -> dict[str, Any]:
    """Fig 10: inference, batch 1 on the edge device."""
    own = replace(run, effort=replace(run.effort, probability=EDGE_PROBABILITY))
    return _compared(own, Case("edge inference, energy", load_multi_node("kapla-edge", COSTS), 1))


def configurations(run: LayerRun) -> dict[str, Any]:
    """Table V: GoogLeNet on five configurations.

    Unit costs are those of the released 4 x 4 file (and the 16 x 16 one) for all sizes of registers and
    arrays: no other ones are published.
    """
    own = replace(run, networks=("googlenet",))
    found = [_compared(own, table_v_case(*one)) for one in TABLE_V]
    return {"cases": found}


def table_v_case(batch: int, side: int, pes: int, register_bytes: int) -> Case:
    device = load_multi_node(f"kapla-{side}x{side}", COSTS)
    word_bytes = device.word_bits // 8
    changed: MultiNode = replace(
        device,
        pe_columns=pes,
        pe_rows=pes,
        buffer_words=32 * 1024 // word_bytes,
        register_words=register_bytes // word_bytes,
    )
    sizes = f"{side}x{side} nodes of {pes}x{pes} PEs, {register_bytes} B"
    return Case(f"GoogLeNet, batch {batch}, {sizes}", changed, batch)


def _compared(run: LayerRun, case: Case) -> dict[str, Any]:
    """A line a network, then where the energy goes; all of it for JSON."""
    cells = LayerCells(run.file, run.effort)
    others = [method for method in run.methods if method != "S"]
    columns = [f"{method} {what}" for method in others for what in ("over", "at most")]
    seconds = [f"{method} CPU s" for method in run.methods]
    heads = ("network", "layers", "distinct", "proven", *columns, *seconds, "K", "R drew")
    unit = "mJ" if case.objective == "energy" else "Mcycles"
    title = f"{case.title} ({unit}), {case.device.name}, batch {case.batch}; overheads over the best found"
    table, found = Table(title, heads), []
    for one in results(case, run.networks, run.methods, cells):
        table.line(_line(one, run.methods, others))
        found.append(one)
    if case.objective == "energy":
        _print_breakdown(found, run.methods)
    return {
        "title": case.title,
        "networks": [one.report(run.methods) for one in found],
        "mean_overhead": {method: _mean([one.overhead(method) for one in found]) for method in others},
        "mean_at_most": {method: _mean([one.overhead_at_most(method) for one in found]) for method in others},
        "below_floors": [
            layer.case.layer.name for one in found for layer in one.layers if layer.below_floors
        ],
    }


def _line(one: NetworkResult, methods: Sequence[str], others: Sequence[str]) -> list[str]:
    overheads = [
        percent(ratio) for method in others for ratio in (one.overhead(method), one.overhead_at_most(method))
    ]
    scale = 1e9 if one.case.objective == "energy" else 1e6
    total = one.total("K")
    return [
        one.network,
        str(sum(layer.count for layer in one.layers)),
        str(len(one.layers)),
        str(one.proven),
        *overheads,
        *(number(one.seconds(method)) for method in methods),
        number(None if total is None else total / scale),
        f"{one.drawn_fraction:.1e}" if "R" in methods else "",
    ]


def _print_breakdown(found: Sequence[NetworkResult], methods: Sequence[str]) -> None:
    """Energy by component, in percent of what S takes for the whole network."""
    table = Table("energy by component, % of all that S found", ("network", "method", *PARTS))
    for one in found:
        base = one.total("S")
        for method in methods:
            if base and (parts := one.parts_pj(method)):
                table.line([one.network, method, *(f"{100 * part / base:.1f}" for part in parts)])


def _mean(ratios: Sequence[float | None]) -> float | None:
    """Of all networks; None if one of them has a layer without a mapping, or there is none."""
    known = [ratio for ratio in ratios if ratio is not None]
    return sum(known) / len(known) if known and len(known) == len(ratios) else None
