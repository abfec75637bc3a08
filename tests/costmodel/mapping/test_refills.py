"""The least energy of a MAC: no mapping of a layer or of a part is below it, and good ones come near."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from random import Random
from typing import Any

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.mapping.bounds.refills import least_pj_per_mac
from costmodel.schedule.tile_counts.tile_count import counted_on_tile
from costmodel.workload.network import Layer, convolution, gemm
from solvers.budget import Budget
from solvers.mapping.exact import solver as exact
from solvers.mapping.problem import MappingProblem, executed_layer
from solvers.mapping.space.rules import SpaceRules
from solvers.mapping.space.space_bounds import innermost_levels
from tests.costmodel.mapping.test_bounds import LAYERS, LIBRARY, ODD


def machine(words: int, side: int = 1) -> Architecture:
    """Registers of 1 pJ an access, filled for 2 pJ out of a buffer of 10 pJ that fans out to side x side."""
    registers = StorageLevel("Registers", words, 8, 1.0, 2.0, 1.0)
    buffer = StorageLevel("Buffer", None, 8, 10.0, 10.0, 10.0, fanout_x=side, fanout_y=side)
    return Architecture("machine", (registers, buffer), Compute("MAC", 8, 3.0))


@pytest.mark.parametrize("name", LIBRARY)
@pytest.mark.parametrize("layer", [*LAYERS, ODD], ids=lambda layer: layer.name)
def test_random_mappings_take_no_less(name: str, layer: Layer, random_mappings: Callable[..., Any]) -> None:
    architecture = load_architecture(name)
    least = least_pj_per_mac(architecture, layer) * layer.macs
    for mapping in random_mappings(architecture, layer, 40, 1):
        assert counted_on_tile(architecture, layer, mapping).energy_pj >= least, mapping


@pytest.mark.parametrize(
    "rules", [SpaceRules(), SpaceRules("free"), SpaceRules(uneven=True, padding=1.0)], ids=str
)
def test_the_best_mappings_of_parts_take_no_less_and_come_near(rules: SpaceRules) -> None:
    """Parts of random layers, each mapped for the least energy; the bound is that of the whole layer."""
    random, ratios = Random(3), []
    for _ in range(10):
        sizes: dict[str, Any] = {dim: random.choice((1, 2, 4, 6)) for dim in "NKCPQ"}
        sizes |= {"R": random.choice((1, 3)), "S": random.choice((1, 2))}
        stride = random.choice((1, 1, 2)), random.choice((1, 2))
        whole = convolution("whole", **sizes, stride=stride)
        parts = {dim: random.randint(1, size) for dim, size in sizes.items() if dim in "NKPQ"}
        part = convolution("part", **{**sizes, **parts}, stride=stride)
        architecture = machine(random.choice((4, 8, 32)), random.choice((1, 2)))
        problem = MappingProblem(architecture, part, "energy", rules)
        found = exact.solve(problem, Budget(2.0)).solution
        assert found is not None
        innermost = innermost_levels(MappingProblem(architecture, whole, "energy", rules))
        taken = counted_on_tile(architecture, executed_layer(problem, found), found).energy_pj
        ratios.append(taken / (least_pj_per_mac(architecture, whole, innermost) * part.macs))
    assert min(ratios) >= 1
    assert min(ratios) < 1.4


def test_a_matrix_product_by_hand() -> None:
    """Of 18 words one each is for the two tensors beside the outermost, or one for the innermost.

    With outputs outermost their tile is 16 words or, as the other operand has z words, y z + z <= 17. A word
    costs 2 to write and 10 to read. Outputs come once, with 1,000 sums each: 10 pJ for an update.
    """
    layer = gemm("product", M=1000, N=1000, K=1000)
    refills = 2 * sqrt(12 * 12 / 17) + 12 / 17
    accesses = 2 * 1 + 1 + (1 - 1 / 1000)
    least = least_pj_per_mac(machine(18), layer)
    assert least == pytest.approx(3 + accesses + refills + 10 / 1000, rel=1e-6)
    # all three bypass the registers: 20 pJ for the operands, 20 for a sum read and updated
    assert least_pj_per_mac(machine(18), layer, (frozenset({1}),) * 3) == pytest.approx(3 + 40 - 0.01)


def test_windows_are_reused_and_a_small_layer_is_not_refilled() -> None:
    taps = convolution("taps", K=64, C=64, P=64, Q=64, R=3, S=3)
    points = convolution("points", K=64, C=576, P=64, Q=64, R=1, S=1)
    assert least_pj_per_mac(machine(32), taps) < least_pj_per_mac(machine(32), points)
    small = gemm("small", M=2, N=2, K=2)
    enough = least_pj_per_mac(machine(32), small)
    assert enough == pytest.approx(3 + 3 + 0.5 + 12 / 2 + 12 / 2 + 10 / 2)


def test_a_fan_out_shares_reads_and_outer_levels_sum_outputs() -> None:
    layer = gemm("product", M=64, N=64, K=4096)
    spread = least_pj_per_mac(machine(32, 8), layer)
    assert spread < least_pj_per_mac(machine(32), layer)
    # sums that end further out have fewer visits to bring partial sums for
    assert least_pj_per_mac(machine(32, 8), layer, None, ((64, 64),)) < spread
    slow = replace(
        machine(32, 8), levels=(replace(machine(32).levels[0], block_size=4), machine(32, 8).levels[1])
    )
    assert least_pj_per_mac(slow, layer) < spread
