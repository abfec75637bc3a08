"""CoSA's programs: placement and capacity against enumeration, both engines against each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import log2, prod

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.mapping.mapping import LevelMapping, Mapping, violations
from costmodel.workload.network import Layer, batched_matmul, convolution, gemm
from solvers.mapping.cosa import Params
from solvers.mapping.cosa.capacity import CapacityLimit, cut_off, keep_choices, respect_capacity
from solvers.mapping.cosa.cp_sat import CpSat
from solvers.mapping.cosa.highs import Highs
from solvers.mapping.cosa.linear import Engine, EngineGoal, IntegerProgram, Row, value
from solvers.mapping.cosa.params import Surrogate
from solvers.mapping.cosa.program import CosaProgram
from solvers.mapping.cosa.variables import Variables, prime_groups
from solvers.mapping.space.space import MappingSpace

ENGINES = [CpSat, Highs]
STRIDED = convolution("strided", K=2, C=1, P=6, Q=2, R=3, S=2, stride=(2, 1), dilation=(1, 3))


def small(words: int) -> Architecture:
    buffer = StorageLevel("Buffer", words, 8, 1.0, 1.0, 1.0, fanout_x=3, fanout_y=2)
    dram = StorageLevel("DRAM", None, 8, 1.0, 1.0, 1.0)
    return Architecture("small", (buffer, dram), Compute("MAC", 8, 1.0))


def every_mapping(architecture: Architecture, layer: Layer) -> Iterator[Mapping]:
    """Each way to place the prime factors on a buffer and DRAM, fitting or not."""
    keep = frozenset(tensor.name for tensor in layer.tensors)
    groups = [group for dim, size in layer.dims for group in prime_groups(dim, size)]
    dims = [(group.dim, group.prime) for group in groups for _ in range(group.count)]
    seen = set()
    for places in product(range(4), repeat=len(dims)):
        bounds = [{dim: 1 for dim, _ in layer.dims} for _ in range(4)]
        for (dim, prime), place in zip(dims, places, strict=True):
            bounds[place][dim] *= prime
        inner, x, y, outer = (tuple((d, n) for d, n in block.items() if n > 1) for block in bounds)
        if (inner, x, y) not in seen:
            seen.add((inner, x, y))
            yield Mapping((LevelMapping(inner, x, y, keep), LevelMapping(outer, (), (), keep)))


def steps_and_words(layer: Layer, mapping: Mapping) -> float:
    """Comp - Util, from the loops: the longer dim of a sliding axis stands for it."""
    comp = log2(prod(bound for level in mapping.levels for _, bound in level.temporal))
    tile = mapping.tiles[0]
    longest = [
        [max(axis, key=lambda term: layer.sizes[term[0]] * term[1])[0] for axis in tensor.terms]
        for tensor in layer.tensors
    ]
    return comp - sum(log2(tile.get(dim, 1)) for dims in longest for dim in dims)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("words", [3, 17, 40, 70])
def test_placement_fanouts_strides_and_halo_against_enumeration(engine: type[CpSat], words: int) -> None:
    architecture = small(words)
    valid = [m for m in every_mapping(architecture, STRIDED) if not violations(architecture, STRIDED, m)]
    best = min(steps_and_words(STRIDED, mapping) for mapping in valid)
    params = Params(compute_weight=1.0, utilisation_weight=1.0, traffic_weight=0.0, capacity_split="free")
    keep = next(keep_choices(MappingSpace(architecture, STRIDED), params))
    program = CosaProgram(MappingSpace(architecture, STRIDED), keep, params)
    solved = program.solve(program.patterns[0], engine(program.integer, 0), 60)
    assert solved.proven
    assert solved.mapping is not None
    assert violations(architecture, STRIDED, solved.mapping) == []
    assert steps_and_words(STRIDED, solved.mapping) == pytest.approx(best, abs=2e-3)


def test_tangents_and_cuts_keep_every_fitting_tile() -> None:
    """And a cut loses the overfull tile that it is made for."""
    variables = Variables(IntegerProgram(), MappingSpace(small(10**9), STRIDED))
    buffer = CapacityLimit(0, "Buffer", 25, STRIDED.tensors)
    logs = {tensor: variables.words(tensor, 0) for tensor in STRIDED.tensors}
    engine = CpSat(variables.program, 0)
    before = len(variables.program.rows)
    respect_capacity(variables, buffer)
    tangents = variables.program.rows[before:]
    points = {}
    for mapping in every_mapping(small(10**9), STRIDED):
        if not mapping.levels[0].spatial:
            points[mapping] = point = values_of(variables, engine, mapping)
            for tensor, log in logs.items():
                assert value(log, point) == pytest.approx(log2(tensor.words(mapping.tiles[0])))
    fitting = [mapping for mapping in points if buffer.fits(mapping.tiles[0])]
    overfull = [mapping for mapping in points if mapping not in fitting]
    assert len(fitting) > 5
    assert len(overfull) > 5
    assert all(value(row.terms, points[m]) <= row.high for row in tangents for m in fitting)
    for mapping in overfull:
        cut = cut_off(variables, buffer, points[mapping], mapping.tiles[0])
        assert value(cut.terms, points[mapping]) > cut.high
        assert all(value(cut.terms, points[other]) <= cut.high for other in fitting)


def values_of(variables: Variables, engine: Engine, mapping: Mapping) -> Sequence[int]:
    """The program's variables when the loops are those of a temporal ``mapping``."""
    rows = []
    for group, level in product(variables.groups, range(2)):
        bound, count = dict(mapping.levels[level].temporal).get(group.dim, 1), 0
        while bound % group.prime == 0:
            bound, count = bound // group.prime, count + 1
        rows.append(Row(variables.count(group, variables.at([level], "temporal")), count, count))
        rows.append(Row(variables.count(group, variables.at([level], "x", "y")), 0, 0))
    values = engine.minimise(EngineGoal({}, tuple(row for row in rows if row.terms)), 60).values
    assert values is not None
    return values


