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
from solvers.mapping.cosa.timed_costs import TimedCosts
from solvers.presets import BY_PRESET, Preset, fill_in

EngineName = Literal["cp-sat", "highs"]
Surrogate = Literal["weighted-sum", "difference", "cost"]
Boundaries = Literal["paper", "network", "all"]
Permutation = Literal["enumerated", "program"]
CapacitySplit = Literal["auto", "free", "even"]
WeightsFrom = Literal["stated", "calibrated"]

CHOICES = {
    "engine": EngineName,
    "weights": WeightsFrom,
    "surrogate": Surrogate,
    "capacity_split": CapacitySplit,
    "boundaries": Boundaries,
    "permutation": Permutation,
}

KEEP_CHOICES = 3
"""The choices of kept tensors that get programs unless a user asks for more; the paper has one."""

OURS: dict[str, Any] = {
    "surrogate": "weighted-sum",
    "utilisation_weight": 0.0,
    "compute_weight": 10.0,
    "traffic_weight": 1.0,
    "boundaries": "network",
    "permutation": "enumerated",
    "capacity_split": "auto",
    "keep_choices": KEEP_CHOICES,
    "polish": True,
    "kicks": 16,
}
PAPER: dict[str, Any] = {
    "surrogate": "weighted-sum",
    # The three weights are those of the released code; everything else is as the paper prints it.
    "utilisation_weight": 0.1,
    "compute_weight": 10.0,
    "traffic_weight": 1.0,
    "boundaries": "paper",
    "permutation": "program",
    "capacity_split": "even",
    "keep_choices": 1,
    "polish": False,
    "kicks": 0,
}
PRESETS = {"archsweep": OURS, "paper": PAPER}
"""What a setting is that nobody states, by preset."""


@dataclass(frozen=True)
class Params:
    """The settings of one CoSA solve.

    ``preset`` decides every setting below from ``surrogate`` on that is not stated: "archsweep" is how CoSA
    is used here, "paper" how it is printed (:data:`PRESETS`). A preset has no say about ``engine``,
    ``weights`` and ``capacity_fractions``.

    What the programs minimise:

    * ``surrogate``: "weighted-sum" is ``-utilisation_weight * Util + compute_weight * Comp + traffic_weight *
      Traf`` (Eq. 12), all three base-2 logarithms. "difference" is ``traffic_weight * Traf - Comp`` as
      printed (Eq. 13): it is smallest for mappings that waste steps. "cost" is not the paper's: it is what
      the cost model counts, energy, cycles or their product, a sum of exponentials of the same logarithms
      (:mod:`solvers.mapping.cosa.costs`).
    * ``utilisation_weight`` is 0.1 in the released code and in the paper's preset. It is 0 in ours: the term
      takes three times the CPU and gave no better mappings of CoSA's layers on its architecture.
    * ``weights``: "stated" takes the three weights as they stand here. "calibrated" takes those of their
      multiples that do best on micro-benchmarks of the architecture, as the paper says that weights are found
      (:mod:`solvers.mapping.cosa.calibration`); the answer's note names them.
    * ``boundaries``: "paper" counts the traffic over the network on chip alone (Eq. 11), "network" also that
      out of DRAM, "all" that between all levels.
    * ``permutation``: "program" leaves the loop order of the network's level to the program, as the paper
      does; "enumerated" solves a program for each class of orders. Both come to the same optimum.

    With the surrogate "cost" two of these have no meaning: all boundaries count, and the program chooses the
    order of every level. The weights then only matter for the first solution, which sets the scale.

    How tiles divide a level's capacity:

    * ``capacity_fractions``: level name -> role -> the fraction of the level's words that this role's tiles
      may take, as in the paper.
    * ``capacity_split`` is for levels without ``capacity_fractions``: "free" bounds the sum of the tiles,
      "even" gives each tensor the same words. "auto" is "free" with the surrogate "cost" and for up to two
      tensors, and "even" for more (a third of the time, and what is lost the polish gets back). The polish
      uses neither: there the tiles only have to fit together.
    * ``keep_choices``: as many choices of kept tensors get programs
      (:func:`solvers.mapping.cosa.capacity.keep_choices`).

    How the programs are solved, and what follows:

    * ``engine``: the library that solves the integer programs.
    * ``polish``: descend on the cost model's objective from all programs' optima. Without it the answer is
      the best of these optima as it is: CoSA's one shot.
    * ``kicks``: how often the polish starts again from random steps off its best mapping, while that is far
      from the lower bound.
    """

    engine: EngineName = "cp-sat"
    preset: Preset = "archsweep"
    weights: WeightsFrom = "stated"
    surrogate: Surrogate = BY_PRESET
    utilisation_weight: float = BY_PRESET
    compute_weight: float = BY_PRESET
    traffic_weight: float = BY_PRESET
    boundaries: Boundaries = BY_PRESET
    permutation: Permutation = BY_PRESET
    # A dict has no hash; settings that differ in it alone may share one.
    capacity_fractions: ReadOnlyDict[str, ReadOnlyDict[Role, float]] = field(default_factory=dict, hash=False)
    capacity_split: CapacitySplit = BY_PRESET
    keep_choices: int = BY_PRESET
    polish: bool = BY_PRESET
    kicks: int = BY_PRESET

    def __post_init__(self) -> None:
        fill_in("cosa", self, PRESETS)
        check_choices("cosa", self, CHOICES)
        for key in ("utilisation_weight", "compute_weight", "traffic_weight"):
            weight = getattr(self, key)
            _check(key, is_number(weight, 0, inf), "a number of at least 0", weight)
        _check(
            "weights",
            self.weights == "stated" or self.surrogate != "cost",
            "'stated' with the surrogate 'cost', which has no weights to calibrate",
            self.weights,
        )
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

    def counts_timing(self, architecture: Architecture) -> bool:
        """Whether the programs count the timed cycles of an architecture that has them."""
        return self.surrogate == "cost" and TimedCosts.counts(architecture)

    def check_levels(self, architecture: Architecture) -> None:
        """Raise InputError if ``capacity_fractions`` name a level that the architecture does not have.

        Apart from the other checks: a study builds its settings before it has any of its architectures.
        """
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
