"""Uneven mappings: their counts are those of even ones, tensor by tensor, and their tiles share a level."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from costmodel.errors import InputError
from costmodel.formats.cases.folder import mapping_to_json
from costmodel.formats.cases.mapping import any_mapping_from_json
from costmodel.formats.timeloop.export import mapping_text
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.mapping.counts.latency import level_cycles
from costmodel.mapping.counts.traffic import nest_of, tensor_traffic
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Loop, Mapping
from costmodel.mapping.uneven import UnevenMapping, as_parts, simplest, split, violations
from costmodel.workload.network import Layer, convolution, gemm

RandomMappings = Callable[[Architecture, Layer, int, int], Iterator[Mapping]]
REGISTER = StorageLevel("Register", 60, 16, 0.5, 0.6, 0.7, fanout_x=2, fanout_y=2, read_bandwidth=2.5)
BUFFER = StorageLevel("Buffer", 900, 16, 6.0, 6.5, 7.0, block_size=4, leakage_pj_per_cycle=0.25)
DRAM = StorageLevel("DRAM", None, 16, 200.0, 210.0, 220.0, block_size=8, shared_bandwidth=1.5)
CHIP = Architecture("chip", (REGISTER, BUFFER, DRAM), Compute("MAC", 16, 1.0))
FANNED = replace(CHIP, levels=(REGISTER, replace(BUFFER, fanout_x=3, fanout_y=2, read_bandwidth=5.0), DRAM))
CONVOLUTION = convolution("c", K=4, C=6, P=8, Q=2, R=3, S=1, stride=(2, 1))
PRODUCT = gemm("g", M=12, N=8, K=18)
ALL = frozenset({"A", "B", "Z"})
PLACES = (0, 1, 1, 1, 2)
"""The buffer in three parts."""


def uneven(
    random_mappings: RandomMappings, architecture: Architecture, layer: Layer, places: tuple[int, ...]
) -> Iterator[UnevenMapping]:
    """Random valid mappings in which every tensor is kept in a random part of every level."""
    rng = random.Random(5)
    for nest in random_mappings(split(architecture, places), layer, 120, 7):
        kept: list[set[str]] = [set() for _ in places]
        for tensor in layer.tensors:
            for place in set(places):
                parts = [part for part, its_place in enumerate(places) if its_place == place]
                kept[rng.choice(parts)].add(tensor.name)
        placed = zip(nest.levels, kept, strict=True)
        mapping = UnevenMapping(
            Mapping(tuple(replace(part, keep=frozenset(names)) for part, names in placed)), places
        )
        if not violations(architecture, layer, mapping):
            yield mapping


def seen_by(name: str, mapping: UnevenMapping) -> Mapping:
    """The even mapping that cuts the same loops everywhere as ``mapping`` cuts them for one tensor."""
    levels = []
    pending: tuple[Loop, ...] = ()
    for parts in mapping.parts:
        temporal = pending
        for part in parts:
            temporal += part.temporal
            if name in part.keep:
                levels.append(
                    LevelMapping(temporal, parts[0].spatial_x, parts[0].spatial_y, frozenset([name]))
                )
                temporal = ()
        pending = temporal
    return Mapping(tuple(levels))


@pytest.mark.parametrize(
    ("architecture", "layer", "places"),
    [
        (CHIP, CONVOLUTION, PLACES),
        (CHIP, PRODUCT, PLACES),
        (FANNED, PRODUCT, PLACES),
        (FANNED, PRODUCT, (0, 0, 1, 1, 1, 2)),
    ],
)
def test_every_tensor_moves_what_its_own_cuts_say(
    random_mappings: RandomMappings, architecture: Architecture, layer: Layer, places: tuple[int, ...]
) -> None:
    """Below a fan-out only without overlapping tiles: there the loops' strides make no difference."""
    seen = 0
    for mapping in uneven(random_mappings, architecture, layer, places):
        evaluation = evaluate(architecture, layer, mapping)
        energy = evaluation.mac_energy_pj
        asked: list[list[object]] = [[] for _ in architecture.levels]
        for tensor in layer.tensors:
            even = seen_by(tensor.name, mapping)
            nest = nest_of(even)
            assert nest.compute_cycles == evaluation.compute_cycles
            for place, counts in enumerate(tensor_traffic(tensor, even, nest)):
                found = evaluation.levels[place].tensors[tensor.name]
                assert counts is not None
                assert tuple(counts) == (
                    found.reads,
                    found.fills,
                    found.updates,
                    found.tile_words,
                    found.partition_words,
                )
                asked[place].append(counts)
                energy += found.energy_pj
        cycles = [
            level_cycles(level, evaluation.compute_cycles, counts)  # type: ignore[arg-type]
            for level, counts in zip(architecture.levels, asked, strict=True)
        ]
        assert evaluation.cycles == max(cycles)
        energy += sum(level.leakage_pj for level in evaluation.levels)
        assert evaluation.energy_pj == pytest.approx(energy, rel=1e-12)
        assert (
            evaluation.levels[1].leakage_pj
            == 0.25 * evaluation.cycles * evaluation.levels[1].tensors[layer.tensors[0].name].instances
        )
        seen += 1
    assert seen > 30


