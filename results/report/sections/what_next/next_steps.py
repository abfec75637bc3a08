"""What to try next: what the rows say about where better designs, and more certainty, are to be had."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from results.report.data import RunData
from results.report.design_layers import design_layers, gained_cycles
from results.report.html import ReportSection, element, joined, paragraph
from results.units import percent, value_order

LEAST_GAIN = 0.05
"""Causes that take a smaller fraction of the knee's cycles are not worth a sentence."""
LEAST_GAP = 0.01
INNER_VALUES = 3
"""An axis of fewer values has only ends: that the best of one objective is at an end says nothing."""
MAC_UNITS = "MAC units"


def next_steps_section(run: RunData) -> ReportSection | None:
    """A list of steps, each with what it rests on; absent without a front."""
    if not run.front:
        return None
    steps = [*_beyond_the_ends(run), *_untried(run), *_what_binds(run), *_what_is_open(run)]
    if not steps:
        text = (
            "Nothing stands out: the front reaches no end of an axis, and its designs are certain. "
            "archsweep explain tells why a design costs what it does."
        )
        return ReportSection("next", "What to try next", paragraph(text, class_="empty"))
    listed = element("ul", *(element("li", step) for step in steps))
    return ReportSection("next", "What to try next", joined([listed]))


def _beyond_the_ends(run: RunData) -> Iterator[str]:
    """Axes of numbers at whose ends the front, or the best of an objective, lies."""
    # the least area is at an end as a matter of course
    best = {
        run.scale(name).label.lower(): min(run.front, key=lambda design: run.points[design, column])
        for column, name in enumerate(run.objectives)
        if name != "area_um2"
    }
    for axis in run.axes:
        tried = run.tried(axis)
        if len(tried) < 2 or any(value_order(text)[0] for text in tried):
            continue
        chosen = {run.axis_text(design, axis) for design in run.front}
        for value, end, beyond in ((tried[0], "smallest", "smaller"), (tried[-1], "largest", "larger")):
            where = f"the {end} {axis} that was tried, {value}"
            if chosen == {value}:
                yield f"Every design on the front has {where}: offer {beyond} values."
            elif len(tried) >= INNER_VALUES:
                there = [label for label, design in best.items() if run.axis_text(design, axis) == value]
                if there:
                    who = " and ".join(f"{label} ({run.tag(best[label])})" for label in there)
                    comes = "comes" if len(there) == 1 else "come"
                    yield f"The least {who} {comes} with {where}: {beyond} values may save more."


def _untried(run: RunData) -> Iterator[str]:
    """How many combinations of the values that were tried have no answer."""
    combinations = prod(len(run.tried(axis)) for axis in run.axes)
    looked_at = _seen(run) + len(run.discarded) + len(run.left_out)
    if run.axes and looked_at < combinations:
        yield (
            f"{looked_at:,} of the {combinations:,} combinations of these values of the axes were looked at: "
            "more samples or trials, or a grid around the front, would fill in the others. How the "
            "hypervolume grew says whether it is worth it."
        )


def _seen(run: RunData) -> int:
    """How many combinations of values the judged designs have."""
    combination = np.zeros(len(run.judged), np.int64)
    for axis in run.axes:
        texts, numbers = run.axis_numbers(axis)
        # numbered anew after each axis, so that they stay below the number of designs
        _, combination = np.unique(combination * len(texts) + numbers[run.judged], return_inverse=True)
    return len(np.unique(combination))


def _what_binds(run: RunData) -> Iterator[str]:
    """What the knee's cycles wait for, by how many would go without it."""
    if run.knee is None or not set(run.objectives) - {"energy_pj", "area_um2", "joules_per_token"}:
        return
    layers = design_layers(run, run.knee)
    total = sum(layer.cycles for layer in layers)
    told = [(one.cycles, one.solve) for one in layers if one.solve.get("cycles_without")]
    gained = gained_cycles(
        (cycles / solve["cycles"], solve["cycles"], solve["cycles_without"]) for cycles, solve in told
    )
    for cause, cycles in list(gained.items())[:2]:
        if cycles >= LEAST_GAIN * total:
            what = "a larger array" if cause == MAC_UNITS else "more of it"
            yield (
                f"Without waiting for {cause}, the knee ({run.tag(run.knee)}) would take "
                f"{percent(cycles / total)} fewer cycles with the mappings it has: {what} would help it most."
            )


def _what_is_open(run: RunData) -> Iterator[str]:
    """What better mappings, or better proofs, could still change."""
    uncertain = [design for design in run.front if design not in run.certain]
    if run.candidates or uncertain:
        gaps = [
            gap
            for name in ("energy_gap", "cycles_gap")
            for design in (*run.front, *run.candidates)
            if (gap := run.value(design, name)) is not None
        ]
        if gaps and max(gaps) >= LEAST_GAP:
            yield (
                f"Designs on the front that are not certain: {len(uncertain):,}; off it that could still "
                f"join: {len(run.candidates):,}. Gaps of up to {percent(max(gaps))} are left: more seconds a "
                "solve (wall_seconds), a tighter tolerance or the exact mapper would tell."
            )
