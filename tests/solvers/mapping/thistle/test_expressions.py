"""Algorithm 1 against the paper's worked examples, the cost model's counts and brute force over orders."""

from __future__ import annotations

from itertools import permutations, product
from math import prod

import numpy as np
import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.counts.traffic import nest_of, tensor_traffic
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer, batched_matmul, convolution, gemm
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.thistle.convex.signomial import Signomial, monomial, variable
from solvers.mapping.thistle.nest.expressions import Expressions, TilingBlock
from solvers.mapping.thistle.nest.orders import OrderClasses, mirrored_dims

TABLE_1 = convolution("Table I", N=8, K=8, C=8, P=8, Q=8, R=8, S=8, stride=(1, 2))
"""In[n][c][h + r][2w + s] with h, w, r, s called P, Q, R, S."""

LAYERS = {
    "gemm": gemm("gemm", M=12, N=8, K=18),
    "batched matmul": batched_matmul("bmm", B=4, M=6, N=8, K=6),
    "pointwise": convolution("pointwise", K=8, C=12, P=6, Q=4, R=1, S=1),
    "convolution": convolution("conv", K=8, C=4, P=6, Q=4, R=3, S=3),
    "batch": convolution("batch", N=2, K=8, C=4, P=6, Q=4, R=3, S=3),
    "strided": convolution("strided", K=4, C=4, P=6, Q=4, R=3, S=3, stride=(2, 2)),
    "strided pointwise": convolution("sp", K=4, C=4, P=6, Q=4, R=1, S=1, stride=(2, 2)),
    "dilated": convolution("dilated", K=4, C=4, P=6, Q=4, R=3, S=3, dilation=(2, 3)),
    "depthwise": convolution("dw", K=16, C=16, P=6, Q=4, R=3, S=3, groups=16),
    "grouped": convolution("grouped", K=8, C=8, P=6, Q=4, R=3, S=3, groups=2),
}


def values(expression: Signomial, seed: int = 0) -> dict[str, float]:
    random = np.random.default_rng(seed)
    return {name: float(random.uniform(1, 5)) for name in sorted(expression.variables)}


def test_signomials_are_rings_with_substitution() -> None:
    x, y = variable("x"), variable("y")
    both = (x + y) * (x + -1.0)
    assert both == x * x + x * y + -1.0 * x + -1.0 * y
    at = {"x": 3.0, "y": 5.0}
    assert both.at(at) == (3 + 5) * (3 - 1)
    assert both.replaced("x", 2.0 * x * y).at(at) == (30 + 5) * (30 - 1)
    assert both.with_constants({"x": 3.0}) == 2.0 * y + 6.0
    assert not both.is_posynomial
    assert both.positive_part == x * x + x * y
    assert both + both * -1.0 == Signomial(())
    assert monomial(2.0, {"x": 0.5}).replaced("x", variable("y") * variable("y")) == 2.0 * y


def test_table_1_of_the_paper() -> None:
    """Order <w, n, k, h, c, s, r>, outermost first, at level 1 over register tiles."""
    expressions = Expressions(TABLE_1, (False, False))
    order = ("R", "S", "C", "P", "K", "N", "Q")
    inputs, outputs = TABLE_1.tensor("Inputs"), TABLE_1.tensor("Outputs")
    r = {dim: f"{dim}.temporal.0" for dim in TABLE_1.sizes}
    q = {dim: f"{dim}.temporal.1" for dim in TABLE_1.sizes}
    at = values(expressions.compute_cycles())
    tile = at[r["N"]] * at[r["C"]]
    assert expressions.footprint(inputs, 0).at(at) == pytest.approx(
        tile * (at[r["P"]] + at[r["R"]] - 1) * (2 * at[r["Q"]] + at[r["S"]] - 2)
    )
    around = prod(at[q[dim]] for dim in "QNKPCS")
    grown = tile * (at[r["P"]] + at[q["R"]] * at[r["R"]] - 1) * (2 * at[r["Q"]] + at[r["S"]] - 2)
    assert expressions.delivered(inputs, 0, ((), order)).at(at) == pytest.approx(around * grown)
    kept = prod(at[r[dim]] for dim in "NKPQ") * at[q["P"]]
    assert expressions.delivered(outputs, 0, ((), order)).at(at) == pytest.approx(
        at[q["Q"]] * at[q["N"]] * at[q["K"]] * kept
    )


