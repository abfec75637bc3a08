"""Layers whose operands repeat elements: counted as a walk over the elements counts, and mapped to optima."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.batch.batch import BatchEvaluator
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.workload.convolutions import Window, convolution_of, reading_once
from costmodel.workload.network import Layer, Tensor
from costmodel.workload.products import matmul_of
from costmodel.workload.views import whole
from solvers.budget import Budget
from solvers.catalogue import solver, solver_names
from solvers.mapping import exhaustive
from solvers.mapping.problem import OBJECTIVES, MappingProblem, violations
from solvers.mapping.space.rules import SpaceRules
from solvers.mapping.space.space import MappingSpace
from solvers.outcome import Status


def heads() -> Layer:
    """Two key-value heads for four query heads."""
    keys = whole("k", (2, 1, 3, 2)).expanded((2, 2, 3, 2)).reshaped((4, 3, 2))
    assert keys is not None
    return matmul_of("heads", whole("q", (4, 2, 3)), keys).layers[0]


def sums() -> Layer:
    """B repeats rows of what is summed, and both operands repeat a batch of two."""
    b = whole("b", (1, 2, 1, 3)).expanded((2, 2, 2, 3)).reshaped((2, 4, 3))
    assert b is not None
    return matmul_of("sums", whole("a", (1, 2, 4)).expanded((2, 2, 4)), b).layers[0]


def colours() -> Layer:
    """A grey image read as two colours."""
    layer = convolution_of("colours", (1, 2, 4, 3), (2, 2, 2, 2), (1, 2, 3, 2), Window.of(2))
    return reading_once(layer, whole("x", (1, 1, 4, 3)).expanded((1, 2, 4, 3))).layers[0]


LAYERS = (heads(), sums(), colours())


def test_the_dims_that_operands_lack() -> None:
    dims = [{t.name: "".join(sorted(t.dims)) for t in layer.tensors} for layer in LAYERS]
    assert [layer.sizes for layer in LAYERS[:2]] == [
        {"B": 2, "M": 4, "N": 2, "K": 3},
        {"M": 2, "N": 3, "K": 2, "J": 2, "G": 2},
    ]
    assert dims[1] == {"A": "JKM", "B": "KN", "Z": "GMN"}
    assert dims[2] == {"Weights": "CEKRS", "Inputs": "CNPQRS", "Outputs": "KNPQ"}
    assert LAYERS[2].macs == 2 * 2 * 4 * 6


def walked_reads(layer: Layer, mapping: Mapping, tensor: Tensor) -> int:
    """Words that the outermost level delivers of an operand: its tile at every step that changes it.

    The loops of the outermost level run as written; the tile of a step is the elements at its projections.
    """
    loops = [(dim, factor) for dim, factor in reversed(mapping.levels[-1].temporal)]
    inner = {dim: size // prod(f for d, f in loops if d == dim) for dim, size in layer.dims}
    delivered, held = 0, set[tuple[int, ...]]()
    for step in product(*(range(factor) for _, factor in loops)):
        start = dict.fromkeys(inner, 0)
        for (dim, _), at in zip(loops, step, strict=True):
            start[dim] = start[dim] + at * inner[dim]
        points = product(*(range(start[dim], start[dim] + inner[dim]) for dim in inner))
        tile = {
            tuple(
                sum(c * dict(zip(inner, point, strict=True))[dim] for dim, c in axis) for axis in tensor.terms
            )
            for point in points
        }
        delivered += len(tile) if tile != held else 0
        held = tile
    return delivered


@pytest.mark.parametrize("layer", LAYERS[:2], ids=lambda layer: layer.name)
def test_evaluate_counts_as_a_walk_over_the_elements(layer: Layer) -> None:
    architecture = load_architecture("C_two_level")
    seen = set()
    space = MappingSpace(architecture, layer, SpaceRules("all"))
    batch = space.sample(range(1), 3)
    for row in np.flatnonzero(BatchEvaluator(architecture, layer).evaluate(batch).valid):
        mapping = batch.mapping(int(row), layer)
        outermost = evaluate(architecture, layer, mapping).levels[-1]
        for tensor in layer.tensors:
            if not tensor.is_output and all(tensor.name in level.keep for level in mapping.levels):
                reads = walked_reads(layer, mapping, tensor)
                assert outermost.tensors[tensor.name].reads == reads, (tensor.name, mapping)
                seen.add(reads)
    assert len(seen) >= 3


def small(name: str) -> Architecture:
    """An architecture whose inner levels hold so few words that capacity counts."""
    architecture = load_architecture(name)
    sizes = {2: (14,), 3: (4, 20), 4: (4, 8, 30)}[len(architecture.levels)]
    levels = (
        replace(level, size_words=size) for level, size in zip(architecture.levels, sizes, strict=False)
    )
    return replace(architecture, levels=(*levels, architecture.levels[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
@pytest.mark.parametrize("name", ["A_eyeriss_like", "C_two_level", "E_four_level"])
def test_the_optimum_is_proven(name: str, layer: Layer) -> None:
    for objective in OBJECTIVES:
        problem = MappingProblem(small(name), layer, objective)
        outcome = solver("exact").load().solve(problem, Budget())
        assert outcome.status is Status.OPTIMAL
        every = exhaustive.solve(problem, Budget(), exhaustive.Params(limit=20_000))
        if every.status is Status.OPTIMAL:
            assert outcome.bound == outcome.objective == pytest.approx(every.objective, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
@pytest.mark.parametrize("name", sorted({*solver_names("mapping")} - {"exhaustive"}))
def test_every_mapping_solver_takes_them(name: str, layer: Layer) -> None:
    problem = MappingProblem(small("A_eyeriss_like"), layer, "energy")
    best = solver("exact").load().solve(problem, Budget())
    found = solver(name).load().solve(problem, Budget(wall_seconds=20, iterations=200))
    assert found.solution is not None
    assert best.objective is not None
    assert violations(problem, found.solution) == []
    assert found.objective >= best.objective * (1 - 1e-12)
