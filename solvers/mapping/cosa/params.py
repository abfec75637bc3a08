"""The settings of CoSA: objective and weights, engine, capacity limits, choices of kept tensors, polish."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, Literal

from costmodel.hardware.architecture import ALL_ROLES, Architecture
from costmodel.workload.network import Role
from solvers.checks import check, check_choices, check_counts, check_switches, is_number

EngineName = Literal["cp-sat", "highs"]
Surrogate = Literal["weighted-sum", "balanced"]
Boundaries = Literal["network", "all"]
CapacitySplit = Literal["auto", "free", "even"]

CHOICES = {
    "engine": EngineName,
    "surrogate": Surrogate,
    "capacity_split": CapacitySplit,
    "boundaries": Boundaries,
}


@dataclass(frozen=True)
class Params:
    """The settings of one CoSA solve.

    What the programs minimise (all terms are base-2 logarithms):

    * ``surrogate``: "weighted-sum" is ``-utilisation_weight * Util + compute_weight * Comp + traffic_weight *
      Traf`` (Eq. 12). "balanced" is ``max(traffic_weight * Traf, Comp)``, in place of the paper's difference
      (Eq. 13), which a fully serial mapping may minimise.
    * ``utilisation_weight`` is 0.1 in the released code and 0 here: the term takes three times the CPU and
      gave no better mappings of CoSA's layers on its architecture.
    * ``boundaries``: "network" counts the traffic that the paper counts, over the network on chip, and that
      out of DRAM. "all" counts the traffic between all levels: without polish, mappings of CoSA's layers
      come within 1.2 times the lower bounds instead of 1.9, for three times the CPU; with polish the two
      differ by 2 %.

    How tiles divide a level's capacity:

    * ``capacity_fractions``: level name -> role -> the fraction of the level's words that this role's tiles
      may take, as in the paper.
    * ``capacity_split`` is for levels without ``capacity_fractions``: "free" bounds the sum of the tiles,
      "even" gives each tensor the same words, "auto" is "free" for up to two tensors and "even" for more (a
      third of the time for mappings as good). The polish uses neither: there the tiles only have to fit
      together.
    * ``keep_choices``: as many choices of kept tensors get programs
      (:func:`solvers.mapping.cosa.capacity.keep_choices`).

    How the programs are solved, and what follows:

    * ``engine``: the library that solves the integer programs.
    * ``polish``: descend on the cost model's objective from all programs' optima. Without it the answer is
      the best of these optima as it is.
    * ``kicks``: how often the polish starts again from random steps off its best mapping, while that is far
      from the lower bound.
    """

    engine: EngineName = "cp-sat"
    surrogate: Surrogate = "weighted-sum"
    utilisation_weight: float = 0.0
    compute_weight: float = 10.0
    traffic_weight: float = 1.0
    boundaries: Boundaries = "network"
    capacity_fractions: ReadOnlyDict[str, ReadOnlyDict[Role, float]] = field(default_factory=dict)
    capacity_split: CapacitySplit = "auto"
    keep_choices: int = 3
    polish: bool = True
    kicks: int = 16

    def __post_init__(self) -> None:
        check_choices("cosa", self, CHOICES)
        for key in ("utilisation_weight", "compute_weight", "traffic_weight"):
            weight = getattr(self, key)
            _check(key, is_number(weight, 0, inf), "a number of at least 0", weight)
        check_counts("cosa", self, {"keep_choices": 1, "kicks": 0})
        check_switches("cosa", self, "polish")
        expected = "fractions per level and role"
        _check(
            "capacity_fractions",
            isinstance(self.capacity_fractions, ReadOnlyDict),
            expected,
            self.capacity_fractions,
        )
        for level, fractions in self.capacity_fractions.items():
            _check_fractions(f"capacity_fractions.{level}", fractions)

    def check_levels(self, architecture: Architecture) -> None:
        """Raise InputError if ``capacity_fractions`` name a level that the architecture does not have."""
        names = [level.name for level in architecture.levels]
        for level in self.capacity_fractions:
            _check(
                "capacity_fractions", level in names, f"levels of {architecture.name} among {names}", level
            )


def _check_fractions(key: str, fractions: Any) -> None:
    _check(key, isinstance(fractions, ReadOnlyDict), "a fraction per role", fractions)
    for role, fraction in fractions.items():
        _check(key, role in ALL_ROLES, f"roles among {ALL_ROLES}", role)
        _check(
            f"{key}.{role}",
            is_number(fraction, 0, 1) and fraction > 0,
            "a fraction above 0, at most 1",
            fraction,
        )


_check = partial(check, "cosa")
