"""The tree of a whole network from the trees of its parts, one of them repeated under other layers' names.

The segments of a network are the children of its root T cut, which run in rounds of some samples each. So
parts can stand side by side under one root where all have as many rounds; where they have not, they are
given as many, with fewer samples a round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import lcm

from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, rounds_of_segments


def renamed(node: TreeNode, names: Mapping[str, str]) -> TreeNode:
    """The node with each leaf's layer under its name in ``names``."""
    if isinstance(node, Leaf):
        return replace(node, layer=names[node.layer])
    return replace(node, children=tuple(renamed(child, names) for child in node.children))


def with_samples(node: TreeNode, batch: int) -> TreeNode:
    """The node for ``batch`` samples, a divisor of its own, in at most as many sub-batches as it has."""
    if isinstance(node, Leaf):
        return replace(node, batch=batch)
    subbatches = max(count for count in range(1, node.subbatches + 1) if batch % count == 0)
    children = tuple(with_samples(child, batch // subbatches) for child in node.children)
    return replace(node, batch=batch, subbatches=subbatches, children=children)


def joined(trees: Sequence[TreeNode], batch: int) -> tuple[TreeNode, ...]:
    """Trees that run all ``trees`` for ``batch`` samples one after the other, each in other rounds.

    The rounds tried are those of some part, of all together, and one round for each sample.
    """
    found = [rounds_of_segments(tree) for tree in trees]
    every = [rounds for rounds, _ in found]
    segments = [segment for _, some in found for segment in some]
    return tuple(
        Cut("T", batch, rounds, tuple(with_samples(segment, batch // rounds) for segment in segments))
        for rounds in dict.fromkeys([*every, lcm(*every), batch])
        # The samples of a round can only be divided, so a part's rounds have to divide those of all.
        if all(rounds % own == 0 for own in every)
    )