@pytest.mark.parametrize("surrogate", ["weighted-sum", "difference"])
@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("simba", convolution("conv", K=64, C=32, P=14, Q=14, R=3, S=3)),
        ("simba", convolution("grouped", K=64, C=64, P=7, Q=7, R=3, S=3, stride=(2, 2), groups=16)),
        ("D_tpu_like", convolution("depthwise", K=32, C=32, P=28, Q=28, R=5, S=5, groups=32)),
        ("E_four_level", gemm("prime", M=197, N=24, K=64)),
        ("A_eyeriss_like", batched_matmul("heads", B=12, M=16, N=16, K=64)),
    ],
)
def test_the_engines_prove_the_same_optima(name: str, layer: Layer, surrogate: Surrogate) -> None:
    params = Params(surrogate=surrogate, utilisation_weight=0.1)
    architecture = load_architecture(name)
    space = MappingSpace(architecture, layer)
    program = CosaProgram(space, next(keep_choices(space, params)), params)
    for pattern in program.patterns:
        goal, optima = program.goal(pattern), []
        for engine in (CpSat(program.integer, 0), Highs(program.integer, 0)):
            answer = engine.minimise(goal, 60)
            assert answer.proven
            assert answer.values is not None
            optima.append(value(goal.objective, answer.values))
        assert optima[0] == pytest.approx(optima[1], abs=5e-3)


def test_the_difference_is_smallest_for_the_most_steps() -> None:
    """Eq. 13 as printed: with traffic left out nothing keeps a mapping from running serially."""
    architecture, layer = load_architecture("simba"), gemm("gemm", M=8, N=64, K=64)
    params = Params(surrogate="difference", traffic_weight=0.0)
    space = MappingSpace(architecture, layer)
    program = CosaProgram(space, next(keep_choices(space, params)), params)
    mapping = program.solve(program.patterns[0], CpSat(program.integer, 0), 60).mapping
    assert mapping is not None
    steps = prod(bound for level in mapping.levels for _, bound in level.temporal)
    assert steps == layer.macs


def test_engines_say_when_nothing_fits() -> None:
    program = IntegerProgram()
    one = program.variable(3)
    program.require({one: 1.0}, low=4)
    for engine in (CpSat(program, 0), Highs(program, 0)):
        answer = engine.minimise(EngineGoal({one: 1.0}), 60)
        assert answer.values is None
        assert answer.proven


def test_rows_of_a_goal_are_gone_afterwards() -> None:
    program = IntegerProgram()
    one = program.variable(3)
    for engine in (CpSat(program, 0), Highs(program, 0)):
        for low in (2, 3, 1):
            answer = engine.minimise(EngineGoal({one: 1.0}, (Row({one: 1.0}, low=low),)), 60)
            assert list(answer.values or ()) == [low]
        engine.require(Row({one: 1.0}, low=2))
        assert list(engine.minimise(EngineGoal({one: 1.0}), 60).values or ()) == [2]
