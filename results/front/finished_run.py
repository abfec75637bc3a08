"""What Python code gets from a run: its front, and where its results are."""

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
    ``left_out`` says how many designs break a constraint by their answers, and which; empty where none does.
    """

    objectives: tuple[str, ...]
    table: pandas.DataFrame
    networks: tuple[str, ...]
    left_out: str = ""


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """Where the results of a run are, and the most asked for of them.

    ``path`` is the run folder, or the URI that the results went to, and ``report`` the page drawn from them,
    in that folder. ``front`` is the Pareto front over the study's ``objectives``, ordered by the first of
    them from its best value on: a column ``axis.NAME`` for every axis, the objectives, then the other
    metrics, each with its unit in its name. ``networks`` names those whose runs are added up, as
    ``decode ×50``. ``summary`` says how many designs are complete, left out, infeasible, discarded or failed,
    and ``left_out`` which constraints those break that are left out by their answers; empty where none is.
    ``failed`` is how many solves of this run have no answer, and ``errors`` how often each reason was met;
    the same call tries them again.
    """

    path: str
    report: str
    objectives: tuple[str, ...]
    front: pandas.DataFrame
    networks: tuple[str, ...]
    summary: str
    failed: int
    errors: Mapping[str, int]
    left_out: str = ""
