"""Turns of a group in their order, mappings of groups as JSON, and what no group of a chip can be."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from math import prod
from random import Random

import pytest

from costmodel.errors import InputError
from costmodel.formats.json.fused_layers_json import group_mapping_from_json, group_mapping_to_json
from costmodel.mapping.fused.layers.checker import violations
from costmodel.mapping.fused.layers.group import GroupMapping
from costmodel.mapping.fused.layers.turns import turns_of
from costmodel.schedule.fused_groups.cost import fused_group_cost
from costmodel.schedule.program.fused_groups.turn_order import TurnOrder
from tests.costmodel.mapping.fused.layers import random_groups
from tests.costmodel.schedule.fused_cases import Drawn, drawn, roomy_chip

NAMES = ("chain", "attention", "bottleneck")


def cases(name: str, count: int = 4) -> list[Drawn]:
    return [drawn(Random(seed), name, roomy_chip(2, 1)) for seed in range(count)]


@pytest.mark.parametrize("name", NAMES)
def test_turns_are_those_that_are_counted_and_compute_every_point_once(name: str) -> None:
    """Points of a layer are elements of sets here; turns that go on with sums come after those that begin."""
    for one in cases(name):
        part = one.cut.part
        turns = list(TurnOrder(part, one.mapping.shared).turns())
        for layer in turns_of(part, one.mapping.shared):
            own = [turn for turn in turns if turn.position == layer.position]
            kinds = Counter(turn.kind for turn in own)
            assert [kinds[number] for number in range(len(layer.kinds))] == [
                kind.turns for kind in layer.kinds
            ]
            done: Counter[tuple[int, ...]] = Counter()
            made: set[tuple[int, ...]] = set()
            for turn in own:
                ranges = [range(*turn.points[dim]) for dim, _ in layer.layer.dims]
                done.update(product(*ranges))
                outputs = set(product(*(range(*turn.points[dim]) for dim in sorted(layer.layer.output.dims))))
                begun = layer.kinds[turn.kind].part.output.begun
                assert outputs <= made if begun else not outputs & made
                made |= outputs
            assert len(done) == prod(layer.layer.sizes.values())
            assert set(done.values()) == {1}


@pytest.mark.parametrize("name", NAMES)
def test_mappings_of_groups_travel_as_json_whatever_layers_are_called(name: str) -> None:
    for one in cases(name):
        part = one.cut.part
        renamed = tuple(replace(layer, name=f"x.{layer.name}") for layer in part.layers)
        text = group_mapping_to_json(replace(part, layers=renamed), _named(one, "x."))
        assert group_mapping_from_json(part, text) == one.mapping


def _named(one: Drawn, before: str) -> GroupMapping:
    shared = one.mapping.shared
    shared = replace(
        shared,
        backing={f"{before}{name}": level for name, level in shared.backing.items()},
        hoist={f"{before}{name}": tiles for name, tiles in shared.hoist.items()},
    )
    others = {f"{before}{name}": nests for name, nests in one.mapping.others.items()}
    return replace(one.mapping, shared=shared, others=others)


def test_tiles_have_equal_parts_of_all_layers() -> None:
    for one in cases("bottleneck"):
        for whole, part in zip(one.group.group.layers, one.cut.part.layers, strict=True):
            assert one.cut.tiles * part.macs == whole.macs
        for sides in one.cut.placements((2, 1)):
            assert {prod(loop.bound for loop in (*x, *y)) for x, y in sides} == {one.cut.tiles}


def test_what_a_chip_has_no_tiles_for_is_refused() -> None:
    one = next(each for each in cases("chain", 8) if each.cut.tiles == 2)
    small = replace(one.on, columns=1, rows=1)
    bare = replace(one.on, tile=replace(one.on.tile, architecture=None))
    for on, said in ((small, "a cut for 1 x 1 tiles"), (bare, "an architecture to map layers on")):
        with pytest.raises(InputError, match=said):
            fused_group_cost(on, one.graph, one.group, one.cut.cut, one.mapping)


def test_vector_layers_work_on_what_stays() -> None:
    """A mapping that hands the scores on through DRAM leaves the softmax nothing to work on."""
    (one,) = cases("attention", 1)
    part, random = one.cut.part, Random(1)
    while True:
        through_dram = random_groups.mapping(random, part)
        if not through_dram.shared.backing and not violations(part, through_dram):
            break
    with pytest.raises(InputError, match="operands of softmax that stay on the chip"):
        fused_group_cost(one.on, one.graph, one.group, one.cut.cut, through_dram)
