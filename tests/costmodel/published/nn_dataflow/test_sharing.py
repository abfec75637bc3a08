"""nn-dataflow's buffer sharing: rotations by passing parts around, and what sharing saves."""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod

import pytest

from costmodel.formats.multi_nodes import load_multi_node
from costmodel.published.nn_dataflow.blocking import Blocking, DeliveryCosts, NotFittingError, scheme_cost
from costmodel.published.nn_dataflow.hardware import NnDataflowHardware
from costmodel.published.nn_dataflow.layers import LayerShape
from costmodel.published.nn_dataflow.partition import Partition, largest_part, partitions
from costmodel.published.nn_dataflow.row_stationary import ProcessingPass, processing_passes
from costmodel.published.nn_dataflow.sharing import NodeGroup, _BufferNest, best_rotation, sharing_groups

LAYER, BATCH = LayerShape("convolution", 16, 32, 14, 14, 3, 3), 4
HARDWARE = NnDataflowHardware.of(load_multi_node("kapla-4x4", "released"))


def partition(**sizes: tuple[int, int]) -> Partition:
    names = ("OUTP", "OFMP", "BATP", "INPP")
    return Partition((3, 2, 1, 0), tuple(sizes.get(name, (1, 1)) for name in names))


def test_groups_are_along_the_kind_that_does_not_index_a_tensor() -> None:
    rows = partition(OUTP=(1, 4), BATP=(4, 1))
    filters, inputs, outputs = sharing_groups(LAYER, rows)
    assert (filters.sides, inputs.sides, outputs.sides) == ((4, 1), (1, 4), (1, 1))
    assert (filters.steps, inputs.steps) == ((1, inf), (inf, 1))
    together = partition(OFMP=(2, 2), BATP=(2, 2))
    assert sharing_groups(LAYER, together)[0].sides == (4, 4)
    # neighbours in output maps are next to each other, those in batch two nodes away
    assert sharing_groups(LAYER, together)[0].steps == (1, 1)
    for one in partitions(LAYER, BATCH, (4, 4)):
        assert tuple(group.size for group in sharing_groups(LAYER, one)) == one.sharing()
    local = LayerShape("local", 8, 8, 4, 4, 2, 2)
    assert [group.size for group in sharing_groups(local, rows)] == [1, 1, 1]


# --- rotations, part by part


def snake(sides: tuple[int, int], near: int) -> list[tuple[int, int]]:
    """The nodes of a subgroup in the order in which parts pass them."""
    along, across = sides[near], sides[1 - near]
    places = []
    for turn in range(across):
        steps = range(along) if turn % 2 == 0 else range(along - 1, -1, -1)
        places += [(step, turn) if near == 0 else (turn, step) for step in steps]
    return places


