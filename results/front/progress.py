"""How a search went: the hypervolume of what had been found after each design."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from results.front.pareto import Points, front_mask, hypervolume, numbers_of, reference_point

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class SearchProgress:
    """After each finished design: CPU seconds of solves so far, and the fraction of the box dominated.

    ``order``: rows of designs as they were finished; ``fractions``: hypervolume over that of the box from the
    best value of each objective in the whole run to ``reference``; all of one length.
    """

    order: NDArray[np.int64]
    cpu_seconds: NDArray[np.float64]
    fractions: NDArray[np.float64]
    reference: Points


def progress(designs: pandas.DataFrame, points: Points) -> SearchProgress:
    """The progress over all designs with their ``points`` (NaN rows where not judged).

    Raises ValueError when no point is finite. The reference point is ``pareto.reference_point`` of the whole
    run, so the last fraction is the one of the run's front.
    """
    order = finishing_order(designs)
    reference = reference_point(points)
    best = np.nanmin(np.where(np.isfinite(points), points, np.nan), axis=0)
    spent = np.nan_to_num(numbers_of(designs, "cpu_seconds")[order])
    volumes = running_hypervolume(points[order], reference)
    return SearchProgress(order, np.cumsum(spent), volumes / float(np.prod(reference - best)), reference)


def finishing_order(designs: pandas.DataFrame) -> NDArray[np.int64]:
    """The rows of finished designs by the time they were finished, of one time by trial."""
    keys = designs[["finished_at"]].assign(trial=numbers_of(designs, "trial"))
    keys = keys[(designs["status"] != "partial").to_numpy(dtype=bool)]
    ordered = keys.sort_values(["finished_at", "trial"], kind="stable").index
    return np.asarray(ordered, dtype=np.int64)


def running_hypervolume(points: Points, reference: Points) -> NDArray[np.float64]:
    """The hypervolume of the first 1, 2, ... points; computed anew only where a point adds to the front."""
    # with its number as one more objective, a point is dominated by each earlier one that is as good
    added = np.flatnonzero(front_mask(np.column_stack([points, np.arange(len(points))])))
    front = np.empty((0, points.shape[1]))
    found = []
    for number in added:
        front = np.vstack([front, points[number]])
        front = front[front_mask(front)]
        found.append(hypervolume(front, reference))
    so_far = np.searchsorted(added, np.arange(len(points)), "right")
    return np.array([0.0, *found])[so_far]
