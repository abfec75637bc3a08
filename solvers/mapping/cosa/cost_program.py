"""CoSA's program with the cost model's objective in place of the paper's, solved by adding tangents.

Every power ``factor * 2 ** exponent`` of :mod:`solvers.mapping.cosa.costs` has a variable that stands for it
in the objective. Linear rows keep the variable at or above some tangents of the power, so the program's
optimum is a lower bound on the sum of powers::

    cost |               .   the power
         |              ./
         |            . /
         |        . '  /     its tangent where a solution lies
         |  . ' '     /
         |___________/______ exponent

A first solution, of CoSA's own weighted sum, sets the scale: its cost is REFERENCE units. Then the program is
solved, tangents are added at its optimum, and so on, until its bound meets the best sum of powers found.

Cycles are the maximum of what MACs and bandwidths need, or of the paces of an architecture with timing. Their
logarithm is a variable that is at least the logarithm of each of these. So what leaks in all cycles is a
power as well, and energy times cycles is again a sum of powers, with that variable in every exponent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, log, log2

from costmodel.limits import limit_reached
from costmodel.mapping.mapping import Mapping
from solvers.budget import Stopwatch
from solvers.mapping.cosa.capacity import Keep
from solvers.mapping.cosa.costs import Costs, log_sum_tangent
from solvers.mapping.cosa.linear import (
    UNIT,
    Engine,
    EngineAnswer,
    EngineGoal,
    Power,
    Row,
    Terms,
    added,
    value,
)
from solvers.mapping.cosa.params import Params
from solvers.mapping.cosa.patterns import Pattern
from solvers.mapping.cosa.program import CosaProgram, Solved
from solvers.mapping.problem import Objective
from solvers.mapping.space.space import MappingSpace

REFERENCE = 10_000
"""How many units the first solution costs. A power's variable is a whole number of units, so it is known to
one unit."""

HALVINGS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Where the first tangents of a power touch it: at the first solution's cost, halved so many times. Between
two that are half a halving apart they are at most 2 % below the power."""

CLOSE = 2e-3
"""The program is solved when its optimum is within this fraction of the best sum of powers found."""

MOST_ROUNDS = 12
"""The most solves of one program."""

SLICES = 16
"""The first solve gets one of so many parts of a program's seconds, and each after one that was not proven
twice as much as that. Tangents where an unproven solution lies help more than going on without them."""

LN2 = log(2.0)


@dataclass(frozen=True)
class _Priced:
    """A power, and the number of the variable that stands for it, in units of the first cost / REFERENCE."""

    power: Power
    variable: int


