"""Why two answers to the same layer of the same design differ: what was asked differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SAME_QUESTION = "solved again: the same question, another answer within its time"
ENERGIES = ("energy_pj", "leakage_pj_per_cycle", "area_um2")
"""Ends of the keys whose numbers follow from the technology."""
MOST_KEYS = 3
"""The most keys that a cause names; if more differ, it says how many."""


def causes_of(
    here: Mapping[str, Any], there: Mapping[str, Any], axes: Sequence[str], models: tuple[str, str]
) -> tuple[str, ...]:
    """Everything that differs between the questions of two rows of ``layers``, ``fusions`` or ``schedules``.

    ``axes``: those whose values differ between the designs. ``models``: the versions of the cost model that
    the runs were made with; it is no column of a row, and is a part of what answers are known by.
    """
    if here["task_id"] == there["task_id"]:
        return (SAME_QUESTION,)
    found = [f"axis {axis}" for axis in axes]
    if models[0] != models[1]:
        found.append(f"cost model {models[0] or 'unknown'} → {models[1] or 'unknown'}")
    passing = [_what_passes(row.get("layer_group")) for row in (here, there)]
    if passing[0] != passing[1] or any(
        here.get(key) != there.get(key) for key in ("layer_shape", "network_content", "batch")
    ):
        found.append("network: another shape")
    elif here.get("layer_group") != there.get("layer_group"):
        found.append("which loops layers may share: windows, columns or cut_rows")
    found += _hardware(
        here.get("architecture") or here.get("chip"), there.get("architecture") or there.get("chip")
    )
    found += _solver(here, there)
    found += _setting("parameter", here, there, "params")
    found += _setting("budget", here, there, "budget")
    for key, name in (
        ("objective_name", "objective"),
        ("tile_mapper", "tile mapper"),
        ("space", "space"),
        ("longest", "how many layers may be together"),
        ("recompute", "whether rows may be made anew"),
        ("pipelined", "whether layers may run at the same time"),
    ):
        # rows from before a column was there have none, which is what its default says
        if (_asked(here.get(key)) or None) != (_asked(there.get(key)) or None):
            both = f" {here[key]} → {there[key]}" if key == "objective_name" else ""
            found.append(f"{name}{both}")
    return tuple(found) or ("something that rows do not hold",)


def _what_passes(group: Mapping[str, Any] | None) -> Any:
    """The layers of a group and which tensors pass between them; not along which of their axes loops may,
    since that follows from what a study allows."""
    if group is None:
        return None
    of_layers = [
        (one["producer"], one["leaves"], [(read["layer"], read["tensor"]) for read in one["reads"]])
        for one in group["intermediates"]
    ]
    return group["layers"], of_layers


def _asked(value: Any) -> Any:
    """The rules of a mapping space, without what the answer decided itself (the padded sizes)."""
    return {k: v for k, v in value.items() if k != "padded"} if isinstance(value, Mapping) else value


def _solver(here: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[str]:
    if here["solver"] != there["solver"]:
        yield f"solver {here['solver']} → {there['solver']}"
    elif here["solver_version"] != there["solver_version"]:
        yield f"solver version {here['solver_version']} → {there['solver_version']}"


def _setting(name: str, here: Mapping[str, Any], there: Mapping[str, Any], key: str) -> Iterator[str]:
    """The settings that differ; where solvers differ their parameters do, which says nothing."""
    if key == "params" and here["solver"] != there["solver"]:
        return
    both = [(row.get("params") or {}).get(key) or {} for row in (here, there)]
    for setting in sorted({*both[0], *both[1]}):
        values = [settings.get(setting) for settings in both]
        if values[0] != values[1]:
            yield f"{name} {setting} {values[0]} → {values[1]}"


def _hardware(here: Any, there: Any) -> Iterator[str]:
    """Which numbers of the hardware differ: those of a technology, and all others."""
    numbers = [dict(_numbers(one)) for one in (here, there)]
    differ = [
        key for key in dict.fromkeys((*numbers[0], *numbers[1])) if numbers[0].get(key) != numbers[1].get(key)
    ]
    for name, keys in (
        ("technology", [key for key in differ if key.endswith(ENERGIES)]),
        ("architecture", [key for key in differ if not key.endswith(ENERGIES)]),
    ):
        if keys:
            more = f" and {len(keys) - MOST_KEYS} more" if len(keys) > MOST_KEYS else ""
            yield f"{name}: {', '.join(keys[:MOST_KEYS])}{more}"


def _numbers(data: Any, within: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of plain data by their keys; levels by their names."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _numbers(value, f"{within}.{key}" if within else str(key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            name = value.get("name", index) if isinstance(value, Mapping) else index
            yield from _numbers(value, f"{within.removesuffix('levels')}{name}")
    else:
        yield within, data
