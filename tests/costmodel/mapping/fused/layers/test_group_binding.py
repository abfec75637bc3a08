"""What binds a fused group's cycles: turn by turn what binds a layer, against hardware that is changed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from costmodel.mapping.binding import MAC_UNITS, time_binding
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.fused.layers.binding import cycles_by_cause
from costmodel.mapping.fused.layers.evaluate import evaluate_group
from costmodel.mapping.fused.layers.pipelines import HOISTED
from costmodel.mapping.fused.layers.turns import turns_of
from tests.costmodel.mapping.fused.layers import random_groups


def test_causes_add_up_and_are_those_of_a_layer_by_itself() -> None:
    alone = waiting = together = 0
    for seed in range(60):
        random = Random(seed)
        machine = random_groups.architecture(random, fanout=3, rates=True)
        group = random_groups.chain(machine, random_groups.products(random, 3))
        mapping = random_groups.mapping(random, group)
        found, cost = cycles_by_cause(group, mapping), evaluate_group(group, mapping)
        assert [sum(causes.values()) for causes in found] == [layer.cycles for layer in cost.layers]
        for one, causes, nest in zip(turns_of(group, mapping.shared), found, mapping.nests, strict=True):
            waiting += HOISTED in causes
            together += len(causes) > 1
            if not one.path and not one.held:  # nothing shared, nothing held: a layer like any other
                counted = evaluate(machine, one.layer, nest)
                cause = time_binding(machine, one.layer, nest, counted).cause
                assert causes == {cause: counted.cycles}
                alone += 1
    assert alone >= 5
    assert waiting >= 1
    assert together >= 1


def test_where_bandwidths_do_not_end_the_mac_units_bind() -> None:
    for seed in range(20):
        random = Random(seed)
        machine = random_groups.architecture(random, fanout=3)
        group = random_groups.chain(machine, random_groups.products(random, 2))
        mapping = random_groups.mapping(random, group)
        assert all(set(causes) == {MAC_UNITS} for causes in cycles_by_cause(group, mapping))
        # a level that gives out a word in a hundred cycles binds every turn that reads of it
        *levels, dram = machine.levels
        slow = replace(machine, levels=(*levels, replace(dram, read_bandwidth=0.01)))
        bound = cycles_by_cause(replace(group, architecture=slow), mapping)
        assert any("DRAM read bandwidth" in causes or HOISTED in causes for causes in bound)
