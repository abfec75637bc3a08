"""The resource-allocation tree (RA tree) of SET (ISCA 2023), section 3.1: who computes what, where and when.

A leaf is a layer. A cut divides its tiles or its time among its children: an S cut (spatial) gives each child
tiles of its own, a T cut (temporal) gives each child all tiles for some of the time. Both run their batch as
several equal sub-batches. ``T 4/2`` over ``S 2/2`` (conv1, conv2) and fc, for 4 samples on 3 tiles::

    T 4/2              tile 0 | conv1 0 | conv1 1 |         | fc 0-1 | conv1 2 | conv1 3 |         | fc 2-3 |
    +- S 2/2           tile 1 |         | conv2 0 | conv2 1 | fc 0-1 |         | conv2 2 | conv2 3 | fc 2-3 |
    |  +- conv1 1      tile 2 |         | conv2 0 | conv2 1 | fc 0-1 |         | conv2 2 | conv2 3 | fc 2-3 |
    |  +- conv2 1             time (cycles) -->
    +- fc 2

The root T cut runs its two children in turn, twice, for 2 samples each time. The S cut runs as a pipeline:
conv2 works on a sample while conv1 works on the next. This picture is the S-T chart
(``spatial_temporal.py``). A node's *batch* is how many samples it takes at a time, each time that it runs;
only the root's is the schedule's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate
from typing import Literal

from costmodel.errors import InputError

CutKind = Literal["S", "T"]


@dataclass(frozen=True)
class Leaf:
    """One layer for ``batch`` samples at a time (Formula 7).

    ``reduced``: into how many parts its input channels are cut; with more than one, tiles make partial sums
    (:mod:`costmodel.schedule.reductions`). SET's leaves have one part.
    """

    layer: str
    batch: int
    reduced: int = 1

    def __post_init__(self) -> None:
        _check_count(self, "batch", self.batch)
        _check_count(self, "reduced", self.reduced)

    @property
    def leaf_count(self) -> int:
        """How many leaves the node has, which for a leaf is itself."""
        return 1


@dataclass(frozen=True)
class Cut:
    """An S cut runs its children on tiles of their own, a T cut runs them in turn on the same tiles.

    ``batch`` samples run as ``subbatches`` equal parts, so children have batch / subbatches samples (Formulas
    4 and 8). With several ``bands`` each of these parts runs band by band: some rows of every layer's
    outputs, from the first row down (:mod:`costmodel.schedule.row_bands`). SET has no such cuts. Only single
    values are checked here; the tree as a whole is checked by
    :func:`costmodel.schedule.tree.validity.violations`.
    """

    kind: CutKind
    batch: int
    subbatches: int
    children: tuple[TreeNode, ...]
    bands: int = 1

    def __post_init__(self) -> None:
        if self.kind not in ("S", "T"):
            raise InputError("cut", "kind S or T", self.kind)
        _check_count(self, "batch", self.batch)
        _check_count(self, "subbatches", self.subbatches)
        _check_count(self, "bands", self.bands)
        if not self.children:
            raise InputError(f"{self.kind} cut", "at least one child", "none")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Kept, as searches look up cuts of hundreds of leaves: those below a new cut have theirs already.
        return hash((self.kind, self.batch, self.subbatches, self.children, self.bands))

    def __getstate__(self) -> dict[str, object]:
        # Without what is cached: texts have other hashes in other processes.
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def leaf_count(self) -> int:
        """How many leaves there are below the cut."""
        return self.leaf_ends[-1]

    @cached_property
    def leaf_ends(self) -> Sequence[int]:
        """[children]: how many leaves the cut has up to the end of each child."""
        return list(accumulate([child.leaf_count for child in self.children]))

    @property
    def child_runs(self) -> int:
        """How often each child runs for one batch of the cut: all bands of one sub-batch after the other."""
        return self.subbatches * self.bands

    @property
    def name(self) -> str:
        """The cut without its children, as a line of the tree's text."""
        bands = f"x{self.bands}" if self.bands > 1 else ""
        return f"{self.kind} {self.batch}/{self.subbatches}{bands}"


TreeNode = Leaf | Cut
"""A node of an RA tree, with all that is below it: a layer, or a cut of others."""


def leaves(node: TreeNode) -> Iterator[Leaf]:
    """The leaves from left to right: the order in which layers are computed."""
    if isinstance(node, Leaf):
        yield node
    else:
        for child in node.children:
            yield from leaves(child)


def rounds_of_segments(tree: TreeNode) -> tuple[int, tuple[TreeNode, ...]]:
    """How often the segments of a tree run, and the segments: children of a root T cut, else the root."""
    if isinstance(tree, Cut) and tree.kind == "T":
        return tree.subbatches, tree.children
    return 1, (tree,)


def has_bands(node: TreeNode) -> bool:
    """Whether some cut of the tree has several bands."""
    return isinstance(node, Cut) and (node.bands > 1 or any(map(has_bands, node.children)))


def has_reductions(node: TreeNode) -> bool:
    """Whether some leaf of the tree has its input channels cut."""
    return any(leaf.reduced > 1 for leaf in leaves(node))


def depth(node: TreeNode) -> int:
    """How many cuts are on the longest way from the node down to a leaf; 0 for a leaf."""
    return 0 if isinstance(node, Leaf) else 1 + max(depth(child) for child in node.children)


def _check_count(node: TreeNode, key: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        where = f"leaf {node.layer}" if isinstance(node, Leaf) else f"{node.kind} cut"
        raise InputError(where, "a whole number of at least 1", value, key=key)
