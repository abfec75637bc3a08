"""Bytes that a set of tensors moves in every plan, and what several such proofs come to together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from costmodel.scratchpad.divisions import DivisibleGraph
from costmodel.scratchpad.graph import OperatorGraph


class Proof(NamedTuple):
    """Every plan moves at least so many bytes of these tensors, of their sums and of their bands."""

    moved: int
    tensors: frozenset[int]


def moved_bytes(divisible: DivisibleGraph, live: Iterable[int], excess: int) -> int:
    """What ``excess`` bytes of these tensors move that are live and not in the scratchpad.

    They have left and come back: each byte twice, once where the host has a copy from the beginning.
    """
    if excess <= 0:
        return 0
    graph = divisible.whole
    copied = sum(graph.tensors[tensor].traffic_bytes for tensor in live if tensor in graph.on_host)
    return min(excess, copied) + 2 * max(0, excess - copied)


def positions(graph: OperatorGraph) -> list[int]:
    """By tensor the operator that makes it, or that reads it first; -1 for one that nothing touches."""
    return [
        maker if maker is not None else min(readers, default=-1)
        for maker, readers in zip(graph.producers, graph.consumers, strict=True)
    ]


def added_up(graph: OperatorGraph, proofs: Iterable[Proof]) -> int:
    """The most that proofs without a common tensor prove together.

    Of each proof the span of its tensors' positions counts: spans that do not meet have no tensor in common.
    """
    place = positions(graph)
    ending: dict[int, list[tuple[int, int]]] = {}
    for proof in proofs:
        own = [place[tensor] for tensor in proof.tensors]
        ending.setdefault(max(own) + 1, []).append((min(own), proof.moved))
    best = [0]
    for end in range(1, len(graph.operators) + 1):
        through = [best[first] + moved for first, moved in ending.get(end, ())]
        best.append(max([best[-1], *through]))
    return best[-1]
