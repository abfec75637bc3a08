"""Pipelines on parts of the array: against a walk turn by turn and single stages, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from costmodel.formats.json.fused_layers_json import (
    group_evaluation_to_json,
    group_mapping_from_json,
    group_mapping_to_json,
)
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.fused.layers.array_parts import array_size, divided_level, part_of_array
from costmodel.mapping.fused.layers.checker import tree_violations, violations
from costmodel.mapping.fused.layers.evaluate import evaluate_group
from costmodel.mapping.fused.layers.group import GroupMapping, LayerGroup
from costmodel.mapping.fused.layers.pipelines import PipelineTurns
from costmodel.mapping.fused.layers.text import group_text
from costmodel.mapping.fused.layers.turns import held_tiles, turns_of
from costmodel.mapping.fused.mapping import FusedMapping
from costmodel.mapping.fused.pipeline import Pipeline
from costmodel.workload.network import gemm
from tests.costmodel.mapping.fused.layers import random_groups
from tests.costmodel.mapping.fused.layers.test_windows import padding
from tests.costmodel.mapping.fused.layers.walked_pipelines import replayed


def machine(random: Random, *, leaks: bool = True, room: int | None = None) -> Architecture:
    """Two levels on the chip over columns and rows of MAC units, with bandwidths that floats hold exactly."""
    drawn = random_groups.architecture(random, room=room)
    inner, sram, outer = drawn.levels

    def rate() -> float | None:
        return random.choice((None, 1.0, 2.0, 4.0, 8.0))

    def leakage() -> float:
        return random.choice((0.0, 0.5, 2.0)) if leaks else 0.0

    levels = (
        replace(inner, leakage_pj_per_cycle=leakage(), read_bandwidth=rate()),
        replace(
            sram,
            fanout_x=random.randint(1, 4),
            fanout_y=random.randint(1, 4),
            leakage_pj_per_cycle=leakage(),
            read_bandwidth=rate(),
            write_bandwidth=rate(),
        ),
        replace(outer, leakage_pj_per_cycle=leakage(), read_bandwidth=rate(), write_bandwidth=rate()),
    )
    return replace(drawn, levels=levels)


def pipelined_group(random: Random, count: int, *, anew: bool = False) -> tuple[LayerGroup, GroupMapping]:
    """A chain of convolutions as one pipeline, with nests drawn at random."""
    while True:
        chip = machine(random)
        group = random_groups.convolutions(random, chip, count, columns=random.random() < 0.3)
        shared = random_groups.window_tree(random, group, anew=anew)
        if anew and not shared.recompute:
            continue
        side = chip.levels[1]
        found = random_groups.pipelined(random, shared, side.fanout_x, side.fanout_y)
        if found is not None and not tree_violations(group, found):
            return group, random_groups.whole(random, group, found)


@pytest.mark.parametrize(("count", "anew"), [(2, False), (2, True), (3, False), (3, True)])
def test_pipelines_cost_what_their_turns_cost(count: int, anew: bool) -> None:
    random, met = Random(f"{count} {anew}"), Counter[str]()
    for _ in range(40):
        group, mapping = pipelined_group(random, count, anew=anew)
        assert violations(group, mapping) == []
        found, told = evaluate_group(group, mapping), replayed(group, mapping, padding(group))
        (pipeline,) = found.pipelines
        assert pipeline.turns == told.turns
        assert found.cycles == pipeline.cycles == told.cycles == sum(pipeline.cycles_by_cause.values())
        assert found.energy_pj == pytest.approx(told.energy_pj, rel=1e-12)
        assert sum(found.levels_pj) <= found.energy_pj
        turns = turns_of(group, mapping.shared)
        working = PipelineTurns(turns).working
        assert sum(working.values()) == told.turns
        for tile in held_tiles(group, mapping.shared):
            if not tile.hoisted and tile.copies > 1:
                assert told.alive[tile.position] <= tile.words
                met["tiles as large as what lives"] += told.alive[tile.position] == tile.words
        met["turns of several kinds"] += any(len(one.kinds) > 1 for one in turns)
        met["an idle stage between others"] += any(None in one[:1] and None in one[1:] for one in working)
        met["hoisted"] += any(one.hoisted for one in turns)
        met["a shared level binds"] += any("for all stages" in cause for cause in pipeline.cycles_by_cause)
        met["leaks"] += any(pipeline.leakage_pj)
        met["more stages than iterations"] += told.turns < 2 * count - 1
    assert min(met[what] for what in ("hoisted", "a shared level binds", "leaks")) > 3
    assert met["turns of several kinds"] > 10
    assert met["tiles as large as what lives"] > (3 if count == 2 else 0)


def test_a_stage_counts_what_evaluate_counts_on_its_part_of_the_array() -> None:
    random, compared = Random(5), 0
    while compared < 20:
        chip = machine(random, leaks=False)
        group = random_groups.chain(chip, random_groups.products(random, 2))
        side = chip.levels[1]
        shared = random_groups.pipelined(
            random, random_groups.tree(random, group), side.fanout_x, side.fanout_y
        )
        if shared is None:
            continue
        shared = replace(shared, backing={}, hoist={})
        if tree_violations(group, shared):
            continue
        compared += 1
        mapping = random_groups.whole(random, group, shared)
        found = evaluate_group(group, mapping)
        energy = 0.0
        (pipeline,) = shared.pipelines
        for one, nests, cost in zip(
            turns_of(group, shared), mapping.turn_nests(group.layers), found.layers, strict=True
        ):
            part = pipeline.parts[one.position]
            levels = list(chip.levels)
            sides = {"fanout_x": part} if pipeline.axis == "x" else {"fanout_y": part}
            levels[1] = replace(levels[1], **sides)  # type: ignore[arg-type]
            for kind, nest, costs in zip(one.kinds, nests, cost.kinds, strict=True):
                # to the last bit: nothing is held and nothing leaks
                assert costs.turn == evaluate(replace(chip, levels=tuple(levels)), kind.part, nest)
                energy += kind.turns * costs.turn.energy_pj
        assert found.energy_pj == energy


def two_products(columns: int = 4, room: int | None = None) -> tuple[LayerGroup, GroupMapping]:
    """Two products of 8 x 4 x 4, on half of the columns each, a row at a time."""
    random = Random(1)
    drawn = random_groups.architecture(random, room=room, fanout=columns)
    group = random_groups.chain(drawn, (gemm("a", M=8, N=4, K=4), gemm("b", M=8, N=4, K=4)))
    shared = FusedMapping(
        (1,), ((("M", 1),),) * 2, (), {"a": 1}, pipelines=(Pipeline(0, "x", (columns // 2,) * 2),)
    )
    return group, random_groups.whole(random, group, shared, "MNK")


def test_two_products_by_hand() -> None:
    # A turn of 1 x 4 x 4 takes 16 cycles on one MAC unit; 8 iterations of 2 stages are 9 turns.
    group, mapping = two_products()
    found = evaluate_group(group, mapping)
    assert [cost.turns for cost in found.layers] == [8, 8]
    assert [cost.kinds[0].turn.compute_cycles for cost in found.layers] == [16, 16]
    assert found.cycles == 9 * 16
    # the last turn drains: b is alone
    assert found.pipelines[0].cycles_by_cause == {"the stage of a": 8 * 16, "the stage of b": 16}
    # the same without the pipeline takes 16 turns one after the other, and as much energy
    alone = GroupMapping(replace(mapping.shared, pipelines=()), mapping.nests)
    apart = evaluate_group(group, alone)
    assert apart.cycles == 16 * 16
    assert apart.energy_pj == found.energy_pj
    # SRAM: rows of Z twice; the stages' own tiles are at once, each 4 words of an operand or output and 16
    # of weights
    assert apart.peak[1] == 4 + (4 + 16)
    assert found.peak[1] == 2 * 4 + 2 * (4 + 16)
    assert violations(*two_products(room=48)) == []
    (reason,) = violations(*two_products(room=47))
    assert reason == "SRAM holds 48 words while a and b run (8 of them held), 47 are usable"


def test_what_is_no_pipeline_says_why() -> None:
    group, mapping = two_products()

    def reasons(shared: FusedMapping) -> str:
        return "; ".join(violations(group, replace(mapping, shared=shared)))

    def with_pipelines(*pipelines: Pipeline) -> str:
        return reasons(replace(mapping.shared, pipelines=pipelines))

    assert with_pipelines(Pipeline(0, "x", (2, 2))) == ""
    assert with_pipelines(Pipeline(0, "x", (1, 1))) == ""
    assert "has 3 + 2 columns, one or more each and 4 together are there" in with_pipelines(
        Pipeline(0, "x", (3, 2))
    )
    assert "has 4 + 0 columns" in with_pipelines(Pipeline(0, "x", (4, 0)))
    assert "has 1 + 1 rows, one or more each and 1 together" in with_pipelines(Pipeline(0, "y", (1, 1)))
    assert "divides the axis z" in with_pipelines(Pipeline(0, "z", (1, 1)))  # type: ignore[arg-type]
    for first, parts in ((1, (2, 2)), (0, (4,)), (-1, (2, 2))):
        assert "two or more of the 2 layers" in with_pipelines(Pipeline(first, "x", parts))
    assert "each in one pipeline" in with_pipelines(Pipeline(0, "x", (2, 2)), Pipeline(0, "x", (2, 2)))
    whole = FusedMapping((0,), ((), ()), (), {"a": 1}, pipelines=(Pipeline(0, "x", (2, 2)),))
    assert "shares no loop" in reasons(whole)
    # a nest on more columns than its stage has
    level = replace(mapping.nests[0].levels[1], spatial_x=(("N", 4),))
    inner = replace(mapping.nests[0].levels[0], temporal=(("K", 4),))
    wide = replace(mapping.nests[0], levels=(inner, level, mapping.nests[0].levels[2]))
    (reason,) = violations(group, replace(mapping, nests=(wide, mapping.nests[1])))
    assert reason == "a on 2 columns: SRAM: spatial factors on X multiply to 4, the fan-out is 2"
    narrow = replace(group, architecture=random_groups.architecture(Random(1)))
    none = replace(mapping.shared, pipelines=(Pipeline(0, "x", (1, 1)),))
    assert "no fan-out inside the chip to divide" in "; ".join(tree_violations(narrow, none))


def test_stages_share_all_loops_with_one_another_and_none_with_others() -> None:
    random = Random(3)
    chip = random_groups.architecture(random, fanout=8)
    group = random_groups.chain(chip, tuple(gemm(name, M=4, N=4, K=4) for name in "abc"))
    path = (("M", 2), ("N", 2))
    nested = FusedMapping((1, 2), (path[:1], (("M", 2), ("N2", 2)), (("M", 2), ("N2", 2))), ())
    nested = replace(nested, backing={"a": 1, "b": 1})
    assert tree_violations(group, nested) == []
    for pipeline, said in (
        (Pipeline(0, "x", (2, 2, 2)), "all stages share all loops above them"),
        (Pipeline(1, "x", (2, 2)), "shares loops with a layer that is no stage of it"),
    ):
        (reason,) = tree_violations(group, replace(nested, pipelines=(pipeline,)))
        assert said in reason


def test_a_tile_that_passes_two_stages_is_held_three_times() -> None:
    random = Random(4)
    chip = random_groups.architecture(random, fanout=8)
    layers = tuple(gemm(name, M=4, N=4, K=4) for name in "abc")
    group = random_groups.chain(chip, layers, residual=True)
    shared = FusedMapping((1, 1), ((("M", 1),),) * 3, (), {"a": 1, "b": 1})
    shared = replace(shared, pipelines=(Pipeline(0, "x", (2, 2, 4)),))
    tiles = {tile.position: (tile.copies, tile.words) for tile in held_tiles(group, shared)}
    assert tiles == {0: (3, 12), 1: (2, 8)}


def test_pipelines_travel_as_json_and_stand_in_the_text() -> None:
    random = Random(2)
    for _ in range(10):
        group, mapping = pipelined_group(random, 2, anew=random.random() < 0.3)
        told = json.loads(json.dumps(group_mapping_to_json(group, mapping)))
        assert group_mapping_from_json(group, told) == mapping
        (pipeline,) = mapping.shared.pipelines
        ((side, parts),) = told["pipelines"][0].items()
        assert side == pipeline.side
        assert tuple(parts.values()) == pipeline.parts
        found = evaluate_group(group, mapping)
        (measured,) = group_evaluation_to_json(group, mapping, found)["pipelines"]
        assert measured["cycles"] == found.cycles
        text = group_text(group, mapping)
        assert text.count("pipelined on") == 1
        assert f"c0 on {pipeline.parts[0]}, c1 on {pipeline.parts[1]}" in text
        copies = [tile for tile in held_tiles(group, mapping.shared) if tile.copies > 1]
        assert text.count(": 2 x ") == len(copies)


def test_the_divided_level_is_the_outermost_one_of_the_chip_with_a_fan_out() -> None:
    chip = random_groups.architecture(Random(1), fanout=6)
    assert divided_level(chip) == 1
    assert (array_size(chip, "x"), array_size(chip, "y")) == (6, 1)
    assert part_of_array(chip, "x", 2).levels[1].fanout_x == 2
    spread = replace(chip, levels=(*chip.levels[:2], replace(chip.levels[2], fanout_x=2)))
    assert divided_level(spread) is None
    assert array_size(spread, "x") == 1
