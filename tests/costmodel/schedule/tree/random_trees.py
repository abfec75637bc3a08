"""Random trees of a small network in which layers are read at once, and by far ones."""

from __future__ import annotations

from random import Random

from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode

PRODUCERS: dict[str, tuple[str, ...]] = {
    "a": (),
    "b": ("a",),
    "c": ("a",),
    "d": ("b", "c"),
    "e": ("c",),
    "f": ("d", "e", "a"),
    "g": ("f",),
    "h": ("b", "g"),
}
NAMES = list(PRODUCERS)


def random_tree(layers: list[str], batch: int, random: Random) -> TreeNode:
    """A tree with these layers as leaves from left to right."""
    if len(layers) == 1:
        return Leaf(layers[0], batch)
    ends = sorted(random.sample(range(1, len(layers)), random.randint(1, len(layers) - 1)))
    parts = [layers[first:end] for first, end in zip([0, *ends], [*ends, len(layers)], strict=True)]
    subbatches = random.choice([one for one in (1, 2, 4) if batch % one == 0])
    children = tuple(random_tree(part, batch // subbatches, random) for part in parts)
    return Cut("S" if random.random() < 0.5 else "T", batch, subbatches, children)
