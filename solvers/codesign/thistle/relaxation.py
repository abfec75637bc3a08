"""Thistle's relaxed optima: the best program of every layer, and one architecture for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from solvers.codesign.problem import CodesignProblem
from solvers.codesign.thistle.layer_costs import LayerCosts
from solvers.codesign.thistle.layer_programs import CONDENSATIONS, LayerPrograms, RelaxedOptimum
from solvers.codesign.thistle.params import Params
from solvers.codesign.thistle.program import CodesignProgram, DesignCost


def relaxed_optimum(
    problem: CodesignProblem,
    params: Params = Params(),  # noqa: B008
    may_go_on: Callable[[], bool] = lambda: True,
) -> RelaxedOptimum | None:
    """The relaxed optimum of all layers on one architecture; None if no architecture fits the area.

    For one layer it is the best of its programs, one per combination of loop orders (Thistle, sections II and
    III); for several layers as ``params.rule`` says. The result's ``sizes_words`` and ``fanouts`` (instances)
    are real numbers of at least 1 by level name, to be rounded: a start for any search over the same family.
    Once ``may_go_on()`` is false it is the best of the programs solved so far, at least one a layer.
    """
    programs = tuple(LayerPrograms(problem, weighted, params, may_go_on) for weighted in problem.layers)
    own = [optimum for each in programs if (optimum := each.optimum())]
    if len(own) < len(programs):
        return None
    if len(own) == 1:
        return own[0]
    joint = Joint(problem, programs, params.rounds, may_go_on)
    return joint.dominant(own) if params.rule == "dominant" else joint.optimum(own)


@dataclass(frozen=True)
class Joint:
    """One architecture for all layers: a program over all of them, and the layers' loop orders, in turn."""

    problem: CodesignProblem
    programs: tuple[LayerPrograms, ...]
    rounds: int
    may_go_on: Callable[[], bool] = lambda: True

    def dominant(self, own: Sequence[RelaxedOptimum]) -> RelaxedOptimum | None:
        """Every layer on the architecture, of their ``own`` ones, of the one that costs most there."""
        hardware = max(zip(own, self._occurrences, strict=True), key=self._contribution)[0].hardware
        return self._solved(self._reordered(hardware), hardware)

    def optimum(self, own: Sequence[RelaxedOptimum]) -> RelaxedOptimum | None:
        """The best from two starts: the orders of ``own`` optima, and those that suit :meth:`dominant`'s.

        So it is no worse than the dominant layer's architecture, but where the time ends it after the first.
        """
        first = self._improved([optimum.costs[0] for optimum in own])
        single = self.dominant(own) if first is None or self.may_go_on() else None
        found = [first, self._improved(single.costs) if single else None]
        return min((best for best in found if best), key=lambda best: best.objective, default=None)

    @property
    def _occurrences(self) -> list[int]:
        return [weighted.occurrences for weighted in self.problem.layers]

    def _contribution(self, layer: tuple[RelaxedOptimum, int]) -> float:
        optimum, occurrences = layer
        return optimum.layer_costs[0].times(occurrences).objective(self.problem.objective)

    def _improved(self, costs: Sequence[LayerCosts]) -> RelaxedOptimum | None:
        best = self._solved(costs)
        for _ in range(self.rounds):
            if best is None or not self.may_go_on():
                break
            again = self._solved(self._reordered(best.hardware, best.layer_costs))
            if again is None or again.objective > best.objective * (1 - 1e-6):
                break
            best = again
        return best

    def _solved(
        self, costs: Sequence[LayerCosts], hardware: dict[str, float] | None = None
    ) -> RelaxedOptimum | None:
        layers = tuple(zip(costs, self._occurrences, strict=True))
        program = CodesignProgram(costs[0].hardware, self.problem.area_um2, self.problem.objective, layers)
        found = program.solve(CONDENSATIONS, hardware)
        return found and RelaxedOptimum.of(found, costs)

    def _reordered(self, hardware: dict[str, float], runs: Sequence[DesignCost] = ()) -> list[LayerCosts]:
        """For every layer the orders that are best on ``hardware``, beside the others' ``runs``."""
        totals = [cost.times(count) for cost, count in zip(runs, self._occurrences, strict=False)]
        found = []
        for number, programs in enumerate(self.programs):
            others = [cost for index, cost in enumerate(totals) if index != number]
            elsewhere = DesignCost(
                sum(cost.energy_pj for cost in others), sum(cost.cycles for cost in others)
            )
            found.append(programs.best_at(hardware, elsewhere))
        return found
