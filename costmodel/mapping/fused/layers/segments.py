"""Which layers of a network are worth mapping together: its attention, or all that hang together.

A *segment* is a tuple of names of layers that stand one after the other in the network.
"""

from __future__ import annotations

from itertools import pairwise

from costmodel.mapping.fused.layers.links import LayerLinks
from costmodel.workload.network import Network

Segment = tuple[str, ...]


def attention_segments(network: Network) -> tuple[Segment, ...]:
    """For every softmax between two products, the scores before it and the values after it.

    Only where both stand next to each other, and nothing else needs the scores.
    """
    names = _names(network)
    links, found = LayerLinks(network, names), []
    for position, (scores, values) in enumerate(pairwise(names)):
        pair = links.within(names[position : position + 2])
        if pair.softmax_readers(scores) == [values] and not _leaves(pair, scores):
            found.append((scores, values))
    return tuple(found)


def hanging_together(network: Network, longest: int) -> tuple[Segment, ...]:
    """The longest segments in which a tensor that is read only inside passes over every border.

    ``longest``: only tensors count whose readers are among the ``longest`` layers that begin with their
    producer, as a fused mapping of runs of so many layers keeps no other. So nothing is lost by mapping
    segments apart: no run crosses a border over which nothing can stay on the chip. A residual stream, whose
    readers are far apart, ends a segment, and with it a block of a transformer.
    """
    names = _names(network)
    links, tied = LayerLinks(network, names), [False] * len(names)
    for position, name in enumerate(names):
        made = links.within(names[position : position + longest]).intermediate(name)
        if made is not None and not made.leaves:
            for border in range(position, position + made.last):
                tied[border] = True
    found, first = [], 0
    for border, together in enumerate(tied):
        if not together:
            if border > first:
                found.append(names[first : border + 1])
            first = border + 1
    return tuple(found)


def _leaves(links: LayerLinks, name: str) -> bool:
    made = links.intermediate(name)
    return made is None or made.leaves


def _names(network: Network) -> Segment:
    """The names of all layers; none of a network in which two layers have one name."""
    names = tuple(layer.name for layer in network.layers)
    return names if len(set(names)) == len(names) else ()
