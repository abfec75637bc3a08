"""The co-design problem: sizes, fan-outs and one mapping a layer, under an area budget."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import Evaluation, evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.mapping import violations as mapping_violations
from costmodel.workload.network import Layer, distinct_layers
from solvers.codesign.family import ArchitectureFamily
from solvers.mapping.problem import OBJECTIVES, Objective

AREA_ROUNDING = 1 + 1e-9
"""How far an area may lie above the budget: it is a sum of floating-point numbers."""


@dataclass(frozen=True)
class WeightedLayer:
    """A layer and how often it runs."""

    layer: Layer
    occurrences: int = 1

    def __post_init__(self) -> None:
        count = self.occurrences
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise InputError(
                f"layer {self.layer.name}", "a whole number of at least 1", count, key="occurrences"
            )


@dataclass(frozen=True)
class CodesignProblem:
    """Minimise ``objective`` over the members of ``family`` within ``area_um2`` and mappings of ``layers``.

    Energies (pJ) and cycles add up over all occurrences of all layers; "edp" is the product of the sums.
    ``free_sizes`` and ``free_fanouts`` name the levels whose size (words) and whose fan-out below (instances)
    are chosen; everything else is the family's base.
    """

    family: ArchitectureFamily
    layers: tuple[WeightedLayer, ...]
    area_um2: float
    objective: Objective = "energy"
    free_sizes: tuple[str, ...] = ()
    free_fanouts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        where = "co-design problem"
        if not self.layers:
            raise InputError(where, "at least one layer", "none", key="layers")
        if self.objective not in OBJECTIVES:
            raise InputError(where, f"one of {', '.join(OBJECTIVES)}", self.objective, key="objective")
        if self.family.base.timing is not None:
            # Its constants belong to the machine that was measured: nobody knows those of another size.
            remedy = "Leave out timing in a copy of the architecture's file"
            raise InputError(where, "an architecture without timing", self.family.base.name, remedy)
        if self.family.base.precision is not None:
            remedy = "Leave out precision in a copy of the architecture's file"
            expected = "an architecture without a precision: its programs count words"
            raise InputError(where, expected, self.family.base.name, remedy)
        self._check_free()
        if not isfinite(self.area_um2) or self.area_um2 <= 0:
            raise InputError(where, "an area above 0 um2", self.area_um2, key="area_um2")

    def _check_free(self) -> None:
        where, base = "co-design problem", self.family.base
        if not self.free_sizes and not self.free_fanouts:
            remedy = "Without, it is a mapping problem a layer"
            raise InputError(where, "a free size or fan-out", "none", remedy, key="free_sizes")
        for key in ("free_sizes", "free_fanouts"):
            names = getattr(self, key)
            if len(set(names)) < len(names):
                raise InputError(where, "every level once", names, key=key)
            for name in names:
                base.index(name)
        for name in self.free_sizes:
            law = self.family.law(name)
            # A size that costs neither energy nor area has no optimum: larger would always be at least as
            # good.
            if not law.energy_exponent and not law.um2_per_word:
                self._refuse("free_sizes", f"an energy or area of {name} that grows with its size")
        for name in self.free_fanouts:
            inside = base.levels[: base.index(name)]
            if not base.compute.area_um2 and not any(level.area_um2 for level in inside):
                self._refuse("free_fanouts", f"areas of what {name} fans out to")

    def _refuse(self, key: str, expected: str) -> None:
        """What takes nothing would be infinitely large."""
        where = f"co-design of {self.family.source}"
        remedy = "Name a technology with laws of area in the architecture's file, or free something else"
        raise InputError(where, expected, "none", remedy, key=key)

    @classmethod
    def of(
        cls,
        family: ArchitectureFamily,
        layers: Iterable[Layer],
        area_um2: float | None = None,
        objective: Objective = "energy",
    ) -> CodesignProblem:
        """All that the paper leaves free: every size and fan-out of the base above 1.

        Layers of equal shape are one, weighted by how often it occurs. ``area_um2`` None: the base's area.
        """
        weighted = tuple(WeightedLayer(layer, count) for layer, count in distinct_layers(layers))
        levels = family.base.levels
        sizes = tuple(level.name for level in levels if (level.size_words or 1) > 1)
        fanouts = tuple(level.name for level in levels if level.fanout > 1)
        budget = family.base.area_um2 if area_um2 is None else area_um2
        return cls(family, weighted, budget, objective, sizes, fanouts)

    def member(self, sizes_words: ReadOnlyDict[str, int], fanouts: ReadOnlyDict[str, int]) -> Architecture:
        """The family's member with these sizes (words), and so many instances in a line for each fan-out."""
        sides = {name: self.family.in_line(name, instances) for name, instances in fanouts.items()}
        return self.family.member(sizes_words, sides)

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates of all occurrences."""
        return sum(weighted.occurrences * weighted.layer.macs for weighted in self.layers)


@dataclass(frozen=True)
class CodesignSolution:
    """A member of the family, and a mapping for each of the problem's layers, in their order."""

    architecture: Architecture
    mappings: tuple[Mapping, ...]


