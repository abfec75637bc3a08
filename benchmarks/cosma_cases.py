"""The solves behind COSMA's Figures 3 and 4, every approach in every setting, and what their bytes say."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

from costmodel.formats.json.fused_graph import fused_graph
from costmodel.formats.json.graph_json import network_of_graph
from costmodel.formats.json.safe_json import load_json
from costmodel.formats.networks import load_network
from costmodel.scratchpad.graph import ScratchpadSettings, operator_graph
from costmodel.scratchpad.plan import Plan
from costmodel.workload.network import Network
from solvers.budget import Budget
from solvers.outcome import Outcome, Status
from solvers.scratchpad import comparison, divide, fixed_schedule
from solvers.scratchpad.budgets import NAMES, budget_bytes
from solvers.scratchpad.cosma import solver as cosma
from solvers.scratchpad.problem import ScratchpadProblem

SCHEMES = {
    "default, Belady": comparison.Params("default", "belady"),
    "default, greedy": comparison.Params("default", "greedy"),
    "MPMF, Belady": comparison.Params("minimum_peak", "belady"),
    "MPMF, greedy": comparison.Params("minimum_peak", "greedy"),
}
"""The paper's comparison schemes, each with TensorFlow Lite's linear allocation."""

HEURISTICS = {
    "FS (default)": (fixed_schedule, fixed_schedule.Params("default")),
    "FS (MPMF)": (fixed_schedule, fixed_schedule.Params("minimum_peak")),
    "DnC": (divide, divide.Params()),
}
"""What the paper takes for networks that its program cannot solve (Table II)."""


@dataclass(frozen=True)
class Found:
    """One approach's answer: bytes off chip (None without a plan), what is proven, CPU seconds."""

    objective_bytes: int | None
    bound_bytes: float | None
    status: str
    cpu_seconds: float

    @classmethod
    def of(cls, outcome: Outcome[Plan]) -> Found:
        moved = None if outcome.objective is None else round(outcome.objective)
        return cls(moved, outcome.bound, str(outcome.status), round(outcome.cpu_seconds, 3))

    def __str__(self) -> str:
        """Status, gap and time in a few words."""
        gap = ""
        if self.status == Status.FEASIBLE and self.objective_bytes and self.bound_bytes is not None:
            gap = f", gap {1 - self.bound_bytes / self.objective_bytes:.1%},"
        return f"{self.status}{gap} {self.cpu_seconds:.2f} s"


@dataclass(frozen=True)
class Case:
    """One network under one setting (MR, ... MPp), with the answers by approach."""

    network: str
    setting: str
    operators: int
    budget_bytes: int
    note: str
    found: dict[str, Found] = field(default_factory=dict)

    def bytes_of(self, approach: str) -> int | None:
        return self.found[approach].objective_bytes


def network_of(folder: Path, name: str, *, raw: bool) -> Network | None:
    """A network's operator graph from a folder; None if there is no file of it.

    Fused graphs are NAME.json.gz, or made of NAME.raw.json.gz, with an operator for every ATen operation.
    """
    of_operations = folder / f"{name}.raw.json.gz"
    fused = folder / f"{name}.json.gz"
    if raw or (of_operations.is_file() and not fused.is_file()):
        if not of_operations.is_file():
            return None
        graph = load_json(of_operations)
        return network_of_graph(graph if raw else fused_graph(graph))
    return load_network(fused) if fused.is_file() else None


def settings_of(name: str, network: Network, *, parameters: bool) -> Iterator[tuple[Case, ScratchpadProblem]]:
    """A network's three budgets (Section V-A)."""
    graph = operator_graph(network, ScratchpadSettings(parameters=parameters))
    for level in NAMES:
        budget = budget_bytes(graph, level, wall_seconds=60.0)
        setting = f"{level}p" if parameters else level
        case = Case(name, setting, len(graph.operators), budget.size_bytes, budget.note)
        yield case, ScratchpadProblem(graph, budget.size_bytes)


def solve_all(case: Case, problem: ScratchpadProblem, budget: Budget, heuristics: Iterable[str] = ()) -> Case:
    """The case with the answers of cosma, the heuristics and the four schemes."""
    case.found["cosma"] = Found.of(cosma.solve(problem, budget))
    for name in heuristics:
        module, params = HEURISTICS[name]
        case.found[name] = Found.of(module.solve(problem, budget, params))
    for name, params in SCHEMES.items():
        case.found[name] = Found.of(comparison.solve(problem, budget, params))
    print(".", end="", file=sys.stderr, flush=True)
    return case


def figure_3(networks: Mapping[str, Network], budget: Budget) -> list[Case]:
    return [
        solve_all(case, problem, budget)
        for name, network in networks.items()
        for parameters in (False, True)
        for case, problem in settings_of(name, network, parameters=parameters)
    ]


def figure_4(networks: Mapping[str, Network], budget: Budget) -> list[Case]:
    return [
        solve_all(case, problem, budget, HEURISTICS)
        for name, network in networks.items()
        for case, problem in settings_of(name, network, parameters=False)
    ]


def reductions(cases: Sequence[Case], approach: str, schemes: Iterable[str]) -> list[float]:
    """1 - bytes / the scheme's bytes, of every case and scheme that moves any: elsewhere there is nothing
    to reduce."""
    return [
        1 - (case.bytes_of(approach) or 0) / other
        for case in cases
        for scheme in schemes
        if case.bytes_of(approach) is not None and (other := case.bytes_of(scheme))
    ]


def of_setting(cases: Sequence[Case], setting: str) -> list[Case]:
    return [case for case in cases if case.setting == setting]


def rivals(approach: str) -> tuple[str, ...]:
    """The schemes to compare with: a heuristic with a fixed order, with those of the same order."""
    order = approach.removeprefix("FS (").removesuffix(")") if approach.startswith("FS") else ""
    return tuple(scheme for scheme in SCHEMES if scheme.startswith(order))


def reduction_rows(cases: Sequence[Case], approach: str) -> dict[str, dict[str, float | None]]:
    """Mean reduction by setting and over all, against each scheme and against all; None where none moves
    anything."""
    groups = {scheme: (scheme,) for scheme in rivals(approach)} | {"all": rivals(approach)}
    settings = {case.setting: of_setting(cases, case.setting) for case in cases} | {"all": cases}
    return {
        setting: {name: mean(reductions(members, approach, group)) for name, group in groups.items()}
        for setting, members in settings.items()
    }


def mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def counted(cases: Iterable[Case], holds: Callable[[int, int], bool], one: str, other: str) -> str:
    """In how many of the cases where both have a plan the two approaches' bytes stand in the relation."""
    pairs = [(case.bytes_of(one), case.bytes_of(other)) for case in cases]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    return f"{sum(holds(a, b) for a, b in known)} of {len(known)}"


def claims(cases: Sequence[Case]) -> dict[str, str]:
    """The paper's statements (Section V-B2), counted."""
    at_peak = [case for case in cases if case.setting in ("MP", "MPp")]
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


def summary(cases: Sequence[Case], approaches: Sequence[str]) -> dict[str, Any]:
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
