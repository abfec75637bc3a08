"""The front of what was evaluated so far, and what it dominates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from results.front.left_out import outcome
from results.store.schema.rows import DesignRow
from sweep.design.design_row import objective_values
from sweep.study.study import Study

Objectives = NDArray[np.float64]
"""One design's values, in the order of the study's objectives."""


class EvaluatedFront:
    """The objectives of evaluated designs, without those that others dominate or equal."""

    def __init__(self, objectives: int, points: Objectives | None = None) -> None:
        """``points``: objectives of designs, none dominating another: an array (designs, objectives)."""
        self.points = np.empty((0, objectives)) if points is None else points

    def add(self, point: Objectives) -> None:
        if (self.points <= point).all(axis=1).any():
            return  # what it dominates, that point dominates
        # what the new point dominates adds nothing to what it dominates itself
        worse = (point <= self.points).all(axis=1)
        self.points = np.vstack([self.points[~worse], point])

    def add_row(self, study: Study, row: DesignRow) -> None:
        """Take in a ``designs`` row of the study; only complete ones that meet its constraints dominate."""
        if outcome(row) == "complete":
            self.add(np.array(objective_values(study, row), dtype=np.float64))

    def dominating(self, bounds: Objectives) -> Objectives | None:
        """The objectives of an evaluated design that dominate the ``bounds``, if there are any."""
        dominate = (self.points <= bounds).all(axis=1) & (self.points < bounds).any(axis=1)
        return self.points[dominate][0] if dominate.any() else None
