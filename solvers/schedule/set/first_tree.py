"""The best chain of segments as the tree from which an annealing starts.

The other starts, all layers one after the other (SET's) and annealed patterns (its released program's), are
made by the search itself (``search.py``).
"""

from __future__ import annotations

from costmodel.errors import InputError
from costmodel.schedule.tree.tree import TreeNode
from solvers.budget import Budget, Deadline
from solvers.schedule import segment_chain
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.set.params import WHERE, PatternParams

MOST_FOR_CHAIN = 0.5
"""The most of a solve's time, as a fraction, that the chain gets; the annealing has the rest."""


def first_tree(problem: ScheduleProblem, params: PatternParams, deadline: Deadline) -> TreeNode | None:
    """The best chain of segments if the parameters ask for that start; None if not, or if there is no chain.

    InputError for a model other than the chip's, for which chains cannot be counted.
    """
    if not params.from_chain:
        return None
    if not isinstance(problem.model, ChipModel):
        remedy = "Take start: sequential, or patterns"
        raise InputError(WHERE, "a start of the chip model's trees", problem.model.name, remedy, key="start")
    found = segment_chain.solve(problem, Budget(deadline.left * MOST_FOR_CHAIN))
    return None if found.solution is None else found.solution.tree
