"""What plans of nodes say of data flow and validity is what the whole tree says."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from costmodel.schedule.segment.planned_nodes import Coming, PlannedNode, PlannedNodes, members, set_of
from costmodel.schedule.tree.data_flow import DataFlow
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode
from costmodel.schedule.tree.validity import violations
from costmodel.schedule.tree.wiring import Wiring
from tests.costmodel.schedule.tree.random_trees import NAMES, PRODUCERS, random_tree


def new_plans() -> PlannedNodes:
    return PlannedNodes(Wiring.of(PRODUCERS), lambda number: 1.0 + number)


def leaf_flows(planned: PlannedNode, coming: Coming = (), going: int = 0) -> dict[int, tuple[Coming, int]]:
    """For each layer what comes to its leaf, and who reads it over the NoC, from the top down."""
    if isinstance(planned.node, Leaf):
        return {planned.numbers[0]: (coming, going)}
    found: dict[int, tuple[Coming, int]] = {}
    for index, child in enumerate(planned.children):
        found |= leaf_flows(child, planned.coming(index, coming), planned.going(index, going))
    return found


@pytest.mark.parametrize("seed", range(200))
def test_plans_agree_with_the_whole_tree(seed: int) -> None:
    random, plans = Random(seed), new_plans()
    # Below a root T cut, whose children exchange data through DRAM, stands one segment: the rest of the tree.
    segment = random_tree(NAMES, 4, random)
    whole = DataFlow(Cut("T", 4, 1, (segment,)), PRODUCERS)
    planned = plans.of(segment)
    flows = leaf_flows(planned)
    assert planned.is_segment
    assert list(flows) == list(planned.numbers) == list(range(len(NAMES)))
    on_chip = {(edge.producer, edge.consumer) for edge in whole.edges if edge.on_chip}
    assert on_chip == {(NAMES[one], NAMES[layer]) for layer in flows for one, _ in flows[layer][0]}
    assert on_chip == {(NAMES[layer], NAMES[one]) for layer in flows for one in members(flows[layer][1])}
    for layer, (coming, _) in flows.items():
        for producer, cuts in coming:
            consumer = whole.positions[whole.leaf_of[NAMES[layer]]]
            meeting, _, _ = whole.meeting(whole.leaf_of[NAMES[producer]], consumer.number)
            assert cuts == consumer.depth - whole.positions[meeting].depth - 1
    assert stages_of(planned) == [whole.stages[number] for number in sorted(whole.stages)]


def stages_of(planned: PlannedNode) -> list[list[int]]:
    """Of the S cuts, from the top down and left to right."""
    own = [list(planned.stages)] if planned.stages else []
    return own + [stages for child in planned.children for stages in stages_of(child)]


@pytest.mark.parametrize("seed", range(200))
def test_sub_trees_say_what_they_exchange_with_others(seed: int) -> None:
    random, plans = Random(seed), new_plans()
    waiting = [plans.of(random_tree(NAMES, 4, random))]
    while waiting:
        planned = waiting.pop()
        inside = set(planned.numbers)
        read = {NAMES.index(one) for number in inside for one in PRODUCERS[NAMES[number]]}
        readers = {
            NAMES.index(name)
            for name, producers in PRODUCERS.items()
            if inside & {NAMES.index(one) for one in producers}
        }
        assert planned.layers == set_of(inside)
        assert set(members(planned.producers)) == read - inside
        assert set(members(planned.consumers)) == readers - inside
        some = set_of(random.sample(sorted(readers - inside), len(readers - inside) // 2))
        assert set(planned.read_by(some)) == {
            number
            for number in inside
            if any(NAMES[number] in PRODUCERS[NAMES[reader]] for reader in members(some))
        }
        waiting += planned.children


@pytest.mark.parametrize("seed", range(300))
def test_segments_are_valid_where_no_rule_is_broken(seed: int) -> None:
    segment = perhaps_broken(seed)
    assert new_plans().of(segment).is_segment == (not reasons_of(segment))


def perhaps_broken(seed: int) -> TreeNode:
    """A segment with all layers, in which up to two things were changed."""
    random = Random(seed)
    segment = random_tree(NAMES, 4, random)
    for _ in range(random.choice((0, 1, 2))):
        segment = broken(segment, random)
    return segment


def reasons_of(segment: TreeNode) -> list[str]:
    """Why it is no valid segment, whatever other segments have."""
    names = PRODUCERS.keys() & names_of(segment)
    inside = {name: [one for one in PRODUCERS[name] if one in names] for name in names}
    return violations(segment, inside, segment.batch, segment=True)


def names_of(node: TreeNode) -> list[str]:
    return (
        [node.layer]
        if isinstance(node, Leaf)
        else [one for child in node.children for one in names_of(child)]
    )


def broken(node: TreeNode, random: Random) -> TreeNode:
    """The node with a change at a random spot, which mostly breaks a rule."""
    if isinstance(node, Leaf):
        return random.choice(
            (
                replace(node, batch=node.batch + 1),
                replace(node, layer=random.choice([*NAMES, "no such layer"])),
            )
        )
    way = random.randrange(6)
    if way == 0:
        return replace(node, bands=2)
    if way == 1:
        return replace(node, subbatches=3)
    if way == 2:
        return replace(node, children=tuple(random.sample(node.children, len(node.children))))
    if way == 3 and len(node.children) > 1:
        return replace(node, children=node.children[1:])
    index = random.randrange(len(node.children))
    children = list(node.children)
    children[index] = broken(children[index], random)
    return replace(node, children=tuple(children))


def test_broken_trees_break_every_rule() -> None:
    """Of the trees above many are valid and many are not, by each of the reasons."""
    found = [one for seed in range(300) for one in reasons_of(perhaps_broken(seed)) or ["valid"]]
    rules = (
        "valid",
        "do not divide",
        "has a batch of",
        "comes before",
        "leaves",
        "no layer",
        "bands",
        "one sub",
    )
    assert all(sum(rule in one for one in found) > 1 for rule in rules)


def test_equal_nodes_share_a_plan() -> None:
    plans = new_plans()
    one, other = (Cut("T", 2, 1, (Leaf("a", 2), Leaf("b", 2))) for _ in range(2))
    assert one is not other
    assert plans.of(one) is plans.of(other)
    assert plans.of(Cut("S", 2, 1, one.children)) is not plans.of(one)