def test_equal_cuts_are_an_even_mapping(random_mappings: RandomMappings) -> None:
    """A level's loops written as two parts, of which the outer one keeps everything."""
    rng = random.Random(3)
    for mapping in random_mappings(FANNED, CONVOLUTION, 60, 11):
        register, buffer, dram = mapping.levels
        cut = rng.randint(0, len(buffer.temporal))
        inner = replace(buffer, temporal=buffer.temporal[:cut], keep=frozenset())
        outer = LevelMapping(buffer.temporal[cut:], (), (), buffer.keep)
        parts = UnevenMapping(Mapping((register, inner, outer, dram)), (0, 1, 1, 2))
        assert evaluate(FANNED, CONVOLUTION, parts) == evaluate(FANNED, CONVOLUTION, mapping)
        assert evaluate(FANNED, CONVOLUTION, as_parts(mapping)) == evaluate(FANNED, CONVOLUTION, mapping)
        assert simplest(as_parts(mapping)) == mapping


def product(held: dict[str, int] | None = None) -> UnevenMapping:
    """Z stays for all of K; the buffer holds 12 words of A, 8 of B and 96 of Z."""
    held = {"A": 1, "B": 1, "Z": 2} if held is None else held
    loops: tuple[tuple[Loop, ...], ...] = ((), (), (("M", 12), ("N", 8)), (("K", 18),))
    blocks = [LevelMapping(block, (), (), frozenset()) for block in loops]
    keep = {0: ALL, 3: ALL} | {part: frozenset(n for n in ALL if held.get(n) == part) for part in (1, 2)}
    nest = Mapping(tuple(replace(block, keep=keep[part]) for part, block in enumerate(blocks)))
    return UnevenMapping(nest, (0, 1, 1, 2))


def test_the_tiles_of_a_level_must_fit_together() -> None:
    mapping = product()
    assert violations(CHIP, PRODUCT, mapping) == []
    small = replace(CHIP, levels=(REGISTER, replace(BUFFER, size_words=97), DRAM))
    assert violations(small, PRODUCT, mapping) == [
        "Buffer: tiles need 98 words (A 1, B 1, Z 96), 97 are usable"
    ]
    with pytest.raises(InputError, match="Buffer: tiles need 98 words"):
        evaluate(small, PRODUCT, mapping)


def test_what_else_is_no_mapping() -> None:
    nest = product().nest
    twice = replace(nest.levels[1], keep=ALL)
    again = UnevenMapping(Mapping((nest.levels[0], twice, *nest.levels[2:])), (0, 1, 1, 2))
    assert violations(CHIP, PRODUCT, again) == ["Buffer: keeps Z in two parts"]
    spread = replace(nest.levels[2], temporal=(("N", 8),), spatial_x=(("M", 12),))
    outside = UnevenMapping(Mapping((*nest.levels[:2], spread, nest.levels[3])), (0, 1, 1, 2))
    assert violations(CHIP, PRODUCT, outside) == [
        "Buffer part 2: spatial factors on X multiply to 12, the fan-out is 1"
    ]
    shorter = replace(CHIP, levels=CHIP.levels[1:])
    assert violations(shorter, PRODUCT, product()) == ["parts of 3 levels, chip has 2"]
    longer = replace(CHIP, levels=(*CHIP.levels[:2], replace(BUFFER, name="Outer"), DRAM))
    assert violations(longer, PRODUCT, product()) == ["parts of 3 levels, chip has 4"]


@pytest.mark.parametrize("part_levels", [(0, 1, 2), (1, 1, 1, 2), (0, 1, 0, 2), (0, 0, 2, 3), (0, 1, 2, 2)])
def test_parts_stand_in_the_order_of_the_levels(part_levels: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="uneven mapping: part_levels"):
        UnevenMapping(product().nest, part_levels)


def test_parts_without_loops_are_one() -> None:
    mapping = product()
    empty = LevelMapping((), (), (), frozenset())
    longer = UnevenMapping(
        Mapping((mapping.nest.levels[0], empty, *mapping.nest.levels[1:])), (0, 1, 1, 1, 2)
    )
    assert simplest(longer) == mapping
    level = simplest(product({"A": 2, "B": 2, "Z": 2}))
    assert simplest(product({"A": 1, "B": 1, "Z": 1})) != level


def test_it_is_told_part_by_part_and_not_to_timeloop() -> None:
    told = mapping_to_json(CHIP, PRODUCT, product())
    assert told["part_of"] == {
        "Register": "Register",
        "Buffer": "Buffer",
        "Buffer part 2": "Buffer",
        "DRAM": "DRAM",
    }
    kept = {entry["target"]: entry["keep"] for entry in told["bypass"]}
    assert (kept["Buffer"], kept["Buffer part 2"]) == (["A", "B"], ["Z"])
    stored = json.loads(json.dumps(told, sort_keys=True))
    assert any_mapping_from_json(CHIP, PRODUCT, stored) == product()
    small = replace(CHIP, levels=(REGISTER, replace(BUFFER, size_words=97), DRAM))
    with pytest.raises(InputError, match="Buffer: tiles need 98 words"):
        any_mapping_from_json(small, PRODUCT, stored)
    with pytest.raises(InputError, match=r"Timeloop mapping: expected .* found an uneven one"):
        mapping_text(CHIP, PRODUCT, product())
