"""What is known of the nodes of segments before they are given tiles: data flow, validity and time.

All of it depends on a node's sub-tree only. A search changes a tree at one spot, so all other sub-trees are
the same objects as before, and are looked up. Sets of layers are integers here, which makes them quick to
join and to compare: bit n stands for layer n of the network.

The data flow is the one that :class:`costmodel.schedule.tree.data_flow.DataFlow` has for a whole tree. Here a
cut says only what its own children exchange. What a leaf gets over the NoC is what it reads and some cut
above it lets through (:meth:`PlannedNode.coming`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_

from costmodel.schedule.remembered import Remembered
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode
from costmodel.schedule.tree.wiring import Wiring

MOST_REMEMBERED = 30_000
"""How many nodes are remembered, which bounds the memory that they take."""
Coming = tuple[tuple[int, int], ...]
"""(number, cuts) of each layer whose outputs come to a node over the NoC from outside of it; ``cuts`` lie
between the node and the lowest cut above both."""


@dataclass(frozen=True, eq=False)
class PlannedNode:
    """What is known of a node before it is given tiles. Equal nodes have the same plan, unless it was
    forgotten.

    ``numbers``: of its layers, from left to right; ``layers``: the set of them. ``producers``: the set of the
    layers outside of it whose outputs it reads. ``consumers``: of those that read its outputs.
    """

    node: TreeNode
    numbers: tuple[int, ...]
    layers: int
    producers: int
    consumers: int
    cycles: float
    """Its normalized processing time: the cycles of a sample as if one tile did all of its work."""
    least_tiles: int
    """The fewest tiles on which it can run."""
    is_valid: bool
    """Whether each layer is there once, after those that it reads, and with its cut's samples (SET, Formulas
    4 and 8)."""
    divided: bool = False
    """Whether some cut of it runs its children several times for a batch."""
    banded: bool = False
    """Whether some cut of it has several bands."""
    reduced: bool = False
    """Whether some leaf of it has its input channels cut."""
    children: tuple[PlannedNode, ...] = ()
    stages: tuple[int, ...] = ()
    """[children] of an S cut: the pipeline stage, counted from 0, in which each child starts."""
    senders: tuple[int, ...] = ()
    """[children]: the layers of its siblings from which a child may read over the NoC: those of the stage
    before its own. The children of a T cut are stages 0, 1, 2 and so on."""
    receivers: tuple[int, ...] = ()
    """[children]: the layers of its siblings that may read from a child over the NoC."""

    @property
    def is_segment(self) -> bool:
        """Whether it is valid as a child of a root T cut. There may be bands in its own cut, and in no other.

        With bands, all cuts below have one sub-batch.
        """
        own = isinstance(self.node, Cut) and self.node.bands > 1
        below = self.children
        return self.is_valid and not any(one.banded or (own and one.divided) for one in below)

    def coming(self, child: int, coming: Coming) -> Coming:
        """What comes to a child over the NoC, if ``coming`` comes to this node."""
        read = self.children[child].producers
        found = tuple([(number, 0) for number in members(read & self.senders[child])])
        if not coming:
            return found
        return found + tuple([(number, cuts + 1) for number, cuts in coming if read >> number & 1])

    def going(self, child: int, going: int) -> int:
        """The layers outside of a child that read from it over the NoC, if ``going`` do so from this node."""
        return self.children[child].consumers & (self.receivers[child] | going)

    def sources(self, coming: Coming = ()) -> dict[int, list[int]]:
        """For each of its layers those whose outputs it reads over the NoC.

        ``coming``: what comes to the node so; nothing to a segment.
        """
        if not self.children:
            return {self.numbers[0]: [number for number, _ in coming]}
        found: dict[int, list[int]] = {}
        for index, child in enumerate(self.children):
            found |= child.sources(self.coming(index, coming))
        return found

    def read_by(self, readers: int) -> Iterator[int]:
        """Its layers whose outputs some of these ``readers`` outside of it read."""
        if self.consumers & readers:
            if not self.children:
                yield from self.numbers
            for child in self.children:
                yield from child.read_by(readers)

    @cached_property
    def child_of(self) -> dict[int, int]:
        """For each layer of a cut the index of the child that has it."""
        return {number: index for index, child in enumerate(self.children) for number in child.numbers}


class PlannedNodes:
    """Plans nodes of trees of one network, and remembers them.

    ``normalized``: the cycles that one sample of a layer, given by its number, takes on one tile.
    """

    def __init__(self, wiring: Wiring, normalized: Callable[[int], float]) -> None:
        self._numbers, self._normalized = wiring.numbers, normalized
        self._producers = [set_of(one) for one in wiring.producers]
        self._consumers = [set_of(one) for one in wiring.consumers]
        self._by_identity = Remembered[int, tuple[TreeNode, PlannedNode]](MOST_REMEMBERED)
        self._by_value = Remembered[tuple[object, ...], PlannedNode](MOST_REMEMBERED)

    def of(self, node: TreeNode) -> PlannedNode:
        """The plan of a node, with those of all nodes below it."""
        # The node is kept with its plan, so its id cannot come to mean another one.
        known = self._by_identity.get(id(node))
        if known is None:
            known = self._by_identity.add(id(node), (node, self._of_value(node)))
        return known[1]

    def _of_value(self, node: TreeNode) -> PlannedNode:
        if isinstance(node, Leaf):
            return self._by_value.get((node,)) or self._by_value.add((node,), self._leaf(node))
        children = tuple([self.of(child) for child in node.children])
        key = (node.kind, node.batch, node.subbatches, node.bands, *children)
        return self._by_value.get(key) or self._by_value.add(key, self._cut(node, children))

    def _leaf(self, leaf: Leaf) -> PlannedNode:
        number = self._numbers.get(leaf.layer)
        if number is None:  # no layer of the network
            return PlannedNode(leaf, (), 0, 0, 0, 0.0, leaf.reduced, False)
        return PlannedNode(
            leaf,
            (number,),
            1 << number,
            self._producers[number],
            self._consumers[number],
            self._normalized(number),
            leaf.reduced,
            True,
            reduced=leaf.reduced > 1,
        )

    def _cut(self, cut: Cut, children: tuple[PlannedNode, ...]) -> PlannedNode:
        """The plan of a cut (SET, section 3.3.2).

        A T cut takes the sum of its children's times. An S cut does too, as if one tile ran them in turn, but
        fill and drain make tiles wait: with sb sub-batches and s stages before the last one, sb + s periods
        pass for sb periods of work, so the sum is multiplied by (sb + s) / sb. A T cut needs as many tiles as
        its most demanding child, an S cut as all its children together.
        """
        layers, read, readers, is_valid = 0, 0, 0, cut.batch % cut.subbatches == 0
        samples = cut.batch // cut.subbatches
        for child in children:
            # No layer comes twice, and none before one that it reads.
            in_order = not child.layers & layers and not child.consumers & layers
            is_valid = is_valid and child.is_valid and child.node.batch == samples and in_order
            layers |= child.layers
            read |= child.producers
            readers |= child.consumers
        cycles = sum([child.cycles for child in children])
        if cut.kind == "T":
            stages: tuple[int, ...] = ()
            least = max([child.least_tiles for child in children])
            own = [child.layers for child in children]
            senders, receivers = (0, *own[:-1]), (*own[1:], 0)
        else:
            stages = _stages(children, layers)
            last = max(stages)
            cycles = cycles * (cut.child_runs + last) / cut.child_runs
            least = sum([child.least_tiles for child in children])
            # one more at both ends, where there is no stage
            by_stage = [0] * (last + 3)
            for child, stage in zip(children, stages, strict=True):
                by_stage[stage + 1] |= child.layers
            senders = tuple([by_stage[stage] for stage in stages])
            receivers = tuple([by_stage[stage + 2] for stage in stages])
        return PlannedNode(
            cut,
            tuple([number for child in children for number in child.numbers]),
            layers,
            read & ~layers,
            readers & ~layers,
            cycles,
            least,
            is_valid,
            cut.child_runs > 1 or any(child.divided for child in children),
            cut.bands > 1 or any(child.banded for child in children),
            any(child.reduced for child in children),
            children,
            stages,
            senders,
            receivers,
        )


def _stages(children: Sequence[PlannedNode], layers: int) -> tuple[int, ...]:
    """The stage in which each child of an S cut starts; ``layers``: those of all children.

    A child starts one stage after the latest child that it reads from, or at once.
    """
    stage_of: dict[int, int] = {}
    stages = []
    for child in children:
        before = [stage_of.get(number, -1) for number in members(child.producers & layers)]
        stages.append(max(before, default=-1) + 1)
        stage_of.update(dict.fromkeys(child.numbers, stages[-1]))
    return tuple(stages)


def members(layers: int) -> Iterator[int]:
    """The numbers of the layers of a set, in order."""
    while layers:
        lowest = layers & -layers
        yield lowest.bit_length() - 1
        layers ^= lowest


def set_of(numbers: Iterable[int]) -> int:
    """The set of layers with these numbers."""
    return reduce(or_, [1 << number for number in numbers], 0)