@pytest.mark.parametrize("sides", [(1, 4), (4, 1), (2, 4), (4, 4), (3, 2)])
@pytest.mark.parametrize("steps", [(1.0, 1.0), (1.0, 2.0), (2.0, 1.0)])
def test_rotation_hops_part_by_part(sides: tuple[int, int], steps: tuple[float, float]) -> None:
    """Every node ends up having seen every part; each passage of a part is its fraction of the words."""
    group = NodeGroup(sides, steps)
    for parts in (count for count in range(2, group.size + 1) if group.size % count == 0):
        inner = group.subgroup_sides(parts)
        assert prod(inner) == parts
        places = snake(inner, group.near)
        holds, seen, hops = list(range(parts)), [{part} for part in range(parts)], 0.0
        for _ in range(parts - 1):
            for number in range(parts):
                here, there = places[number], places[(number + 1) % parts]
                hops += sum(abs(a - b) * step for a, b, step in zip(here, there, steps, strict=True)) / parts
            holds = [holds[number - 1] for number in range(parts)]
            for number, part in enumerate(holds):
                seen[number].add(part)
        assert all(len(one) == parts for one in seen)
        assert group.rotation_hops(parts, parts) == pytest.approx(hops * (group.size // parts))


def test_units_longer_than_a_part_stop_earlier_and_read_from_neighbours() -> None:
    group = NodeGroup((1, 4), (inf, 1.0))
    assert group.rotation_hops(4, 4) == pytest.approx(6 / 4 * 3)
    # three units in four parts: the last one is reached after 8/3 steps
    assert group.rotation_hops(4, 3) == pytest.approx(6 / 4 * 8 / 3)
    assert group.wide_fetch_hops(4, 1) == 0
    # two parts: the other one from the neighbour, as a step of a rotation of half of what is read
    assert group.wide_fetch_hops(4, 2) == pytest.approx(6 / 4 / 2)


# --- schemes


def scheme(at_buffer: tuple[int, ...], order: tuple[int, int, int]) -> Blocking:
    unit = passes()[0]
    outer = tuple(-(-trips // inner) for trips, inner in zip(unit.loop_counts, at_buffer, strict=True))
    return Blocking((outer, at_buffer, (1, 1, 1)), ((0, 1, 2), order))


DIVIDED = partition(OUTP=(4, 1), BATP=(1, 4))


def passes() -> list[ProcessingPass]:
    part = largest_part(LAYER, BATCH, DIVIDED)
    return processing_passes(part.layer, part.batch, HARDWARE.array, part.occupied)


def test_sharing_makes_room_and_costs_hops() -> None:
    unit, groups = passes()[0], sharing_groups(LAYER, DIVIDED)
    blocking = scheme(unit.loop_counts, (0, 1, 2))
    words = scheme_cost(unit, blocking, HARDWARE).held_words[0]
    tight = replace(HARDWARE, buffer_words=sum(words) - 1)
    with pytest.raises(NotFittingError):
        scheme_cost(unit, blocking, tight)
    rotation = best_rotation(unit, blocking, groups, tight.buffer_words, 16)
    delivery = DeliveryCosts((0, 0, 0), DIVIDED.sharing(), rotation.parts, rotation.hops)
    cost = scheme_cost(unit, blocking, tight, delivery)
    assert sum(cost.held_words[0]) <= tight.buffer_words
    assert cost.noc_energy == pytest.approx(rotation.hops * HARDWARE.costs.hop)
    alone = scheme_cost(unit, blocking, HARDWARE)
    shared = DIVIDED.sharing()
    assert cost.accesses[0] == pytest.approx(
        [words / count for words, count in zip(alone.accesses[0], shared, strict=True)]
    )
    assert cost.accesses[1:] == alone.accesses[1:]


def test_parts_are_as_few_as_fit() -> None:
    unit, groups = passes()[0], sharing_groups(LAYER, DIVIDED)
    blocking = scheme(unit.loop_counts, (0, 1, 2))
    words = scheme_cost(unit, blocking, HARDWARE).held_words[0]
    assert best_rotation(unit, blocking, groups, 10**9, 16).hops == 0
    least = sum(-(-count // group.size) for count, group in zip(words, groups, strict=True))
    for room in range(least, sum(words), 97):
        parts = best_rotation(unit, blocking, groups, room, 16).parts
        assert sum(-(-count // part) for count, part in zip(words, parts, strict=True)) <= room


def test_reordered_nests_fetch_as_before() -> None:
    """Splitting and reordering the loops at the buffer leaves every fetch as it is."""
    unit = processing_passes(LAYER, BATCH, HARDWARE.array)[0]
    blocking = Blocking(((1, 1, 1), unit.loop_counts, (1, 1, 1)), ((0, 1, 2), (1, 2, 0)))
    nest, checked = _BufferNest(unit, blocking), 0
    for loops in nest.orders():
        factors = [1, 1, 1]
        for loop, factor in loops:
            factors[loop] *= factor
        assert tuple(factors) == blocking.factors[1]
        # the innermost loop that indexes a tensor, and so what repeats it, is the same
        for t, related in enumerate(unit.related):
            inner = [number for number, (loop, _) in enumerate(loops) if loop in related]
            again = prod(f for loop, f in loops[: inner[-1]] if loop not in related)
            times = nest.fetches[1][t]
            assert again == ((times + 1) // 2 if t == 2 else times)
        checked += 1
    assert checked > 1