@dataclass(frozen=True)
class CodesignEvaluation:
    """What the cost model says: energies and cycles summed over all occurrences, and layer by layer."""

    energy_pj: float
    cycles: int
    layers: tuple[Evaluation, ...]
    """One occurrence of each of the problem's layers."""

    @property
    def edp_pj_cycles(self) -> float:
        return self.energy_pj * self.cycles


def evaluated(problem: CodesignProblem, solution: CodesignSolution) -> CodesignEvaluation:
    """``solution`` through :func:`costmodel.mapping.evaluate.evaluate`; InputError lists violations."""
    if reasons := violations(problem, solution):
        where = f"co-design of {solution.architecture.name}"
        raise InputError(where, "a solution without violations", "; ".join(reasons))
    found = tuple(
        evaluate(solution.architecture, weighted.layer, mapping)
        for weighted, mapping in zip(problem.layers, solution.mappings, strict=True)
    )
    counts = [weighted.occurrences for weighted in problem.layers]
    return CodesignEvaluation(
        sum(count * each.energy_pj for count, each in zip(counts, found, strict=True)),
        sum(count * each.cycles for count, each in zip(counts, found, strict=True)),
        found,
    )


def violations(problem: CodesignProblem, solution: CodesignSolution) -> list[str]:
    """Why ``solution`` is not one: membership in the family, area, and every mapping; empty if it is."""
    if len(solution.mappings) != len(problem.layers):
        return [f"{len(solution.mappings)} mappings for {len(problem.layers)} layers"]
    reasons = []
    # The whole architecture is compared with the member that the family makes of its free sizes. So nothing
    # else can have been changed, energies and areas that follow from sizes included.
    if solution.architecture != _as_member(problem, solution.architecture):
        free = ", ".join(dict.fromkeys((*problem.free_sizes, *problem.free_fanouts)))
        reasons.append(f"{solution.architecture.name} differs from the family in more than {free}")
    if solution.architecture.area_um2 > problem.area_um2 * AREA_ROUNDING:
        reasons.append(
            f"{solution.architecture.area_um2:.1f} um2 of area, {problem.area_um2:.1f} are allowed"
        )
    for weighted, mapping in zip(problem.layers, solution.mappings, strict=True):
        found = mapping_violations(solution.architecture, weighted.layer, mapping)
        reasons += [f"{weighted.layer.name}: {reason}" for reason in found]
    return reasons


def _as_member(problem: CodesignProblem, architecture: Architecture) -> Architecture | None:
    """The family's member with the sizes and fan-outs of ``architecture``."""
    levels = {level.name: level for level in architecture.levels}
    if set(levels) != {level.name for level in problem.family.base.levels}:
        return None
    sizes = {name: size for name in problem.free_sizes if (size := levels[name].size_words) is not None}
    fanouts = {name: (levels[name].fanout_x, levels[name].fanout_y) for name in problem.free_fanouts}
    return problem.family.member(sizes, fanouts)
