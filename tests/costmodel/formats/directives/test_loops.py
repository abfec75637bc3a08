"""Directives and loops say the same: converted both ways, and equal counts from two cost models."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import prod

import pytest

from costmodel.errors import InputError
from costmodel.formats.directives.counts import accesses, cycles
from costmodel.formats.directives.loops import directives_of, mapping_of
from costmodel.formats.directives.text import format_layers, parse_layers
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping, violations
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.workload.network import Layer, convolution, gemm

LEVELS = ("REGF", "GBUF", "DRAM")
MACHINE = Architecture(
    "roomy",
    (
        StorageLevel("REGF", 10**6, 16, 1, 1, 1),
        StorageLevel("GBUF", 10**9, 16, 1, 1, 1, fanout_x=10**4, fanout_y=10**4),
        StorageLevel("DRAM", None, 16, 1, 1, 1, fanout_x=10**4, fanout_y=10**4),
    ),
    Compute("MAC", 16, 1),
)
LAYERS = [
    convolution("conv", N=2, K=6, C=4, P=6, Q=4, R=3, S=3),
    convolution("strided", N=2, K=4, C=4, P=4, Q=6, R=3, S=1, stride=(2, 2)),
    convolution("dilated", K=4, C=2, P=4, Q=4, R=3, S=2, dilation=(2, 1)),
    convolution("depthwise", N=2, K=8, C=8, P=4, Q=6, R=3, S=3, groups=8),
    convolution("grouped", K=8, C=8, P=4, Q=2, R=3, S=3, groups=2),
    gemm("fc", M=6, N=8, K=12),
    NetworkLayer("update", "conv", 4, 6, 4, 6, 3, 2, 2, 1, 0, 0, 9, 7, external_c=4, part="update").nest(2),
]


def random_mapping(layer: Layer, rng: random.Random) -> Mapping:
    """Each prime factor at a random slot; every level keeps everything."""
    factors_of: dict[tuple[int, str], dict[str, int]] = {}
    for dim, size in layer.dims:
        side = rng.choice("xy")
        for prime in primes(size):
            slot = rng.choice([(0, "t"), (1, "t"), (1, "t"), (1, side), (2, "t"), (2, "t"), (2, side)])
            block = factors_of.setdefault(slot, {})
            block[dim] = block.get(dim, 1) * prime
    every = frozenset(tensor.name for tensor in layer.tensors)

    def shuffled(level: int, kind: str) -> tuple[tuple[str, int], ...]:
        found = list(factors_of.get((level, kind), {}).items())
        rng.shuffle(found)
        return tuple(found)

    return Mapping(
        tuple(
            LevelMapping(shuffled(n, "t"), shuffled(n, "x"), shuffled(n, "y"), every)
            for n in range(len(LEVELS))
        )
    )


def primes(size: int) -> Iterator[int]:
    for prime in (2, 3, 5, 7):
        while size % prime == 0:
            size //= prime
            yield prime


CASES = [pytest.param(layer, seed, id=f"{layer.name}-{seed}") for layer in LAYERS for seed in range(20)]


@pytest.mark.parametrize(("layer", "seed"), CASES)
def test_equal_counts(layer: Layer, seed: int) -> None:
    mapping = random_mapping(layer, random.Random(seed))
    scheme, found = directives_of(layer, mapping, LEVELS), evaluate(MACHINE, layer, mapping)
    inside = prod(bound for _, bound in mapping.levels[0].temporal)
    assert cycles(scheme, inside) == found.compute_cycles
    for told, outer in zip(found.levels, found.levels[1:], strict=False):
        for name, counted in accesses(scheme, told.name).items():
            assert counted.held == told.tensors[name].tile_words
            assert counted.filled == told.tensors[name].fills
            assert counted.next_reads == outer.tensors[name].reads
            assert counted.next_writes == outer.tensors[name].updates


@pytest.mark.parametrize(("layer", "seed"), CASES)
def test_loops_to_directives_to_text_and_back(layer: Layer, seed: int) -> None:
    mapping = random_mapping(layer, random.Random(seed))
    assert violations(MACHINE, layer, mapping) == []
    names = {"Inputs": "0", "Weights": "w", "Outputs": "1", "A": "0", "B": "w", "Z": "1"}
    scheme = directives_of(layer, mapping, LEVELS, names)
    (read,) = parse_layers(format_layers([scheme]))
    back = mapping_of(read, layer, MACHINE, names)
    assert back.tiles == mapping.tiles
    assert violations(MACHINE, layer, back) == []
    assert [level.temporal for level in back.levels[1:]] == [level.temporal for level in mapping.levels[1:]]
    assert evaluate(MACHINE, layer, back).energy_pj == evaluate(MACHINE, layer, mapping).energy_pj


LAYER = convolution("conv", K=4, C=4, P=4, Q=4, R=3, S=3)
TEXT = """\
conv:
  REGF:
    tensor{Weights}(C=4, K=1, S=3, R=3)
    tensor{Inputs}(N=1, C=4, Yi=3, Xi=3)
    tensor{Outputs}(N=1, K=1, Xo=1, Yo=1)
    stack(Yi+=1, Yo+=1, 4)
    update(Xi+=1, Xo+=1)
  GBUF:
    tensor{Weights}(C=4, K=1, S=3, R=3)
    tensor{Inputs}(N=1, C=4, Yi=6, Xi=6)
    tensor{Outputs}(N=1, K=1, Xo=4, Yo=4)
    stack(K+=1, 4)
  DRAM:
    tensor{Weights}(C=4, K=4, S=3, R=3)
    tensor{Inputs}(N=1, C=4, Yi=6, Xi=6)
    tensor{Outputs}(N=1, K=4, Xo=4, Yo=4)
