"""The resource-allocation tree of SET (ISCA 2023), section 3.1: who computes what, where and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from costmodel.errors import InputError

CutKind = Literal["S", "T"]


@dataclass(frozen=True)
class Leaf:
    """One layer for ``batch`` samples at a time (Formula 7)."""

    layer: str
    batch: int

    def __post_init__(self) -> None:
        _check_count(f"leaf {self.layer}", "batch", self.batch)


@dataclass(frozen=True)
class Cut:
    """An S cut runs its children on tiles of their own, a T cut one after the other on the same tiles.

    ``batch`` samples are run as ``subbatches`` equal parts (Formulas 4 and 8). Whether batches divide and
    layers are all there is a question of the whole tree: :func:`costmodel.schedule.tree.validity.violations`.
    """

    kind: CutKind
    batch: int
    subbatches: int
    children: tuple[Node, ...]

    def __post_init__(self) -> None:
        where = f"{self.kind} cut"
        if self.kind not in ("S", "T"):
            raise InputError("cut", "kind S or T", self.kind)
        _check_count(where, "batch", self.batch)
        _check_count(where, "subbatches", self.subbatches)
        if not self.children:
            raise InputError(where, "at least one child", "none")


Node = Leaf | Cut


def leaves(node: Node) -> Iterator[Leaf]:
    """The leaves from left to right: the order in which layers are computed."""
    if isinstance(node, Leaf):
        yield node
    else:
        for child in node.children:
            yield from leaves(child)


def depth(node: Node) -> int:
    """Cuts on the longest way down; 0 for a leaf."""
    return 0 if isinstance(node, Leaf) else 1 + max(depth(child) for child in node.children)


def _check_count(where: str, key: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(where, "a whole number of at least 1", value, key=key)
