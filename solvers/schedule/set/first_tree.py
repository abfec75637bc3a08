"""The tree from which an annealing starts where that is neither SET's own nor its released program's."""

from __future__ import annotations

from costmodel.errors import InputError
from costmodel.schedule.tree.tree import TreeNode
from solvers.budget import Budget, Deadline
from solvers.schedule import segment_chain
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.set.params import WHERE, PatternParams, SetParams

MOST_FOR_CHAIN = 0.5
"""At most this fraction of a solve's time goes into the chain; the annealing has the rest."""


def first_tree(problem: ScheduleProblem, params: PatternParams, deadline: Deadline) -> TreeNode | None:
    """The best chain of segments, where the parameters ask for that start; else, or if there is none, None.

    InputError for a model other than the chip's, of which no chains are counted.
    """
    if not (isinstance(params, SetParams) and params.start == "chain"):
        return None
    if not isinstance(problem.model, ChipModel):
        remedy = "Take start: sequential, or patterns"
        raise InputError(WHERE, "a start of the chip model's trees", problem.model.name, remedy, key="start")
    found = segment_chain.solve(problem, Budget(deadline.left * MOST_FOR_CHAIN))
    return None if found.solution is None else found.solution.tree
