"""Leaves whose input channels are cut: their tiles make partial sums, which one tile of each group adds up.

A partition along K, B, H and W gives every tile outputs of its own, and all input channels for them. A layer
with many input channels and few outputs has too few outputs for many tiles, or many tiles hold the same
weights. Such a leaf may have its *input channels* cut as well (the dim C of a convolution or matrix
product): ``conv1 4 C3`` on 6 tiles has C in 3 parts and its outputs in 2::

    tile               0        1        2        3        4        5
    outputs            k0       k0       k0       k1       k1       k1
    input channels     c0       c1       c2       c0       c1       c2
    partial sums       0 <----- 1                 3 <----- 4
                       0 <-------------- 2        3 <-------------- 5

The tiles with the same outputs are a *group*; its first tile is the *owner*. A tile reads only its part of
the input channels and of the weights. In a run it computes partial sums of all outputs of its group, which
are as wide as the chip's ``partial_sums``. All of them go to the owner, where they are held until they have
been added; the owner's own ones stay there. Adding them is the work of an element-wise layer with an operand
for each part: one operation of the vector units for each partial sum. Outputs leave the owner only then::

    owner      | partial sums        | adds |            outputs leave here
    others     | partial sums, which leave  |
    links      | inputs of others, sums     |

So a run of the group takes the time of computing or of sending, whichever is longer, and then the time of
adding. The bits that the owner holds are counted in :mod:`.segment.leaf_nodes`, the transfers in
``leaf/reduction_kernel.py``, and the instructions of the program are written in ``program/``.

The parts of one group read different elements. So their reads are counted as if they were several layers side
by side, each with some of the input channels. That would be wrong for a layer whose channels are in groups
(as in a grouped convolution), as a box of several of these reads channels of other parts; such layers are not
cut. The weights of these leaves are pinned, and the leaves have no bands of rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, leaves, rounds_of_segments


def whole_channels_reason(layer: NetworkLayer) -> str:
    """Why the input channels of a layer cannot be cut, into however many parts; empty where they can.

    What softmax and normalisation add up over their axis is not in their iteration space
    (:meth:`.NetworkLayer.space`), so a cut along it has no partial sums that could be counted.
    """
    if not layer.has_weights:
        return f"its outputs ({layer.kind}) are no sums of products over input channels"
    if layer.needs_whole_chip:
        return "it runs mapped on the whole chip only"
    if layer.groups > 1:
        return f"its channels are in {layer.groups} groups"
    return ""


def reduction_violations(tree: TreeNode, graph: LayerGraph) -> list[str]:
    """Why the input channels of the leaves of a tree cannot be cut; ``tree`` is valid but for that."""
    _, segments = rounds_of_segments(tree)
    return [reason for segment in segments for reason in segment_reduction_violations(segment, graph)]


def segment_reduction_violations(segment: TreeNode, graph: LayerGraph) -> list[str]:
    """The same of one segment."""
    cut = [leaf for leaf in leaves(segment) if leaf.reduced > 1]
    if not cut:
        return []
    found = list(_of_layers(cut, graph))
    if isinstance(segment, Cut) and segment.bands > 1:
        names = ", ".join(leaf.layer for leaf in cut)
        found.append(f"{segment.kind} cut {segment.name[2:]}: in bands no input channels are cut ({names})")
    return found


def _of_layers(cut: list[Leaf], graph: LayerGraph) -> Iterator[str]:
    for leaf in cut:
        layer = graph.layers[graph.index[leaf.layer]]
        if why := whole_channels_reason(layer):
            yield f"layer {leaf.layer}: its input channels cannot be cut, {why}"
        elif leaf.reduced > layer.c:
            yield f"layer {leaf.layer}: {leaf.reduced} parts of {layer.c} input channels"
