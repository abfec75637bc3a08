"""CoSA's program for one choice of kept tensors: written down, solved per reuse pattern, read back.

In the paper's order: variables (Table II), every factor once and fan-outs (sections III-B and III-C),
capacities (Eq. 1 and 2), objective (Eq. 3 to 12), and the mapping that a solution means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel.mapping.mapping import LevelMapping, Mapping
from solvers.budget import Stopwatch
from solvers.mapping.cosa.capacity import Keep, buffers_of, cut_off, respect_capacity
from solvers.mapping.cosa.factors import assign_every_factor, respect_factor_rules, respect_fanouts
from solvers.mapping.cosa.linear import Engine, EngineGoal, IntegerProgram
from solvers.mapping.cosa.objectives import (
    CosaTraffic,
    TrafficScope,
    compute,
    difference,
    utilisation,
    weighted_sum,
)
from solvers.mapping.cosa.params import Params
from solvers.mapping.cosa.patterns import Pattern, reuse_patterns
from solvers.mapping.cosa.variables import Variables
from solvers.mapping.space.space import MappingSpace


@dataclass(frozen=True)
class Solved:
    """One program's answer: the mapping, None if none was found, and whether that is proven.

    ``proven``: the mapping is the program's optimum, or there is none. ``visited`` are mappings that the
    program went through on its way.
    """

    mapping: Mapping | None
    proven: bool
    visited: tuple[Mapping, ...] = ()


class CosaProgram:
    """The constraints for one choice of kept tensors, with a goal per reuse pattern."""

    def __init__(self, space: MappingSpace, keep: Keep, params: Params) -> None:
        self.integer = IntegerProgram()
        self._keep = keep
        self._variables = Variables(self.integer, space)
        self._buffers = buffers_of(space, keep, params)
        self._constrain()
        self._orders = reuse_patterns(space.layer)
        scope = TrafficScope.of(space.architecture, params)
        self._traffic = CosaTraffic(self._variables, keep, self._orders, scope)
        # One program is enough where the network is right above the MACs, as no order matters there, or where
        # the program itself chooses the order.
        one = scope.network == 0 or scope.network in scope.free_orders
        self.patterns = self._orders[:1] if one else self._orders
        self._params = params

    def goal(self, pattern: Pattern) -> EngineGoal:
        """The objective when the level above the network runs through its loops as ``pattern`` says."""
        comp, traffic = compute(self._variables), self._traffic.words(pattern)
        if self._params.surrogate == "difference":
            return difference(comp, traffic, self._params)
        return weighted_sum(utilisation(self._variables, self._buffers), comp, traffic, self._params)

    def solve(self, pattern: Pattern, engine: Engine, seconds: float) -> Solved:
        """The optimum for ``pattern`` whose tiles fit in whole words, if ``seconds`` are enough.

        The capacity rows are tangents and let some overfull tiles through. Each of those is cut off and the
        program solved again; the cuts hold for every pattern, so they stay in the engine.
        """
        goal, clock = self.goal(pattern), Stopwatch()
        while (left := seconds - clock.wall_seconds) > 0:
            answer = engine.minimise(goal, left)
            if answer.values is None:
                return Solved(None, answer.proven)
            mapping = self._mapping(answer.values, pattern)
            if not self._cut_off_overfull(mapping, answer.values, engine):
                return Solved(mapping, answer.proven)
        return Solved(None, False)

    def _cut_off_overfull(self, mapping: Mapping, values: Sequence[int], engine: Engine) -> bool:
        """Cut off the tiles of a solution that do not fit in whole words; whether there are any."""
        overfull = [b for b in self._buffers if not b.fits(mapping.tiles[b.level])]
        for buffer in overfull:
            engine.require(cut_off(self._variables, buffer, values, mapping.tiles[buffer.level]))
        return bool(overfull)

    def _constrain(self) -> None:
        assign_every_factor(self._variables)
        respect_fanouts(self._variables)
        respect_factor_rules(self._variables)
        for buffer in self._buffers:
            respect_capacity(self._variables, buffer)

    def _mapping(self, values: Sequence[int], pattern: Pattern) -> Mapping:
        orders = {self._traffic.network: pattern}
        for level in range(self._variables.depth):
            if (chosen := self._traffic.chosen_pattern(values, level)) is not None:
                orders[level] = chosen
        return Mapping(tuple(self._level(values, level, orders) for level in range(self._variables.depth)))

    def _level(self, values: Sequence[int], level: int, orders: dict[int, Pattern]) -> LevelMapping:
        temporal, x, y = (self._variables.block(values, level, kind) for kind in ("temporal", "x", "y"))
        pattern = orders.get(level) or self._natural(level)
        # A pattern is a class of all orders; those that the user asks for are put right afterwards, and the
        # savings that they forbid are not counted (``CosaTraffic``).
        ordered = self._variables.level_rules[level].ordered(pattern.ordered(temporal))
        return LevelMapping(ordered, x, y, self._keep[level])

    def _natural(self, level: int) -> Pattern:
        """The order that saves most for the tensor kept just inside ``level``, if it is the only one."""
        inside = self._keep[level - 1] if level else frozenset[str]()
        return max(self._orders, key=lambda pattern: pattern.stationary[:1] in {(name,) for name in inside})