class CostProgram(CosaProgram):
    """CoSA's constraints for one choice of kept tensors, with the cost model's objective."""

    def __init__(self, space: MappingSpace, keep: Keep, params: Params, objective: Objective) -> None:
        super().__init__(space, keep, params)
        v, self._objective = self._variables, objective
        self._costs = Costs(space.architecture, v, self._traffic, self.patterns[0], objective)
        most_cycles = max(sum(power.factor for power in pace) for pace in self._costs.paces)
        # Bandwidths may ask for more cycles than the MACs; each word moves at most once a MAC.
        self._log_cycles = v.program.variable(
            ceil((3 * log2(2 * space.layer.macs) + log2(most_cycles)) / UNIT)
        )
        self._bound_cycles()
        self._priced = [_Priced(power, v.program.variable(2 * REFERENCE)) for power in self._powers()]

    @property
    def _constant(self) -> float:
        """The part of the objective that no mapping changes."""
        return self._costs.mac_energy_pj if self._objective == "energy" else 0.0

    def _powers(self) -> Iterator[Power]:
        """The powers whose sum is the objective, without the constant; none for cycles."""
        if self._objective == "cycles":
            return
        cycles = {self._log_cycles: UNIT}
        energy = [*self._costs.energy, *(leaked.times(1.0, cycles) for leaked in self._costs.leakage)]
        if self._objective == "energy":
            yield from energy
            return
        for power in energy:
            yield power.times(1.0, cycles)
        if self._costs.mac_energy_pj:
            yield Power(self._costs.mac_energy_pj, cycles)

    def _bound_cycles(self) -> None:
        """The cycles are at least every power of every pace by itself: of the MACs, of each transfer."""
        cycles, require = {self._log_cycles: -UNIT}, self._variables.program.require
        for pace in self._costs.paces:
            for factor, exponent in pace:
                require(added((1.0, exponent), (1.0, cycles)), high=-log2(factor))

    def solve(self, pattern: Pattern, engine: Engine, seconds: float) -> Solved:
        """The optimum of the sum of powers, within CLOSE of it if ``seconds`` and MOST_ROUNDS are enough.

        ``proven`` says whether they were. ``visited`` has all solutions on the way: as the cost model differs
        a little from the sum of powers, another of them may be better than the optimum.
        """
        clock, visited = Stopwatch(), list[Mapping]()
        first = self._fitting(engine, EngineGoal(self._first_objective(pattern)), pattern, seconds)
        if first.values is None:
            return Solved(None, first.proven)
        values = first.values
        reference = best = self._cost_at(values)
        best_mapping = self._mapping(values, pattern)
        visited.append(best_mapping)
        if best == 0:
            # Nothing that a mapping changes has a price (an architecture without energies), and costs are not
            # negative: every mapping is optimal, and there is no scale for tangents.
            return Solved(best_mapping, True, tuple(visited))
        for priced in self._priced:
            for halved in HALVINGS:
                point = log2(reference / priced.power.factor) - halved
                engine.require(_tangent(priced, point, reference))
        proven, start, best_values = False, None, values
        at_most = seconds / SLICES
        self._add_tangents(engine, values, reference)
        for _ in range(MOST_ROUNDS):
            left = seconds - clock.wall_seconds
            goal = replace(self._goal(reference, best), start=start)
            found = self._fitting(engine, goal, pattern, min(left, at_most))
            if found.values is not None:
                values = found.values
                mapping, cost = self._mapping(values, pattern), self._cost_at(values)
                visited.append(mapping)
                if cost < best:
                    best, best_mapping, best_values = cost, mapping, values
                if found.proven and self._bound_at(values, reference) >= best * (1 - CLOSE):
                    proven = True
                    break
                self._add_tangents(engine, values, reference)
            elif found.proven or left <= at_most:  # if proven, nothing is better than the best so far
                proven = found.proven
                break
            if not found.proven:
                at_most *= 2
                start = self._start(best_values, reference)
        else:
            limit_reached("solves of CoSA's program of costs", MOST_ROUNDS, "its optimum is not proven")
        return Solved(best_mapping, proven, tuple(visited))

    def _fitting(self, engine: Engine, goal: EngineGoal, pattern: Pattern, seconds: float) -> EngineAnswer:
        """The optimum for a goal whose tiles fit in whole words; no values if the seconds end first.

        Capacity rows let some overfull tiles through. Each is cut off and the program solved again.
        """
        clock = Stopwatch()
        while (left := seconds - clock.wall_seconds) > 0:
            answer = engine.minimise(goal, left)
            if answer.values is None:
                return answer
            if not self._cut_off_overfull(self._mapping(answer.values, pattern), answer.values, engine):
                return answer
        return EngineAnswer(None, False)

    def _start(self, values: Sequence[int], reference: float) -> list[int]:
        """A solution with the variables of cycles and of powers at or above all of their tangents."""
        start = list(values)
        if self._costs.counts_cycles:
            start[self._log_cycles] = ceil(log2(self._costs.cycles_at(values)) / UNIT)
        for priced in self._priced:
            start[priced.variable] = ceil(priced.power.at(start) * REFERENCE / reference)
        return start

    def _first_objective(self, pattern: Pattern) -> Terms:
        """Eq. 12 over all boundaries; where cycles matter, with compute as heavy as in the released code."""
        comp = 0.0 if self._objective == "energy" else self._params.compute_weight
        return added(
            (1.0, self._traffic.words(pattern)), (comp, self._costs.comp), (UNIT, {self._log_cycles: 1.0})
        )

    def _goal(self, reference: float, best: float) -> EngineGoal:
        """The least sum of powers, and a row that leaves out what costs more than the ``best`` one so far."""
        if self._objective == "cycles":
            objective = {self._log_cycles: 1.0}
            # The variable is whole, so it may be a unit above the logarithm.
            return EngineGoal(objective, (Row({self._log_cycles: UNIT}, high=log2(best) + UNIT),))
        objective = {p.variable: 1.0 for p in self._priced}
        # Every variable is whole, so it may be a unit above its power. The logarithm of the cycles may be one
        # above theirs, which is less than those units together, but not where leakage has it twice.
        rounded = 2.0 ** (2 * UNIT) if self._costs.leakage else 1.0
        ceiling = (best * rounded - self._constant) * REFERENCE / reference + len(self._priced)
        return EngineGoal(objective, (Row(objective, high=ceiling),))

    def _bound_at(self, values: Sequence[int], reference: float) -> float:
        """What a proven optimum costs by the program's own count, with tangents for powers: a lower bound."""
        if self._objective == "cycles":
            # The program rounds logarithms; a unit more or less is far below CLOSE.
            return float(2.0 ** (values[self._log_cycles] * UNIT))
        # A variable is its tangents' maximum rounded up to a unit, which the bound must not count.
        units = sum(values[p.variable] for p in self._priced) - len(self._priced)
        return units * reference / REFERENCE + self._constant

    def _cost_at(self, values: Sequence[int]) -> float:
        """The objective of a solution as the sum of powers has it."""
        if self._objective == "cycles":
            return self._costs.cycles_at(values)
        energy = self._costs.energy_at(values)
        return energy if self._objective == "energy" else energy * self._costs.cycles_at(values)

    def _add_tangents(self, engine: Engine, values: Sequence[int], reference: float) -> None:
        """Add tangents where a solution lies: there the program counts from now on what the powers do."""
        for priced in self._priced:
            engine.require(_tangent(priced, value(priced.power.exponent, values), reference))
        for pace in self._costs.paces:
            terms, constant = log_sum_tangent(pace, values)
            engine.require(Row(added((1.0, terms), (-UNIT, {self._log_cycles: 1.0})), high=-constant))


def _tangent(priced: _Priced, point: float, reference: float) -> Row:
    """The row that keeps a variable at or above the tangent of its power at the exponent ``point``."""
    size = priced.power.factor * 2.0**point * REFERENCE / reference
    slope = size * LN2
    terms = added((slope, priced.power.exponent), (-1.0, {priced.variable: 1.0}))
    return Row(terms, high=slope * point - size)
