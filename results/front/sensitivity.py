"""What a front owes to each energy: which designs are on it when one part of the hardware costs more or less.

Mappings and schedules stay as they were found. Then a design that spends ``e`` of its energy ``E`` in a
part spends ``E + (factor - 1) e`` when an access to that part costs ``factor`` times as much. Cycles and area
stay, and what is proportional to energy changes as it does. Mapped anew for the other price, no design would
cost more than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from results.front.pareto import Points, front_mask

PROPORTIONAL = ("energy_pj", "edp_pj_cycles", "joules_per_token")
"""Objectives that change by the same factor as a design's energy while its cycles stay."""
FACTORS = (0.5, 2.0)


@dataclass(frozen=True)
class PriceChange:
    """The front when every access to ``part`` costs ``factor`` times as much; designs by their row numbers.

    ``front``: all on it, in ascending order; ``left``: those that were on it before and are not any more;
    ``joined``: those that were not on it before. ``least``: the design with the least of the first objective
    that is proportional to energy.
    """

    part: str
    factor: float
    front: tuple[int, ...]
    left: tuple[int, ...]
    joined: tuple[int, ...]
    least: int


def price_changes(
    points: Points,
    objectives: Sequence[str],
    spent: Mapping[str, NDArray[np.float64]],
    energy: NDArray[np.float64],
    factors: Sequence[float] = FACTORS,
) -> Iterator[PriceChange]:
    """One change for each part and factor, parts in the order of ``spent``.

    ``points``: the objectives of each design, a row each, NaN where it is not judged; ``spent``: by part, the
    energy (pJ) that each design spends there; ``energy``: the whole energy (pJ) of each. Yields nothing where
    no objective depends on energy.
    """
    scaled = [column for column, name in enumerate(objectives) if name in PROPORTIONAL]
    before = front_mask(points)
    if not scaled or not before.any():
        return
    for part, of_part in spent.items():
        for factor in factors:
            changed = points.copy()
            # added rather than multiplied, so that equal energies stay equal
            changed[:, scaled] += ((factor - 1) * of_part)[:, None] * (points[:, scaled] / energy[:, None])
            after = front_mask(changed)
            yield PriceChange(
                part,
                factor,
                _rows(after),
                _rows(before & ~after),
                _rows(after & ~before),
                int(np.nanargmin(changed[:, scaled[0]])),
            )


def _rows(chosen: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(np.flatnonzero(chosen).tolist())
