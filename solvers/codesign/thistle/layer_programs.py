"""The programs of one layer, one for every combination of loop orders, and the best of them.

The hardware's free sizes and fan-outs are variables of each program, as if the layer were the only one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from costmodel.limits import limit_reached
from solvers.codesign.problem import CodesignProblem, WeightedLayer
from solvers.codesign.thistle.hardware import HardwareVariables, fanouts_of, sizes_of
from solvers.codesign.thistle.layer_costs import LayerCosts
from solvers.codesign.thistle.loops import ClassLoops, LoopChoices, Placement
from solvers.codesign.thistle.params import Params
from solvers.codesign.thistle.program import NOTHING_ELSE, CodesignProgram, DesignCost, RelaxedDesign

Solved = tuple[LayerCosts, RelaxedDesign]
"""A program, known by the costs of its layer, and its optimum."""

CONDENSATIONS = 3
"""Rounds in which a program is solved again with its negative terms, which a geometric program cannot have
and the first solve leaves out. The first round gains nearly all there is."""


@dataclass(frozen=True)
class RelaxedOptimum:
    """An optimum over real sizes, fan-outs and trip counts, with its loop orders.

    * ``objective``: pJ, cycles or their product, over all occurrences of all layers. It is counted by the
      expressions of Algorithm 1, which are not quite the cost model's.
    * ``hardware``: the values of the hardware's variables, by name.
    * ``costs``: the expressions of each layer's costs, which have its loop orders.
    * ``layer_costs``: what one run of each layer costs at the optimum.
    """

    objective: float
    hardware: dict[str, float]
    costs: tuple[LayerCosts, ...]
    layer_costs: tuple[DesignCost, ...]

    @classmethod
    def of(cls, found: RelaxedDesign, costs: Sequence[LayerCosts]) -> RelaxedOptimum:
        """The optimum that solving the program over layers with these ``costs`` has ``found``."""
        return cls(found.objective, found.hardware, tuple(costs), found.layers)

    @property
    def sizes_words(self) -> dict[str, float]:
        """The free sizes in words, by level name."""
        return sizes_of(self.hardware)

    @property
    def fanouts(self) -> dict[str, float]:
        """The free fan-outs in instances, by level name."""
        return fanouts_of(self.hardware)


@dataclass(frozen=True)
class LayerPrograms:
    """The programs of one layer of ``problem``, as if it were the only one.

    After each program ``may_go_on()`` is asked; once it is false no more are solved, unless none has been
    feasible yet.
    ``seconds_left()`` is the wall time that the next program may take.
    """

    problem: CodesignProblem
    weighted: WeightedLayer
    params: Params
    may_go_on: Callable[[], bool] = lambda: True
    seconds_left: Callable[[], float] = lambda: inf

    def optimum(self) -> RelaxedOptimum | None:
        """The best of all programs, or None if none is feasible.

        All are solved without their negative terms; the ``params.condensed`` best once more with them."""
        ranked = self._ranked
        if not ranked:
            return None
        condensed = (
            (costs, again)
            for costs, _ in ranked[: self.params.condensed]
            if self.may_go_on() and (again := self._optimum(self._program(costs), CONDENSATIONS))
        )
        costs, relaxed = min((ranked[0], *condensed), key=lambda pair: pair[1].objective)
        return RelaxedOptimum.of(relaxed, [costs])

    def best_at(self, hardware: dict[str, float], elsewhere: DesignCost) -> LayerCosts:
        """The costs of the program that is best on fixed ``hardware``; ``elsewhere`` is what other layers
        cost.

        Programs are tried in the order of their own optima. No hardware is better for a program than its own.
        So if the objective is a sum over layers, all further programs are worse once an own optimum reaches
        the best value so far. If no program fits the hardware, the result is the one with the best own
        optimum. The search also ends when the time is up.
        """
        best, lowest = self._ranked[0][0], float("inf")
        additive = self.problem.objective != "edp"
        for costs, own in self._ranked:
            if (additive and own.objective >= lowest) or not self.may_go_on():
                break
            found = self._optimum(self._program(costs, elsewhere), 0, hardware)
            if found is None:
                continue
            objective = found.layers[0].objective(self.problem.objective) * self.weighted.occurrences
            value = objective if additive else found.objective
            if value < lowest:
                best, lowest = costs, value
        return best

    @cached_property
    def _ranked(self) -> list[Solved]:
        """The feasible programs with their optima, best first; negative terms are left out.

        All combinations of loop orders are solved, or if there are more than ``params.most_programs``, those
        that a descent meets."""
        choices = LoopChoices(self._hardware, self.weighted.layer, self.params.split_windows)
        loops = choices.all() if choices.count <= self.params.most_programs else None
        if loops is None:
            effect = "one level's loop order was improved at a time, and not all combinations were solved"
            limit_reached("programs of a layer", self.params.most_programs, effect)
        solved = map(self._solved, loops) if loops else self._level_by_level(choices)
        return sorted(self._in_time(solved), key=lambda pair: pair[1].objective)

    def _in_time(self, solved: Iterable[Solved | None]) -> Iterator[Solved]:
        """The feasible ones of ``solved``, until the time is up; at least one if there is any."""
        found = False
        for pair in solved:
            if pair:
                found = True
                yield pair
            # Asked after infeasible programs, too: it raises OutOfTimeError when no time at all is left.
            if not self.may_go_on() and found:
                return

    @cached_property
    def _hardware(self) -> HardwareVariables:
        problem = self.problem
        return HardwareVariables(problem.family, problem.free_sizes, problem.free_fanouts)

    def _level_by_level(self, choices: LoopChoices) -> Iterator[Solved | None]:
        """The programs that are met by a descent over loop orders, one for every placement of the windows."""
        for placement in choices.placements:
            yield from self._descent(choices, placement)

    def _descent(self, choices: LoopChoices, placement: Placement) -> Iterator[Solved | None]:
        """Try all orders of one level while the other levels' stay, keep the best, and go on to the next
        level, until no level improves any more; every program met is handed out, None if infeasible."""
        orders = [choices.classes[0]] * choices.ordered_levels
        lowest, improved = float("inf"), True
        while improved:
            improved = False
            for level in range(len(orders)):
                for order in choices.classes:
                    trial = [*orders[:level], order, *orders[level + 1 :]]
                    solved = self._solved(choices.loops(trial, placement))
                    yield solved
                    if solved and solved[1].objective < lowest * (1 - 1e-6):
                        orders, lowest, improved = trial, solved[1].objective, True

    def _solved(self, loops: ClassLoops) -> Solved | None:
        """The program with these loops and its optimum on free hardware; None if it is infeasible."""
        costs = LayerCosts(self._hardware, self.weighted.layer, loops, self.params.literal)
        found = self._optimum(self._program(costs))
        return found and (costs, found)

    def _optimum(
        self, program: CodesignProgram, condensations: int = 0, at: dict[str, float] | None = None
    ) -> RelaxedDesign | None:
        """The program's optimum in the time that it may take; see :meth:`CodesignProgram.solve`."""
        return program.solve(condensations, at, self.seconds_left())

    def _program(self, costs: LayerCosts, elsewhere: DesignCost = NOTHING_ELSE) -> CodesignProgram:
        problem = self.problem
        layers = ((costs, self.weighted.occurrences),)
        return CodesignProgram(self._hardware, problem.area_um2, problem.objective, layers, elsewhere)
