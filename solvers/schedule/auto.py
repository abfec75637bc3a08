"""A portfolio of schedule solvers: what each is best at, one after the other, and the best tree improved.

Which scheduler wins depends on network, chip and time (``docs/studies.md``, study ``schedulers``). The best
chain of segments is found step by step, soon, and knows long segments. An annealing knows every tree, and
goes on getting better for as long as it runs. So the chain comes first, then short annealings of layer
pipelines and of layers in sequence, which take little time, and then one long annealing of SET's: two of half
the length find less, and so does one that spends a part of its rounds on patterns. All of them count
segments, of which only those of one tree would be in the answer: so the best chain of all counted segments is
found next. At last an annealing of low temperatures goes on from the best tree of all.

KAPLA's chains are all but among those of the best chain, which is hardly ever worse. Where that has counted
all of its segments, KAPLA costs few schemes (``FEW_SCHEMES``): all that a small network has, and of a large
one as many as take little time. Elsewhere it costs what it likes, as it estimates first which are worth it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

from costmodel.errors import InputError
from costmodel.limits import limit_reached
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.tree.tree import TreeNode
from solvers.budget import LEAST_SECONDS, MOST_SECONDS, Budget, Deadline
from solvers.checks import check, check_counts, is_number
from solvers.outcome import Outcome, Status, noting_limits, proven
from solvers.portfolio import MemberAnswer, best_of
from solvers.schedule import kapla, layer_pipeline, layer_sequential, segment_chain
from solvers.schedule.chip_model import ChipModel, LastEvaluator
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution
from solvers.schedule.segment_chain.recombining import CountedPool, recombined
from solvers.schedule.set import solver as set_annealing
from solvers.schedule.set.params import PatternParams, SetParams
from solvers.schedule.set.refinement import solve_from
from solvers.schedule.set.search import AnnealingPlan

NAME = "auto_schedule"

MEMBERS = ("segment_chain", "kapla_schedule", "layer_pipeline", "layer_sequential", "set")

VERSION = (
    f"4 kapla_schedule-{kapla.VERSION} segment_chain-{segment_chain.VERSION} set-{set_annealing.VERSION} "
    f"layer_pipeline-{layer_pipeline.VERSION} layer_sequential-{layer_sequential.VERSION}"
)
"""With those of the members: when an answer of theirs can change, so can this one's."""

FEW_SCHEMES = 200
"""How many schemes KAPLA costs beside a best chain that has counted all of its segments."""

ROUNDS_OF_PATTERNS = 0.25
"""The rounds of layer pipelines and of layers in sequence, as a fraction of SET's. Their spaces are small."""

Solve = Callable[[ScheduleProblem, Budget], Outcome[ScheduleSolution]]


@dataclass(frozen=True)
class Params:
    """``members``: the solvers that take part. ``beta``: rounds of an annealing for each layer.

    ``annealings``: how many seeds SET's annealing has, from 0 on, one after the other.
    ``recombination``: whether the best chain of all segments that the members counted is an answer, too.
    ``refinement``: with this fraction of the rounds an annealing goes on from the best tree; 0: none does.
    """

    members: tuple[str, ...] = MEMBERS
    beta: float = 2 * SetParams.beta
    annealings: int = 1
    recombination: bool = True
    refinement: float = 0.25

    def __post_init__(self) -> None:
        listed = isinstance(self.members, (list, tuple)) and len(self.members) > 0
        known = listed and all(member in MEMBERS for member in self.members)
        check(NAME, "members", known, f"some of {', '.join(MEMBERS)}", self.members)
        object.__setattr__(self, "members", tuple(self.members))
        check_counts(NAME, self, {"annealings": 1})
        right = isinstance(self.recombination, bool)
        check(NAME, "recombination", right, "true or false", self.recombination)
        right = is_number(self.refinement, 0, 1)
        check(NAME, "refinement", right, "a fraction from 0 to 1", self.refinement)
        right = is_number(self.beta, 0, inf) and self.beta > 0
        check(NAME, "beta", right, "a number above 0", self.beta)

    @property
    def annealing(self) -> SetParams:
        """SET's annealing from all layers one after the other, hot enough for the whole space."""
        return SetParams(beta=self.beta)

    @property
    def patterns(self) -> PatternParams:
        """The annealings of layer pipelines and of layers in sequence."""
        return PatternParams(beta=ROUNDS_OF_PATTERNS * self.beta)

    @property
    def cool(self) -> SetParams:
        """The annealing whose end goes on from the best tree."""
        return SetParams(beta=self.beta, initial_temperature=SetParams.pattern_temperature)


DEFAULT = Params()


@noting_limits
def solve(problem: ScheduleProblem, budget: Budget, params: Params = DEFAULT) -> Outcome[ScheduleSolution]:
    """The best tree of all members and of the annealing that goes on from it; ``solved_by`` says whose it is.

    ``budget.iterations`` is the limit of each solve of a member. Its seed is not looked at. A member that
    refuses the problem is left out and noted, as ``kapla_schedule`` is where a layer needs the whole chip and
    none is offered. Every answer is a judge's count, and the bound is the best of theirs.

    Tile costs may be lacking that this process cannot solve. TileCostsNeeded is raised then, by the first
    member that lacks some; the caller has them solved and calls again. InputError for a model other than the
    chip's, which chains need.
    """
    if not isinstance(problem.model, ChipModel):
        remedy = "Take set, layer_sequential or layer_pipeline"
        raise InputError(NAME, "the chip model", problem.model.name, remedy, key="model")
    if problem.model.searching is None:
        # members come to the same leaves and segments, which one of them counts for all
        problem = replace(problem, model=replace(problem.model, searching=LastEvaluator()))
    pool = CountedPool(problem) if params.recombination else None
    portfolio = _Portfolio(problem, budget, Deadline(budget.wall_seconds), pool)
    if "segment_chain" in params.members:
        portfolio.ask("segment_chain", 0.4, segment_chain.solve)
    if "kapla_schedule" in params.members:
        few = portfolio.has_counted_all_segments
        portfolio.ask("kapla_schedule", 0.25, _of_few_schemes if few else kapla.solve)
    for name, pattern in (("layer_pipeline", layer_pipeline), ("layer_sequential", layer_sequential)):
        if name in params.members:
            portfolio.ask(name, 0.1, partial(_seeded, pattern.solve, params.patterns, 0))
    if "set" in params.members:
        for number in range(params.annealings):
            part = 0.7 / (params.annealings - 0.7 * number)
            portfolio.ask("set", part, partial(_seeded, set_annealing.solve, params.annealing, number))
    if pool is not None and len(portfolio.answers) > 1:
        portfolio.ask("recombination", 0.5, partial(recombined, pool=pool))
    best = portfolio.best
    if params.refinement and best is not None:
        portfolio.ask("refinement", 1.0, partial(_improved, params, best.solution.tree))
    return portfolio.outcome()


