"""Chains of einsums mapped together: optima proven, CPU seconds, and AccelForge's figures beside them.

    python benchmarks/fusion.py [--wall-seconds SECONDS] [--slack TIMES]

Prints a table, then one JSON object. ``words`` cases have two levels and count words read from and written to
the outermost memory alone: there the optimum of AccelForge's mapper, which solves the same question, stands
beside ours, with its CPU seconds (code compiled before, one worker). The other cases are larger or count
energy, cycles and both on made-up memories of two and three levels; nobody's figures compare.

The status is 1 if a case is not proven, if an optimum is not AccelForge's, or if a case takes more than
``--slack`` times its goal in CPU seconds.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import record
from published import numbers

from costmodel.mapping.fused.problem import AxisTerms, Einsum, FusedLevel, FusedProblem
from solvers.budget import Budget
from solvers.fusion.exact import solve
from solvers.fusion.problem import FusionObjective, FusionProblem
from solvers.outcome import Status


def einsum(name: str, sizes: dict[str, int], *tensors: str) -> Einsum:
    """An einsum of tensors such as ``"A m k"``, the output last."""
    axes: dict[str, tuple[AxisTerms, ...]] = {}
    for tensor in tensors:
        title, *dims = tensor.split()
        axes[title] = tuple(((dim, 1),) for dim in dims)
    used = dict.fromkeys(dim for tensor in tensors for dim in tensor.split()[1:])
    return Einsum(name, {dim: sizes[dim] for dim in used}, axes, tensors[-1].split()[0])


def products(m: int, *lengths: int) -> tuple[Einsum, ...]:
    """A chain of matrix products."""
    sizes = {"m": m, **{f"n{number}": length for number, length in enumerate(lengths)}}
    return tuple(
        einsum(f"e{i}", sizes, f"T{i} m n{i}", f"W{i} n{i} n{i + 1}", f"T{i + 1} m n{i + 1}")
        for i in range(len(lengths) - 1)
    )


def attention(m: int, p: int, e: int, heads: int = 1) -> tuple[Einsum, ...]:
    """Scores, softmax (one operation a score) and the product with the values."""
    sizes, h = {"h": heads, "m": m, "p": p, "e": e, "f": e}, "h " if heads > 1 else ""
    return (
        einsum("qk", sizes, f"Q {h}m e", f"K {h}p e", f"S {h}m p"),
        einsum("softmax", sizes, f"S {h}m p", f"P {h}m p"),
        einsum("av", sizes, f"P {h}m p", f"V {h}p f", f"O {h}m f"),
    )


def words_outside(room: int) -> tuple[FusedLevel, ...]:
    """A buffer that costs nothing, and a memory whose words are counted."""
    return FusedLevel("buffer", room, 0.0, 0.0), FusedLevel("DRAM", None, 1.0, 1.0)


BUFFER = FusedLevel("buffer", 131072, 6.0, 6.0, 2.0, 2.0)
DRAM = FusedLevel("DRAM", None, 100.0, 100.0, 0.25, 0.25)
TWO = (BUFFER, DRAM)
THREE = (FusedLevel("registers", 512, 1.0, 1.0, 4.0, 4.0), BUFFER, DRAM)


@dataclass(frozen=True)
class FusionCase:
    """A question, the CPU seconds that are its goal, the key of AccelForge's figures, or nothing."""

    name: str
    einsums: tuple[Einsum, ...]
    levels: tuple[FusedLevel, ...]
    objective: FusionObjective
    goal: float
    key: str = ""

    @property
    def problem(self) -> FusionProblem:
        mac_pj = 0.0 if self.key else 0.5
        return FusionProblem(FusedProblem(self.einsums, self.levels, mac_pj), self.objective)


TWO_PRODUCTS = products(1024, 1024, 1024, 1024)
ONE_HEAD = attention(2048, 2048, 128)
COUNTED = {
    "64-600": (products(64, 64, 64, 64), 600, 0.2),
    "64-3000": (products(64, 64, 64, 64), 3000, 0.2),
    "32-1500": (products(32, 128, 64, 256), 1500, 0.2),
    "48-700": (products(48, 36, 60, 24), 700, 0.2),
    "128-5000": (products(128, 128, 128, 128), 5000, 0.2),
    "1024-128Ki": (TWO_PRODUCTS, 131072, 0.2),
    "attention-128Ki": (ONE_HEAD, 131072, 1.0),
}
"""By the key of AccelForge's figures: the chain, the words of the buffer, our goal in CPU seconds."""

CASES = (
    *(
        FusionCase(f"words of {key}", chain, words_outside(room), "energy", goal, key)
        for key, (chain, room, goal) in COUNTED.items()
    ),
    FusionCase("attention, one head, two levels", ONE_HEAD, TWO, "edp", 1.0),
    FusionCase("attention, 32 heads, two levels", attention(2048, 2048, 128, 32), TWO, "edp", 10.0),
    FusionCase("two products, three levels", TWO_PRODUCTS, THREE, "energy", 5.0),
    FusionCase("two products, three levels", TWO_PRODUCTS, THREE, "edp", 5.0),
    FusionCase("attention, one head, three levels", ONE_HEAD, THREE, "edp", 5.0),
)
"""Products are of 1,024 x 1,024 x 1,024, attention is 2,048 x 2,048 x 128 where no key says otherwise."""


def measure(case: FusionCase, wall_seconds: float, slack: float) -> dict[str, Any]:
    """The row of a case, with what does not hold of it under ``wrong``."""
    outcome = solve(case.problem, Budget(wall_seconds))
    theirs = numbers()[f"fusion/{case.key}/accelforge/words"].values[0] if case.key else None
    wrong = []
    if outcome.status is not Status.OPTIMAL:
        wrong.append(f"{outcome.status}, gap {outcome.gap}")
    if theirs is not None and outcome.objective != theirs:
        wrong.append("the optimum is not AccelForge's")
    if outcome.cpu_seconds > slack * case.goal:
        wrong.append(f"more than {slack * case.goal:g} CPU s")
    return {
        "case": case.name,
        "objective": "words" if case.key else case.objective,
        "optimum": outcome.objective,
        "gap": outcome.gap,
        "cpu_seconds": round(outcome.cpu_seconds, 3),
        "goal_cpu_seconds": case.goal,
        "accelforge_optimum": theirs,
        "accelforge_cpu_seconds": numbers()[f"fusion/{case.key}/accelforge/seconds"].values[0]
        if case.key
        else None,
        "wrong": "; ".join(wrong),
    }


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("--wall-seconds", type=float, default=120.0, help="time limit of each case")
    parser.add_argument("--slack", type=float, default=2.0, help="a case may take so many times its goal")
    options = parser.parse_args()
    rows = []
    for case in CASES:
        row = measure(case, options.wall_seconds, options.slack)
        rows.append(row)
        optimum = "none" if row["optimum"] is None else f"{row['optimum']:.9g}"
        theirs = f"  AccelForge {row['accelforge_cpu_seconds']} s" if case.key else ""
        found = f"{row['case']:34} {row['objective']:7} {optimum:>16} {row['cpu_seconds']:8.3f} s"
        print(f"{found}{theirs}  {row['wrong']}", flush=True)
    record.finish({"cases": rows}, options)
    return int(any(row["wrong"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
