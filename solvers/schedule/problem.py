"""The schedule problem: which RA tree runs a network on a tiled chip with the least E^n D^m."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from costmodel.mapping.bounds.rounding import ROUNDING
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.reductions import reduction_violations
from costmodel.schedule.row_bands import band_violations
from costmodel.schedule.tree.text import format_tree, parse_tree
from costmodel.schedule.tree.tree import TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.schedule.tree.validity import violations as tree_violations
from solvers.budget import Deadline, InTime, always_in_time
from solvers.checks import check_counts
from solvers.outcome import Outcome, Status, proven
from solvers.schedule.objective import Objective
from solvers.tolerance import contradicts

RECOUNTED = 1e-9
"""How far an energy may be from that of a second count, as a fraction: sums in another order round
differently. Cycles are whole numbers and must be equal."""


class TreeCost(Protocol):
    """The cost of a tree for the whole batch. A model's own type may have more."""

    @property
    def energy_pj(self) -> float: ...

    @property
    def cycles(self) -> int: ...


class TreeJudge(Protocol):
    """Counts what trees of one network and batch cost."""

    def evaluate(self, tree: TreeNode) -> TreeCost:
        """The cost of a tree. Raises NotPossibleError for a tree that the hardware cannot run."""
        ...


class Evaluator(TreeJudge, Protocol):
    """A judge that remembers parts of trees, so that counting a tree again after a small change is cheap."""

    @property
    def quick(self) -> Evaluator:
        """One that takes a fraction of the time, and by which a tree may cost more, or not be possible."""
        ...

    def evaluate_unless(self, tree: TreeNode, is_too_dear: Callable[[float, float], bool]) -> TreeCost | None:
        """The cost of a tree, or None where it ``is_too_dear``.

        That is asked once, as soon as it is certain that the hardware can run the tree, of lower bounds on
        its energy (pJ) and cycles. So what is left of a dear tree need not be counted. Raises
        NotPossibleError as ``evaluate`` does.
        """
        ...

    def segment(self, node: TreeNode) -> object:
        """Counts one child of a root T cut, and remembers it for all trees that have this child.

        Raises NotPossibleError where the hardware cannot run the child.
        """
        ...


class ScheduleModel(Protocol):
    """Hardware and how schedules on it are counted: a frozen value that can be sent to another process."""

    @property
    def name(self) -> str: ...

    @property
    def tiles(self) -> int: ...

    def evaluator(self, graph: LayerGraph, batch: int, objective: Objective) -> Evaluator:
        """Counts trees for a search: the time for a tree is that of the parts that are new in it."""
        ...

    def judge(self, graph: LayerGraph, batch: int, objective: Objective) -> TreeJudge:
        """Counts answers: nothing that a search remembered enters the count."""
        ...

    def bound(
        self, graph: LayerGraph, batch: int, objective: Objective, in_time: InTime = always_in_time
    ) -> float | None:
        """A proven lower bound on the objective of every tree; None where there is none.

        Where ``in_time`` says that the time is up, the bound makes do with what is known by then, and is
        lower. What was computed for it is kept, so a later call goes on from there.
        """
        ...


def tree_value(tree: TreeNode, judge: TreeJudge, objective: Objective) -> float:
    """E^n D^m of a tree as the judge counts it. Raises NotPossibleError as it does."""
    cost = judge.evaluate(tree)
    return objective.value(cost.energy_pj, cost.cycles)


def value_up_to(
    tree: TreeNode, evaluator: Evaluator, objective: Objective, most: float | Callable[[], float]
) -> float | None:
    """E^n D^m of a tree if it is no more than ``most``, else None.

    A function is asked for that once, as soon as the hardware is known to run the tree. One whose bounds are
    above it is not counted to the end. Raises NotPossibleError as the evaluator does.
    """
    limits = list[float]()

    def is_too_dear(energy_pj: float, cycles: float) -> bool:
        limits.append(most() if callable(most) else most)
        return objective.value(energy_pj, cycles) * ROUNDING > limits[0]

    cost = evaluator.evaluate_unless(tree, is_too_dear)
    if cost is None:
        return None
    value = objective.value(cost.energy_pj, cost.cycles)
    return value if value <= limits[0] else None


@dataclass(frozen=True)
class ScheduleProblem:
    """Minimise ``objective`` over the RA trees that run ``batch`` samples of ``graph`` on ``model``.

    The layers of ``graph`` are those of one sample.
    """

    graph: LayerGraph
    model: ScheduleModel
    batch: int = 1
    objective: Objective = field(default_factory=Objective)

    def __post_init__(self) -> None:
        check_counts("schedule problem", self, {"batch": 1})

    def evaluator(self) -> Evaluator:
        return self.model.evaluator(self.graph, self.batch, self.objective)

    def judge(self) -> TreeJudge:
        return self.model.judge(self.graph, self.batch, self.objective)

    def bound(self, in_time: InTime = always_in_time) -> float | None:
        """See :meth:`ScheduleModel.bound`."""
        return self.model.bound(self.graph, self.batch, self.objective, in_time)


