"""What would change the front: the same designs with parts of the hardware at half and twice their energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from results.front.sensitivity import FACTORS, PROPORTIONAL, PriceChange, price_changes
from results.report.data import RunData
from results.report.html import Cell, ReportSection, joined, number_cell, paragraph, table
from results.units import NOTHING, percent

LEAST_FRACTION = 0.01
"""Parts that take less of the energy of every front design are left out."""
MOST_NAMED = 4
"""Designs that a cell names; of more it says how many."""
FACTOR_NAMES = dict(zip(FACTORS, ("half", "twice"), strict=True))


def sensitivity_section(run: RunData) -> ReportSection | None:
    """A table of parts and factors; absent where no objective depends on energy or no energy is itemised."""
    designs = [design for design in run.drawn if run.energy_by_part(design)]
    if not run.front or not set(run.objectives) & set(PROPORTIONAL) or not set(run.front) & set(designs):
        return None
    every = [run.energy_by_part(design) for design in designs]
    energy = np.array([sum(parts.values()) for parts in every])
    fractions = _fractions(run, designs, every, energy)
    spent = {name: np.array([parts.get(name, 0.0) for parts in every]) for name in fractions}
    changes = list(price_changes(run.points[designs], run.objectives, spent, energy))
    rows = [_cells(run, designs, change, fractions[change.part]) for change in changes]
    headers = ["Part", "Of the front's energy", "Costs", "On the front", "Leave it", "Join it"]
    headers.append(f"Least {run.scale(_priced(run)).label.lower()}")
    texts = [_explained(run, designs), _said(run, designs, changes)]
    shown = table(headers, rows, "The front when one part costs half or twice the energy")
    return ReportSection("sensitivity", "What would change it", joined([*map(paragraph, texts), shown]))


def _priced(run: RunData) -> str:
    """The first objective that depends on energy."""
    return next(name for name in run.objectives if name in PROPORTIONAL)


def _fractions(
    run: RunData, designs: Sequence[int], every: Sequence[Mapping[str, float]], energy: NDArray[np.float64]
) -> dict[str, tuple[float, float]]:
    """Of every part that matters, the least and the most that it takes of a front design's energy.

    The largest come first. ``every``: the energy (pJ) of each design by part; ``energy`` [designs]: the sum.
    """
    on_front = [index for index, design in enumerate(designs) if design in run.on_front]
    found = {}
    for name in dict.fromkeys(name for parts in every for name in parts):
        of_front = [every[index].get(name, 0.0) / energy[index] for index in on_front]
        found[name] = float(min(of_front)), float(max(of_front))
    kept = [name for name, (_, most) in found.items() if most >= LEAST_FRACTION]
    return {name: found[name] for name in sorted(kept, key=lambda name: -found[name][1])}


def _explained(run: RunData, designs: Sequence[int]) -> str:
    text = (
        "The front if every access to one part of the hardware took half or twice the energy, leakage "
        "included, and nothing else changed. Mappings stay as they were found: mapped anew for the other "
        "price, a design would cost this or less. Constraints are not judged anew. "
        f"Parts below {percent(LEAST_FRACTION)} of the energy of every front design are left out."
    )
    if len(designs) < len(run.judged):
        text += f" Of {len(run.judged):,} designs, the {len(designs):,} on and near the front are compared."
    return text


def _said(run: RunData, designs: Sequence[int], changes: Sequence[PriceChange]) -> str:
    """One or two sentences: who always stays, and whether the least is always the same design's."""
    always = [design for design in run.front if all(design in _all(designs, c.front) for c in changes)]
    if len(always) == len(run.front):
        text = "All designs of the front stay on it in every case."
    else:
        text = f"On the front in every case: {_named(run, always)}."
    least = sorted({designs[change.least] for change in changes}, key=lambda design: run.points[design, 0])
    label = run.scale(_priced(run)).label.lower()
    if len(least) == 1:
        return f"{text} The least {label} is always that of {_name(run, least[0])}."
    return f"{text} Which design has the least {label} depends on the price: {_named(run, least)}."


def _all(designs: Sequence[int], chosen: Sequence[int]) -> set[int]:
    return {designs[index] for index in chosen}


def _cells(
    run: RunData, designs: Sequence[int], change: PriceChange, fractions: tuple[float, float]
) -> list[Cell]:
    least, most = map(percent, fractions)
    spread = most if least == most else f"{least} to {most}"
    left, joined_ = ([designs[index] for index in chosen] for chosen in (change.left, change.joined))
    return [
        Cell(change.part),
        number_cell(spread, fractions[1]),
        Cell(FACTOR_NAMES[change.factor], sort=change.factor),
        number_cell(f"{len(change.front):,}", len(change.front)),
        Cell(_named(run, left), sort=len(left)),
        Cell(_named(run, joined_), sort=len(joined_)),
        Cell(_name(run, designs[change.least])),
    ]


def _named(run: RunData, designs: Sequence[int]) -> str:
    """The designs by their tags, or by their axes where they have none; a dash for none."""
    if not designs:
        return NOTHING
    more = f" and {len(designs) - MOST_NAMED:,} more" if len(designs) > MOST_NAMED else ""
    return "; ".join(_name(run, design) for design in designs[:MOST_NAMED]) + more


def _name(run: RunData, design: int) -> str:
    return run.tag(design) or run.axis_line(design)
