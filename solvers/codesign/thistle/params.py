"""The parameters of Thistle's co-design, each trick with its switch."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from typing import Any, Literal

from solvers.catalogue import solver, solver_names
from solvers.checks import check, check_choices, check_counts, check_switches
from solvers.presets import BY_PRESET, Preset, fill_in

ArchitectureRule = Literal["joint", "dominant"]
"""How several layers get one architecture. "dominant": that of the layer which costs most when each has its
own (section V-A); "joint": one program over all layers, weighted by how often they occur."""

COUNTS = {"neighbours": 1, "judged": 1, "most_programs": 1, "condensed": 0, "rounds": 0}

OURS: dict[str, Any] = {
    "rule": "joint",
    "literal": False,
    "split_windows": True,
    "condensed": 8,
    "judged": 4,
    "mapping_solver": "auto",
    "mapping_params": {},
}
PAPER: dict[str, Any] = {
    "rule": "dominant",
    "literal": True,
    "split_windows": False,
    "condensed": 0,
    "judged": 4,
    "mapping_solver": "thistle",
    "mapping_params": {"preset": "paper"},
}
PRESETS = {"archsweep": OURS, "paper": PAPER}
"""What a setting is that nobody states, by preset."""


@dataclass(frozen=True)
class Params:
    """The settings of one co-design solve.

    ``preset`` decides the settings of :data:`PRESETS` that are not stated: "archsweep" is how co-design is
    done here, "paper" as it is printed: Eq. 5 with Eq. 3's counts, windows whole in the registers, the
    dominant layer's architecture, and Thistle's own tiles on the whole architectures.

    ``rule``: see :data:`ArchitectureRule`. ``literal``: partial sums as Eq. 3 counts them, with a read of
    what goes out of a level; else as the cost model counts.

    ``split_windows``: R and S may also loop whole one level further out, so that a small register file serves
    large filters; off, they loop innermost, as the paper has it. ``most_programs``: programs a layer up to
    which all combinations of loop orders are solved; above it, one level's order is improved at a time.
    ``condensed``: how many of a layer's best programs are solved again with the negative terms that a
    geometric program cannot have. ``rounds``: at most so many times the joint program and the layers' loop
    orders are improved in turn.

    ``neighbours``: nearest powers of two tried for each memory (the paper's N); without ``powers_of_two`` a
    memory takes its relaxed number of words, rounded. ``judged``: how many whole architectures near each
    relaxed optimum (:func:`.relaxation.relaxed_optima`), those best at their relaxed mappings, have every
    layer mapped by ``mapping_solver`` with its ``mapping_params`` and evaluated.
    """

    preset: Preset = "archsweep"
    rule: ArchitectureRule = BY_PRESET
    literal: bool = BY_PRESET
    neighbours: int = 2
    powers_of_two: bool = True
    judged: int = BY_PRESET
    mapping_solver: str = BY_PRESET
    mapping_params: ReadOnlyDict[str, Any] = BY_PRESET
    split_windows: bool = BY_PRESET
    most_programs: int = 512
    condensed: int = BY_PRESET
    rounds: int = 4

    def __post_init__(self) -> None:
        where = "codesign thistle"
        if self.mapping_params is BY_PRESET and self.mapping_solver is not BY_PRESET:
            # the preset's are for the preset's solver
            object.__setattr__(self, "mapping_params", {})
        fill_in(where, self, PRESETS)
        check_choices(where, self, {"rule": ArchitectureRule})
        check_counts(where, self, COUNTS)
        check_switches(where, self, "literal", "powers_of_two", "split_windows")
        mapping = solver(self.mapping_solver).family == "mapping"
        expected = f"one of {', '.join(solver_names('mapping'))}"
        check(where, "mapping_solver", mapping, expected, self.mapping_solver)
        self._check_mapping_params(where)

    def _check_mapping_params(self, where: str) -> None:
        given: Any = self.mapping_params
        named = isinstance(given, ReadOnlyDict) and all(isinstance(key, str) for key in given)
        check(where, "mapping_params", named, "parameters by name", given)
        known = [*solver(self.mapping_solver).load().Params.__dataclass_fields__]
        for key in given:
            expected = f"parameters of {self.mapping_solver} among {', '.join(known)}"
            check(where, "mapping_params", key in known, expected, key)
        self.mapper_params()

    def mapper_params(self) -> Any:
        """The mapping solver's Params; InputError for a value that it does not take."""
        return solver(self.mapping_solver).load().Params(**self.mapping_params)
