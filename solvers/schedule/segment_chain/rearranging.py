"""Rearranges the cuts of a tree, one change at a time, as long as that makes it better.

All changes keep the order of layers, so each gives a valid tree again. Four move the boundaries of cuts:

- *Moving* a leaf: the first one of a cut becomes the last one of its neighbour to the left, or the other way
  round, at any depth. So the boundary between two segments, or two stages of a pipeline, shifts by a layer.
- *Nesting* some neighbouring children of a cut in a T cut of their own.
- *Opening* such a T cut: its children become children of the cut above.
- *Splitting* a child in two of the same kind, or a pipeline into two.

With ``reshaping`` there are three more, which change how the layers below a cut run:

- *Resizing* a cut: it has the next larger or smaller number of sub-batches. Cuts below it keep either their
  number of sub-batches or the samples of each.
- *Turning* a pipeline into a T cut, or the other way round.
- *Joining* two neighbours in a cut of several sub-batches, or three in such a T cut: they then hand on a part
  of the samples at a time, in turn or side by side.

Nesting is how trees say that data comes earlier. In a T cut the first data of a child comes while the child
before it runs. So the weights of C are loaded during B only, and after nesting during A, too::

    T 8/1          T 8/1
      A              T 8/1
      B                A
      C                B
                     C

The buffers then hold C's weights beside both, so a tree has as much of this as fits. The best chain of
segments has none: within a segment its layers follow one another, and only the last step of a segment
overlaps the first fetch of the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import gcd

from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.divisors import divisors
from solvers.schedule.objective import Objective
from solvers.schedule.problem import tree_value, value_up_to
from solvers.schedule.segment_chain.joining import has_bands

Nodes = tuple[TreeNode, ...]


def rearranged(
    tree: Cut,
    evaluator: ChipEvaluator,
    objective: Objective,
    most: int,
    go_on: Callable[[], bool],
    reshaping: bool = False,
) -> tuple[Cut, int]:
    """The tree after all changes that pay, and how many trees were counted, at most ``most``.

    ``tree``: a root T cut that the chip can run. ``reshaping``: with the changes to how layers run. The first
    change that lowers the objective is made, and the search goes on behind it, so no kind of change waits for
    another. It ends when no change is left that pays, or when ``go_on``, asked before each tree, says no.
    """
    least, counted, begin = tree_value(tree, evaluator, objective), 0, 0
    while True:
        others = list(changes(tree, reshaping))
        for step in range(len(others)):
            if counted >= most or not go_on():
                return tree, counted
            at = (begin + step) % len(others)
            counted += 1
            try:
                value = value_up_to(others[at], evaluator, objective, least)
            except NotPossibleError:
                continue
            if value is not None and value < least:
                tree, least, begin = others[at], value, at
                break
        else:
            return tree, counted


def changes(tree: Cut, reshaping: bool = False) -> Iterator[Cut]:
    """The trees that are one change away; the root stays a T cut of as many rounds.

    Cuts with bands of rows stay as they are, and so does all below them.
    """
    for children in _changed(tree, True):
        yield replace(tree, children=children)
    if reshaping:
        for children in _reshaped(tree):
            yield replace(tree, children=children)


def _changed(cut: Cut, is_root: bool = False) -> Iterator[Nodes]:
    """The children that a cut may have after one change to it, or to a cut below it."""
    children = cut.children
    for at in range(len(children) - 1):
        for pair in _moved(children[at], children[at + 1]):
            yield (*children[:at], *pair, *children[at + 2 :])
    yield from _nested(children, is_root)
    for at, child in enumerate(children):
        before, after = children[:at], children[at + 1 :]
        if not isinstance(child, Cut) or child.bands > 1:
            continue
        if child.kind == "T" and child.subbatches == 1:
            yield (*before, *child.children, *after)
        for end in range(1, len(child.children)):
            left, right = child.children[:end], child.children[end:]
            yield (*before, _with(child, left), _with(child, right), *after)
        for below in _changed(child):
            yield (*before, _with(child, below), *after)


def _reshaped(cut: Cut) -> Iterator[Nodes]:
    """The children that a cut may have after one of the changes to how layers run, at any depth."""
    children = cut.children
    for at, child in enumerate(children):
        before, after = children[:at], children[at + 1 :]
        for count in (2, 3):
            inside = children[at : at + count]
            if len(inside) == count and not any(map(has_bands, inside)):
                yield from ((*before, joint, *children[at + count :]) for joint in _joints(inside))
        if not isinstance(child, Cut) or child.bands > 1:
            continue
        yield from ((*before, other, *after) for other in _resized(child))
        if len(child.children) > 1:
            yield (*before, replace(child, kind="S" if child.kind == "T" else "T"), *after)
        for below in _reshaped(child):
            yield (*before, replace(child, children=below), *after)


def _joints(nodes: Nodes) -> Iterator[Cut]:
    """The cuts of several sub-batches that hold these nodes; pipelines of two only, as others hardly pay."""
    batch = nodes[0].batch
    for parts in divisors(batch)[1:]:
        children = tuple(_of_batch(node, batch // parts) for node in nodes)
        yield Cut("T", batch, parts, children)
        if len(nodes) == 2:
            yield Cut("S", batch, parts, children)


def _resized(cut: Cut) -> Iterator[Cut]:
    """The cut with the next larger or smaller number of sub-batches."""
    numbers = divisors(cut.batch)
    at = numbers.index(cut.subbatches)
    for parts in numbers[max(at - 1, 0) : at] + numbers[at + 1 : at + 2]:
        samples = cut.batch // parts
        same_numbers = tuple(_of_batch(child, samples) for child in cut.children)
        same_samples = tuple(_of_batch(child, samples, True) for child in cut.children)
        for children in dict.fromkeys((same_numbers, same_samples)):
            yield replace(cut, subbatches=parts, children=children)


def _of_batch(node: TreeNode, batch: int, keeping_samples: bool = False) -> TreeNode:
    """The node with another batch.

    Its cuts keep their numbers of sub-batches, as far as these divide the new batch. With ``keeping_samples``
    the topmost cut keeps the samples of a sub-batch instead, if these divide it.
    """
    if isinstance(node, Leaf):
        return replace(node, batch=batch)
    samples = node.batch // node.subbatches
    parts = batch // samples if keeping_samples and batch % samples == 0 else gcd(node.subbatches, batch)
    children = tuple(_of_batch(child, batch // parts) for child in node.children)
    return replace(node, batch=batch, subbatches=parts, children=children)


def _nested(children: Nodes, is_root: bool) -> Iterator[Nodes]:
    """Some neighbouring children in a T cut; all of them only below the root, where that is one segment."""
    for first in range(len(children) - 1):
        for end in range(first + 2, len(children) + 1):
            inside = children[first:end]
            if (len(inside) == len(children) and not is_root) or any(map(has_bands, inside)):
                continue
            yield (*children[:first], Cut("T", inside[0].batch, 1, inside), *children[end:])


def _moved(left: TreeNode, right: TreeNode) -> Iterator[Nodes]:
    """Two neighbours after a leaf has moved from one to the other; only one node where that was its last."""
    if has_bands(left) or has_bands(right):
        return
    if isinstance(left, Leaf) and isinstance(right, Leaf):  # two leaves in a T cut are nested, not moved
        return
    leaf, rest = _without(right, 0)
    yield from ((other, *rest) for other in _taking(left, leaf, -1))
    leaf, rest = _without(left, -1)
    yield from ((*rest, other) for other in _taking(right, leaf, 0))


def _without(node: TreeNode, at: int) -> tuple[Leaf, Nodes]:
    """A node's first leaf (``at`` 0) or last one (-1), and the node without it, or nothing."""
    if isinstance(node, Leaf):
        return node, ()
    leaf, rest = _without(node.children[at], at)
    left = (*rest, *node.children[1:]) if at == 0 else (*node.children[:-1], *rest)
    return leaf, (_with(node, left),) if left else ()


