"""Chains of einsums mapped together: optima proven, CPU seconds, and AccelForge's figures beside them.

    python benchmarks/fusion.py [--only einsums|layers|pipelined] [--wall-seconds SECONDS] [--slack TIMES]

Prints a table, then one JSON object. ``words`` cases have two levels and count words read from and written to
the outermost memory alone: there the optimum of AccelForge's mapper, which solves the same question, stands
beside ours, with its CPU seconds (code compiled before, one worker). The other cases are larger or count
energy, cycles and both on made-up memories of two and three levels; nobody's figures compare.

``--only layers`` takes layers on architectures of the library instead (spatial fan-outs, three levels and
more), for energy and for the energy-delay product: what is asked is a gap of at most 1 %, of decoder blocks
2 %. There what the layers cost one after the other stands beside. AccelForge's own eyeriss and simba have
other memories and count otherwise, so its figures there do not compare.

``--only pipelined`` maps layers with and without pipelines on parts of the array, to within 1 % if time
suffices, and asks for nothing.

The status is 1 if a case is not proven, if an optimum is not AccelForge's, or if a case takes more than
``--slack`` times its goal in CPU seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import record
from published import numbers

from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.fused.layers.group import Intermediate, IntermediateRead, LayerGroup
from costmodel.mapping.fused.layers.links import group_of
from costmodel.mapping.fused.problem import AxisTerms, Einsum, FusedLevel, FusedProblem
from costmodel.workload.network import batched_matmul, gemm
from solvers.budget import Budget
from solvers.fusion.exact import solve
from solvers.fusion.layers import Params
from solvers.fusion.layers import solve as solve_layers
from solvers.fusion.layers.problem import LayerFusionProblem
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


def words_outside(capacity: int) -> tuple[FusedLevel, ...]:
    """A buffer that costs nothing, and a memory whose words are counted."""
    return FusedLevel("buffer", capacity, 0.0, 0.0), FusedLevel("DRAM", None, 1.0, 1.0)


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
        FusionCase(f"words of {key}", chain, words_outside(capacity), "energy", goal, key)
        for key, (chain, capacity, goal) in COUNTED.items()
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


def passed(producer: int, reader: int, *pairs: str) -> Intermediate:
    """The output of a layer as the inputs of another; ``pairs`` are two dims each, such as ``"NK"``."""
    return Intermediate(
        producer, (IntermediateRead(reader, "A", tuple((both[0], both[1]) for both in pairs)),)
    )


def product_pair(machine: Architecture) -> LayerGroup:
    """Two products of 1,024 x 1,024 x 1,024."""
    layers = tuple(gemm(f"e{i}", M=1024, N=1024, K=1024) for i in range(2))
    return LayerGroup(machine, layers, (passed(0, 1, "MM", "NK"),))


def head(machine: Architecture) -> LayerGroup:
    """Attention of one head, 2,048 x 2,048 x 128, softmax computed in parts."""
    layers = (gemm("scores", M=2048, N=2048, K=128), gemm("values", M=2048, N=128, K=2048))
    return LayerGroup(machine, layers, (passed(0, 1, "MM", "NK"),))


def heads(machine: Architecture) -> LayerGroup:
    """The same with 32 heads."""
    layers = (
        batched_matmul("scores", B=32, M=2048, N=2048, K=128),
        batched_matmul("values", B=32, M=2048, N=128, K=2048),
    )
    return LayerGroup(machine, layers, (passed(0, 1, "BB", "MM", "NK"),))


def gated(machine: Architecture) -> LayerGroup:
    """A gated MLP, 2,048 x 4,096 x 14,336: gate, up, and down, which reads the product of both."""
    wide = [gemm(name, M=2048, N=14336, K=4096) for name in ("gate", "up")]
    layers = (*wide, gemm("down", M=2048, N=4096, K=14336))
    links = (passed(0, 2, "MM", "NK"), passed(1, 2, "MM", "NK"))
    return LayerGroup(machine, layers, links, (((0, "M"), (1, "M")), ((0, "K"), (1, "K"))))


def bottleneck(machine: Architecture) -> LayerGroup:
    """An inverted bottleneck of MobileNet-V2."""
    names = [f"block3.1.{name}" for name in ("expand", "depthwise", "project")]
    return group_of(machine, load_network("mobilenet_v2"), names)


def block(machine: Architecture) -> LayerGroup:
    """The first block of GPT-2, 128 tokens."""
    parts = "query key value attention.scores attention.values output expand contract"
    return group_of(machine, load_network("gpt2"), [f"block0.{part}" for part in parts.split()])


def gpt3(machine: Architecture) -> LayerGroup:
    """A block of GPT-3 of 6.7 billion parameters, 2,048 tokens: that of GPT-2 with larger sizes."""
    small = block(machine)
    # by the size in GPT-2: heads, width of a head, tokens, width, width of the MLP
    larger = {12: 32, 64: 128, 128: 2048, 768: 4096, 3072: 16384}
    layers = (
        replace(layer, dims=tuple((dim, larger[size]) for dim, size in layer.dims)) for layer in small.layers
    )
    return replace(small, layers=tuple(layers))


def llama(seq: int, past: int) -> Callable[[Architecture], LayerGroup]:
    """A block of Llama-3-8B: so many new tokens behind so many cached ones."""
    attention = [f"attention.{part}" for part in ("query", "key", "value", "scores", "values", "output")]
    names = [f"block0.{part}" for part in (*attention, "mlp.gate", "mlp.up", "mlp.down")]

    def made(machine: Architecture) -> LayerGroup:
        network = load_network("llama3_8b", dims={"seq": seq, "past": past})
        return group_of(machine, network, names)

    return made


GROUPS: dict[str, tuple[Callable[[Architecture], LayerGroup], float, float]] = {
    "two products": (product_pair, 5.0, 0.01),
    "attention, one head": (head, 5.0, 0.01),
    "attention, 32 heads": (heads, 10.0, 0.01),
    "inverted bottleneck": (bottleneck, 10.0, 0.01),
    "decoder block": (block, 30.0, 0.02),
    "GPT-3 6.7B block": (gpt3, 30.0, 0.01),
    "gated MLP": (gated, 30.0, 0.01),
    "Llama-3-8B block, prefill": (llama(2048, 0), 60.0, 0.02),
    "Llama-3-8B block, decode": (llama(1, 8192), 60.0, 0.02),
}
"""By name: the layers, the goal in CPU seconds, and the gap that is asked for."""


ASKED: tuple[FusionObjective, ...] = ("energy", "edp")


def measure_group(name: str, machine: str, objective: FusionObjective, seconds: float) -> dict[str, Any]:
    """The row of layers on an architecture, with what does not hold of it under ``wrong``."""
    make, goal, gap = GROUPS[name]
    group = make(load_architecture(machine))
    outcome = solve_layers(LayerFusionProblem(group, objective), Budget(seconds))
    # groups of one layer share nothing: the best that the layers cost one after the other
    apart = solve_layers(LayerFusionProblem(group, objective, longest=1), Budget(seconds))
    wrong = []
    if outcome.gap is None or outcome.gap > gap:
        wrong.append(f"gap above {gap:.0%}")
    if outcome.cpu_seconds > goal:
        wrong.append(f"more than {goal:g} CPU s")
    return {
        "case": f"{name} on {machine}",
        "objective": objective,
        "found": outcome.objective,
        "status": str(outcome.status),
        "gap": outcome.gap,
        "of_layers_alone": outcome.objective and apart.objective and outcome.objective / apart.objective,
        "cpu_seconds": round(outcome.cpu_seconds, 3),
        "goal_cpu_seconds": goal,
        "wrong": "; ".join(wrong),
    }


def measure_groups(seconds: float) -> list[dict[str, Any]]:
    """A row for each group, architecture and objective, printed as it is found."""
    rows = []
    for name in GROUPS:
        for machine in ("simba", "eyeriss"):
            for objective in ASKED:
                row = measure_group(name, machine, objective, seconds)
                rows.append(row)
                found = "none" if row["found"] is None else f"{row['found']:.6g}"
                gap = "none" if row["gap"] is None else f"{row['gap']:.2%}"
                ratio = "" if row["of_layers_alone"] is None else f"{row['of_layers_alone']:.4f}"
                line = f"{row['case']:32} {objective:7} {found:>12} gap {gap:>7} {ratio} of layers alone"
                print(f"{line} {row['cpu_seconds']:8.3f} s  {row['wrong']}", flush=True)
    return rows


PIPELINED: tuple[tuple[str, str, tuple[str, ...], FusionObjective], ...] = (
    ("simba", "mobilenet_v2", ("block3.1.expand", "block3.1.depthwise"), "cycles"),
    ("simba", "mobilenet_v2", ("block3.1.expand", "block3.1.depthwise"), "edp"),
    ("eyeriss", "mobilenet_v2", ("block3.1.expand", "block3.1.depthwise"), "cycles"),
    ("eyeriss", "mobilenet_v2", ("block3.1.depthwise", "block3.1.project"), "cycles"),
    ("tpu-like", "mobilenet_v2", ("block3.1.expand", "block3.1.depthwise", "block3.1.project"), "cycles"),
    ("simba", "mobilenet_v2", ("block3.1.expand", "block3.1.depthwise", "block3.1.project"), "cycles"),
    ("eyeriss", "mobilenet_v2", ("block3.1.expand", "block3.1.depthwise", "block3.1.project"), "cycles"),
    ("eyeriss", "bert_base", ("block0.attention.scores", "block0.attention.values"), "cycles"),
    ("simba", "gpt2", ("block0.expand", "block0.contract"), "cycles"),
)
"""Architecture, network, layers and objective of groups that are mapped with and without pipelines."""


def measure_pipelined(seconds: float) -> list[dict[str, Any]]:
    """What pipelines on parts of the array are worth, to within 1 % if time suffices; a printed row each."""
    rows = []
    for machine, network, names, objective in PIPELINED:
        group = group_of(load_architecture(machine), load_network(network), names)
        problem, params = LayerFusionProblem(group, objective), Params(tolerance=0.01)
        apart = solve_layers(problem, Budget(seconds), params)
        together = solve_layers(replace(problem, pipelined=True), Budget(seconds), params)
        assert apart.objective is not None, "layers by themselves fit"
        assert together.objective is not None, "layers by themselves fit"
        chosen = together.solution is not None and bool(together.solution.shared.pipelines)
        row = {
            "case": f"{', '.join(names)} on {machine}",
            "objective": objective,
            "without": apart.objective,
            "without_gap": apart.gap,
            "found": together.objective,
            "gap": together.gap,
            "of_without": together.objective / apart.objective,
            "pipelined": chosen,
            "cpu_seconds": round(together.cpu_seconds, 3),
            "without_cpu_seconds": round(apart.cpu_seconds, 3),
        }
        rows.append(row)
        text = [
            f"{found.objective:.6g} (gap {found.gap:.2%}, {found.cpu_seconds:.1f} s)"
            for found in (apart, together)
        ]
        ratio = f"{row['of_without']:.3f} of it"
        print(f"{row['case']}: {objective} {text[0]}, with pipelines {text[1]}, {ratio}", flush=True)
    return rows


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("--wall-seconds", type=float, default=120.0, help="time limit of each case")
    parser.add_argument("--slack", type=float, default=2.0, help="a case may take so many times its goal")
    parser.add_argument(
        "--only", choices=("einsums", "layers", "pipelined"), default="einsums", help="which cases"
    )
    options = parser.parse_args()
    if options.only == "pipelined":
        record.finish({"cases": measure_pipelined(options.wall_seconds)}, options)
        return 0
    if options.only == "layers":
        measured = measure_groups(options.wall_seconds)
        record.finish({"cases": measured}, options)
        return int(any(row["wrong"] for row in measured))
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
