"""SET's own definition of an RA tree (section 3.1.2): eight attributes a node, and Formulas 1-10.

Tests hold trees and evaluations to it; the product builds the same trees without writing attributes down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from costmodel.schedule.tree.data_flow import DataFlow
from costmodel.schedule.tree.tree import Leaf


@dataclass(frozen=True)
class Attributes:
    """N_i = (type, C, L, TG, b, sb, FROM, TO) of section 3.1.2; other nodes are named by their numbers.

    ``tiles`` is the HW-tile group. ``sources`` (FROM) have layers whose outputs a layer of this node needs,
    ``targets`` (TO) layers that need outputs of this node's.
    """

    kind: Literal["Leaf", "SCut", "TCut"]
    children: frozenset[int]
    layers: frozenset[str]
    tiles: frozenset[int]
    batch: int
    subbatches: int
    sources: frozenset[int]
    targets: frozenset[int]


def node_attributes(flow: DataFlow, tiles: Mapping[int, tuple[int, int]]) -> tuple[Attributes, ...]:
    """Attributes of all nodes, by number; ``tiles``: first and end tile of every node."""
    layers = [frozenset[str]() for _ in flow.positions]
    for layer, number in flow.leaf_of.items():
        while number >= 0:
            layers[number] |= {layer}
            number = flow.positions[number].parent
    needed = [frozenset(name for layer in own for name in flow.producers[layer]) for own in layers]
    numbers = range(len(layers))
    sources = [frozenset(j for j in numbers if j != i and layers[j] & needed[i]) for i in numbers]
    found = []
    for position in flow.positions:
        node, number = position.node, position.number
        leaf = isinstance(node, Leaf)
        found.append(
            Attributes(
                kind="Leaf" if isinstance(node, Leaf) else "SCut" if node.kind == "S" else "TCut",
                children=frozenset() if leaf else frozenset(flow.children[number]),
                layers=layers[number],
                tiles=frozenset(range(*tiles[number])),
                batch=node.batch,
                subbatches=1 if isinstance(node, Leaf) else node.subbatches,
                sources=sources[number],
                targets=frozenset(j for j in numbers if number in sources[j]),
            )
        )
    return tuple(found)


def broken_formulas(nodes: Sequence[Attributes], layers: frozenset[str], tiles: int, batch: int) -> list[str]:
    """Which formulas do not hold, and where; node 0 is the root, which has all layers, tiles and samples."""
    root = nodes[0]
    reasons = [] if root.layers == layers else ["the root's L is not all layers"]
    reasons += [] if root.tiles == frozenset(range(tiles)) else ["the root's TG is not all tiles"]
    reasons += [] if root.batch == batch else ["the root's b is not the total batch"]
    for number, node in enumerate(nodes):
        reasons += [f"node {number}: {reason}" for reason in _broken(node, nodes, layers, tiles)]
    return reasons


def _broken(
    node: Attributes, nodes: Sequence[Attributes], layers: frozenset[str], tiles: int
) -> Iterator[str]:
    if not node.layers <= layers or not node.tiles <= frozenset(range(tiles)) or not node.tiles:
        yield "Formula 3, L or TG has what the network or chip does not"
    if node.batch % node.subbatches:
        yield f"Formula 4, {node.subbatches} sub-batches of {node.batch} samples"
    if node.kind == "Leaf":
        if node.children or len(node.layers) != 1 or node.subbatches != 1:
            yield "Formula 7, a leaf has one layer, no children and one sub-batch"
        return
    children = [nodes[child] for child in sorted(node.children)]
    samples = node.batch / node.subbatches
    covered = [layer for child in children for layer in child.layers]
    if not children or frozenset(covered) != node.layers or any(child.batch != samples for child in children):
        yield "Formula 8, children have all layers between them and the sub-batch's samples"
    if len(covered) != len(set(covered)):
        yield "section 3.1.2, a leaf for every layer"
    union = frozenset(tile for child in children for tile in child.tiles)
    same = all(child.tiles == node.tiles for child in children)
    if not same if node.kind == "TCut" else union != node.tiles:
        yield "Formula 9, children's TG"
    if node.kind == "SCut" and sum(len(child.tiles) for child in children) != len(union):
        yield "Formula 10, children of an S cut share tiles"
