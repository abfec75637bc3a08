"""Cases of COSMA's evaluation, a network at one size with the answer of each approach, and their means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from solvers.outcome import Status

Approach = tuple[str, dict[str, Any]]
"""A scratchpad solver of the catalogue and its parameters."""

SCHEMES: dict[str, Approach] = {
    "default, Belady": ("comparison", {"order": "default", "replacement": "belady"}),
    "default, greedy": ("comparison", {"order": "default", "replacement": "greedy"}),
    "MPMF, Belady": ("comparison", {"order": "minimum_peak", "replacement": "belady"}),
    "MPMF, greedy": ("comparison", {"order": "minimum_peak", "replacement": "greedy"}),
}
"""The paper's comparison schemes, each with TensorFlow Lite's linear allocation."""

HEURISTICS: dict[str, Approach] = {
    "FS (default)": ("fixed_schedule", {"order": "default"}),
    "FS (MPMF)": ("fixed_schedule", {"order": "minimum_peak"}),
    "DnC": ("divide", {}),
}
"""The paper's heuristics for networks that its program cannot solve (Table II)."""


@dataclass(frozen=True)
class ApproachAnswer:
    """One approach's answer: bytes off chip (None without a plan), what is proven, CPU seconds."""

    objective_bytes: int | None
    bound_bytes: float | None
    status: str
    cpu_seconds: float

    def __str__(self) -> str:
        """Status, gap and time in a few words."""
        gap = ""
        if self.status == Status.FEASIBLE and self.objective_bytes and self.bound_bytes is not None:
            gap = f", gap {1 - self.bound_bytes / self.objective_bytes:.1%},"
        return f"{self.status}{gap} {self.cpu_seconds:.2f} s"


@dataclass(frozen=True)
class CosmaCase:
    """One network at one size of the scratchpad, with the answers by approach.

    ``setting``: the paper's name of the size (MR to MPp), ``budget_bytes``: the size. ``note`` says where the
    size rests on a peak that was not proven to be the least.
    """

    network: str
    setting: str
    operators: int
    budget_bytes: int
    note: str
    found: dict[str, ApproachAnswer] = field(default_factory=dict)

    def bytes_of(self, approach: str) -> int | None:
        """What an approach moves off chip; None without a plan."""
        return self.found[approach].objective_bytes


def must_move(cases: Iterable[CosmaCase]) -> list[CosmaCase]:
    """The cases in which cosma's plan moves something; of all others the optimum is 0 bytes."""
    return [case for case in cases if case.bytes_of("cosma")]


def reductions(cases: Sequence[CosmaCase], approach: str, schemes: Iterable[str]) -> list[float]:
    """1 - bytes / the scheme's bytes, for every case and every scheme that moves any bytes in it.

    Where a scheme moves nothing there is nothing to reduce.
    """
    return [
        1 - (case.bytes_of(approach) or 0) / other
        for case in cases
        for scheme in schemes
        if case.bytes_of(approach) is not None and (other := case.bytes_of(scheme))
    ]


def of_setting(cases: Sequence[CosmaCase], setting: str) -> list[CosmaCase]:
    return [case for case in cases if case.setting == setting]


def rivals(approach: str) -> tuple[str, ...]:
    """The schemes to compare with: all, or for a heuristic with a fixed order those of the same order."""
    # A heuristic that is told its order cannot be blamed for it: it is held against the schemes of that
    # order.
    order = approach.removeprefix("FS (").removesuffix(")") if approach.startswith("FS") else ""
    return tuple(scheme for scheme in SCHEMES if scheme.startswith(order))


def reduction_rows(cases: Sequence[CosmaCase], approach: str) -> dict[str, dict[str, float | None]]:
    """Mean reduction by setting and over all, against each scheme and against all; None where none moves
    anything."""
    # A mean of ratios, as the paper's: every case counts alike, whether it moves kilobytes or gigabytes.
    groups = {scheme: (scheme,) for scheme in rivals(approach)} | {"all": rivals(approach)}
    settings = {case.setting: of_setting(cases, case.setting) for case in cases} | {"all": cases}
    return {
        setting: {name: mean(reductions(members, approach, group)) for name, group in groups.items()}
        for setting, members in settings.items()
    }


def mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def counted(cases: Iterable[CosmaCase], holds: Callable[[int, int], bool], one: str, other: str) -> str:
    """In how many cases ``holds`` is true of the bytes of two approaches, of those where both have a plan."""
    pairs = [(case.bytes_of(one), case.bytes_of(other)) for case in cases]
    # A case in which one of the two ran out of time says nothing of which is better.
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    return f"{sum(holds(a, b) for a, b in known)} of {len(known)}"


def claims(cases: Sequence[CosmaCase]) -> dict[str, str]:
    """The paper's statements (Section V-B2), counted."""
    at_peak = [case for case in cases if case.setting in ("MP", "MPp")]
    # MP is the least peak of any order, so an optimum moves nothing there. Where no scheme moves anything
    # either, the case cannot tell them apart, and the reader should know which these are.
    idle = [case for case in at_peak if not any(case.bytes_of(scheme) for scheme in SCHEMES)]
    found = {
        "cosma moves nothing at MP": f"{sum(c.bytes_of('cosma') == 0 for c in at_peak)} of {len(at_peak)}",
        "no scheme moves anything at MP": ", ".join(f"{c.network} {c.setting}" for c in idle) or "nowhere",
    }
    for other in [name for name in cases[0].found if name != "cosma"]:
        found[f"cosma moves less than {other}"] = counted(cases, int.__lt__, "cosma", other)
        found[f"cosma moves more than {other}"] = counted(cases, int.__gt__, "cosma", other)
    for order in ("default", "MPMF"):
        pair = (f"{order}, Belady", f"{order}, greedy")
        found[f"{order}: Belady moves more than greedy"] = counted(cases, int.__gt__, *pair)
    for policy in ("Belady", "greedy"):
        pair = (f"MPMF, {policy}", f"default, {policy}")
        found[f"{policy}: MPMF moves less than default"] = counted(cases, int.__lt__, *pair)
        found[f"{policy}: MPMF moves more than default"] = counted(cases, int.__gt__, *pair)
    return found


def summary(cases: Sequence[CosmaCase], approaches: Sequence[str]) -> dict[str, Any]:
    """Seconds and proofs of cosma, and the mean reductions of ``approaches``, over all cases."""
    solved = [case.found["cosma"] for case in cases]
    seconds = [found.cpu_seconds for found in solved]
    return {
        "solves": len(solved),
        "proven": sum(found.status == "optimal" for found in solved),
        "mean_cpu_seconds": fmean(seconds),
        "median_cpu_seconds": median(seconds),
        "most_cpu_seconds": max(seconds),
        "reductions": {approach: reduction_rows(cases, approach) for approach in approaches},
        "claims": claims(cases),
    }
