"""Thistle's relaxed optima: the best program of every layer, and one architecture for all of them.

A *program* is the geometric program of one layer with fixed loop orders: its variables are the trip counts of
the loops and the hardware's sizes and fan-outs, all real numbers (hence *relaxed*).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from solvers.codesign.problem import CodesignProblem
from solvers.codesign.thistle.layer_costs import LayerCosts
from solvers.codesign.thistle.layer_programs import CONDENSATIONS, LayerPrograms, RelaxedOptimum
from solvers.codesign.thistle.params import Params
from solvers.codesign.thistle.program import CodesignProgram, DesignCost


def relaxed_optimum(
    problem: CodesignProblem,
    params: Params = Params(),  # noqa: B008
    may_go_on: Callable[[], bool] = lambda: True,
    seconds_left: Callable[[], float] = lambda: inf,
) -> RelaxedOptimum | None:
    """The relaxed optimum of all layers on one architecture; None if no architecture fits the area.

    For one layer it is the best of its programs, one for each combination of loop orders (Thistle, sections
    II and III). For several layers ``params.rule`` says how they get one architecture. The result's
    ``sizes_words`` and ``fanouts`` (instances) are real numbers of at least 1 by level name; a caller rounds
    them (``members.py``). Once ``may_go_on()`` is false the result is the best of the programs solved so far,
    at least one for each layer. ``seconds_left()`` is the wall time that the next program may take. Where
    that ends the program over all layers, the architecture is the dominant layer's own, and the objective is
    infinite.
    """
    found = relaxed_optima(problem, params, may_go_on, seconds_left)
    return found[0] if found else None


def relaxed_optima(
    problem: CodesignProblem,
    params: Params = Params(),  # noqa: B008
    may_go_on: Callable[[], bool] = lambda: True,
    seconds_left: Callable[[], float] = lambda: inf,
) -> tuple[RelaxedOptimum, ...]:
    """What whole architectures are to be looked for around: :func:`relaxed_optimum` first, None of them if
    there is none.

    Under the rule "joint" the dominant layer's own architecture is the second one, where there is time for
    it. Its relaxed objective is no better, but rounding sizes and cutting loops into whole trips costs more
    at one point than at another, which can be more than the difference of the two.
    """
    programs = tuple(
        LayerPrograms(problem, weighted, params, may_go_on, seconds_left) for weighted in problem.layers
    )
    own = [optimum for each in programs if (optimum := each.optimum())]
    if len(own) < len(programs):
        return ()
    if len(own) == 1:
        return (own[0],)
    joint = Joint(problem, programs, params.rounds, may_go_on, seconds_left)
    if params.rule == "dominant":
        return (joint.dominant(own) or joint.unsolved(own),)
    best, dominant = joint.optimum(own)
    if best is None:
        return (joint.unsolved(own),)
    return (best,) if dominant is None else (best, dominant)


@dataclass(frozen=True)
class Joint:
    """Finds one architecture for all layers.

    One program over all layers needs every layer's loop orders; the best orders of a layer depend on the
    architecture. So the two are improved in turn, for at most ``rounds`` rounds. ``programs`` has the
    programs of each layer by itself.
    """

    problem: CodesignProblem
    programs: tuple[LayerPrograms, ...]
    rounds: int
    may_go_on: Callable[[], bool] = lambda: True
    seconds_left: Callable[[], float] = lambda: inf

    def dominant(self, own: Sequence[RelaxedOptimum]) -> RelaxedOptimum | None:
        """All layers on one layer's own architecture (section V-A).

        ``own`` are the optima of the layers by themselves. The layer that costs most on its own architecture,
        over all its occurrences, gives the architecture; each layer then has the best loop orders there."""
        hardware = self._dominant_hardware(own)
        return self._solved(self._reordered(hardware), hardware)

    def unsolved(self, own: Sequence[RelaxedOptimum]) -> RelaxedOptimum:
        """The dominant layer's own architecture where no program over all layers has an optimum, for want of
        time or because a layer's tiles do not fit there: a point to round, its objective infinite."""
        costs = tuple(optimum.costs[0] for optimum in own)
        runs = tuple(optimum.layer_costs[0] for optimum in own)
        return RelaxedOptimum(inf, self._dominant_hardware(own), costs, runs)

    def _dominant_hardware(self, own: Sequence[RelaxedOptimum]) -> dict[str, float]:
        return max(zip(own, self._occurrences, strict=True), key=self._contribution)[0].hardware

    def optimum(self, own: Sequence[RelaxedOptimum]) -> tuple[RelaxedOptimum | None, RelaxedOptimum | None]:
        """The best of two descents, which start from different loop orders; and :meth:`dominant`.

        One starts from the orders of the layers' ``own`` optima, the other from those of :meth:`dominant`. So
        the result is no worse than the dominant layer's architecture, unless time ends it before the second.
        """
        first = self._improved([optimum.costs[0] for optimum in own])
        single = self.dominant(own) if first is None or self.may_go_on() else None
        found = [first, self._improved(single.costs) if single else None]
        best = min((best for best in found if best), key=lambda best: best.objective, default=None)
        return best, single

    @property
    def _occurrences(self) -> list[int]:
        return [weighted.occurrences for weighted in self.problem.layers]

    def _contribution(self, layer: tuple[RelaxedOptimum, int]) -> float:
        """What all occurrences of a layer cost on its own architecture, in the objective's unit."""
        optimum, occurrences = layer
        return optimum.layer_costs[0].times(occurrences).objective(self.problem.objective)

    def _improved(self, costs: Sequence[LayerCosts]) -> RelaxedOptimum | None:
        """The optimum of all layers, beginning with these loop orders: the architecture is solved for, then
        the layers' orders are chosen anew on it, as long as that is an improvement."""
        best = self._solved(costs)
        for _ in range(self.rounds):
            if best is None or not self.may_go_on():
                break
            # Each half step keeps the other half's choice within reach, so the objective cannot rise but for
            # the solver's tolerance and condensation; a step that gains less than 1e-6 is the end.
            again = self._solved(self._reordered(best.hardware, best.layer_costs))
            if again is None or again.objective > best.objective * (1 - 1e-6):
                break
            best = again
        return best

    def _solved(
        self, costs: Sequence[LayerCosts], hardware: dict[str, float] | None = None
    ) -> RelaxedOptimum | None:
        """The program over all layers with these loop orders, on free or on fixed ``hardware``."""
        layers = tuple(zip(costs, self._occurrences, strict=True))
        program = CodesignProgram(costs[0].hardware, self.problem.area_um2, self.problem.objective, layers)
        rounds = CONDENSATIONS if self.may_go_on() else 0
        found = program.solve(rounds, hardware, self.seconds_left())
        return found and RelaxedOptimum.of(found, costs)

    def _reordered(self, hardware: dict[str, float], runs: Sequence[DesignCost] = ()) -> list[LayerCosts]:
        """For every layer the loop orders that are best on ``hardware``.

        ``runs`` is what one run of each layer costs there, in which case the sum over the other layers is
        added: with energy times cycles as the objective, what is best for a layer depends on the others."""
        totals = [cost.times(count) for cost, count in zip(runs, self._occurrences, strict=False)]
        found = []
        for number, programs in enumerate(self.programs):
            others = [cost for index, cost in enumerate(totals) if index != number]
            elsewhere = DesignCost(
                sum(cost.energy_pj for cost in others), sum(cost.cycles for cost in others)
            )
            found.append(programs.best_at(hardware, elsewhere))
        return found
