"""Whether an RA tree is valid for a network, batch and chip (SET, Formulas 1-10 of section 3.1.2), and why
not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from costmodel.schedule.tree.data_flow import Producers
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, leaves


class NotPossibleError(Exception):
    """A valid tree that the hardware cannot run; the message says which node, and why."""


def violations(
    tree: TreeNode, producers: Producers, batch: int, tiles: int | None = None, segment: bool = False
) -> list[str]:
    """Why ``tree`` is not a valid tree of the network for ``batch`` samples; empty if it is.

    ``producers``: the network's layers and what each of them reads. With ``tiles``, S cuts must be able to
    give every child a tile of its own (Formulas 9 and 10); how many each gets is decided when the tree is
    evaluated. ``segment``: the tree is a child of a root T cut.

    Whether layers can run in the bands of a cut is said by
    :func:`costmodel.schedule.row_bands.band_violations`, and whether their input channels can be cut by
    :func:`costmodel.schedule.reductions.reduction_violations`.
    """
    reasons = [] if tree.batch == batch else [f"the root's batch is {tree.batch}, the workload's {batch}"]
    reasons += _batch_reasons(tree)
    reasons += _band_reasons(tree, segment)
    reasons += _layer_reasons(tree, producers)
    if tiles is not None and (needed := least_tiles(tree)) > tiles:
        reasons.append(f"its S cuts need {needed} tiles side by side, the chip has {tiles}")
    return reasons


def least_tiles(node: TreeNode) -> int:
    """Tiles that a node needs at least: an S cut the sum over its children, a T cut the largest of them.

    A leaf needs one for each part of its input channels.
    """
    if isinstance(node, Leaf):
        return node.reduced
    needed = [least_tiles(child) for child in node.children]
    return sum(needed) if node.kind == "S" else max(needed)


def _batch_reasons(node: TreeNode) -> list[str]:
    """Where Formulas 4 and 8 fail: sub-batches divide the batch, and children have one sub-batch."""
    if isinstance(node, Leaf):
        return []
    name = _name(node)
    if node.batch % node.subbatches:
        return [f"{name}: {node.subbatches} sub-batches do not divide {node.batch} samples"]
    samples = node.batch // node.subbatches
    reasons = [
        f"{name}: {_name(child)} has a batch of {child.batch}, not {samples}"
        for child in node.children
        if child.batch != samples
    ]
    return reasons + [reason for child in node.children for reason in _batch_reasons(child)]


def _band_reasons(tree: TreeNode, segment: bool) -> list[str]:
    """Cuts with bands that are no segment, and cuts below them that divide their batch further."""
    if isinstance(tree, Leaf):
        return []
    if tree.kind == "T" and not segment:
        own = [f"{_name(tree)}: the root T cut runs segments, and only these have bands"]
        found = own if tree.bands > 1 else []
        return found + [reason for child in tree.children for reason in _band_reasons(child, True)]
    divided = [one for child in tree.children for one in _cuts(child) if one.child_runs > 1]
    if tree.bands > 1:
        return [f"{_name(one)}: below {_name(tree)} cuts have one sub-batch" for one in divided]
    return [f"{_name(one)}: only a whole segment has bands" for one in divided if one.bands > 1]


def _cuts(node: TreeNode) -> Iterator[Cut]:
    if isinstance(node, Cut):
        yield node
        for child in node.children:
            yield from _cuts(child)


def _layer_reasons(tree: TreeNode, producers: Producers) -> list[str]:
    """Where the leaves are not all layers, each once, and after the layers that it reads from."""
    order = [leaf.layer for leaf in leaves(tree)]
    counted = Counter(order)
    reasons = [f"no layer {layer} in the network" for layer in counted if layer not in producers]
    reasons += [f"layer {layer} has {count} leaves" for layer, count in counted.items() if count > 1]
    reasons += [f"layer {layer} has no leaf" for layer in producers if layer not in counted]
    if reasons:
        return reasons
    index_of = {layer: index for index, layer in enumerate(order)}
    return [
        f"{layer} comes before {producer}, whose outputs it needs"
        for layer in order
        for producer in producers[layer]
        if index_of[producer] > index_of[layer]
    ]


def _name(node: TreeNode) -> str:
    return f"{node.kind} cut {node.name[2:]}" if isinstance(node, Cut) else f"layer {node.layer}"