def _of_few_schemes(problem: ScheduleProblem, budget: Budget) -> Outcome[ScheduleSolution]:
    """What KAPLA finds when it costs few schemes."""
    most = FEW_SCHEMES if budget.iterations is None else min(FEW_SCHEMES, budget.iterations)
    outcome = kapla.solve(problem, replace(budget, iterations=most))
    if outcome.evaluations == FEW_SCHEMES:
        limit_reached("schemes costed beside a best chain", FEW_SCHEMES, "others of KAPLA's were not costed")
    return outcome


def _seeded(
    solve: Callable[..., Outcome[ScheduleSolution]],
    params: PatternParams,
    number: int,
    problem: ScheduleProblem,
    budget: Budget,
) -> Outcome[ScheduleSolution]:
    return solve(problem, replace(budget, seed=number), params)


def _improved(
    params: Params, tree: TreeNode, problem: ScheduleProblem, budget: Budget
) -> Outcome[ScheduleSolution]:
    """What the cool end of an annealing finds from ``tree``; it gets all of the budget's time."""
    annealing = params.cool
    rounds = annealing.rounds(len(problem.graph.layers))
    plan = AnnealingPlan(set_annealing.spaces_of(annealing), annealing, rounds)
    # solve_from takes the same fraction of the seconds as of the rounds
    seconds = min(MOST_SECONDS, budget.wall_seconds / params.refinement)
    return solve_from(problem, replace(budget, wall_seconds=seconds), plan, tree, params.refinement)


def _told(answer: MemberAnswer[ScheduleSolution], before: set[str]) -> str:
    """The objective in four digits, CPU seconds, and what of the member's note is not in ``before``."""
    value = "no tree" if answer.outcome.solution is None else f"{answer.objective:.4g}"
    # several members reach the same limits, which are to be named once
    new = [part for part in answer.outcome.note.split("; ") if part and part not in before]
    before.update(new)
    own = f" ({'; '.join(new)})" if new else ""
    return f"{answer.member}: {value} in {answer.outcome.cpu_seconds:.1f} CPU s{own}"


@dataclass
class _Portfolio:
    """What the members have answered so far, and what others refused the problem with."""

    problem: ScheduleProblem
    budget: Budget
    deadline: Deadline
    pool: CountedPool | None = None
    answers: list[MemberAnswer[ScheduleSolution]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def ask(self, member: str, part: float, solve: Solve) -> None:
        """Give a member a turn of ``part`` of the time left, unless the best tree is proven."""
        if self.best is not None and self.best.outcome.status is Status.OPTIMAL:
            return
        seconds = max(LEAST_SECONDS, part * self.deadline.left)
        try:
            outcome = solve(self.problem, replace(self.budget, wall_seconds=seconds, seed=0))
        except InputError as refusal:
            self.refusals.append(f"{member} refuses the problem: {refusal}")
        else:
            self.answers.append(MemberAnswer(member, outcome))
            evaluator = self.problem.evaluator()
            if self.pool is not None and isinstance(evaluator, ChipEvaluator):
                self.pool.gather(evaluator)

    @property
    def has_counted_all_segments(self) -> bool:
        """Whether the best chain was found among all of its segments."""
        return any(
            answer.member == "segment_chain"
            and answer.outcome.solution is not None
            and segment_chain.NOT_ALL not in answer.outcome.note
            for answer in self.answers
        )

    @property
    def best(self) -> MemberAnswer[ScheduleSolution] | None:
        """The first of the best answers; None without a tree."""
        return best_of(self.answers)

    def outcome(self) -> Outcome[ScheduleSolution]:
        """The best tree and bound, the records of all annealings, and what members say of themselves."""
        every, watch = [answer.outcome for answer in self.answers], self.deadline.watch
        bound = max((one.bound for one in every if one.bound is not None), default=None)
        best, said = self.best, set[str]()
        whose = [] if best is None else [f"the tree is of {best.member}"]
        totals: dict[str, Any] = {
            "cpu_seconds": watch.cpu_seconds,
            "wall_seconds": watch.wall_seconds,
            "note": "; ".join([*whose, *(_told(answer, said) for answer in self.answers), *self.refusals]),
            "evaluations": sum(one.evaluations for one in every),
        }
        if best is None:
            return Outcome(Status.UNKNOWN, None, None, bound, **totals)
        status = best.outcome.status
        if bound is not None:
            status, bound = proven(best.objective, bound)
        phases = tuple(phase for one in every if one.solution for phase in one.solution.phases)
        solution = replace(best.solution, phases=phases)
        return Outcome(status, solution, best.objective, bound, solved_by=best.member, **totals)