def test_equations_1_and_2_of_the_paper() -> None:
    """Matrix multiplication, orders <i, k, j> over SRAM and <i, j, k> over register tiles."""
    layer = gemm("Fig. 1", M=8, N=8, K=8)  # i, j, k are M, N, K; A[i, k] B[j, k] Z[i, j]
    a, b, c = layer.tensors
    expressions = Expressions(layer, (False, True, False))
    size = dict.fromkeys("MNK", 24.0)
    trips = {"temporal.0": 2.0, "spatial.1": 3.0, "temporal.1": 2.0, "temporal.2": 2.0}
    at = {f"{dim}.{block}": count for dim in "MNK" for block, count in trips.items()}
    orders = ((), ("K", "N", "M"), ("N", "K", "M"))
    all_three, tile = 24.0**3, 12.0  # of the 24 iterations of a dim 12 are inside SRAM, 2 * 3 * 2
    volume = {tensor.name: expressions.delivered(tensor, 1, orders).at(at) for tensor in (a, b, c)}
    assert volume == {"A": size["M"] * size["K"], "B": all_three / tile, "Z": all_three / tile}
    sent = {
        tensor.name: (expressions.delivered(tensor, 0, orders) * expressions.groups(tensor, 1)).at(at)
        for tensor in (a, b, c)
    }
    registers, fanout = 2.0, 3.0
    assert sent["A"] == all_three / registers / fanout
    assert sent["B"] == all_three / registers / fanout
    assert sent["Z"] == all_three / tile


@pytest.mark.parametrize("name", ["eyeriss", "E_four_level"])
@pytest.mark.parametrize("kind", LAYERS)
def test_the_cost_model_counts_the_same(name: str, kind: str) -> None:
    """Tensors without sums: every delivery of random mappings, orders with their looped dims."""
    architecture, layer = load_architecture(name), LAYERS[kind]
    expressions = Expressions(layer, tuple(level.fanout > 1 for level in architecture.levels))
    batch = MappingSpace(architecture, layer).sample(range(1), 3, 40)
    for mapping in (batch.mapping(row, layer) for row in range(len(batch))):
        at, orders = trip_counts(architecture, layer, mapping)
        for tensor in layer.tensors:
            for level, counts in enumerate(tensor_traffic(tensor, mapping, nest_of(mapping))[:-1]):
                if counts is None:
                    continue
                assert expressions.footprint(tensor, level).at(at) == counts.tile_words
                if not tensor.slides and not tensor.is_output:
                    assert expressions.delivered(tensor, level, orders).at(at) == counts.fills


@pytest.mark.parametrize("kind", ["convolution", "dilated", "strided", "depthwise"])
def test_halos_along_one_direction(kind: str) -> None:
    """A window whole inside, one level of loops around: what Algorithm 1 says the cost model counts."""
    architecture, layer = load_architecture("C_two_level"), LAYERS[kind]
    expressions, inputs = Expressions(layer, (True, False)), layer.tensor("Inputs")
    block = {dim: TilingBlock(0, False).trips(dim) for dim in layer.sizes}
    for order in permutations([dim for dim in layer.sizes if dim not in "RSNG"]):
        at = {
            TilingBlock(b.level, b.spatial).trips(dim): 1.0 for b in expressions.blocks for dim in layer.sizes
        }
        at |= {block["R"]: 3.0, block["S"]: 3.0}
        at |= {TilingBlock(1, False).trips(dim): float(layer.sizes[dim]) for dim in order}
        mapping = MappingSpace(architecture, layer).sample(range(1), 0, 1).mapping(0, layer)
        inner, outer = mapping.levels[0], mapping.levels[1]
        mapping = Mapping(
            (
                type(inner)((("R", 3), ("S", 3)), (), (), inner.keep),
                type(outer)(tuple((dim, layer.sizes[dim]) for dim in order), (), (), outer.keep),
            )
        )
        counts = tensor_traffic(inputs, mapping, nest_of(mapping))[0]
        assert counts is not None
        assert expressions.delivered(inputs, 0, ((), order)).at(at) == counts.fills


def trip_counts(
    architecture: Architecture, layer: Layer, mapping: Mapping
) -> tuple[dict[str, float], tuple[tuple[str, ...], ...]]:
    """The variables' values of a mapping, and its orders."""
    at = {
        TilingBlock(level, spatial).trips(dim): 1.0
        for level in range(len(architecture.levels))
        for spatial in (True, False)
        for dim in layer.sizes
    }
    for number, level in enumerate(mapping.levels):
        at |= {TilingBlock(number, False).trips(dim): float(bound) for dim, bound in level.temporal}
        at |= {TilingBlock(number, True).trips(dim): float(bound) for dim, bound in level.spatial}
    return at, tuple(tuple(dim for dim, _ in level.temporal) for level in mapping.levels)


