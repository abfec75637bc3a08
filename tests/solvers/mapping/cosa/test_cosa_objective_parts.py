"""Util, Comp and Traf of a mapping: by hand, and those that the program states for its own solutions."""

from __future__ import annotations

from math import log2

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.mapping.mapping import LevelMapping, Mapping
from costmodel.workload.network import gemm
from solvers.mapping.cosa.capacity import keep_choices
from solvers.mapping.cosa.cp_sat import CpSat
from solvers.mapping.cosa.linear import value
from solvers.mapping.cosa.objective_parts import objective_parts
from solvers.mapping.cosa.objectives import compute, utilisation
from solvers.mapping.cosa.params import Params
from solvers.mapping.cosa.program import CosaProgram
from solvers.mapping.space.space import MappingSpace

PAPER = Params(preset="paper")
ALL = frozenset({"A", "B", "Z"})


def test_a_product_by_hand() -> None:
    """M 4 is parallel below the SRAM; K 2 is inside N 8, and M 2 in DRAM is around both."""
    level = StorageLevel("PE", 64, 16, 1.0, 1.0, 1.0)
    machine = Architecture(
        "two levels of buffers",
        (
            level,
            StorageLevel("SRAM", 1024, 16, 2.0, 2.0, 2.0, fanout_x=4),
            StorageLevel("DRAM", None, 16, 9.0, 9.0, 9.0),
        ),
        Compute("MAC", 16, 1.0),
    )
    layer = gemm("product", M=8, N=8, K=6)
    mapping = Mapping(
        (
            LevelMapping((("K", 3),), (), (), ALL),
            LevelMapping((("K", 2), ("N", 8)), (("M", 4),), (), ALL),
            LevelMapping((("M", 2),), (), (), ALL),
        )
    )
    found = objective_parts(machine, layer, mapping)
    # words in a PE: A (M K) 3, B (K N) 3, Z (M N) 1; in the SRAM 4 x 6, 6 x 8, 4 x 8
    assert found.utilisation == pytest.approx(log2(3 * 3 * 1 * 24 * 48 * 32))
    assert found.compute == pytest.approx(log2(3 * 2 * 8 * 2))
    # to 4 PEs: A 3 words to each, for K 2, N 8 and M 2; B 3 words once for all, as often; Z 1 word of each PE
    # stays while K goes on, and leaves for N 8 and M 2
    assert found.traffic == pytest.approx(log2(3 * 4 * 32) + log2(3 * 32) + log2(1 * 4 * 16))
    assert found.weighted_sum(PAPER) == pytest.approx(
        -0.1 * found.utilisation + 10 * found.compute + found.traffic
    )


@pytest.mark.parametrize("number", range(0, 8, 2))
def test_the_program_states_the_parts_of_its_own_solutions(number: int) -> None:
    """Its traffic may be more: loops of levels between that do not move a tensor count there."""
    machine, layer = load_architecture("simba"), load_network("cosa_alexnet").layers[number]
    space = MappingSpace(machine, layer)
    program = CosaProgram(space, next(keep_choices(space, PAPER)), PAPER)
    (pattern,) = program.patterns
    answer = CpSat(program.integer, 0).minimise(program.goal(pattern), 20.0)
    assert answer.values is not None
    found = objective_parts(machine, layer, program._mapping(answer.values, pattern))
    variables = program._variables
    assert found.compute == pytest.approx(value(compute(variables), answer.values))
    assert found.utilisation == pytest.approx(value(utilisation(variables, program._buffers), answer.values))
    stated = value(program._traffic.words(pattern), answer.values)
    assert found.traffic <= stated + 1e-9
    assert found.traffic >= stated - log2(8)
