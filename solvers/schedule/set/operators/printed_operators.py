"""The operators of SET as the text of section 4.2.1 has them: they change a random cut of the tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random

from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, leaves
from solvers.schedule.set.operators.editing import Path, rebuilt, spliced
from solvers.schedule.set.operators.operators import Current, Operators
from solvers.schedule.set.operators.row_bands import BandRules
from solvers.schedule.set.space import TreeSpace


class PrintedOperators(Operators):
    """OP2 to OP6 as printed; OP1 is that of :class:`Operators`.

    :class:`Operators` draws a leaf and changes the cut around it. In a tree of many layers most leaves are
    far from the root, so few of its draws group the root's children. Here every cut is as likely as any
    other.
    """

    def _move(self, current: Current, number: int, random: Random) -> TreeNode | None:
        """OP2: a leaf moves into another cut whose parent is the leaf's parent or grandparent.

        Of the positions in that cut it takes a random one that keeps layers behind those they read. It does
        not apply where the leaf would leave behind a cut of one child.
        """
        path = current.path(number)
        if len(path[-1].cut.children) < 3:
            return None
        beside = [
            (level, rank)
            for level in (len(path) - 1, len(path) - 2)
            if level >= 0
            for rank, child in enumerate(path[level].cut.children)
            if isinstance(child, Cut) and rank != path[level].rank
        ]
        if not beside:
            return None
        level, rank = random.choice(beside)
        target = path[level].cut.children[rank]
        assert isinstance(target, Cut)
        position = self._position(path, level, rank, target, random)
        if position is None:
            return None
        leaf = Leaf(self._layer(path), target.batch // target.subbatches)
        return _transferred(path, level, rank, spliced(target, position, position, leaf))

    def _position(self, path: Path, level: int, rank: int, target: Cut, random: Random) -> int | None:
        """A random position among the children of ``target`` that the leaf may take; None if there is none.

        ``target`` is child ``rank`` of the cut at ``level`` of the path. The leaf passes all layers between
        its old position and the new one, and may pass neither what it reads nor what reads it. Layers stand
        in topological order, so a layer on which it depends by way of others stands with one of them between.
        """
        later = rank > path[level].rank
        between = [
            child
            for at in range(level, len(path))
            for child in _passed(path, at, rank if at == level else None, later)
        ]
        if not self._may_pass(self._layer(path), between, later):
            return None
        children = target.children if later else target.children[::-1]
        free = 0
        while free < len(children) and self._may_pass(self._layer(path), [children[free]], later):
            free += 1
        passed = random.randrange(free + 1)
        return passed if later else len(children) - passed

    def _may_pass(self, layer: str, nodes: Iterable[TreeNode], later: bool) -> bool:
        """Whether a layer may go behind all layers of ``nodes`` (``later``), or before them."""
        others = (leaf.layer for node in nodes for leaf in leaves(node))
        if later:
            return not any(layer in self._producers[other] for other in others)
        return not any(other in self._producers[layer] for other in others)

    @staticmethod
    def _layer(path: Path) -> str:
        cut, rank = path[-1]
        leaf = cut.children[rank]
        assert isinstance(leaf, Leaf)
        return leaf.layer

    def _group(self, current: Current, number: int, random: Random) -> TreeNode | None:
        """OP3: consecutive children of a random cut come below a new cut."""
        path = random.choice(current.cuts)
        ends = random.sample(range(len(path[-1].cut.children) + 1), 2)
        return self._grouped(path, min(ends), max(ends), random)

    def _ungroup(self, current: Current, number: int, random: Random) -> TreeNode | None:
        """OP4: a random cut that is not the root is dissolved."""
        cuts = current.cuts
        return self._dissolved(cuts[random.randrange(1, len(cuts))]) if len(cuts) > 1 else None

    def _subbatched(self, current: Current, number: int, random: Random) -> Path | None:
        """The path to any cut, each as likely, whose sub-batches OP5 and OP6 change."""
        return random.choice(current.cuts)


class MixedOperators(Operators):
    """Every draw is one of :class:`Operators` or one of :class:`PrintedOperators`, as likely."""

    def __init__(
        self, space: TreeSpace, weights: Mapping[str, float], bands: BandRules | None = None
    ) -> None:
        super().__init__(space, weights, bands)
        self._printed = PrintedOperators(space, weights, bands)

    def draw(self, current: Current, random: Random) -> tuple[str, TreeNode | None]:
        return self._printed.draw(current, random) if random.random() < 0.5 else super().draw(current, random)


def _passed(path: Path, at: int, target: int | None, later: bool) -> tuple[TreeNode, ...]:
    """The children of the cut at step ``at`` that the leaf passes on its way to child ``target``.

    None: it passes all children up to the end of the cut.
    """
    cut, own = path[at]
    if later:
        return cut.children[own + 1 : target]
    return cut.children[(-1 if target is None else target) + 1 : own]


def _transferred(path: Path, level: int, rank: int, target: Cut) -> TreeNode:
    """The tree without the leaf at the end of ``path``, with ``target`` as child ``rank`` at ``level``."""
    cut, own = path[level]
    if level == len(path) - 1:
        children = [target if at == rank else child for at, child in enumerate(cut.children) if at != own]
    else:
        parent, leaf = path[-1]
        rest = spliced(parent, leaf, leaf + 1)
        children = [
            target if at == rank else rest if at == own else child for at, child in enumerate(cut.children)
        ]
    return rebuilt(path[:level], spliced(cut, 0, len(cut.children), *children))
