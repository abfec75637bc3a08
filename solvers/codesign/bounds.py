"""Lower bounds that hold for every architecture of a family within an area, and every mapping.

Take an architecture that is in every respect the best that any member can be, though no member is so in all.
Its free levels have the access energies of a level of one word, which are the least, and each size and each
fan-out is as large as the area allows while everything else is at its least. A mapping of a layer on any
member is also a mapping on it: its tiles fit, and its spatial loops fit a line that is as long as the product
of the sides. There it costs no more: counts do not depend on the hardware, energies rise with the size, and
bandwidths are the same. So a lower bound on all mappings there is one for every member. Sums of bounds, and
products of sums, are bounds.
"""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import replace
from math import floor

from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.mapping.bounds.bounds import lower_bounds
from solvers.codesign.problem import CodesignProblem

UNBOUNDED_WORDS = 2**40
"""The size of a level whose area does not grow with its size."""


def smallest_member(problem: CodesignProblem) -> Architecture:
    """The member with one word in every free level and one instance below: no other has less area."""
    return problem.member(dict.fromkeys(problem.free_sizes, 1), dict.fromkeys(problem.free_fanouts, 1))


def lower_bound(problem: CodesignProblem) -> float:
    """A bound on the objective of every solution; infinity if no member fits the area."""
    least = smallest_member(problem)
    if least.area_um2 > problem.area_um2:
        return float("inf")
    best = _best_of_all(problem, least)
    energy = cycles = 0.0
    for weighted in problem.layers:
        bounds = lower_bounds(best, weighted.layer)
        energy += weighted.occurrences * bounds.energy_pj
        cycles += weighted.occurrences * bounds.cycles
    return {"energy": energy, "cycles": cycles, "edp": energy * cycles}[problem.objective]


def _best_of_all(problem: CodesignProblem, least: Architecture) -> Architecture:
    spare_um2 = problem.area_um2 - least.area_um2
    fanouts = {name: _largest_fanout(problem, name, spare_um2) for name in problem.free_fanouts}
    wide = problem.member(dict.fromkeys(problem.free_sizes, 1), fanouts)
    sizes = {name: _largest_size(problem, least, name, spare_um2) for name in problem.free_sizes}
    return replace(wide, levels=_with_sizes(wide, sizes))


def _with_sizes(architecture: Architecture, sizes: ReadOnlyDict[str, int]) -> tuple[StorageLevel, ...]:
    return tuple(
        replace(level, size_words=sizes.get(level.name, level.size_words)) for level in architecture.levels
    )


def _largest_fanout(problem: CodesignProblem, name: str, spare_um2: float) -> int:
    """With all else at its least, an instance more below ``name`` takes the same area every time."""
    ones = dict.fromkeys(problem.free_fanouts, 1)
    sizes = dict.fromkeys(problem.free_sizes, 1)
    one, two = (problem.member(sizes, ones | {name: fanout}).area_um2 for fanout in (1, 2))
    most = max(weighted.layer.macs for weighted in problem.layers)
    return most if two <= one else min(most, 1 + floor(spare_um2 / (two - one)))


def _largest_size(problem: CodesignProblem, least: Architecture, name: str, spare_um2: float) -> int:
    index = least.index(name)
    per_word = least.instances[index] * problem.family.law(name).um2_per_word
    return UNBOUNDED_WORDS if per_word <= 0 else 1 + floor(spare_um2 / per_word)
