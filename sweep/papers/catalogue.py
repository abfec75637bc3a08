"""The papers by name."""

from __future__ import annotations

from costmodel.errors import InputError, did_you_mean
from sweep.papers.cosa import COSA
from sweep.papers.cosma import COSMA_PAPER
from sweep.papers.kapla import KAPLA
from sweep.papers.paper import Paper, PaperFigure
from sweep.papers.set_schedules import SET_PAPER
from sweep.papers.thistle import THISTLE

PAPERS: dict[str, Paper] = {paper.name: paper for paper in (COSA, THISTLE, COSMA_PAPER, SET_PAPER, KAPLA)}


def paper_of(name: str) -> Paper:
    """The paper of that name; InputError with near names if there is none."""
    if name not in PAPERS:
        raise InputError("paper", f"one of {', '.join(PAPERS)}", name, did_you_mean(name, PAPERS))
    return PAPERS[name]


def figures_of(paper: Paper, numbers: list[str]) -> tuple[PaperFigure, ...]:
    """The figures of these numbers, all for none; InputError for a number that the paper does not have."""
    known = {figure.number: figure for figure in paper.figures}
    for number in numbers:
        if number not in known:
            raise InputError("--figure", f"one of {', '.join(known)}", number)
    return tuple(known[number] for number in dict.fromkeys(numbers)) or paper.figures
