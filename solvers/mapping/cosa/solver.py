"""CoSA from the problem to the outcome.

1. Write one integer program for each choice of kept tensors (:mod:`~solvers.mapping.cosa.program`), or with
   the cost model's objective in place of the paper's (:mod:`~solvers.mapping.cosa.cost_program`).
2. Solve it once for each reuse pattern, that is for each class of loop orders at the network's level, unless
   the program itself chooses that order.
3. Evaluate every optimum with the cost model, and descend from all of them (the polish).

The weights of the paper's objective are as stated, or found before by micro-benchmarks of the architecture
(:mod:`~solvers.mapping.cosa.calibration`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping, loops
from solvers.budget import Budget, Stopwatch
from solvers.mapping.cosa.calibration import calibrated
from solvers.mapping.cosa.capacity import Keep, keep_choices, misfit
from solvers.mapping.cosa.cost_program import CostProgram
from solvers.mapping.cosa.linear import Engine, EngineGoal, IntegerProgram
from solvers.mapping.cosa.params import Params
from solvers.mapping.cosa.program import CosaProgram, Solved
from solvers.mapping.outcomes import answer, infeasible, unknown
from solvers.mapping.polish import Polish
from solvers.mapping.problem import MappingProblem, objective_of, refuse_precision, violations
from solvers.mapping.space.layouts import over_layouts
from solvers.mapping.space.obstacles import obstacle
from solvers.mapping.space.padding import over_padded_sizes
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.space.space_bounds import space_bound
from solvers.mapping.space.starts import drawn
from solvers.mapping.untimed import guided_by_untimed_cycles, improved_by_timed_cycles
from solvers.outcome import Outcome, noting_limits

VERSION = "10"

_LOADED: set[tuple[str, bool]] = set()
"""(engine, polish) pairs whose libraries and compiled code this process has loaded."""


@dataclass(frozen=True)
class _Allowed:
    """How one solve searches and how long it may: settings, budget, and the running clock."""

    params: Params
    budget: Budget
    clock: Stopwatch

    @property
    def seconds_left(self) -> float:
        """Wall seconds until the budget ends; at most 0 when it is used up."""
        return self.budget.wall_seconds - self.clock.wall_seconds

    def in_time(self) -> bool:
        return self.seconds_left > 0


@noting_limits
def solve(problem: MappingProblem, budget: Budget, params: Params = Params()) -> Outcome[Mapping]:  # noqa: B008
    """The best mapping reached from the optima of CoSA's programs, judged by the cost model.

    ``budget.iterations`` is the most programs to solve, for each padded size and each choice of layouts by
    itself; there is one for each reuse pattern and choice of kept tensors. ``program_proven`` is true when
    each of them was solved to proven optimality or is proven to have no solution. The seconds leave out what
    a process does once: loading the engine and the compiled evaluator.

    The status is OPTIMAL only if the objective meets the cost model's lower bound, else FEASIBLE. It is
    INFEASIBLE if the rules allow no mapping. It is UNKNOWN if the rules allow nothing that was found, or if
    ``capacity_fractions`` leave some tensor no word with every choice of kept tensors that has programs:
    that is a setting of the solver and proves nothing of the problem. The micro-benchmarks of calibrated
    weights belong to an architecture, not to a layer: they are outside of the budget and of the seconds.

    Raises InputError for ``capacity_fractions`` of a level that the architecture does not have, and for an
    architecture with a precision.
    """
    if params.weights == "stated":
        return _solve(problem, budget, params)
    weights, sentence = calibrated(problem, params, _solve)
    outcome = _solve(problem, budget, weights.stated_in(params))
    return replace(outcome, note="; ".join(filter(None, [outcome.note, sentence])))


@improved_by_timed_cycles
@guided_by_untimed_cycles
@over_layouts
@over_padded_sizes
def _solve(problem: MappingProblem, budget: Budget, params: Params) -> Outcome[Mapping]:
    """:func:`solve` with stated weights.

    The decorators ask once for each padded size and each choice of layouts, and improve answers for machines
    whose cycles the programs do not count.
    """
    refuse_precision(problem, "cosa")
    params.check_levels(problem.architecture)
    clock = Stopwatch()
    space = MappingSpace(problem.architecture, problem.layer, problem.rules)
    if reason := obstacle(space):
        return infeasible(reason)
    bound = space_bound(problem)
    choices, reasons = _fitting(space, params)
    if not choices:
        return unknown(reasons[0], bound, clock)
    serial = _serial(problem, choices[0])
    loading = Stopwatch()
    _load(problem, params)
    clock = clock.without(loading)
    allowed = _Allowed(params, budget, clock)
    solved = list(_solved(problem, space, choices, allowed))
    optima = [program.mapping for program in solved if program.mapping is not None]
    if not params.polish:
        # One shot: what the programs went through is compared, and nothing is changed any more.
        optima += [mapping for program in solved for mapping in program.visited]
    # From the best to the last resort: optima, every loop at DRAM, random draws. The second always exists,
    # but a user's rules may forbid it.
    starts = (
        _valid(problem, optima) or _valid(problem, [serial]) or [*drawn(space, budget.seed, allowed.in_time)]
    )
    if not starts:
        return unknown("no program found an allowed mapping", bound, clock)
    best, evaluations = _improved(problem, starts, bound, allowed)
    proven = all(program.proven for program in solved)
    return answer(problem, best, bound, clock, evaluations=evaluations, program_proven=proven)


def _valid(problem: MappingProblem, mappings: list[Mapping]) -> list[Mapping]:
    """The different mappings that the problem allows: programs do not know loop orders that a user fixes."""
    return [mapping for mapping in dict.fromkeys(mappings) if not violations(problem, mapping)]


def _improved(
    problem: MappingProblem, starts: list[Mapping], bound: float, allowed: _Allowed
) -> tuple[Mapping, int]:
    """The best mapping reached from ``starts``, and how many mappings were evaluated on the way."""
    if not allowed.params.polish:
        return min(starts, key=lambda mapping: _cost(problem, mapping)), len(starts)
    polish = Polish(problem, bound, allowed.in_time)
    return polish.best(starts, allowed.params.kicks, allowed.budget.seed), polish.evaluations


def _fitting(space: MappingSpace, params: Params) -> tuple[list[Keep], list[str]]:
    """The choices of kept tensors whose tiles of one word each fit, and why the others do not."""
    choices, reasons = [], []
    for keep in keep_choices(space, params):
        if reason := misfit(space, keep, params):
            reasons.append(reason)
        else:
            choices.append(keep)
    return choices, reasons


def _serial(problem: MappingProblem, keep: Keep) -> Mapping:
    """Every loop at DRAM: valid wherever tiles of one word fit, for when no program ends in time."""
    outermost = len(keep) - 1
    return Mapping(
        tuple(
            LevelMapping(loops(problem.layer.dims) if level == outermost else (), (), (), kept)
            for level, kept in enumerate(keep)
        )
    )


def _load(problem: MappingProblem, params: Params) -> None:
    """Solve a tiny program and load the compiled code, once a process, so that neither is timed."""
    if (params.engine, params.polish) in _LOADED:
        return
    _LOADED.add((params.engine, params.polish))
    tiny = IntegerProgram()
    tiny.require({tiny.variable(2): 2.0, tiny.variable(2): 3.0}, low=4)
    _engine(tiny, 0, params).minimise(EngineGoal({0: 1.0, 1: 1.0}), 1.0)
    if params.polish:
        Polish(problem, 0.0, lambda: False).load()


def _solved(
    problem: MappingProblem, space: MappingSpace, choices: list[Keep], allowed: _Allowed
) -> Iterator[Solved]:
    """Every program's answer; programs beyond the budget count as not solved."""
    budget, params = allowed.budget, allowed.params
    number = 0
    for keep in choices:
        program = (
            CostProgram(space, keep, params, problem.objective)
            if params.surrogate == "cost"
            else CosaProgram(space, keep, params)
        )
        # One engine for all patterns of a program: the constraints are handed over once, and cuts that one
        # pattern needed hold for the next.
        engine = _engine(program.integer, budget.seed, params)
        for pattern in program.patterns:
            number += 1
            # Yielded, not skipped: programs that were never solved must show in ``program_proven``.
            if budget.iterations is not None and number > budget.iterations:
                yield Solved(None, False)
            else:
                # Each gets an equal part of the time that is left, so that one that takes long leaves some.
                programs = len(choices) * len(program.patterns)
                yield program.solve(pattern, engine, allowed.seconds_left / (programs - number + 1))


def _engine(program: IntegerProgram, seed: int, params: Params) -> Engine:
    if params.engine == "highs":
        from solvers.mapping.cosa.highs import Highs

        return Highs(program, seed)
    from solvers.mapping.cosa.cp_sat import CpSat

    return CpSat(program, seed)


def _cost(problem: MappingProblem, mapping: Mapping) -> float:
    return objective_of(evaluate(problem.architecture, problem.layer, mapping), problem.objective)
