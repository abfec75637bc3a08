"""The parameters of Thistle's co-design, each trick with its switch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from solvers.catalogue import solver, solver_names
from solvers.checks import check, check_choices, check_counts, check_switches

ArchitectureRule = Literal["joint", "dominant"]
"""How several layers get one architecture. "dominant": that of the layer which costs most when each has its
own (section V-A); "joint": one program over all layers, weighted by how often they occur."""

COUNTS = {"neighbours": 1, "judged": 1, "most_programs": 1, "condensed": 0, "rounds": 0}


@dataclass(frozen=True)
class Params:
    """``rule``: see :data:`ArchitectureRule`.

    ``split_windows``: R and S may also loop whole one level further out, so that a small register file serves
    large filters; off, they loop innermost, as the paper has it. ``most_programs``: programs a layer up to
    which all combinations of loop orders are solved; above it, one level's order is improved at a time.
    ``condensed``: how many of a layer's best programs are solved again with the negative terms that a
    geometric program cannot have. ``rounds``: at most so many times the joint program and the layers' loop
    orders are improved in turn.

    ``neighbours``: nearest powers of two tried for each memory (the paper's N); without ``powers_of_two`` a
    memory takes its relaxed number of words, rounded. ``judged``: how many whole architectures near each
    relaxed optimum (:func:`.relaxation.relaxed_optima`), those best at their relaxed mappings, have every
    layer mapped by ``mapping_solver`` and evaluated.
    """

    rule: ArchitectureRule = "joint"
    neighbours: int = 2
    powers_of_two: bool = True
    judged: int = 4
    mapping_solver: str = "auto"
    split_windows: bool = True
    most_programs: int = 512
    condensed: int = 8
    rounds: int = 4

    def __post_init__(self) -> None:
        where = "codesign thistle"
        check_choices(where, self, {"rule": ArchitectureRule})
        check_counts(where, self, COUNTS)
        check_switches(where, self, "powers_of_two", "split_windows")
        mapping = solver(self.mapping_solver).family == "mapping"
        expected = f"one of {', '.join(solver_names('mapping'))}"
        check(where, "mapping_solver", mapping, expected, self.mapping_solver)
