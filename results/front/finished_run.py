"""What is handed to whoever runs a study, or looks at a run, from Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class RunFront:
    """The Pareto front of a run over ``objectives``: ``table`` is what :func:`front_table` makes of them.

    ``networks`` names those whose runs are added up, as ``decode ×50``; none where each runs once.
    """

    objectives: tuple[str, ...]
    table: pandas.DataFrame
    networks: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """Where the results of a run are, and the first of them.

    ``path`` is the run folder, or the URI that the results went to; ``report`` the page drawn from them, in
    the same place. ``front`` is the Pareto front over the study's ``objectives``, best first objective
    first: a column ``axis.NAME`` for every axis, the objectives, then the other metrics, each with its unit
    in its name. ``networks`` names those whose runs are added up, as ``decode ×50``. ``summary`` says what
    became of the designs. ``failed`` is how many solves of this run have no answer, ``errors`` how often
    each reason for that was met; the same call tries them again.
    """

    path: str
    report: str
    objectives: tuple[str, ...]
    front: pandas.DataFrame
    networks: tuple[str, ...]
    summary: str
    failed: int
    errors: Mapping[str, int]
