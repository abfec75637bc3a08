"""The scratchpad problem: run an operator graph in so many bytes with the least off-chip access."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.errors import InputError
from costmodel.scratchpad.cut import CutGraph, cut_graph
from costmodel.scratchpad.cut_check import cut_violations
from costmodel.scratchpad.divisions import DivisibleGraph
from costmodel.scratchpad.graph import OperatorGraph
from costmodel.scratchpad.plan import Plan, off_chip_bytes
from costmodel.scratchpad.plan import violations as plan_violations
from solvers.budget import Stopwatch
from solvers.outcome import Outcome, Status

OBJECTIVES = ("off_chip_bytes",)


@dataclass(frozen=True)
class ScratchpadProblem:
    """Minimise the bytes spilled and retrieved (Eq. 12) while ``graph`` runs in ``budget_bytes``.

    ``divisible``: what of the graph a plan may cut; None: nothing.
    """

    graph: OperatorGraph
    budget_bytes: int
    divisible: DivisibleGraph | None = None

    def __post_init__(self) -> None:
        if self.divisible is not None and self.divisible.whole != self.graph:
            raise InputError("scratchpad problem", "divisions of its graph", self.divisible.whole.name)
        if type(self.budget_bytes) is not int or self.budget_bytes < 0:
            raise InputError("scratchpad problem", "a whole number of bytes", self.budget_bytes, key="budget")

    @property
    def capacity_bytes(self) -> int:
        """The budget in whole aligned blocks, or all that the graph could ever use of it."""
        alignment = self.graph.settings.alignment_bytes
        return min(self.budget_bytes, self.graph.total_bytes) // alignment * alignment


def objective_of(problem: ScratchpadProblem, plan: Plan) -> int:
    """The cost model's bytes of off-chip access."""
    return off_chip_bytes(planned_graph(problem, plan), plan)


def planned_graph(problem: ScratchpadProblem, plan: Plan) -> OperatorGraph:
    """The graph whose operators and tensors the plan has: the problem's, or that with the plan's cuts."""
    cut = cut_of(problem, plan)
    return problem.graph if cut is None else cut.graph


def cut_of(problem: ScratchpadProblem, plan: Plan) -> CutGraph | None:
    """The cut graph of a plan with cuts; InputError for cuts that the problem does not allow."""
    if not plan.cuts:
        return None
    if problem.divisible is None:
        raise InputError("scratchpad plan", "no cuts: the problem allows none", plan.cuts[0][0], key="cuts")
    return cut_graph(problem.divisible, dict(plan.cuts))


def violations(problem: ScratchpadProblem, plan: Plan) -> list[str]:
    """Why ``plan`` is not an answer to ``problem``; independent of every solver."""
    try:
        cut = cut_of(problem, plan)
    except InputError as error:
        return [str(error)]
    if cut is None:
        return plan_violations(problem.graph, plan, problem.budget_bytes)
    wrong = cut_violations(cut, dict(plan.cuts))
    return wrong or plan_violations(cut.graph, plan, problem.budget_bytes)


def below_requirement(problem: ScratchpadProblem, watch: Stopwatch) -> Outcome[Plan] | None:
    """The INFEASIBLE outcome of a budget below MR, what the hungriest operator needs by itself; else None.

    The note names the operator. Where the graph may be cut, an operator needs at least what any of its pieces
    holds.
    """
    graph = problem.graph
    if problem.divisible is not None:
        return _below_any_piece(problem, problem.divisible, watch)
    if graph.required_bytes <= problem.capacity_bytes:
        return None
    held = "inputs, outputs and parameters" if graph.settings.parameters else "inputs and outputs"
    note = (
        f"operator {graph.hungriest.name} needs {graph.required_bytes} bytes (MR) for its {held}, "
        f"the budget has {problem.capacity_bytes}"
    )
    return infeasible(note, watch)


def _below_any_piece(
    problem: ScratchpadProblem, divisible: DivisibleGraph, watch: Stopwatch
) -> Outcome[Plan] | None:
    needs = [divisible.least_bytes(number) for number in range(len(problem.graph.operators))]
    most = max(needs)
    if most <= problem.capacity_bytes:
        return None
    name = problem.graph.operators[needs.index(most)].name
    note = f"a piece of operator {name} needs at least {most} bytes, however it is cut, "
    return infeasible(f"{note}the budget has {problem.capacity_bytes}", watch)


def infeasible(note: str, watch: Stopwatch) -> Outcome[Plan]:
    """There is no plan; the note says why, with its numbers."""
    return Outcome(Status.INFEASIBLE, None, None, None, watch.cpu_seconds, watch.wall_seconds, note)


def unknown(note: str, watch: Stopwatch, bound: float | None = None) -> Outcome[Plan]:
    """No plan was found; ``bound``: bytes that every plan moves at least, if that is proven."""
    return Outcome(Status.UNKNOWN, None, None, bound, watch.cpu_seconds, watch.wall_seconds, note)


def answer(
    problem: ScratchpadProblem,
    plan: Plan,
    bound: float,
    watch: Stopwatch,
    *,
    note: str = "",
    proven_bytes: float | None = None,
) -> Outcome[Plan]:
    """The outcome of a plan, replayed and counted by the cost model; OPTIMAL where the bound meets it.

    ``proven_bytes`` is what the solver proved about its own program (a fixed order), if it has one. Raises
    RuntimeError if the plan does not replay: a solver's bug must not become a result.
    """
    if reasons := violations(problem, plan):
        raise RuntimeError(f"a solver made a plan that does not run: {'; '.join(reasons[:3])}")
    objective = float(objective_of(problem, plan))
    if bound > objective:
        raise RuntimeError(f"a solver proved {bound} bytes and made a plan of {objective}")
    return Outcome(
        Status.OPTIMAL if bound == objective else Status.FEASIBLE,
        plan,
        objective,
        float(bound),
        watch.cpu_seconds,
        watch.wall_seconds,
        note,
        None if proven_bytes is None else proven_bytes == objective,
    )
