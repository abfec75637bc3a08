"""The exact mapper's own count of finished mappings against the cost model, mapping by mapping.

Its search counts a mapping level by level as it decides the loops. Once all are decided, the sum is to be
what ``evaluate`` says: equal where every count is exact, and never above it elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from math import inf, isclose, prod

import pytest

from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.uneven import AnyMapping, as_parts
from costmodel.workload.network import Layer
from solvers.budget import always_in_time
from solvers.mapping.exact.aggregate import with_cycles
from solvers.mapping.exact.bound import bound_in_time
from solvers.mapping.exact.kernels.search_kernel import begin, explore
from solvers.mapping.exact.parts import part_space
from solvers.mapping.exact.solver import leaves
from solvers.mapping.exact.spatial import spreads
from solvers.mapping.exact.tables import assignment_workspace, lattice_workspace, nodes_workspace, space_of
from solvers.mapping.problem import MappingProblem, objective_of
from tests.solvers.mapping.random_problems import begun_problems, invented_problems, problems
from tests.solvers.mapping.uneven_enumeration import problems as uneven_problems
from tests.thorough import how_many

pytestmark = pytest.mark.slow

PROBLEMS = how_many(60, thorough=150)
ASSIGNMENTS = 6
MAPPINGS = 12


def counted(problem: MappingProblem, rng: random.Random) -> Iterator[tuple[AnyMapping, float]]:
    """Mappings of randomly drawn assignments of a problem, and the objective that the search counts."""
    parts = part_space(problem)
    factors = spreads(parts.space)
    assert factors is not None
    if not len(factors) or not parts.orders:
        return  # the rules leave no mapping
    tables = space_of(problem, parts, dominance=False)
    size = prod(tables.divisor_count.tolist())
    lattice, nodes = lattice_workspace(tables, size), nodes_workspace(tables, size)
    tables = with_cycles(problem, tables, parts.keeps, lattice)
    assignment = assignment_workspace(tables)
    for _ in range(ASSIGNMENTS):
        assignment.spatial[:] = factors[rng.randrange(len(factors))]
        assignment.keep[:] = rng.choice(rng.choice(parts.orders))
        bound_in_time(tables, assignment, lattice, False, always_in_time)
        begin(tables, assignment, lattice, nodes, inf)
        explore(tables, assignment, lattice, nodes, inf, 20_000)
        count = int(nodes.leaf_count[0])
        batch = leaves(parts, tables, assignment, nodes)
        for row in rng.sample(range(count), min(count, MAPPINGS)):
            yield parts.solution(batch.mapping(row, problem.layer)), float(nodes.leaf_bound[row])


def is_exact(layer: Layer, mapping: AnyMapping) -> bool:
    """Whether the search counts all of a mapping exactly: an output without overlap or coefficient (item 9),
    and at most two spread dims on any axis (item 5)."""
    plain = all(len(axis) <= 1 and all(step == 1 for _, step in axis) for axis in layer.output.terms)
    spread = [{dim for dim, _ in level.spatial} for level in as_parts(mapping).nest.levels]
    pairs = all(
        len(dims & {dim for dim, _ in axis}) <= 2
        for dims in spread
        for tensor in layer.tensors
        for axis in tensor.terms
    )
    return plain and pairs


@pytest.mark.parametrize("draw", [problems, invented_problems, begun_problems, uneven_problems])
def test_the_search_counts_mappings_as_evaluate_does(draw: Callable[[int], Iterator[MappingProblem]]) -> None:
    rng = random.Random(11)
    equal = sliding = below = 0
    for problem in islice(draw(11), PROBLEMS):
        for mapping, found in counted(problem, rng):
            expected = objective_of(evaluate(problem.architecture, problem.layer, mapping), problem.objective)
            if is_exact(problem.layer, mapping):
                assert isclose(found, expected, rel_tol=1e-9), (problem, mapping)
                equal += 1
                sliding += any(tensor.slides for tensor in problem.layer.tensors)
            else:
                assert found <= expected * (1 + 1e-9), (problem, mapping)
                below += 1
    assert equal > how_many(400, thorough=1000)
    assert sliding > how_many(100, thorough=300)
    assert below > how_many(5, thorough=20)
