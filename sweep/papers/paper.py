"""The frame of a paper's evaluation: studies, figures made of their rows, and what is not reproduced."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from math import exp, log
from typing import Any, Literal

from sweep.tasks.kinds import PaperTask

Effort = Literal["quick", "full"]
"""``quick`` is a part of the paper's networks, enough to see the figure; ``full`` is all of them."""

LayerRows = ReadOnlyDict[Any, ReadOnlyDict[str, Any]]
"""The row of each solve that has an answer.

The key is the layer for a study of architectures, (network, solver, seed) for a study of a chip, and the
label for :class:`PaperSolves`.
"""


@dataclass(frozen=True)
class PaperStudy:
    """One study of a paper; ``key`` names it there, ``document`` is the content of a study file."""

    key: str
    document: ReadOnlyDict[str, Any]


@dataclass(frozen=True)
class PaperSolves:
    """Solves that belong to no study of designs, by labels of the paper's own; ``key`` as for a study.

    They are stored and resumed like those of a study (:mod:`sweep.run.task_run`).
    """

    key: str
    tasks: ReadOnlyDict[Hashable, PaperTask]


@dataclass(frozen=True)
class Bars:
    """A chart that has, for each of ``labels``, a bar of every series; ``quantity``: what the bars show."""

    quantity: str
    labels: tuple[str, ...]
    series: ReadOnlyDict[str, tuple[float, ...]]


@dataclass(frozen=True)
class FigureTable:
    """A figure as a table of our numbers, with the paper's beside them or a remark that says why not."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]
    remarks: tuple[str, ...]
    bars: Bars | None = None


@dataclass(frozen=True)
class PaperFigure:
    """A figure or table of the paper.

    ``needs``: the keys of the studies and solves that its ``table`` is made of. ``columns``: what it reads of
    the layers of its studies beside what all figures get (``reproduction.LAYER_COLUMNS``), such as mappings,
    which are large. ``not_reproduced``: the reason why there is no table of ours; then nothing is needed.
    """

    number: str
    title: str
    needs: tuple[str, ...] = ()
    table: Callable[[ReadOnlyDict[str, LayerRows], Effort], FigureTable] | None = None
    not_reproduced: str = ""
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.table is None) != bool(self.not_reproduced):
            raise ValueError(f"figure {self.number} has either a table or a reason why it has none")


def _no_solves(effort: Effort, rows: ReadOnlyDict[str, LayerRows]) -> Sequence[PaperSolves]:
    return ()


@dataclass(frozen=True)
class Paper:
    """A paper: its name in the command, its title, its studies by effort, its figures.

    ``networks``: those whose layers the studies map. ``solves``: the solves that can be stated from the rows
    found so far. Solves that depend on other solves' answers appear when these are there.
    """

    name: str
    title: str
    studies: Callable[[Effort], Sequence[PaperStudy]]
    networks: Callable[[Effort], tuple[str, ...]]
    figures: tuple[PaperFigure, ...]
    solves: Callable[[Effort, ReadOnlyDict[str, LayerRows]], Sequence[PaperSolves]] = _no_solves


def geomean(ratios: Sequence[float]) -> float:
    """The geometric mean of at least one ratio."""
    return exp(sum(log(ratio) for ratio in ratios) / len(ratios))
