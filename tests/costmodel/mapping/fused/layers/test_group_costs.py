"""What fused layers cost: the sum of ``evaluate`` where nothing is shared, the einsums' counts elsewhere."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.hardware.precision import Precision, Width
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.fused.checker import violations as einsum_violations
from costmodel.mapping.fused.evaluate import evaluate_fused
from costmodel.mapping.fused.layers.checker import violations
from costmodel.mapping.fused.layers.evaluate import evaluate_group
from costmodel.mapping.fused.layers.group import GroupMapping, LayerGroup
from costmodel.mapping.fused.layers.links import group_of
from costmodel.mapping.fused.mapping import FusedMapping
from costmodel.mapping.fused.problem import Einsum, FusedLevel, FusedProblem
from solvers.mapping.space.rules import SpaceRules
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.space.starts import any_mapping
from tests.costmodel.mapping.fused.layers import random_groups

MOBILE = ["block2.1.expand", "block2.1.depthwise", "block2.1.project"]
TEXT = [f"block0.{name}" for name in ("attention.scores", "attention.values", "output", "expand", "contract")]


@pytest.mark.parametrize("machine", ["eyeriss", "simba", "E_four_level", "tpu-like"])
@pytest.mark.parametrize(("network", "names"), [("mobilenet_v2", MOBILE), ("bert_base", TEXT)])
def test_layers_one_after_the_other_are_the_sum_of_evaluate(
    machine: str, network: str, names: list[str]
) -> None:
    architecture = load_architecture(machine)
    group = group_of(architecture, load_network(network), names)
    nests = tuple(
        mapping
        for layer in group.layers
        if (mapping := any_mapping(MappingSpace(architecture, layer, SpaceRules())))
    )
    shared = FusedMapping((0,) * (len(names) - 1), ((),) * len(names), ())
    found = evaluate_group(group, GroupMapping(shared, nests))
    alone = [evaluate(architecture, *pair) for pair in zip(group.layers, nests, strict=True)]
    # to the last bit, leakage and blocks included
    assert found.energy_pj == sum(one.energy_pj for one in alone)
    assert found.cycles == sum(one.cycles for one in alone)
    assert [kind.turn for cost in found.layers for kind in cost.kinds] == alone


def as_einsums(group: LayerGroup, mapping: GroupMapping) -> tuple[FusedProblem, FusedMapping]:
    """The same chain and mapping as einsums, whose counts are held against an element-exact reference."""
    einsums, own, hoist = [], [], {}
    for number, (layer, nest) in enumerate(zip(group.layers, mapping.nests, strict=True)):
        called = {tensor.name: f"{layer.name}.{tensor.name}" for tensor in layer.tensors}
        if number:
            called["A"] = f"e{number - 1}.Z"
        hoisted = mapping.shared.hoisted(layer.name)
        hoist[layer.name] = {called[tensor]: depth for tensor, depth in hoisted.items()}
        loops = group.loops[number]
        einsums.append(
            Einsum(
                layer.name,
                {loops[dim]: size for dim, size in layer.dims},
                {
                    called[tensor.name]: tuple(((loops[axis[0][0]], 1),) for axis in tensor.terms)
                    for tensor in layer.tensors
                },
                called[layer.output.name],
            )
        )
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
    backing = {f"{name}.Z": level for name, level in shared.backing.items()}
    problem = FusedProblem(tuple(einsums), levels, group.architecture.compute.energy_pj)
    return problem, FusedMapping(shared.prefix, shared.paths, tuple(own), backing, hoist)


@pytest.mark.parametrize("count", [2, 3])
def test_shared_loops_cost_what_the_chain_of_einsums_costs(count: int) -> None:
    random, kinds, compared = Random(count), set(), 0
    for _ in range(60):
        machine = random_groups.architecture(random)
        group = random_groups.chain(machine, random_groups.products(random, count))
        # the chain of einsums has one nest for all turns of an einsum
        mapping = random_groups.with_equal_orders(group, random_groups.mapping(random, group))
        assert violations(group, mapping) == []
        found = evaluate_group(group, mapping)
        if missing := einsum_violations(*as_einsums(group, mapping)):
            # a chain of einsums has no shared loops around what goes to the outermost memory
            assert all("has no backing level" in reason for reason in missing), missing
            continue
        compared += 1
        told = evaluate_fused(*as_einsums(group, mapping))
        assert found.energy_pj == told.energy_pj
        assert found.cycles == told.cycles
        assert found.peak == told.peak[:-1]
        kinds |= {
            ("loops", any(mapping.shared.prefix)),
            ("hoist", bool(mapping.shared.hoist)),
            ("continued", any(len(cost.kinds) > 1 for cost in found.layers)),
        }
    assert len(kinds) == 6
    assert compared > 25


def test_fan_outs_and_bandwidths_cost_what_turns_cost() -> None:
    random = Random(5)
    for _ in range(30):
        machine = random_groups.architecture(random, fanout=4, rates=True)
        group = random_groups.chain(machine, random_groups.products(random, 3), residual=True)
        mapping = random_groups.with_equal_orders(group, random_groups.mapping(random, group))
        assert violations(group, mapping) == []
        found = evaluate_group(group, mapping)
        for cost in found.layers:
            energy = cost.hoist_pj + sum(kind.turns * kind.turn.energy_pj for kind in cost.kinds)
            assert cost.energy_pj == pytest.approx(energy)
            # of equal nests that of a turn that goes on with sums costs more
            assert len(cost.kinds) < 2 or cost.kinds[1].turn.energy_pj > cost.kinds[0].turn.energy_pj
        macs = sum(layer.macs for layer in group.layers) * machine.compute.energy_pj
        assert sum(found.levels_pj) + macs == pytest.approx(found.energy_pj)


def test_what_a_group_cannot_be_is_refused() -> None:
    architecture, network = load_architecture("eyeriss"), load_network("bert_base")
    for names, said in (
        (["block0.expand", "block0.contrakt"], "the name of a layer, found block0.contrakt"),
        (["block0.contract", "block0.expand"], "producers first"),
        (["block0.query", "block0.key"], "layers that pass tensors to one another"),
        (["block0.expand", "block0.expand"], "producers first|different names|pass tensors"),
    ):
        with pytest.raises(InputError, match=said):
            group_of(architecture, network, names)
    with pytest.raises(InputError, match="without timing"):
        group_of(load_architecture("gemmini"), network, ["block0.expand", "block0.contract"])
    byte = Width(8)
    narrow = replace(load_architecture("eyeriss"), precision=Precision(byte, byte, byte, byte))
    with pytest.raises(InputError, match="without a precision"):
        group_of(narrow, network, ["block0.expand", "block0.contract"])


def test_links_follow_the_network() -> None:
    architecture, network = load_architecture("eyeriss"), load_network("bert_base")
    group = group_of(architecture, network, TEXT)
    # scores are normalised along N, which the values sum over: only whole rows pass
    assert group.cutting[0, 1] == {"B", "M"}
    assert group_of(architecture, network, TEXT, cut_rows=True).cutting[0, 1] == {"B", "M", "N"}
    assert group.cutting[3, 4] == {group.loops[3]["M"], group.loops[3]["N"]}
    # the residual addition reads the output projection beside the feed-forward layers
    assert [one.leaves for one in group.intermediates] == [False, False, True, False]
    mobile = group_of(architecture, load_network("mobilenet_v2"), MOBILE)
    # one loop cuts channels on both sides, and one over rows passes through the windows
    assert mobile.cutting[0, 1] == {"K"}
    assert mobile.slides == ({"P2": "P"}, {}, {})
    assert (mobile.loops[1]["P"], mobile.loops[2]["P"]) == ("P2", "P2")
    assert mobile.cutting[1, 2] == {"K", *(mobile.loops[1][dim] for dim in "PQ")}


def test_reasons_against_mappings() -> None:
    random = Random(1)
    machine = random_groups.architecture(random, room=24)
    group = random_groups.chain(machine, random_groups.products(random, 2, (4,)))

    def reasons(shared: FusedMapping) -> str:
        nests = random_groups.nests(random, group, FusedMapping((0,), ((), ()), ()))
        return "; ".join(violations(group, GroupMapping(shared, nests)))

    path = (("K", 2),)
    assert "e1 has a shared loop over K, its loops are M, N2, N" in reasons(
        FusedMapping((1,), (path, path), ())
    )
    path = (("M", 3),)
    assert "step 3, no divisor of 4" in reasons(FusedMapping((1,), (path, path), ()))
    assert "makes no intermediate" in reasons(FusedMapping((0,), ((), ()), (), {"e1": 1}))
    assert "levels of one instance are: 0, 1" in reasons(FusedMapping((0,), ((), ()), (), {"e0": 2}))
    assert "its path has 0" in reasons(FusedMapping((0,), ((), ()), (), {}, {"e0": {"A": 0}}))
    path = (("M", 2),)
    assert "the layer has M=2" in reasons(FusedMapping((1,), (path, path), (), {"e0": 1}))
    small = FusedMapping((0,), ((), ()), (), {"e0": 1})
    kept = random_groups.nests(random, group, small)
    assert "are usable" in "; ".join(violations(group, GroupMapping(small, kept)))
