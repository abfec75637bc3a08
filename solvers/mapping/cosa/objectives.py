"""CoSA's objectives as linear expressions: utilisation, compute, and traffic less what loop orders save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from costmodel.hardware.architecture import Architecture
from costmodel.workload.network import Tensor
from solvers.mapping.cosa.capacity import CapacityLimit, Keep
from solvers.mapping.cosa.linear import UNIT, EngineGoal, Row, Terms, added, summed
from solvers.mapping.cosa.params import Boundaries, Params
from solvers.mapping.cosa.patterns import Pattern
from solvers.mapping.cosa.variables import PrimeGroup, Variables

TIE_BREAK = 2.0**-8
"""What the sum of traffic and compute weighs against their maximum in the balanced objective."""


def network_level(architecture: Architecture) -> int:
    """The level above the network on chip: the outermost one that feeds several instances."""
    fed = [index for index, level in enumerate(architecture.levels) if level.fanout > 1]
    return fed[-1] if fed else len(architecture.levels) - 1


@dataclass(frozen=True)
class Boundary:
    """Where ``tensor`` moves between ``parent`` and the next inner level that keeps it (-1: the MAC)."""

    tensor: Tensor
    child: int
    parent: int


def boundary_across(tensor: Tensor, keep: Keep, level: int) -> Boundary:
    """The transfer of ``tensor`` from outside or at ``level`` to the inside of it."""
    parent = next(i for i in range(level, len(keep)) if tensor.name in keep[i])
    child = next((i for i in range(level - 1, -1, -1) if tensor.name in keep[i]), -1)
    return Boundary(tensor, child, parent)


def utilisation(variables: Variables, buffers: list[CapacityLimit]) -> Terms:
    """Util: the log of the used words, summed over buffers and tensors (section III-D.1)."""
    held = {(tensor, buffer.level) for buffer in buffers for tensor in buffer.tensors}
    ordered = sorted(held, key=lambda item: (item[1], item[0].name))
    return summed(variables.steps(tensor, level) for tensor, level in ordered)


def compute(variables: Variables) -> Terms:
    """Comp: the log of the sequential steps (section III-D.2)."""
    return variables.loops(variables.layer.sizes, variables.at(range(variables.depth), "temporal"))


class CosaTraffic:
    """Traf (section III-D.3): log words over the network on chip and out of DRAM, summed over the tensors.

    With ``boundaries`` "all" it is the log words between all pairs of neighbouring levels that keep a tensor.

    The loop order of the network's level is given by the pattern that a program is solved for; DRAM's is
    chosen by the program, one binary a pattern. Any other level, for the one tensor kept just inside it,
    runs through its loops in the order that saves the most.
    """

    def __init__(
        self,
        variables: Variables,
        keep: Keep,
        network: int,
        patterns: Sequence[Pattern],
        boundaries: Boundaries,
    ) -> None:
        self._variables = variables
        self._keep = keep
        self.network = network
        self.dram = variables.depth - 1
        self._patterns = patterns
        crossed = (network, self.dram) if boundaries == "network" else range(1, variables.depth)
        found = [boundary_across(t, keep, level) for level in crossed for t in variables.layer.tensors]
        self._boundaries = found if boundaries == "network" else list(dict.fromkeys(found))
        self._chosen = [variables.program.variable(1) for _ in patterns]
        variables.program.require(dict.fromkeys(self._chosen, 1.0), low=1, high=1)
        self._savings = {b: self._saving(b) for b in self._boundaries if b.child >= 0}
        self._unsaved = summed(self._without_reuse(boundary) for boundary in self._boundaries)

    def words(self, pattern: Pattern) -> Terms:
        """Traf when the level above the network runs through its loops as ``pattern`` says."""
        saved = summed(self._saved(boundary, pattern) for boundary in self._boundaries)
        return added((1.0, self._unsaved), (-1.0, saved))

    def dram_pattern(self, values: Sequence[int]) -> Pattern:
        """The pattern of DRAM's loops in a solution."""
        return self._patterns[[values[chosen] for chosen in self._chosen].index(1)]

    def _saved(self, boundary: Boundary, pattern: Pattern) -> Terms:
        saved: list[Terms] = []
        for level, per_dim in self._savings.get(boundary, {}).items():
            given = level == self.network != self.dram
            free = pattern.free_dims(boundary.tensor.name) if given else per_dim
            saved += [terms for dim, terms in per_dim.items() if dim in free]
        return summed(saved)

    def _without_reuse(self, boundary: Boundary) -> Terms:
        """Tile (D, Eq. 7), distinct copies (L, Eq. 8), temporal loops outside the child (T, Eq. 9, 10)."""
        v, tensor = self._variables, boundary.tensor
        child, parent, every = boundary.child, boundary.parent, v.layer.sizes
        return summed(
            [
                v.steps(tensor, child),
                v.loops(tensor.dims, v.at(range(child + 1, parent + 1), "x", "y")),
                v.loops(every, v.at(range(parent + 1, v.depth), "x", "y")),
                v.loops(every, v.at(range(child + 1, v.depth), "temporal")),
            ]
        )

    def _saving(self, boundary: Boundary) -> dict[int, dict[str, Terms]]:
        """Level -> irrelevant dim -> log of its loops there that the level's order can save."""
        first = boundary.child + 1
        levels = {self.dram}
        if len(self._keep[boundary.child]) == 1:
            levels.add(first)
        if first <= self.network:
            levels.add(self.network)
        return {level: self._saved_at(boundary, level) for level in sorted(levels)}

    def _saved_at(self, boundary: Boundary, level: int) -> dict[str, Terms]:
        """Loops of irrelevant dims at ``level`` cause no transfer if nothing inside them moves the tensor.

        At the first level outside the child that is a matter of this level's order alone; further out no loop
        of the levels between may move it either. DRAM's order is one of the program's choices.
        """
        v, tensor, first = self._variables, boundary.tensor, boundary.child + 1
        still = [self._nothing_moves(tensor, first, level)] if level > first else []
        saved: dict[str, Terms] = {}
        for group in v.groups:
            if group.dim in tensor.dims:
                continue
            conditions = [*still, self._allowing(tensor, group.dim)] if level == self.dram else still
            here = v.count(group, v.at([level], "temporal"))
            terms = self._saved_if(group, here, conditions)
            saved[group.dim] = summed([saved.get(group.dim, {}), terms])
        return saved

    def _allowing(self, tensor: Tensor, dim: str) -> Terms:
        """1 if DRAM runs through its loops in a pattern that saves those of ``dim``, else 0."""
        pairs = zip(self._chosen, self._patterns, strict=True)
        return {chosen: 1.0 for chosen, pattern in pairs if dim in pattern.free_dims(tensor.name)}

    def _nothing_moves(self, tensor: Tensor, first: int, level: int) -> Terms:
        """At most 1 if no loop from level ``first`` to inside ``level`` is relevant to ``tensor``, else 0."""
        v = self._variables
        between = v.at(range(first, level), "temporal")
        moving = summed(v.count(group, between) for group in v.groups if group.dim in tensor.dims)
        still = v.program.variable(1)
        most = float(sum(v.program.upper[index] for index in moving))
        v.program.require(added((1.0, moving), (most, {still: 1.0})), high=most)
        return {still: 1.0}

    def _saved_if(self, group: PrimeGroup, here: Terms, conditions: Sequence[Terms]) -> Terms:
        """The log of the loops ``here`` of ``group`` if all ``conditions`` are 1, at most 0 otherwise."""
        program = self._variables.program
        if not conditions:
            return added((log2(group.prime), here))
        saved = program.variable(group.count)
        program.require(added((1.0, {saved: 1.0}), (-1.0, here)), high=0)
        for condition in conditions:
            program.require(added((1.0, {saved: 1.0}), (-float(group.count), condition)), high=0)
        return {saved: log2(group.prime)}


def weighted_sum(util: Terms, comp: Terms, traffic: Terms, params: Params) -> EngineGoal:
    """The paper's overall objective (Eq. 12), to be minimised."""
    parts = (
        (-params.utilisation_weight, util),
        (params.compute_weight, comp),
        (params.traffic_weight, traffic),
    )
    return EngineGoal(added(*(part for part in parts if part[0])))


def balanced(worst: int, comp: Terms, traffic: Terms, params: Params) -> EngineGoal:
    """max(w * Traf, Comp): the variable ``worst``, in units of :data:`UNIT` bits, is at least both.

    The paper's difference w * Traf - Comp (Eq. 13) is smallest for a schedule that wastes steps. What the
    maximum leaves open is decided by a trace of both.
    """
    traffic = added((params.traffic_weight, traffic))
    rows = tuple(Row(added((-UNIT, {worst: 1.0}), (1.0, side)), high=0) for side in (traffic, comp))
    return EngineGoal(added((UNIT, {worst: 1.0}), (TIE_BREAK, traffic), (TIE_BREAK, comp)), rows)