def _taking(node: TreeNode, leaf: Leaf, at: int) -> Iterator[TreeNode]:
    """A node with a leaf more at its beginning (``at`` 0) or end (-1), at each depth."""
    if isinstance(node, Leaf):
        pair = (replace(leaf, batch=node.batch), node)
        yield Cut("T", node.batch, 1, pair if at == 0 else pair[::-1])
        return
    one = (replace(leaf, batch=node.batch // node.subbatches),)
    yield replace(node, children=(*one, *node.children) if at == 0 else (*node.children, *one))
    if isinstance(node.children[at], Cut):
        for child in _taking(node.children[at], leaf, at):
            others = (child, *node.children[1:]) if at == 0 else (*node.children[:-1], child)
            yield replace(node, children=others)


def _with(cut: Cut, children: Sequence[TreeNode]) -> TreeNode:
    """The cut with other children; a single one takes its place, with all of its samples at a time."""
    if len(children) == 1:
        return _times(children[0], cut.subbatches)
    return replace(cut, children=tuple(children))


def _times(node: TreeNode, factor: int) -> TreeNode:
    """The node with so many times as many samples a batch, in as many sub-batches."""
    if factor == 1:
        return node
    if isinstance(node, Leaf):
        return replace(node, batch=factor * node.batch)
    children = tuple(_times(child, factor) for child in node.children)
    return replace(node, batch=factor * node.batch, children=children)
