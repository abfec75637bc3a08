"""Groups of designs whose solves several blocks share: their answers, until the last one is there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from results.store.schema.rows import DesignRow
from sweep.blocks.block import GroupPart
from sweep.blocks.closing import Closing
from sweep.study.designs.design_space import Design
from sweep.tasks.summaries import MappingSummary


@dataclass(frozen=True)
class GroupAnswers:
    """The ids and answers of a group's solves, or why a layer provably has no mapping there."""

    ids: tuple[str, ...]
    answers: tuple[MappingSummary, ...]
    obstacle: str = ""

    def rows(self, closing: Closing, designs: Iterable[Design], *, charged: bool = False) -> list[DesignRow]:
        """The rows of designs of the group; see :meth:`Closing.rows`."""
        if self.obstacle:
            return closing.without_solves(designs, self.obstacle)
        return closing.rows(designs, self.ids, self.answers, charged=charged)


@dataclass
class _OpenGroup:
    """Answers to some of a group's solves, by the number of the solve."""

    answers: dict[int, tuple[str, MappingSummary]] = field(default_factory=dict)
    obstacle: str = ""
    without: int = 0
    """How many solves are not to be done, for the obstacle."""


class OpenGroups:
    """The groups that some answers are known of; each has ``each`` solves."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._open: dict[int, _OpenGroup] = {}

    def enter(self, group: int, part: GroupPart) -> GroupAnswers | None:
        """Take in some answers of a group; returns all of them once none is missing."""
        entry = self._open.setdefault(group, _OpenGroup())
        if part.obstacle:
            entry.obstacle = part.obstacle
            entry.without += len(part.ids)
        for number, pair in enumerate(zip(part.ids, part.answers, strict=not part.obstacle), part.first):
            entry.answers[number] = pair
        if len(entry.answers) + entry.without < self._each:
            return None
        del self._open[group]
        if entry.obstacle:
            return GroupAnswers((), (), entry.obstacle)
        ids, answers = zip(*(entry.answers[n] for n in range(self._each)), strict=True)
        return GroupAnswers(ids, answers)
