"""Proven lower bounds on what any mapping of a problem's space costs, before anything is solved."""

from __future__ import annotations

from dataclasses import replace

from costmodel.mapping.bounds.bounds import Bounds, Scope, lower_bounds
from solvers.mapping.problem import MappingProblem, objective_of
from solvers.mapping.space.rules import allowed_keeps


def space_bounds(problem: MappingProblem) -> Bounds:
    """The cost model's bounds for the mappings that the problem's rules allow, padded ones included."""
    architecture, layer = problem.architecture, problem.layer
    largest = None
    if problem.rules.padding:
        largest = replace(layer, dims=tuple((dim, problem.largest_size(dim)) for dim, _ in layer.dims))
    return lower_bounds(architecture, layer, Scope(innermost_levels(problem), largest))


def space_bound(problem: MappingProblem) -> float:
    """The bound on the problem's objective."""
    return objective_of(space_bounds(problem), problem.objective)


def innermost_levels(problem: MappingProblem) -> tuple[frozenset[int], ...]:
    """Per tensor the levels that can be the innermost to keep it, by what the rules let levels keep."""
    architecture = problem.architecture
    keeps = [
        allowed_keeps(problem.rules, level, problem.layer, architecture.precision)
        for level in architecture.levels[:-1]
    ]
    found = []
    for tensor in problem.layer.tensors:
        levels = set()
        for index, sets in enumerate(keeps):
            if any(tensor.name in kept for kept in sets):
                levels.add(index)
            if all(tensor.name in kept for kept in sets):
                break
        else:
            levels.add(len(keeps))
        found.append(frozenset(levels))
    return tuple(found)
