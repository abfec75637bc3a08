"""Designs that need no solve: a layer has no mapping there, or an evaluated design dominates the bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from results.store.schema.rows import DesignRow
from solvers.mapping.space.obstacles import obstacle
from solvers.mapping.space.space import MappingSpace
from sweep.design.design_row import broken_row, dominated_row, infeasible_row, objective_bounds
from sweep.design.evaluated_front import EvaluatedFront, Objectives
from sweep.design.workload import DesignWorkload
from sweep.study.designs.design_space import Design
from sweep.study.study import Study
from sweep.tasks.kinds import Task
from sweep.tasks.mapping import MappingTask


def without_mapping(study: Study, design: Design, tasks: Sequence[MappingTask]) -> DesignRow | None:
    """The row of a design on which a layer provably has no mapping, with the reason; None: none is known."""
    for task in tasks:
        # an obstacle is proven for the dims as they are; a padded dim has other factors, which may avoid it
        if not task.rules.padding and (reason := _obstacle(task)):
            return infeasible_row(study, design, f"{task.layer.name}: {reason}")
    return None


def _obstacle(task: MappingTask) -> str:
    return obstacle(MappingSpace(task.architecture, task.layer, task.rules.even))


class BoundsPruning:
    """Discards designs whose lower bounds are dominated by the objectives of an evaluated design.

    This never changes the front. Let ``f`` be the objectives of the evaluated design, ``b`` the bounds of the
    discarded one and ``v`` what its solves would have given. Every layer's bounds hold for every mapping that
    the study allows (:mod:`solvers.mapping.space.space_bounds`); sums with positive weights, the
    product and the quotient by the clock keep their order, rounding included; the area is exact; what moves
    off the chip is at least 0: ``b <= v`` in each objective. ``f`` dominates ``b``:
    ``f <= b <= v``, and ``f < b <= v`` in one objective. So ``v`` is dominated by ``f`` and not on the front.
    Nor would ``v`` have taken another point ``w`` off the front: what ``v`` dominates, ``f`` dominates too.

    A design is discarded, too, whose bounds break a constraint on results: ``v`` breaks it as well, so
    that the design would be on no front, and would take no other off it.

    The proof is about the designs that were proposed. A sampler that learns is told the bounds of a discarded
    design instead of its objectives, and may propose other designs than it would have.
    """

    def __init__(self, study: Study, workload: DesignWorkload) -> None:
        self.study, self.workload = study, workload
        self._front = EvaluatedFront(len(study.objectives))

    def evaluated(self, row: DesignRow) -> None:
        """Take in a ``designs`` row."""
        self._front.add_row(self.study, row)

    def discard(self, design: Design, tasks: Sequence[Task]) -> DesignRow | None:
        """The row of a design that cannot be on the front; None for one that may be.

        It breaks a constraint whatever its answers, or an evaluated design dominates its bounds.
        """
        bounds = self.workload.bounds(tasks)
        if broken := self.workload.broken_by_bounds(design, tasks):
            return broken_row(self.study, design, broken, bounds)
        better = self.dominating(np.array(objective_bounds(self.study, design, *bounds)))
        if better is None:
            return None
        return dominated_row(self.study, design, bounds, better.tolist())

    def dominating(self, bounds: Objectives) -> Objectives | None:
        """The objectives of an evaluated design that dominate the ``bounds``, if there are any."""
        return self._front.dominating(bounds)