@dataclass(frozen=True)
class OperatorCount:
    """The numbers of trees that one annealing operator made, by what became of them.

    ``tried`` are all of them. The hardware cannot run the ``invalid`` ones. The ``accepted`` ones became the
    current tree; those of them that cost less than the tree before count as ``better``, too.
    """

    operator: str
    tried: int = 0
    invalid: int = 0
    accepted: int = 0
    better: int = 0


@dataclass(frozen=True)
class Phase:
    """A record of one annealing.

    ``name``: its space of trees. ``rounds``: how many were done. ``best``: the objective of its best tree.
    ``trajectory``: (round, objective of the current tree) along the way. ``cpu_seconds``: of all rounds.
    """

    name: str
    rounds: int
    best: float
    trajectory: tuple[tuple[int, float], ...]
    operators: tuple[OperatorCount, ...]
    cpu_seconds: float


@dataclass(frozen=True)
class ScheduleSolution:
    """A tree, its cost as the judge counts it, and the annealings that found it (none for other solvers)."""

    tree: TreeNode
    energy_pj: float
    cycles: int
    phases: tuple[Phase, ...] = ()

    @property
    def text(self) -> str:
        return format_tree(self.tree)


def violations(problem: ScheduleProblem, solution: ScheduleSolution) -> list[str]:
    """Why ``solution`` does not answer ``problem``; empty if it does.

    The tree is read from its text and counted by a judge, so the check trusts nothing of the solver.
    """
    tree = parse_tree(solution.text)
    if reasons := tree_violations(tree, problem.graph.producers, problem.batch, problem.model.tiles):
        return reasons
    if reasons := band_violations(tree, problem.graph) + reduction_violations(tree, problem.graph):
        return reasons
    try:
        cost = problem.judge().evaluate(tree)
    except NotPossibleError as reason:
        return [str(reason)]
    if cost.cycles != solution.cycles:
        return [f"it takes {cost.cycles} cycles, not {solution.cycles}"]
    if abs(cost.energy_pj - solution.energy_pj) > RECOUNTED * cost.energy_pj:
        return [f"it takes {cost.energy_pj} pJ, not {solution.energy_pj}"]
    return []


def answer(
    problem: ScheduleProblem, tree: TreeNode, phases: tuple[Phase, ...], time: Deadline, note: str = ""
) -> Outcome[ScheduleSolution]:
    """The outcome of a solver that ends with ``tree``.

    The tree is written as text, read again and counted by the judge, even if the time is up: without a count
    there is no answer. The bound gets only the time that is left after that.

    Raises RuntimeError for a tree that is not valid and for a bound above its objective: a bug must not
    become a result.
    """
    # By way of its text, which is what is stored: if a tree did not survive being written, its cost would be
    # one that nobody can count again.
    read = parse_tree(format_tree(tree))
    if reasons := tree_violations(read, problem.graph.producers, problem.batch, problem.model.tiles):
        raise RuntimeError(f"a solver made a tree that is not valid: {'; '.join(reasons[:3])}")
    # The judge has remembered nothing of the search: a mistake in what an evaluator remembers cannot reach an
    # answer.
    cost = problem.judge().evaluate(read)
    value, bound = problem.objective.value(cost.energy_pj, cost.cycles), problem.bound(time.in_time)
    status = Status.FEASIBLE
    if bound is not None:
        if contradicts(value, bound):
            raise RuntimeError(f"the bound {bound} is above a tree of {value}")
        status, bound = proven(value, bound)
    return Outcome(
        status,
        ScheduleSolution(read, cost.energy_pj, cost.cycles, phases),
        value,
        bound,
        time.watch.cpu_seconds,
        time.watch.wall_seconds,
        note,
        evaluations=sum(phase.rounds for phase in phases),
    )


def no_tree(problem: ScheduleProblem, note: str, time: Deadline) -> Outcome[ScheduleSolution]:
    """The outcome of a solver that found no tree: UNKNOWN, as another solver may find one."""
    bound, watch = problem.bound(time.in_time), time.watch
    return Outcome(Status.UNKNOWN, None, None, bound, watch.cpu_seconds, watch.wall_seconds, note)


def phases_as_json(phases: tuple[Phase, ...]) -> list[Mapping[str, Any]]:
    """Plain lists and dicts of the phases, for a row of results."""
    return [asdict(phase) for phase in phases]