"""


def test_a_scheme_by_hand_as_loops() -> None:
    (scheme,) = parse_layers(TEXT.replace("stack(K+=1, 4)", "stack(K+=1, 4)\n stack(N+=1, 1)\n update(C+=4)"))
    mapping = mapping_of(scheme, LAYER, MACHINE)
    every = frozenset({"Weights", "Inputs", "Outputs"})
    assert mapping.levels[1:] == (
        LevelMapping((("Q", 4),), (("P", 4),), (), every),
        LevelMapping((), (("K", 4),), (), every),
    )
    assert dict(mapping.levels[0].temporal) == {"C": 4, "R": 3, "S": 3}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Yi=6, Xi=6)", "Yi=6, Xi=6, shr=4)", r"tensor: expected what loops can express"),
        ("update(Xi+=1, Xo+=1)", "update(Xi+=2, Xo+=2)", r"tensor|update"),
        ("stack(Yi+=1, Yo+=1, 4)", "stack(Yi+=4, Yo+=1, 4)", "stack: expected what loops can express"),
        ("stack(K+=1, 4)", "stack(K+=1, N+=1, 4)", "moves of one dim among"),
    ],
)
def test_what_loops_cannot_say(old: str, new: str, message: str) -> None:
    (scheme,) = parse_layers(TEXT.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        mapping_of(scheme, LAYER, MACHINE)


def test_what_directives_cannot_say() -> None:
    mapping = mapping_of(parse_layers(TEXT)[0], LAYER, MACHINE)
    first, second, third = mapping.levels
    bypass = LevelMapping(second.temporal, second.spatial_x, (), frozenset({"Inputs", "Outputs"}))
    with pytest.raises(InputError, match="levels that keep every tensor, found a bypass"):
        directives_of(LAYER, Mapping((first, bypass, third)), LEVELS)
    spread = LevelMapping((), (("C", 4), ("R", 3), ("S", 3)), (), first.keep)
    with pytest.raises(InputError, match="one MAC unit below the innermost level"):
        directives_of(LAYER, Mapping((spread, second, third)), LEVELS)
