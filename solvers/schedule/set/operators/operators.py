"""The six operators that change an RA tree (SET, section 4.2.1 and Fig. 7), within a space of trees.

An operator starts at a random leaf. It makes a tree of the same space in which layers stay in a topological
order, but which need not fit the chip; the evaluator finds that out. Trees are frozen, so a changed tree
shares all untouched parts with the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import pairwise
from random import Random

from costmodel.errors import InputError
from costmodel.schedule.tree.tree import Cut, CutKind, Leaf, TreeNode, depth
from solvers.divisors import divisors
from solvers.schedule.set.operators.editing import (
    Path,
    alternating,
    path_to,
    rebuilt,
    spliced,
    with_batch,
    with_subbatches,
)
from solvers.schedule.set.operators.row_bands import BAND_OPERATORS, BandRules
from solvers.schedule.set.space import TreeSpace

OPERATORS = ("swap", "move", "group", "ungroup", "more_subbatches", "fewer_subbatches")
"""OP1 to OP6 of Fig. 7: exchange neighbouring leaves; move a leaf into a neighbouring cut or out of its own;
put consecutive children below a new cut; dissolve a cut; raise, or lower, a cut's number of sub-batches."""

WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "paper": dict.fromkeys(OPERATORS, 1.0),
    "released": dict(zip(OPERATORS, (20, 40, 20, 20, 20, 20), strict=True)),
}
"""How often each operator is drawn, relative to the others. The paper names no weights, so all are equal
there; the released code moves leaves twice as often as it does anything else."""

ROOT_SUBBATCHES = 0.1
"""Where OP5 or OP6 has drawn the root, it goes on with this probability times the number of cuts above the
leaf, as in the released code. A change of the root's sub-batches changes every segment of the schedule."""


@dataclass(frozen=True)
class Current:
    """The current tree of an annealing, with the paths (``editing.Path``) that operators ask for."""

    tree: TreeNode

    @property
    def leaf_count(self) -> int:
        return self.tree.leaf_count

    def path(self, number: int) -> Path:
        """The path to leaf ``number``, counted from the left."""
        return path_to(self.tree, number)

    @cached_property
    def cuts(self) -> list[Path]:
        """A path to each cut, the root first: the cut is the last step's."""
        found: dict[tuple[int, ...], Path] = {}
        for path in map(self.path, range(self.leaf_count)):
            for level in range(len(path)):
                found.setdefault(tuple(step.rank for step in path[:level]), path[: level + 1])
        return list(found.values())


