"""The one value in which all schedulers state a schedule: an RA tree, and how finely S cuts hand on data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from costmodel.errors import InputError
from costmodel.schedule.tree.tree import Cut, Leaf, Node

Path = tuple[int, ...]
"""A node's place: which child of the root, which child of that, and so on; the root's is empty."""


@dataclass(frozen=True)
class Granularity:
    """The S cut at ``path`` hands on each sub-batch in ``groups`` equal groups of samples, as they are ready.

    A consumer then starts a group, not a sub-batch, after its producer: pipelines fill and drain sooner.
    """

    path: Path
    groups: int

    def __post_init__(self) -> None:
        if not isinstance(self.groups, int) or isinstance(self.groups, bool) or self.groups < 1:
            raise InputError("granularity", "a whole number of at least 1", self.groups, key="groups")


@dataclass(frozen=True)
class Schedule:
    """An RA tree; S cuts not named in ``granularities`` hand on whole sub-batches, as in the paper."""

    tree: Node
    granularities: tuple[Granularity, ...] = field(default=())

    def __post_init__(self) -> None:
        paths = [item.path for item in self.granularities]
        if len(set(paths)) != len(paths):
            raise InputError("schedule", "one granularity a cut", paths, key="granularities")

    @property
    def groups(self) -> dict[Path, int]:
        """Groups a sub-batch by the path of the S cut."""
        return {item.path: item.groups for item in self.granularities}


def granularity_violations(schedule: Schedule) -> list[str]:
    """Why granularities do not fit their tree; empty if they do.

    Groups must be samples that every child of the S cut has finished, or can begin with, before the rest of
    its sub-batch: a leaf goes through its batch sample by sample, a cut through its own sub-batches.
    """
    cuts = dict(_cuts(schedule.tree, ()))
    reasons = []
    for path, groups in schedule.groups.items():
        cut = cuts.get(path)
        if cut is None or cut.kind != "S":
            reasons.append(f"granularity at {path}: there is no S cut")
            continue
        reasons += [
            f"granularity at {path}: {groups} groups do not divide the {most} parts that child {place} does"
            for place, child in enumerate(cut.children)
            if (most := _parts(child)) % groups
        ]
    return reasons


def _parts(node: Node) -> int:
    """Into how many parts, one after the other, a node's batch falls."""
    return node.batch if isinstance(node, Leaf) else node.subbatches


def _cuts(node: Node, path: Path) -> Iterator[tuple[Path, Cut]]:
    if isinstance(node, Cut):
        yield path, node
        for place, child in enumerate(node.children):
            yield from _cuts(child, (*path, place))
