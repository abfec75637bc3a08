"""Loops over windows: what they cost, held against elements followed one by one, and against einsums."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.json.fused_layers_json import (
    group_from_json,
    group_mapping_from_json,
    group_mapping_to_json,
    group_to_json,
)
from costmodel.formats.networks import load_network
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.fused.checker import violations as fused_violations
from costmodel.mapping.fused.evaluate import evaluate_fused
from costmodel.mapping.fused.layers.checker import tree_violations, violations
from costmodel.mapping.fused.layers.evaluate import evaluate_group
from costmodel.mapping.fused.layers.group import (
    GroupMapping,
    Intermediate,
    IntermediateRead,
    LayerGroup,
    SlidingRead,
)
from costmodel.mapping.fused.layers.links import group_of
from costmodel.mapping.fused.layers.text import group_text
from costmodel.mapping.fused.layers.turns import held_tiles, turns_of
from costmodel.mapping.fused.mapping import FusedMapping, Loops
from costmodel.mapping.fused.problem import Einsum, FusedLevel, FusedProblem, Halo
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import convolution
from costmodel.workload.windows import Windows
from tests.costmodel.mapping.fused.layers import random_groups
from tests.costmodel.mapping.fused.layers.walked_turns import Pool, Walk


def padding(group: LayerGroup) -> list[tuple[int, int]]:
    """Of every layer the padding above and left of what it reads."""
    found = [(0, 0)]
    for one in group.intermediates:
        slid = {sliding.used: sliding.windows.before for sliding in one.reads[0].windows}
        found.append((slid.get("P", 0), slid.get("Q", 0)))
    return found


def pools(group: LayerGroup) -> list[list[Pool]]:
    """Of every layer the poolings of what it reads, along rows and along columns."""
    found: list[list[Pool]] = [[]]
    for one in group.intermediates:
        slid = {sliding.used: sliding.pools for sliding in one.reads[0].windows}
        lengths = [group.layers[one.producer].sizes[dim] for dim in "PQ"]
        many = max(map(len, slid.values()), default=0)
        # along an axis that is not pooled every window is one row
        rows, columns = (
            [(pool.count, pool.size, pool.stride, pool.before) for pool in slid.get(dim, ())]
            or [(length, 1, 1, 0)] * many
            for dim, length in zip("PQ", lengths, strict=True)
        )
        found.append(list(zip(rows, columns, strict=True)))
    return found


def whole_windows(group: LayerGroup, mapping: GroupMapping) -> bool:
    """Whether every tile of every nest has whole windows: then they are counted as elements are."""
    for layer, nests in zip(group.layers, mapping.turn_nests(group.layers), strict=True):
        for nest in nests:
            outer = {dim for level in nest.levels[1:] for dim, _ in level.temporal}
            taps = {"P": "R", "Q": "S"}
            if any(layer.sizes[taps[dim]] > 1 and {dim, taps[dim]} & outer for dim in "PQ"):
                return False
    return True


def passes_windows(group: LayerGroup, mapping: GroupMapping) -> int:
    """Through how many windows in a row a loop passes at most."""
    return max(
        sum(
            name in group.slides[position]
            for position, path in enumerate(mapping.shared.paths)
            if (name, step) in path
        )
        for path in mapping.shared.paths
        for name, step in [*path, ("", 0)]
    )


def slid_links(group: LayerGroup, mapping: GroupMapping) -> list[SlidingRead]:
    """The windows that shared loops of a mapping pass through."""
    return [
        sliding
        for one in group.intermediates
        for name, _ in mapping.shared.paths[one.producer]
        for sliding in one.reads[0].windows
        if group.slides[one.producer].get(name) == sliding.made
    ]


def taps_of(group: LayerGroup, link: SlidingRead) -> int:
    """Rows that a window of the link reads, without those that a dilation passes over."""
    reader = next(
        group.layers[one.reads[0].layer] for one in group.intermediates if link in one.reads[0].windows
    )
    return reader.sizes[{"P": "R", "Q": "S"}[link.used]]


def drops_rows(group: LayerGroup, shared: FusedMapping) -> bool:
    """Whether the tree needs rows that are made anew: no line buffers could stay in it."""
    return bool(tree_violations(group, replace(shared, recompute=frozenset())))


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("more", [(), ("gaps",), ("pooled",), ("gaps", "pooled")])
def test_windows_cost_what_their_elements_cost(
    more: tuple[str, ...], count: int, columns: bool, anew: bool
) -> None:
    seed = f"{count} {columns}" + " anew" * anew + "".join(more)
    random, met, slid = Random(seed), Counter[str](), 0
    width = (2, 4) if columns and anew else (1, 2)  # of tiles in both dims there are many kinds
    while slid < 80:
        machine = random_groups.architecture(random)
        group = random_groups.convolutions(
            random,
            machine,
            count,
            columns=columns,
            width=width,
            gaps="gaps" in more,
            pooled="pooled" in more,
        )
        shared = random_groups.window_tree(random, group, anew=anew)
        if anew and not shared.recompute:
            continue
        mapping = random_groups.whole(random, group, shared, random.choice(("", "PQRS", "PQRS")))
        assert violations(group, mapping) == []
        if not (passed := passes_windows(group, mapping)):
            continue
        slid += 1
        walk = Walk(group, mapping, padding(group), pools(group))
        walk.run()
        turns, found = turns_of(group, mapping.shared), evaluate_group(group, mapping)
        for number, one in enumerate(turns):
            parts = [(kind.part, kind.turns) for kind in one.kinds]
            kinds = {(part.sizes["P"], part.sizes["Q"], part.output.begun): turns for part, turns in parts}
            assert walk.turns[number] == kinds
            met["turns that go on with sums"] += any(part.output.begun for part, _ in parts)
            made = sum(kind.part.macs * kind.turns for kind in one.kinds)
            if one.layer.name in dict(shared.recompute):
                assert made >= one.layer.macs
                met["rows made more than once"] += made > one.layer.macs
            else:
                assert made == one.layer.macs
        for tile in held_tiles(group, mapping.shared):
            if not tile.hoisted:
                assert walk.most[tile.position] <= tile.words
                met["tiles as large as what they have"] += walk.most[tile.position] == tile.words
        met["trees without line buffers"] += drops_rows(group, shared)
        along = Counter(name for name, _ in shared.recompute)
        met["both made anew"] += max(along.values(), default=0) > 1
        met["one anew, one with a line buffer"] += any(
            name in along and len(random_groups.sliding(group, shared, name)) > along[name] for name in along
        )
        met["turns of several kinds"] += any(len(one.kinds) > 1 for one in turns)
        met["of three kinds"] += any(len(one.kinds) > 2 for one in turns)
        met["hoisted tiles"] += any(one.hoisted for one in turns)
        met["loops through two windows"] += passed > 1
        for link in slid_links(group, mapping):
            met["loops through poolings"] += bool(link.pools)
            met["loops through dilated windows"] += link.windows.size > taps_of(group, link)
            met["rows between windows"] += any(
                one.size < one.stride for one in (link.windows, *link.pools) if one.count > 1
            )
        for one, nests, cost in zip(turns, mapping.turn_nests(group.layers), found.layers, strict=True):
            for kind, nest, costs in zip(one.kinds, nests, cost.kinds, strict=True):
                # a turn is what evaluate says of its part, less the way of what is held
                alone = evaluate(machine, kind.part, nest)
                way = 0.0
                for name, level in one.held.items():
                    outer, holding = alone.levels[-1].tensors[name], alone.levels[level].tensors[name]
                    way += outer.energy_pj + holding.fills * machine.levels[level].write_energy_pj
                assert costs.turn.energy_pj == alone.energy_pj - way
                assert costs.turn.cycles == alone.cycles
        if not whole_windows(group, mapping):
            continue
        met["counts"] += 1
        energy = 0.0
        macs = [sum(kind.part.macs * kind.turns for kind in one.kinds) for one in turns]
        for number, _ in enumerate(group.layers):
            energy += macs[number] * machine.compute.energy_pj
            for level, hardware in enumerate(machine.levels):
                energy += walk.counts[number, level, "reads"] * hardware.read_energy_pj
                energy += walk.counts[number, level, "fills"] * hardware.write_energy_pj
                energy += walk.counts[number, level, "updates"] * hardware.update_energy_pj
        assert found.energy_pj == energy
        assert found.cycles == sum(macs)
    expected = ["tiles as large as what they have", "turns of several kinds"]
    expected += ["of three kinds"] * (not anew)
    expected += ["turns that go on with sums", "hoisted tiles", "counts"]
    expected += ["loops through two windows"] * (count > 2)
    expected += ["rows made more than once", "trees without line buffers"] * anew
    if anew and columns:
        expected += ["both made anew", "one anew, one with a line buffer"]
    expected += ["loops through poolings"] * ("pooled" in more)
    expected += ["loops through dilated windows", "rows between windows"] * ("gaps" in more)
    assert all(met[name] >= 3 for name in expected), met
    assert met["counts"] > 40


def as_einsums(group: LayerGroup, mapping: GroupMapping) -> tuple[FusedProblem, FusedMapping]:
    """The same chain along rows alone as einsums, without dims of one point; windows are their halos."""
    einsums, own, halo = [], [], {}
    for number, (layer, nest) in enumerate(zip(group.layers, mapping.nests, strict=True)):
        loops = {dim: name for dim, name in group.loops[number].items() if layer.sizes[dim] > 1}
        tensors = {}
        for tensor in layer.tensors:
            axes = [tuple((loops[d], times) for d, times in axis if d in loops) for axis in tensor.terms]
            called = f"{layer.name}.{tensor.name}"
            if tensor.role == "inputs" and number:
                called = f"c{number - 1}.Outputs"
                for sliding in group.intermediates[number - 1].reads[0].windows:
                    axis = next(axis for axis in axes if loops[sliding.used] in dict(axis))
                    halo[loops[sliding.used]] = Halo(group.loops[number - 1][sliding.made], axis)
            tensors[called] = tuple(axis for axis in axes if axis)
        dims = {name: layer.sizes[dim] for dim, name in loops.items()}
        einsums.append(Einsum(layer.name, dims, tensors, f"{layer.name}.Outputs"))
        lists = []
        for level in range(len(nest.levels) - 1, -1, -1):
            left, steps = dict(nest.tiles[level]), []
            for dim, bound in reversed(nest.levels[level].temporal):
                left[dim] //= bound
                steps.append((loops[dim], left[dim]))
            lists.append(tuple(steps))
        own.append(tuple(lists))
    levels = tuple(
        FusedLevel(one.name, one.size_words, one.read_energy_pj, one.write_energy_pj)
        for one in group.architecture.levels
    )
    shared = mapping.shared
    backing = {f"{name}.Outputs": level for name, level in shared.backing.items()}
    hoist = {
        name: {f"{name}.{tensor}": depth for tensor, depth in one.items()}
        for name, one in shared.hoist.items()
    }
    problem = FusedProblem(tuple(einsums), levels, group.architecture.compute.energy_pj, halo)
    return problem, FusedMapping(shared.prefix, shared.paths, tuple(own), backing, hoist)


def test_windows_cost_what_halos_of_einsums_cost() -> None:
    random, compared, several = Random(7), 0, 0
    while compared < 60:
        machine = random_groups.architecture(random)
        group = random_groups.convolutions(random, machine, random.choice((2, 3)), padded=False)
        if any(layer.sizes["Q"] > 1 or layer.sizes["P"] == 1 for layer in group.layers):
            continue
        mapping = random_groups.whole(random, group, random_groups.window_tree(random, group), "PR")
        mapping = random_groups.with_equal_orders(group, mapping)
        passed = passes_windows(group, mapping)
        # a chain of einsums has neither loops through two windows nor shared loops around what goes outside
        if passed != 1 or any(
            shared and layer.name not in mapping.shared.backing
            for shared, layer in zip(mapping.shared.prefix, group.layers, strict=False)
        ):
            continue
        told = evaluate_fused(*as_einsums(group, mapping))
        found = evaluate_group(group, mapping)
        assert found.energy_pj == told.energy_pj
        assert found.cycles == told.cycles
        assert found.peak == told.peak[:-1]
        compared += 1
        several += any(len(one.kinds) > 1 for one in turns_of(group, mapping.shared))
    assert several > 20


def test_reasons_against_loops_over_windows() -> None:
    network = load_network("mobilenet_v2")
    names = [f"block2.1.{name}" for name in ("expand", "depthwise", "project")]
    group = group_of(load_architecture("simba"), network, names)
    backing = {names[0]: 4, names[1]: 4}

    def reasons(first: Loops, second: Loops, prefix: tuple[int, int]) -> str:
        paths = (first, max(first, second, key=len), second)
        return "; ".join(tree_violations(group, FusedMapping(prefix, paths, (), backing)))

    rows: Loops = (("P2", 4),)
    assert reasons(rows, rows, (1, 1)) == ""
    assert reasons(rows, (), (1, 0)) == ""
    assert "step 3, no divisor of 56" in reasons((("P2", 3),), (), (1, 0))
    assert "depthwise has a shared loop over P, its loops are" in reasons((("P", 4),), (), (1, 0))
    inside: Loops = (*rows, ("K", 72))
    assert "rows that are needed after they were dropped" in reasons(inside, rows, (2, 1))
    assert reasons((("K", 72), *rows), (("K", 72), *rows), (2, 2)) == ""
    twice: Loops = (*rows, ("P2", 2))
    assert "which another shared loop cuts, too" in reasons(twice, rows, (2, 1))
    # the same room holds a window of fewer rows
    shared = FusedMapping((1, 1), (rows,) * 3, (), backing)
    lines = {tile.position: tile.words for tile in held_tiles(group, shared)}
    assert lines == {0: 6 * 58 * 144, 1: 4 * 56 * 144}
    expand = turns_of(group, shared)[0]
    assert expand.kind_text(expand.kinds[0]) == "P=5 in 1 turn"
    assert "has 1 nests, and its turns are of 3 kinds: P=5 in 1 turn, P=4 in 12 turns, P=3 in 1 turn" in (
        "; ".join(violations(group, GroupMapping(shared, (Mapping(()),) * 3)))
    )
    bare = group_of(load_architecture("simba"), network, names, windows=False)
    assert bare.slides == ({}, {}, {})
    assert "has a shared loop over P2" in "; ".join(tree_violations(bare, shared))


def test_reasons_against_rows_made_anew() -> None:
    network = load_network("mobilenet_v2")
    names = [f"block2.1.{name}" for name in ("expand", "depthwise", "project")]
    group = group_of(load_architecture("simba"), network, names)
    backing = {names[0]: 4, names[1]: 4}
    inside: Loops = (("P2", 4), ("K", 72))

    def reasons(path: Loops, backing: dict[str, int], *anew: tuple[str, str]) -> str:
        shared = FusedMapping((len(path),) * 2, (path,) * 3, (), backing, recompute=frozenset(anew))
        return "; ".join(tree_violations(group, shared))

    assert "rows that are needed after they were dropped" in reasons(inside, backing)
    assert reasons(inside, backing, (names[0], "P2")) == ""
    assert "there is no such layer" in reasons(inside, backing, ("another", "P2"))
    assert "its output has no backing level" in reasons(inside, {names[1]: 4}, (names[0], "P2"))
    assert "the loop over P2 does not slide along them" in reasons(inside, backing, (names[1], "P2"))
    assert "the loop over K does not slide along them" in reasons(inside, backing, (names[0], "K"))
    assert "the loop over P2 is none of its shared loops" in reasons(inside[1:], backing, (names[0], "P2"))
    # half of the channels of six rows: 13 inner iterations reach two rows beyond their own, the ends one
    shared = FusedMapping((2, 2), (inside,) * 3, (), backing, recompute=frozenset({(names[0], "P2")}))
    lines = {tile.position: tile.words for tile in held_tiles(group, shared)}
    assert lines == {0: 6 * 58 * 72, 1: 4 * 56 * 72}
    expand = turns_of(group, shared)[0]
    assert [expand.kind_text(kind) for kind in expand.kinds] == ["P=6 in 24 turns", "P=5 in 4 turns"]
    levels = FusedLevel("SRAM", 9, 1.0, 1.0), FusedLevel("DRAM", None, 1.0, 1.0)
    tensors = dict.fromkeys("AB", ((("m", 1),),))
    chain = FusedProblem((Einsum("a", {"m": 2}, tensors, "B"),), levels, 1.0)
    alone = FusedMapping((), ((),), (((("m", 1),), ()),), recompute=frozenset({("a", "m")}))
    assert "only layers on an architecture can" in "; ".join(fused_violations(chain, alone))


def test_groups_with_windows_travel_as_json() -> None:
    random = Random(2)
    for _ in range(20):
        machine = random_groups.architecture(random)
        group = random_groups.convolutions(random, machine, 3, columns=True, pooled=True, gaps=True)
        assert group_from_json(machine, json.loads(json.dumps(group_to_json(group)))) == group
        shared = random_groups.window_tree(random, group, anew=random.random() < 0.5)
        mapping = random_groups.whole(random, group, shared)
        told = group_mapping_to_json(group, mapping)
        assert group_mapping_from_json(group, json.loads(json.dumps(told))) == mapping
        pairs = [(name, loop) for name, some in told.get("recompute", {}).items() for loop in some]
        assert set(pairs) == shared.recompute
        assert {name: len(nests) for name, nests in told.get("others", {}).items()} == {
            one.layer.name: len(one.kinds) - 1
            for one in turns_of(group, mapping.shared)
            if len(one.kinds) > 1
        }
        text = group_text(group, mapping)
        assert text.count(" made anew") == len(dict(shared.recompute))
        lines = sum(len(one.kinds) for one in turns_of(group, mapping.shared))
        tiles = len(held_tiles(group, mapping.shared))
        assert text.count(": ") >= lines + tiles


def test_windows_that_a_reader_does_not_have_are_refused() -> None:
    layers = (
        convolution("a", N=1, K=2, C=2, P=8, Q=4, R=1, S=1),
        convolution("b", N=1, K=2, C=2, P=8, Q=4, R=3, S=1),
    )
    machine = random_groups.architecture(Random(1))
    for windows, said in (
        (Windows(8, 3, 2, 1), "8 windows of 3 every 1"),
        (Windows(7, 3, 1, 1), "8 windows of 3 every 1"),
        (Windows(8, 3, 1, 3), "each begin less than their size before one of 8 rows"),
    ):
        read = IntermediateRead(1, "Inputs", (("K", "C"),), (SlidingRead("P", "P", windows),))
        with pytest.raises(InputError, match=said):
            LayerGroup(machine, layers, (Intermediate(0, (read,)),))
