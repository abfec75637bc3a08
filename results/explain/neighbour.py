"""The nearest designs on the axes that are better, and what they change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from results.report.data import RunData
from results.units import value_order

DOMINATES = "every objective"
"""``better_in`` of a design that dominates the other one."""


@dataclass(frozen=True)
class BetterDesign:
    """``better_in``: DOMINATES, or the objective that it improves.

    ``axes``: those that differ, with their values (here, there). ``ratios``: each objective there over here.
    """

    better_in: str
    design: int
    design_id: str
    tag: str
    axes: Mapping[str, tuple[str, str]]
    ratios: Mapping[str, float | None]


def better_designs(run: RunData, design: int) -> tuple[BetterDesign, ...]:
    """The nearest design that dominates ``design``; where none does, the nearest less in each objective.

    Nearest: fewest axes that differ, then fewest steps along their values that the run has, then the most
    that it gains. Empty where the design is not judged or is the best in everything.
    """
    points = run.points
    if design not in run.judged:
        return ()
    here = points[design]
    others = [one for one in run.judged if one != design]
    near = _distances(run, design, others)

    def nearest(candidates: list[int], gain: dict[int, float]) -> int:
        return min(candidates, key=lambda one: (near[one], gain[one], one))

    dominating = [one for one in others if (points[one] <= here).all() and (points[one] < here).any()]
    if dominating:
        gain = {one: float(np.sum(points[one] / np.where(here != 0, here, 1.0))) for one in dominating}
        return (_better(run, design, nearest(dominating, gain), DOMINATES),)
    found = []
    for column, name in enumerate(run.objectives):
        if less := [one for one in others if points[one, column] < here[column]]:
            gain = {one: float(points[one, column]) for one in less}
            found.append(_better(run, design, nearest(less, gain), name))
    return tuple(found)


def _better(run: RunData, design: int, other: int, better_in: str) -> BetterDesign:
    here, there = run.points[design], run.points[other]
    ratios = {name: float(there[i] / here[i]) if here[i] else None for i, name in enumerate(run.objectives)}
    pairs = {axis: (run.axis_text(design, axis), run.axis_text(other, axis)) for axis in run.axes}
    changed = {axis: pair for axis, pair in pairs.items() if pair[0] != pair[1]}
    return BetterDesign(better_in, other, run.design_id(other), run.tag(other), changed, ratios)


def _distances(run: RunData, design: int, others: list[int]) -> dict[int, tuple[int, int]]:
    """For each other design: how many axes differ, and how many steps along their values that is."""
    found = dict.fromkeys(others, (0, 0))
    for axis in run.axes:
        texts = {one: run.axis_text(one, axis) for one in (design, *others)}
        rank = {text: i for i, text in enumerate(sorted(set(texts.values()), key=value_order))}
        for one in others:
            steps = abs(rank[texts[one]] - rank[texts[design]])
            found[one] = (found[one][0] + bool(steps), found[one][1] + steps)
    return found