@pytest.mark.parametrize("kind", LAYERS)
def test_an_open_order_delivers_no_more_than_any(kind: str) -> None:
    layer = LAYERS[kind]
    expressions = Expressions(layer, (False, False, False))
    dims = [dim for dim, size in layer.dims if size > 1 and dim not in "RS"]
    orders = list(permutations(dims))[::7]
    for tensor, outer, inner in product(layer.tensors, orders, (None, *orders)):
        chosen = expressions.delivered(tensor, 0, ((), inner, outer))
        for less in (((), None, outer), ((), None, None)):
            at = {f"{dim}.temporal.{level}": 3.0 for dim in layer.sizes for level in range(3)}
            at |= {
                f"{dim}.temporal.{level}": 1.0 for dim in layer.sizes for level in (1, 2) if dim not in dims
            }
            assert expressions.delivered(tensor, 0, less).at(at) <= chosen.at(at)


CLASS_COUNTS = {
    "gemm": 3,
    "batched matmul": 4,
    "pointwise": 5,
    "convolution": 8,
    "batch": 16,
    "strided": 8,
    "strided pointwise": 8,
    "dilated": 8,
}


@pytest.mark.parametrize("kind", LAYERS)
def test_classes_are_all_the_different_expressions(kind: str) -> None:
    """Brute force: the expressions of every order of the dims, compared as they are."""
    layer = LAYERS[kind]
    window = [(f"{dim}.temporal.1", 1.0) for dim in layer.sizes if dim in "RS"]
    ones = [(f"{dim}.temporal.0", 1.0) for dim, size in layer.dims if size == 1]
    fixed = tuple(window + ones)
    expressions = Expressions(layer, (False, False), fixed)
    dims = tuple(dim for dim, size in layer.dims if size > 1 and dim not in "RS")

    def volumes(order: tuple[str, ...]) -> tuple[Signomial, ...]:
        return tuple(expressions.delivered(tensor, 0, ((), order)) for tensor in layer.tensors)

    every = {volumes(order) for order in permutations(dims)}
    classes = OrderClasses(layer, layer.tensors).of(dims)
    assert {volumes(order) for order in classes} == every
    assert len(classes) == len(every)
    assert len(classes) == CLASS_COUNTS.get(kind, len(classes))


def test_orders_that_leave_dims_out_carry_tensors_over() -> None:
    """Without K and C at a level the weights stay where they are, through loops of the next one too."""
    layer = LAYERS["convolution"]
    classes = OrderClasses(layer, layer.tensors)
    weights = layer.tensor("Weights")
    found = classes.with_open(("C", "K", "P", "Q"), [weights])
    assert {frozenset(order) for order in found} == {frozenset("PQ")}
    expressions = Expressions(layer, (False, False, False))
    outer = ("P", "Q", "C", "K")
    at = {f"{dim}.temporal.{level}": 2.0 for dim in layer.sizes for level in range(3)}
    at |= {f"{dim}.temporal.1": 1.0 for dim in "KCRSN"} | {f"{dim}.temporal.2": 1.0 for dim in "RSN"}
    carried = expressions.delivered(weights, 0, ((), ("P", "Q"), outer)).at(at)
    listed = expressions.delivered(weights, 0, ((), ("P", "Q", "C", "K"), outer)).at(at)
    assert (carried, listed) == (2**4 * 4, 2**4 * 16)


def test_height_and_width_are_exchanged_only_where_nothing_changes() -> None:
    assert mirrored_dims(convolution("c", K=8, C=4, P=6, Q=6, R=3, S=3)) == {
        "P": "Q",
        "Q": "P",
        "R": "S",
        "S": "R",
    }
    for changed in (
        convolution("size", K=8, C=4, P=6, Q=4, R=3, S=3),
        convolution("window", K=8, C=4, P=6, Q=6, R=3, S=1),
        convolution("stride", K=8, C=4, P=6, Q=6, R=3, S=3, stride=(1, 2)),
        gemm("gemm", M=4, N=4, K=4),
    ):
        assert mirrored_dims(changed) == {}
