"""Comparison of an evaluation with the counts of Timeloop that a case holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from costmodel.formats.cases.folder import Case
from costmodel.formats.json.json_fields import field
from costmodel.mapping.evaluate import Evaluation, LevelEvaluation

ENERGY_TOLERANCE = 1e-9
"""Relative, for energies and utilization; counts and cycles must be equal."""
LEAKAGE_DECIMALS = 0.00501
"""In pJ: Timeloop prints leakage with two decimals, so a printed number may be off by half of 0.01."""


def expected_results(case: Case) -> dict[str, Any]:
    """The counts that an evaluation must equal: those without link transfers where the case has them."""
    key = "results_no_link_transfers"
    return dict(field(case.record, key if key in case.record else "results", dict, case.where))


def oracle_kind(case: Case) -> str:
    """``exact``, ``not_run``, or ``differs`` where an independent model found other numbers."""
    oracle = case.record.get("oracle", "not_run")
    return oracle if isinstance(oracle, str) else "differs"


def differences(evaluation: Evaluation, results: dict[str, Any]) -> list[str]:
    """A text ``what: ours != theirs`` for every number of ``results`` that differs from ``evaluation``'s."""
    pairs: list[tuple[str, float, float]] = [
        ("cycles", evaluation.cycles, results["cycles"]),
        ("compute_cycles", evaluation.compute_cycles, results["compute_cycles"]),
        ("macs", evaluation.macs, results["macs"]),
    ]
    energies: list[tuple[str, float, float]] = [
        ("energy_pJ", evaluation.energy_pj, results["energy_pJ"]),
        ("mac_energy_pJ", evaluation.mac_energy_pj, results["mac_energy_pJ"]),
        ("utilization", evaluation.utilization, results["utilization"]),
    ]
    found = [_shown(*pair) for pair in pairs if pair[1] != pair[2]]
    found += [_shown(*pair) for pair in energies if not _close(*pair[1:])]
    theirs = {level["name"]: level for level in results["levels"]}
    if set(theirs) != {level.name for level in evaluation.levels}:
        return [*found, f"levels {sorted(theirs)}"]
    for level in evaluation.levels:
        found += _level_differences(level, theirs[level.name])
    return found


def _level_differences(level: LevelEvaluation, theirs: dict[str, Any]) -> Iterator[str]:
    if set(level.tensors) != set(theirs["tensors"]):
        yield f"{level.name}: tensors {sorted(level.tensors)} != {sorted(theirs['tensors'])}"
        return
    if theirs["cycles"] is not None and level.cycles != theirs["cycles"]:  # null where nothing is kept
        yield _shown(f"{level.name}.cycles", level.cycles, theirs["cycles"])
    leakage = theirs["leakage_pJ_total"]
    if leakage is not None and abs(level.leakage_pj - leakage) > LEAKAGE_DECIMALS:
        yield _shown(f"{level.name}.leakage", level.leakage_pj, leakage)
    for name, ours in level.tensors.items():
        tensor = theirs["tensors"][name]
        for key, count in (
            ("reads", ours.reads),
            ("fills", ours.fills),
            ("updates", ours.updates),
            ("utilized_capacity", ours.tile_words),
            ("partition_size", ours.partition_words),
            ("utilized_instances", ours.instances),
        ):
            if count != tensor[key]:
                yield _shown(f"{level.name}.{name}.{key}", count, tensor[key])
        if not _close(ours.energy_pj, tensor["energy_pJ_total"]):
            yield _shown(f"{level.name}.{name}.energy_pJ", ours.energy_pj, tensor["energy_pJ_total"])


def _close(ours: float, theirs: float) -> bool:
    return abs(ours - theirs) <= ENERGY_TOLERANCE * abs(theirs)


def _shown(what: str, ours: float, theirs: float) -> str:
    return f"{what}: {ours} != {theirs}"
