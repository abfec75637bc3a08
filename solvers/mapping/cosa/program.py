"""CoSA's program for one choice of kept tensors: written down, solved per reuse pattern, read back.

In the paper's order: variables (Table II), every factor once and fan-outs (sections III-B and III-C),
capacities (Eq. 1 and 2), objective (Eq. 3 to 12), and the mapping that a solution means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2

from costmodel.mapping.mapping import LevelMapping, Mapping
from solvers.budget import Stopwatch
from solvers.mapping.cosa.capacity import Keep, buffers_of, cut_off, respect_capacity
from solvers.mapping.cosa.factors import assign_every_factor, respect_factor_rules, respect_fanouts
from solvers.mapping.cosa.linear import UNIT, Engine, EngineGoal, IntegerProgram
from solvers.mapping.cosa.objectives import (
    CosaTraffic,
    balanced,
    compute,
    network_level,
    utilisation,
    weighted_sum,
)
from solvers.mapping.cosa.params import Params
from solvers.mapping.cosa.patterns import Pattern, reuse_patterns
from solvers.mapping.cosa.variables import Variables
from solvers.mapping.space.space import MappingSpace


@dataclass(frozen=True)
class Solved:
    """One program's answer: the mapping, None if none was found, and whether its optimality was proven."""

    mapping: Mapping | None
    proven: bool


class CosaProgram:
    """The constraints for one choice of kept tensors, with a goal per reuse pattern."""

    def __init__(self, space: MappingSpace, keep: Keep, params: Params) -> None:
        self.integer = IntegerProgram()
        self._keep = keep
        self._variables = Variables(self.integer, space)
        self._buffers = buffers_of(space, keep, params)
        self._constrain()
        self._orders = reuse_patterns(space.layer)
        network = network_level(space.architecture)
        self._traffic = CosaTraffic(self._variables, keep, network, self._orders, params.boundaries)
        # Right above the MACs, or at DRAM (whose order the program chooses), one program is all there is.
        self.patterns = self._orders if 0 < network < self._traffic.dram else self._orders[:1]
        self._params = params
        self._worst = self._most_logs() if params.surrogate == "balanced" else None

    def goal(self, pattern: Pattern) -> EngineGoal:
        """The objective when the level above the network runs through its loops as ``pattern`` says."""
        comp, traffic = compute(self._variables), self._traffic.words(pattern)
        if self._worst is not None:
            return balanced(self._worst, comp, traffic, self._params)
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
            overfull = [b for b in self._buffers if not b.fits(mapping.tiles[b.level])]
            if not overfull:
                return Solved(mapping, answer.proven)
            for buffer in overfull:
                tile = mapping.tiles[buffer.level]
                engine.require(cut_off(self._variables, buffer, answer.values, tile))
        return Solved(None, False)

    def _constrain(self) -> None:
        assign_every_factor(self._variables)
        respect_fanouts(self._variables)
        respect_factor_rules(self._variables)
        for buffer in self._buffers:
            respect_capacity(self._variables, buffer)

    def _most_logs(self) -> int:
        """The variable of the balanced objective; its upper limit is above any traffic or compute."""
        layer = self._variables.layer
        most = max(1.0, self._params.traffic_weight) * 4 * len(layer.tensors) * log2(2 * layer.macs)
        return self.integer.variable(ceil(most / UNIT))

    def _mapping(self, values: Sequence[int], pattern: Pattern) -> Mapping:
        orders = {self._traffic.network: pattern, self._traffic.dram: self._traffic.dram_pattern(values)}
        return Mapping(tuple(self._level(values, level, orders) for level in range(self._variables.depth)))

    def _level(self, values: Sequence[int], level: int, orders: dict[int, Pattern]) -> LevelMapping:
        temporal, x, y = (self._variables.block(values, level, kind) for kind in ("temporal", "x", "y"))
        pattern = orders.get(level) or self._natural(level)
        # Patterns know nothing of loop orders that the user asks for: those are put right afterwards.
        ordered = self._variables.level_rules[level].ordered(pattern.ordered(temporal))
        return LevelMapping(ordered, x, y, self._keep[level])

    def _natural(self, level: int) -> Pattern:
        """The order that saves most for the tensor kept just inside ``level``, if it is the only one."""
        inside = self._keep[level - 1] if level else frozenset[str]()
        return max(self._orders, key=lambda pattern: pattern.stationary[:1] in {(name,) for name in inside})
