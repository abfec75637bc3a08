"""The bounds inside the exact mapper against random mappings: none costs less than its assignment's."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.mapping.batch.batch import BatchEvaluator
from costmodel.workload.network import Layer, Tensor, convolution, gemm
from solvers.budget import Budget, always_in_time
from solvers.mapping import exact
from solvers.mapping.exact import spatial
from solvers.mapping.exact.aggregate import least_cycles, outermost_bandwidths, with_cycles
from solvers.mapping.exact.assignments import Assignments, StoppingRule
from solvers.mapping.exact.bound import bound_in_time
from solvers.mapping.exact.kernels.fills_kernel import bound_of_fills
from solvers.mapping.exact.parts import part_space
from solvers.mapping.exact.prices import AssignmentKey
from solvers.mapping.exact.spatial import spreads, widest_spreads
from solvers.mapping.exact.tables import (
    assignment_workspace,
    fills_workspace,
    lattice_workspace,
    space_of,
)
from solvers.mapping.problem import OBJECTIVES, MappingProblem, objective_values
from solvers.mapping.space.rules import SpaceRules
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.space.space_bounds import space_bound
from solvers.outcome import Status

LAYERS = (
    convolution("sliding", K=8, C=6, P=14, Q=7, R=3, S=3),
    convolution("strided", K=8, C=4, P=12, Q=6, R=3, S=1, stride=(2, 3), dilation=(2, 1)),
    convolution("depthwise", K=16, C=16, P=14, Q=7, R=3, S=3, groups=16),
    gemm("product", M=24, N=17, K=30),
)


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
@pytest.mark.parametrize("name", ["eyeriss", "simba", "E_four_level", "D_tpu_like"])
def test_no_mapping_costs_less_than_its_assignment(name: str, layer: Layer, objective: str) -> None:
    problem = MappingProblem(load_architecture(name), layer, objective, SpaceRules("free"))  # type: ignore[arg-type]
    parts = part_space(problem)
    space = parts.space
    tables = space_of(problem, parts, dominance=True)
    lattice = lattice_workspace(tables, prod(tables.divisor_count.tolist()))
    tables = with_cycles(problem, tables, parts.keeps, lattice)
    assignment, fills = assignment_workspace(tables), fills_workspace(tables)
    batch = space.sample(range(12), seed=3)
    costs = objective_values(BatchEvaluator(problem.architecture, layer).evaluate(batch), problem.objective)
    valid = np.flatnonzero(np.isfinite(costs))
    assert len(valid) > 20
    for row in valid[:: max(1, len(valid) // 150)]:
        assignment.spatial[:] = batch.spatial_x[row] * batch.spatial_y[row]
        assignment.keep[:] = batch.keep[row] @ (1 << np.arange(len(layer.tensors)))
        assert bound_in_time(tables, assignment, lattice, False, always_in_time) <= costs[row] * (1 + 1e-12)
        fills.least_pj[:] = np.nan
        assert bound_of_fills(tables, assignment, lattice, fills) <= costs[row] * (1 + 1e-12)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
@pytest.mark.parametrize("name", ["eyeriss", "simba"])
def test_fills_that_assignments_have_in_common_are_those_of_each(name: str, layer: Layer) -> None:
    """Bounds from remembered fills are the same to the last bit as bounds without any memory."""
    problem = MappingProblem(load_architecture(name), layer)
    parts = part_space(problem)
    tables = space_of(problem, parts, dominance=True)
    rows = spreads(parts.space)
    assert rows is not None
    lattice = lattice_workspace(tables, prod(tables.divisor_count.tolist()))
    assignments = Assignments(tables, parts, lattice, rows, StoppingRule(0.0, 0.0))
    fills, assignment = fills_workspace(tables), assignment_workspace(tables)
    chosen = range(0, len(rows), max(1, len(rows) // 400))
    for row in chosen:
        assignment.spatial[:], assignment.keep[:] = rows[row], parts.keeps[row % len(parts.keeps)]
        fills.least_pj[:] = np.nan
        alone = bound_of_fills(tables, assignment, lattice, fills)
        assert assignments.bound_of_fills(AssignmentKey(row, row % len(parts.keeps), 0)) == alone


@pytest.mark.parametrize("words", [5, 16, 40, 90, 150])
@pytest.mark.parametrize("dims", ["MNK", "NKM", "KMN"])
def test_fills_of_a_level_are_the_least_of_all_tiles_that_fit(words: int, dims: str) -> None:
    """On one buffer they are the least words of any tile and stationary tensor, listed here by hand."""
    buffer = StorageLevel("Buffer", words, 16, 0.0, 1.0, 0.0)
    memory = StorageLevel("DRAM", None, 16, 0.0, 0.0, 0.0)
    machine = Architecture("machine", (buffer, memory), Compute("MAC", 16, 0.0))
    sizes = dict(zip(dims, (12, 18, 20), strict=True))
    problem = MappingProblem(machine, gemm("product", **sizes), "energy")
    parts = part_space(problem)
    tables = space_of(problem, parts, dominance=True)
    lattice = lattice_workspace(tables, prod(tables.divisor_count.tolist()))
    assignment, fills = assignment_workspace(tables), fills_workspace(tables)
    assignment.spatial[:], assignment.keep[:] = 1, parts.keeps[0]
    fills.least_pj[:] = np.nan
    # Every fill is written into the buffer for 1 pJ a word, and nothing else costs anything. An output tile
    # is brought back every time but the first.
    points = prod(sizes.values())
    every = []
    for m, n, k in product(
        *([t for t in range(1, size + 1) if size % t == 0] for size in map(sizes.__getitem__, "MNK"))
    ):
        if m * k + k * n + m * n > words:
            continue
        left, right, sums = points // n, points // m, points // k - sizes["M"] * sizes["N"]
        every += [
            sizes["M"] * sizes["K"] + right + sums,
            left + sizes["K"] * sizes["N"] + sums,
            left + right,
        ]
    assert bound_of_fills(tables, assignment, lattice, fills) == min(every)
    found = exact.solve(problem, Budget())
    assert found.objective is not None
    assert found.objective >= min(every)


SCATTERING = Layer(
    "scattering",
    (("C", 3), ("P", 4), ("R", 12)),
    (
        Tensor.of_terms("W", ((("C", 1),), (("R", 1),)), "weights"),
        Tensor.of_terms("I", ((("C", 1),), (("P", 1),)), "inputs"),
        Tensor.of_terms("O", ((("P", 2), ("R", 1)),), "outputs"),
    ),
)
"""A transposed convolution: inputs two outputs apart add to the same ones, 18 in all."""


def test_outputs_are_not_read_back_before_all_of_them_were_written() -> None:
    # All fits into the buffer: 36 weights, 12 inputs and 18 outputs pass the port once, a word a cycle.
    buffer = StorageLevel("Buffer", 128, 16, 1.0, 1.0, 1.0, fanout_x=4)
    memory = StorageLevel("DRAM", None, 16, 9.0, 9.0, 9.0, shared_bandwidth=1.0)
    machine = Architecture("machine", (buffer, memory), Compute("MAC", 16, 1.0))
    problem = MappingProblem(machine, SCATTERING, "cycles")
    assert _port_bound(problem) <= 36 + 12 + 18
    found = exact.solve(problem, Budget(wall_seconds=60))
    assert (found.status, found.objective) == (Status.OPTIMAL, 36 + 12 + 18)


def _port_bound(problem: MappingProblem) -> float:
    """The least cycles that the slowest bandwidth of the outermost level leaves any mapping."""
    parts = part_space(problem)
    tables = space_of(problem, parts, dominance=True)
    lattice = lattice_workspace(tables, prod(tables.divisor_count.tolist()))
    bandwidths = outermost_bandwidths(tables.model)
    return max(least_cycles(tables, parts.keeps, lattice, weights) for weights in bandwidths)


@pytest.mark.parametrize("layer", [*LAYERS, SCATTERING], ids=lambda layer: layer.name)
@pytest.mark.parametrize("name", ["eyeriss", "simba", "D_tpu_like"])
def test_no_mapping_is_faster_than_the_outermost_bandwidth(name: str, layer: Layer) -> None:
    problem = MappingProblem(load_architecture(name), layer, "cycles")
    space = MappingSpace(problem.architecture, layer, problem.rules)
    found = BatchEvaluator(problem.architecture, layer).evaluate(space.sample(range(60), seed=1))
    assert found.valid.any()
    assert 0 < _port_bound(problem) <= found.cycles[found.valid].min()


def test_all_ways_to_spread_a_product() -> None:
    """Divisors of M, N and K on the sides of a 4 x 4 fan-out, counted one by one."""
    layer = gemm("g", M=4, N=6, K=5)
    space = MappingSpace(load_architecture("C_two_level"), layer)
    expected = 0
    for m in (1, 2, 4):
        for n in (1, 2, 3, 6):
            for sides in (((m, n), ()), ((m,), (n,)), ((n,), (m,)), ((), (m, n))):
                if prod(sides[0]) <= 4 and prod(sides[1]) <= 4:
                    expected += 1
                    break
    found = spreads(space)
    assert found is not None
    assert len(found) == expected


@pytest.mark.parametrize("architecture", ["simba", "C_two_level", "tpu-like"])
@pytest.mark.parametrize("sizes", [(16, 12, 30), (4, 6, 5), (1, 7, 2)])
def test_the_widest_ways_to_spread_leave_nothing_that_a_fan_out_could_take(
    architecture: str, sizes: tuple[int, int, int]
) -> None:
    """No level's factors can be replaced by a multiple: each way is compared with all that agree with it
    inside that level."""
    layer = gemm("g", **dict(zip("MNK", sizes, strict=True)))
    space = MappingSpace(load_architecture(architecture), layer)
    every, widest = spreads(space), widest_spreads(space)
    assert every is not None
    assert widest is not None
    order = [slot.level for slot in space.slots if slot.spatial]

    def outdone(one: Any) -> bool:
        for at, level in enumerate(order):
            alike = every[(every[:, order[:at]] == one[order[:at]]).all(axis=(1, 2))][:, level]
            multiples = (alike % one[level] == 0).all(axis=1) & (alike != one[level]).any(axis=1)
            if multiples.any():
                return True
        return False

    expected = {one.tobytes() for one in every if not outdone(one)}
    assert {one.tobytes() for one in widest} == expected
    assert len(widest) == len(expected) > 0


def test_more_ways_to_spread_than_memory_can_hold_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The widest ones are searched then, and prove nothing; where these are too many as well, nothing is."""
    problem = MappingProblem(load_architecture("simba"), gemm("g", M=16, N=16, K=16))
    best = exact.solve(problem, Budget())
    assert best.status is Status.OPTIMAL
    assert best.objective is not None
    every, widest = spreads(part_space(problem).space), widest_spreads(part_space(problem).space)
    assert every is not None
    assert widest is not None
    monkeypatch.setattr(spatial, "MOST_SPREADS", len(every) - 1)
    outcome = exact.solve(problem, Budget())
    assert outcome.status is Status.FEASIBLE
    assert outcome.objective is not None
    assert outcome.bound == space_bound(problem) < best.objective <= outcome.objective
    assert "only the widest, which proves nothing, were searched" in outcome.note
    monkeypatch.setattr(spatial, "MOST_SPREADS", 1)
    outcome = exact.solve(problem, Budget())
    assert (outcome.status, outcome.bound) == (Status.UNKNOWN, space_bound(problem))
    assert "ways to spread the layer over the fan-outs reached: nothing was searched" in outcome.note