class Operators:
    """Draws an operator of one space and applies it; the result is None if it does not apply."""

    def __init__(
        self, space: TreeSpace, weights: Mapping[str, float], bands: BandRules | None = None
    ) -> None:
        self._space, self._producers, self._bands = space, space.producers, bands
        # a tree of the patterns has the root and one level of cuts below it (section 3.4)
        self._deepest = 2 if space.name.startswith("layer_") else space.deepest
        self.names = [name for name in OPERATORS if weights.get(name, 0) > 0 and _applies(name, space)]
        if not self.names:
            raise InputError(
                "operators", f"a weight above 0 for one of {', '.join(OPERATORS)}", dict(weights)
            )
        if bands is not None:
            self.names += BAND_OPERATORS
            weights = {**dict.fromkeys(BAND_OPERATORS, max(weights.values()) / 2), **weights}
        self._weights = [weights[name] for name in self.names]
        self._make: dict[str, Callable[[Current, int, Random], TreeNode | None]] = {
            "swap": self._swap,
            "move": self._move,
            "group": self._group,
            "ungroup": self._ungroup,
            "more_subbatches": self._more_subbatches,
            "fewer_subbatches": self._fewer_subbatches,
            "more_bands": partial(self._rebanded, True),
            "fewer_bands": partial(self._rebanded, False),
        }

    def draw(self, current: Current, random: Random) -> tuple[str, TreeNode | None]:
        """A random operator's name, and the tree that it makes at a random leaf; None if it does not apply.

        Operators get the number of the leaf that was drawn, counted from the left. Where there are bands, the
        tree that comes out is settled (``row_bands.py``).
        """
        number = random.randrange(current.leaf_count)
        name = random.choices(self.names, self._weights)[0]
        tree = self._make[name](current, number, random)
        if tree is not None and self._bands is not None:
            tree = self._bands.settled(tree, current.tree)
        return name, tree

    def _swap(self, current: Current, number: int, random: Random) -> TreeNode | None:
        """OP1: two leaves that are neighbours in the order of layers are exchanged.

        It does not apply if the second reads the outputs of the first. Neighbours cannot depend on each other
        by way of a third layer, which would have to stand between them. Each layer takes the batch of its new
        position.
        """
        after = number + 1 if random.random() < 0.5 else number
        if not 0 < after < current.leaf_count:
            return None
        left, right = current.path(after - 1), current.path(after)
        first, second = _leaf(left), _leaf(right)
        if first.layer in self._producers[second.layer]:
            return None
        return _with_both(left, Leaf(second.layer, first.batch), right, Leaf(first.layer, second.batch))

    def _move(self, current: Current, number: int, random: Random) -> TreeNode | None:
        """OP2: a leaf moves one step to the left or right: into the cut beside it, or out of its own cut.

        It leaves its cut where it is the first or last child and steps outwards. The order of layers stays as
        it is: a leaf enters a cut at the near end.
        """
        path, step = current.path(number), -1 if random.random() < 0.5 else 1
        parent, rank = path[-1]
        # With fewer children the leaf would leave behind a cut of one child, which no search makes.
        if len(parent.children) < 3:
            return None
        beside = rank + step
        if not 0 <= beside < len(parent.children):
            return self._moved_out(path, step)
        neighbour = parent.children[beside]
        if isinstance(neighbour, Leaf):
            return None
        leaf = Leaf(_leaf(path).layer, neighbour.batch // neighbour.subbatches)
        end = 0 if step > 0 else len(neighbour.children)
        pair = min(rank, beside)
        return rebuilt(path[:-1], spliced(parent, pair, pair + 2, spliced(neighbour, end, end, leaf)))

    def _moved_out(self, path: Path, step: int) -> TreeNode | None:
        """The leaf at the end of ``path`` as a sibling of its cut, before it (step -1) or after it (1)."""
        # the root has no siblings
        if len(path) < 2:
            return None
        (parent, rank), (above, at) = path[-1], path[-2]
        rest, leaf = spliced(parent, rank, rank + 1), Leaf(_leaf(path).layer, parent.batch)
        pair: tuple[TreeNode, TreeNode] = (rest, leaf) if step > 0 else (leaf, rest)
        return rebuilt(path[:-2], spliced(above, at, at + 1, *pair))

    def _group(self, current: Current, number: int, random: Random) -> TreeNode | None:
        """OP3: consecutive children of the leaf's cut come below a new cut, which takes their position.

        The leaf is at one end of the group, a random child at the other. A group of all children would leave
        the parent with one child, so it does not apply, except at the root in the paper's space: there the
        new cut replaces the root. Only so does a search come to trees whose root is an S cut.
        """
        path = current.path(number)
        parent, rank = path[-1]
        count = len(parent.children)
        if count < 3 and not (self._space.name == "paper" and len(path) == 1):
            return None
        other = random.randrange(count)
        return self._grouped(path, min(rank, other), max(rank, other) + 1, random)

    def _grouped(self, path: Path, low: int, high: int, random: Random) -> TreeNode | None:
        """Children ``low`` to before ``high`` of the cut of the last step below a new cut."""
        parent = path[-1].cut
        if high - low < 2:
            return None
        if high - low == len(parent.children):
            whole = self._space.name == "paper" and len(path) == 1
            return self._new_root(parent, random) if whole else None
        children = parent.children[low:high]
        # len(path) cuts are above the new one; then come the new one and those below it
        if self._deepest and len(path) + 1 + max(map(depth, children)) > self._deepest:
            return None
        grouped = self._new_cut(parent, children, len(path), random)
        # A new segment is also tried with bands at once, as it may not fit the buffers without them.
        if self._bands is not None and len(path) == 1 and parent.kind == "T" and random.random() < 0.5:
            grouped = self._bands.changed(grouped, True, random) or grouped
        return rebuilt(path[:-1], spliced(parent, low, high, grouped))

    def _new_root(self, root: Cut, random: Random) -> TreeNode:
        """The same children below a root of random kind and sub-batches."""
        kind: CutKind = random.choice(("S", "T"))
        return with_subbatches(
            Cut(kind, root.batch, root.subbatches, root.children), self._parts(root.batch, random)
        )

    def _new_cut(self, parent: Cut, children: tuple[TreeNode, ...], level: int, random: Random) -> Cut:
        """A cut of ``children`` with random kind and sub-batches; ``level`` cuts are above it.

        In the narrower spaces, the kinds of cuts below it change so that S and T still alternate.
        """
        kind = self._new_kind(parent, level, random)
        samples = parent.batch // parent.subbatches
        cut = Cut(kind, samples, 1, children)
        if self._space.name != "paper":
            # In these spaces a new pipeline begins with one sample a sub-batch, and a new T cut with all
            # samples in one.
            cut = with_subbatches(cut, samples) if kind == "S" else cut
            retyped = alternating(cut, kind)
            assert isinstance(retyped, Cut)
            return retyped
        return with_subbatches(cut, self._parts(samples, random))

    def _new_kind(self, parent: Cut, level: int, random: Random) -> CutKind:
        """The kind of a new cut below ``parent``: random where the space leaves a choice.

        In the released space kinds alternate except between the root and its children.
        """
        if self._space.name == "layer_sequential":
            return "T"
        if self._space.name == "layer_pipeline":
            return "S"
        if self._space.name == "paper" or level == 1:
            return "S" if random.random() < 0.5 else "T"
        return "T" if parent.kind == "S" else "S"

    def _parts(self, batch: int, random: Random) -> int:
        """A random number of sub-batches: 1 or ``batch`` with probability 2/5 each, else any divisor."""
        draw = random.random()
        return 1 if draw < 0.4 else batch if draw < 0.8 else random.choice(divisors(batch))

    def _ungroup(self, current: Current, number: int, random: Random) -> TreeNode | None:
        """OP4: the leaf's cut is dissolved, unless it is the root; its children become its parent's."""
        return self._dissolved(current.path(number))

    def _dissolved(self, path: Path) -> TreeNode | None:
        """The tree without the cut of the last step; None if that is the root.

        Each child then has the cut's batch, as it no longer runs by sub-batches of the cut.
        """
        if len(path) < 2:
            return None
        (cut, _), (above, rank) = path[-1], path[-2]
        children = tuple(with_batch(child, cut.batch) for child in cut.children)
        # Kinds alternate below the root's children. The cut's children are one level higher now, so theirs
        # change.
        if self._space.name != "paper" and len(path) > 2:
            other: CutKind = "S" if above.kind == "T" else "T"
            children = tuple(alternating(child, other) for child in children)
        return rebuilt(path[:-2], spliced(above, rank, rank + 1, *children))

    def _more_subbatches(self, current: Current, number: int, random: Random) -> TreeNode | None:
        """OP5: a cut above the leaf gets more, smaller sub-batches."""
        path = self._subbatched(current, number, random)
        if path is None:
            return None
        cut = path[-1].cut
        factor = self._factor(cut.batch // cut.subbatches, random)
        return rebuilt(path[:-1], with_subbatches(cut, cut.subbatches * factor)) if factor > 1 else None

    def _fewer_subbatches(self, current: Current, number: int, random: Random) -> TreeNode | None:
        """OP6: a cut above the leaf gets fewer, larger sub-batches."""
        path = self._subbatched(current, number, random)
        if path is None:
            return None
        cut = path[-1].cut
        factor = self._factor(cut.subbatches, random)
        return rebuilt(path[:-1], with_subbatches(cut, cut.subbatches // factor)) if factor > 1 else None

    def _subbatched(self, current: Current, number: int, random: Random) -> Path | None:
        """The path to a random cut above the leaf, whose sub-batches OP5 and OP6 change.

        The last step of the path has that cut. If it is the root the result is mostly None
        (``ROOT_SUBBATCHES``).
        """
        path = current.path(number)
        level = random.randrange(len(path))
        if level == 0 and random.random() >= ROOT_SUBBATCHES * len(path):
            return None
        return path[: level + 1]

    def _rebanded(self, more: bool, current: Current, number: int, random: Random) -> TreeNode | None:
        """The segment with the leaf gets more, lower bands, or fewer; None if the leaf is the segment."""
        path = current.path(number)
        root = path[0].cut
        above = 1 if root.kind == "T" else 0
        if len(path) <= above:
            return None
        assert self._bands is not None
        segment = self._bands.changed(path[above].cut, more, random)
        return None if segment is None else rebuilt(path[:above], segment)

    def _factor(self, number: int, random: Random) -> int:
        """The factor by which OP5 or OP6 changes a number of sub-batches: a random divisor of ``number``.

        It is above 1 wherever ``number`` is: a product of random prime factors, one and, with probability 1/2
        each time, another. In the released space it is 2, or 1 for an odd number.
        """
        if self._space.name == "released":
            return 2 if number % 2 == 0 else 1
        factor = 1
        while number > 1:
            prime = random.choice(_prime_factors(number))
            factor, number = factor * prime, number // prime
            if random.random() < 0.5:
                break
        return factor


def _applies(operator: str, space: TreeSpace) -> bool:
    """Whether an operator applies to any tree of the space at all.

    A batch of one sample has no other numbers of sub-batches. Layers of which each reads the one before have
    one order, so that no two can be exchanged.
    """
    if operator in ("more_subbatches", "fewer_subbatches"):
        return space.batch > 1
    if operator == "swap":
        return any(one not in space.producers[other] for one, other in pairwise(space.producers))
    return True


def _leaf(path: Path) -> Leaf:
    """The leaf to which a path leads."""
    cut, rank = path[-1]
    leaf = cut.children[rank]
    assert isinstance(leaf, Leaf)
    return leaf


def _with_both(left: Path, first: Leaf, right: Path, second: Leaf) -> TreeNode:
    """The tree with the leaf at the end of ``left`` replaced by ``first``, that of ``right`` by ``second``.

    The paths go the same way down to some cut. That cut gets two new children, one on each path, and
    everything above it is rebuilt once.
    """
    common = 0
    while left[common].rank == right[common].rank:
        common += 1
    cut = left[common].cut
    before, after = left[common].rank, right[common].rank
    cut = spliced(cut, before, before + 1, rebuilt(left[common + 1 :], first))
    cut = spliced(cut, after, after + 1, rebuilt(right[common + 1 :], second))
    return rebuilt(left[:common], cut)


@cache
def _prime_factors(number: int) -> list[int]:
    """Every prime that divides a number above 1, once."""
    return [one for one in divisors(number)[1:] if len(divisors(one)) == 2]
