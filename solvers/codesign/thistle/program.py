"""The geometric program of one architecture and one or several layers (Eq 5, for any levels and layers)."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from solvers.codesign.thistle.geometric_program import GeometricProgram, Optimum, PosynomialLimit
from solvers.codesign.thistle.hardware import FANOUT, SIZE, HardwareVariables
from solvers.codesign.thistle.layer_costs import CYCLES, LayerCosts
from solvers.mapping.problem import Objective
from solvers.mapping.thistle.convex.signomial import Signomial, monomial, variable

TOTAL_ENERGY, TOTAL_CYCLES = variable("total.energy"), variable("total.cycles")
"""Over all layers and occurrences, per MAC."""


class DesignCost(NamedTuple):
    """Energy in pJ, and cycles (0 where neither the objective nor leakage needs them)."""

    energy_pj: float
    cycles: float

    def objective(self, name: Objective) -> float:
        """The number that the problem's objective names."""
        if name == "energy":
            return self.energy_pj
        return self.cycles if name == "cycles" else self.energy_pj * self.cycles

    def times(self, occurrences: int) -> DesignCost:
        """What so many runs cost."""
        return DesignCost(self.energy_pj * occurrences, self.cycles * occurrences)


NOTHING_ELSE = DesignCost(0.0, 0.0)


class RelaxedDesign(NamedTuple):
    """An optimum: the objective in the cost model's units, the hardware's variables, each layer's one run."""

    objective: float
    hardware: dict[str, float]
    layers: tuple[DesignCost, ...]


@dataclass(frozen=True)
class CodesignProgram:
    """Eq. 5: choose the hardware's variables and all trip counts of layers whose loop orders are fixed.

    ``layers`` are (costs, occurrences); ``elsewhere`` is what other layers add to the sums.
    """

    hardware: HardwareVariables
    area_um2: float
    objective: Objective
    layers: tuple[tuple[LayerCosts, int], ...]
    elsewhere: DesignCost = NOTHING_ELSE

    def solve(
        self,
        condensations: int = 0,
        at: ReadOnlyDict[str, float] | None = None,
        seconds: float = inf,
    ) -> RelaxedDesign | None:
        """The optimum, with the hardware's variables at the values ``at`` if given.

        None if nothing is feasible, or Clarabel did not get there in ``seconds`` of wall time."""
        limits = tuple(_with_constants(limit, at or {}) for limit in self._limits())
        whole = tuple(
            _of_layer(number, trips)
            for number, (costs, _) in enumerate(self.layers)
            for trips in costs.whole_dims
        )
        # All variables are counts of at least 1, but for the totals: per MAC they may well be below 1.
        positive = TOTAL_ENERGY.variables | TOTAL_CYCLES.variables
        found = GeometricProgram(self._goal, limits, whole, positive).solve(condensations, seconds)
        return found and self._read(found, at or {})

    @property
    def _goal(self) -> Signomial:
        goals = {"energy": TOTAL_ENERGY, "cycles": TOTAL_CYCLES, "edp": TOTAL_ENERGY * TOTAL_CYCLES}
        return goals[self.objective]

    @property
    def _timed(self) -> bool:
        """Whether cycles matter: else nothing would hold them down."""
        return self.objective != "energy" or any(costs.has_leakage for costs, _ in self.layers)

    def _limits(self) -> Iterator[PosynomialLimit]:
        yield self.hardware.area_limit(self.area_um2)
        for number, (costs, _) in enumerate(self.layers):
            for limit in (*costs.space_limits, *(costs.cycle_limits if self._timed else ())):
                yield PosynomialLimit(_of_layer(number, limit.expression), _of_layer(number, limit.at_most))
        if self.objective != "cycles":
            yield self._total(
                [costs.energy for costs, _ in self.layers], self.elsewhere.energy_pj, TOTAL_ENERGY
            )
        if self.objective != "energy":
            yield self._total([CYCLES for _ in self.layers], self.elsewhere.cycles, TOTAL_CYCLES)

    def _total(self, costs: list[Signomial], elsewhere: float, total: Signomial) -> PosynomialLimit:
        terms = list((monomial(elsewhere) * (1 / self._macs)).terms)
        for number, (cost, (_, occurrences)) in enumerate(zip(costs, self.layers, strict=True)):
            terms += (_of_layer(number, cost) * (occurrences / self._macs)).terms
        return PosynomialLimit(Signomial.collected(terms), total)

    @property
    def _macs(self) -> int:
        """What the sums are divided by, to be numbers of a moderate size."""
        return sum(costs.layer.macs * occurrences for costs, occurrences in self.layers)

    def _read(self, found: Optimum, at: ReadOnlyDict[str, float]) -> RelaxedDesign:
        hardware = {name: value for name, value in found.point.items() if _is_hardware(name)} | dict(at)
        layers = tuple(
            self._layer_cost(costs, _layer_point(found.point, number) | hardware)
            for number, (costs, _) in enumerate(self.layers)
        )
        # The limits have energy and cycles per MAC; their product is per MAC squared.
        scale = self._macs ** (2 if self.objective == "edp" else 1)
        return RelaxedDesign(found.value * scale, hardware, layers)

    def _layer_cost(self, costs: LayerCosts, point: dict[str, float]) -> DesignCost:
        return DesignCost(costs.energy.at(point), point[CYCLES_NAME] if self._timed else 0.0)


(CYCLES_NAME,) = CYCLES.variables


def _with_constants(limit: PosynomialLimit, values: ReadOnlyDict[str, float]) -> PosynomialLimit:
    return PosynomialLimit(limit.expression.with_constants(values), limit.at_most.with_constants(values))


def _is_hardware(name: str) -> bool:
    return name.startswith((SIZE, FANOUT))


def _of_layer(number: int, expression: Signomial) -> Signomial:
    """The expression with the layer's number before its own variables; layers have the hardware's in common.

    The first layer's keep their names.
    """
    # With a single layer, by far the most frequent program, no name has to be changed.
    if not number:
        return expression
    return Signomial.collected(
        (
            tuple(sorted((name if _is_hardware(name) else f"{number}:{name}", e) for name, e in powers)),
            coefficient,
        )
        for powers, coefficient in expression.terms
    )


def _layer_point(point: ReadOnlyDict[str, float], number: int) -> dict[str, float]:
    prefix = f"{number}:" if number else ""
    return {name.removeprefix(prefix): value for name, value in point.items() if name.startswith(prefix)}
