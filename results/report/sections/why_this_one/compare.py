"""A design beside the study's baseline: objectives, networks, layers and hardware."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from results.front.networks import RunTotal
from results.report.data import RunData
from results.report.design_layers import LayerTotal
from results.units import NOTHING, TIMES, byte_text, digits, percent, scale_for

COMPARISON_HEADERS = ("", "Design", "Baseline", "Design / baseline")
HARDWARE_HEADERS = ("Hardware", "Design", "Baseline")
METRICS = (
    "energy_pj",
    "cycles",
    "edp_pj_cycles",
    "area_um2",
    "off_chip_bytes",
    "dram_bytes",
    "noc_hop_bytes",
)

TOTALS: tuple[RunTotal, ...] = ("energy_pj", "cycles")
"""The totals that are compared network by network."""

Rows = list[list[Any]]


def metric_rows(run: RunData, design: int) -> Rows:
    """Objectives and usual metrics, then energy and latency of each network, all its runs, with ratios."""
    rows: Rows = []
    for name in dict.fromkeys((*run.objectives, *METRICS)):
        value, base = run.value(design, name), _baseline_value(run, name)
        if value is not None:
            scale = run.scale(name)
            rows.append(_compared(scale.label, scale.text(value), scale.text(base), _ratio(value, base)))
    mine = run.networks(design)
    theirs = {} if run.baseline is None else run.networks(run.baseline)
    if len(mine) > 1:
        for network in mine.values():
            other = theirs.get(network.name)
            for total in TOTALS:
                value, base = network.total(total), other.total(total) if other else None
                scale = scale_for(total, [value, base])
                label = f"{network.label}: {scale.label.lower()}"
                rows.append(_compared(label, scale.text(value), scale.text(base), _ratio(value, base)))
    return rows


def _compared(label: str, mine: str, theirs: str, ratio: float | None) -> list[Any]:
    if ratio is None:
        return [label, [mine, None], [theirs, None], [NOTHING, None]]
    change = percent(abs(ratio - 1))
    words = "equal" if ratio == 1 else f"{change} {'less' if ratio < 1 else 'more'}"
    return [label, [mine, None], [theirs, None], [f"{TIMES}{digits(ratio)} ({words})", ratio]]


def _baseline_value(run: RunData, name: str) -> float | None:
    return None if run.baseline is None else run.value(run.baseline, name)


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None


def layer_ratios(layers: list[LayerTotal], baseline: list[LayerTotal]) -> dict[str, list[float | None]]:
    """The energy and cycles of each layer divided by those of the baseline's layer of the same name.

    None where the baseline has no such layer.
    """
    theirs = {layer.name: layer for layer in baseline}
    ratios: dict[str, list[float | None]] = {"energy": [], "cycles": []}
    for layer in layers:
        other = theirs.get(layer.name)
        pairs = {"energy": (layer.energy_pj, other.energy_pj if other else None)}
        pairs["cycles"] = (layer.cycles, other.cycles if other else None)
        for name, (value, base) in pairs.items():
            ratio = _ratio(value, base)
            ratios[name].append(None if ratio is None else float(f"{ratio:.5g}"))
    return ratios


def hardware_rows(run: RunData, design: int) -> Rows:
    """All numbers of the two architectures side by side; those that differ are marked."""
    mine, theirs = _hardware(run, design), _hardware(run, run.baseline)
    rows: Rows = []
    for name in dict.fromkeys((*mine, *theirs)):
        texts = mine.get(name, NOTHING), theirs.get(name, NOTHING)
        differs = run.baseline is not None and texts[0] != texts[1]
        rows.append([{"strong": name} if differs else name, [texts[0], None], [texts[1], None]])
    return rows


def _hardware(run: RunData, design: int | None) -> dict[str, str]:
    if design is not None and isinstance(chip := run.detail(design).get("chip"), dict):
        return _figures(chip)
    architecture = None if design is None else run.detail(design).get("architecture")
    if not isinstance(architecture, dict) or not isinstance(architecture.get("levels"), list):
        return {}
    levels = [level for level in architecture["levels"] if isinstance(level, dict)]
    units = prod(level.get("fanout_x", 1) * level.get("fanout_y", 1) for level in levels)
    figures = {"MAC units": f"{units:,}"}
    if frequency := architecture.get("frequency_hz"):
        figures["Clock"] = f"{digits(frequency / 1e6)} MHz"
    for level in levels:
        figures |= {f"{level.get('name')}: {name}": text for name, text in _level(level).items()}
    return figures


def _figures(chip: Mapping[str, Any], within: str = "") -> dict[str, str]:
    """Every number of a chip, under the names of its file: ``noc: link bytes per cycle``."""
    found: dict[str, str] = {}
    for key, value in chip.items():
        name = f"{within}{key.replace('_', ' ')}"
        if isinstance(value, dict):
            found |= _figures(value, f"{name}: ")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = digits(value) if isinstance(value, float) else f"{value:,}"
    return found


def _level(level: Mapping[str, Any]) -> dict[str, str]:
    """The figures of a storage level that the architecture states."""
    found = {}
    if (words := level.get("size_words")) is not None:
        found["size"] = byte_text(words * level.get("word_bits", 8) / 8)
    fanout = (level.get("fanout_x", 1), level.get("fanout_y", 1))
    if fanout != (1, 1):
        found["fan-out"] = f"{fanout[0]}{TIMES}{fanout[1]}"
    for name in ("read", "write"):
        if (energy := level.get(f"{name}_energy_pj")) is not None:
            found[f"{name} energy"] = f"{digits(energy / level.get('block_size', 1))} pJ a word"
        if (bandwidth := level.get(f"{name}_bandwidth")) is not None:
            found[f"{name} bandwidth"] = f"{digits(bandwidth)} words a cycle"
    return found
