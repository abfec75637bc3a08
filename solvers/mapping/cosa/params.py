"""What can be set in CoSA: objective and weights, engine, buffer shares, choices of keeps, the polish."""

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
Sharing = Literal["auto", "free", "even"]

CHOICES = {"engine": EngineName, "surrogate": Surrogate, "sharing": Sharing, "boundaries": Boundaries}


@dataclass(frozen=True)
class Params:
    """CoSA's knobs.

    ``surrogate`` "weighted-sum" minimises ``-utilisation_weight * Util + compute_weight * Comp +
    traffic_weight * Traf`` (Eq. 12); "balanced" minimises ``max(traffic_weight * Traf, Comp)``, in place of
    the paper's difference (Eq. 13), whose optimum may be fully serial. All are sums of base-2 logs.
    ``boundaries`` "network" counts the traffic that the paper counts, over the network on chip and out of
    DRAM; "all" that between all levels: without polish mappings of CoSA's layers come within 1.2 times the
    lower bounds in place of 1.9, for three times the CPU; with polish they differ by 2 %.
    ``shares`` limits each role's tiles in a buffer, level name -> role -> fraction, as the paper does. Where
    there are none, ``sharing`` says how the programs split a buffer: "free" bounds the sum of the tiles,
    "even" gives each tensor the same words, "auto" is "free" for up to two tensors and "even" for more (a
    third of the time for mappings as good). The polish knows neither, only that the tiles fit together.
    ``keep_choices``: see :func:`solvers.mapping.cosa.capacity.keep_choices`.
    ``polish`` false returns the best pattern optimum as the programs found it; true descends from all of
    them on the exact objective. ``kicks`` 0 ends the polish there; n restarts it up to n times from random
    steps off the best, while that is far from the lower bound.
    The utilisation term, which the released code weighs 0.1, takes three times the CPU and gave no better
    mappings of CoSA's layers on its architecture; 0 leaves it out.
    """

    engine: EngineName = "cp-sat"
    surrogate: Surrogate = "weighted-sum"
    utilisation_weight: float = 0.0
    compute_weight: float = 10.0
    traffic_weight: float = 1.0
    boundaries: Boundaries = "network"
    shares: ReadOnlyDict[str, ReadOnlyDict[Role, float]] = field(default_factory=dict)
    sharing: Sharing = "auto"
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
        _check("shares", isinstance(self.shares, ReadOnlyDict), "fractions per level and role", self.shares)
        for level, shares in self.shares.items():
            _check_shares(f"shares.{level}", shares)

    def check_levels(self, architecture: Architecture) -> None:
        """Raise InputError if ``shares`` name a level that the architecture does not have."""
        names = [level.name for level in architecture.levels]
        for level in self.shares:
            _check("shares", level in names, f"levels of {architecture.name} among {names}", level)


def _check_shares(key: str, shares: Any) -> None:
    _check(key, isinstance(shares, ReadOnlyDict), "a fraction per role", shares)
    for role, share in shares.items():
        _check(key, role in ALL_ROLES, f"roles among {ALL_ROLES}", role)
        _check(f"{key}.{role}", is_number(share, 0, 1) and share > 0, "a fraction above 0, at most 1", share)


_check = partial(check, "cosa")
