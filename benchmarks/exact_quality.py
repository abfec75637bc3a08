"""The exact mapper on layers of networks: proofs, CPU seconds, memory; others' distance from optima.

    python benchmarks/exact_quality.py [--architecture NAME ...] [--objectives NAME ...] [--every N]
                                       [--groups NAME ...] [--others NAME ...] [--wall-seconds S]
    python benchmarks/exact_quality.py --peers

Prints a line a solve that is not proven, a table for every architecture and objective, then one JSON object.
``--every`` takes every N-th layer of each group, ``--others`` are solvers that are compared with the optimum
(ratios over it, on layers where it is proven). ``--peers`` solves the cases that were measured with
AccelForge and ZigZag (published.yaml; all tensors kept everywhere, energies of A_eyeriss_like) and prints
their pJ per MAC and CPU seconds on one core beside. Their models count a little differently: seconds and
proofs compare, energies only nearly.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass, field
from itertools import product
from math import exp, log, nan
from statistics import median
from typing import Any

import record
from published import under

from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.uneven import AnyMapping
from costmodel.workload.network import Layer, distinct_layers, gemm
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping import exact
from solvers.mapping.problem import OBJECTIVES, MappingProblem, Objective, executed_layer
from solvers.mapping.space.rules import SpaceRules
from solvers.outcome import Outcome, Status

GROUPS = {
    "resnet18": "thistle_resnet18",
    "resnet50": "cosa_resnet50",
    "alexnet": "cosa_alexnet",
    "deepbench": "deepbench",
    "resnext50": "cosa_resnext50",
    "mobilenet_v2": "mobilenet_v2",
    "bert_base": "bert_base",
    "vit_b_16": "vit_b_16",
}
"""A group's layers are the distinct ones of a network; of MobileNetV2 the depthwise ones."""


@dataclass(frozen=True)
class PeerCase:
    """A case of the peers; ``key`` is its name in published.yaml, where what they needed stands."""

    name: str
    key: str
    layer: Layer
    objective: Objective = "energy"
    rules: SpaceRules = SpaceRules(keep="all")  # noqa: RUF009 - frozen


CUBE = gemm("cube", M=512, N=512, K=512)
POINTWISE = gemm("pointwise", M=56 * 56, N=64, K=64)
PRIME = gemm("vit", M=197, N=768, K=3072)
FREE, PADDED = SpaceRules(keep="free"), SpaceRules(keep="all", padding=0.1)
RESNET18 = {layer.name: layer for layer in load_network("thistle_resnet18").layers}

PEERS = (
    PeerCase("GEMM 512x512x512", "cube", CUBE),
    PeerCase("the same, EDP", "cube_edp", CUBE, "edp"),
    PeerCase("the same, bypass free", "cube_free", CUBE, "energy", FREE),
    PeerCase("ResNet-18 layer 3 as GEMM", "pointwise", POINTWISE),
    PeerCase("ViT GEMM 197x768x3072", "vit", PRIME),
    PeerCase("the same, padded up to 10 %", "vit_padded", PRIME, "energy", PADDED),
    PeerCase("ResNet-18 layer 3", "layer3", RESNET18["layer3"]),
    PeerCase("ResNet-18 layer 9", "layer9", RESNET18["layer9"]),
    PeerCase("ResNet-18 layer 12", "layer12", RESNET18["layer12"]),
)


def group_layers(group: str, every: int) -> list[Layer]:
    layers = [layer for layer, _ in distinct_layers(load_network(GROUPS[group]).layers)]
    if group == "mobilenet_v2":
        # Its pointwise layers are matrix products like those of the other groups.
        layers = [layer for layer in layers if layer.name.endswith("depthwise")]
    return layers[::every]


@dataclass
class Tally:
    """What comes up layer by layer, for one architecture and objective."""

    seconds: list[float] = field(default_factory=list)
    gemm_seconds: list[float] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)
    ratios: dict[str, list[float]] = field(default_factory=dict)
    others_seconds: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, problem: MappingProblem, best: Outcome[AnyMapping]) -> None:
        self.seconds.append(best.cpu_seconds)
        # M, N and K, perhaps with a batch: what the peers' published seconds are of.
        if len(problem.layer.dims) <= 4:
            self.gemm_seconds.append(best.cpu_seconds)
        if best.status is not Status.OPTIMAL:
            self.unproven.append(name)
            gap = "-" if best.gap is None else f"{best.gap:.2%}"
            print(f"not proven: {name}, gap {gap}, {best.cpu_seconds:.2f} CPU s, {best.note}", flush=True)

    def add_other(self, solver_name: str, found: Outcome[AnyMapping], best: Outcome[AnyMapping]) -> None:
        assert best.objective is not None
        if found.objective is not None:
            self.ratios.setdefault(solver_name, []).append(found.objective / best.objective)
            spent = self.others_seconds.get(solver_name, 0.0) + found.cpu_seconds
            self.others_seconds[solver_name] = spent

    def report(self) -> dict[str, Any]:
        return {
            "layers": len(self.seconds),
            "proven": len(self.seconds) - len(self.unproven),
            "cpu_median_seconds": round(median(self.seconds), 4),
            "cpu_worst_seconds": round(max(self.seconds), 4),
            "gemm_cpu_median_seconds": round(median(self.gemm_seconds or [0.0]), 4),
            "gemm_cpu_worst_seconds": round(max(self.gemm_seconds, default=0.0), 4),
            "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "unproven": self.unproven,
            "over_optimum": {
                name: {
                    "geomean": round(exp(sum(map(log, found)) / len(found)), 4),
                    "worst": round(max(found), 4),
                    "optimal": sum(ratio <= 1 + 1e-9 for ratio in found),
                    "of": len(found),
                    "cpu_mean_seconds": round(self.others_seconds[name] / len(found), 4),
                }
                for name, found in self.ratios.items()
            },
        }


def measure(problems: dict[str, MappingProblem], wall_seconds: float, others: list[str]) -> dict[str, Any]:
    """Solve every problem exactly, and with the other solvers where the optimum is proven."""
    tally = Tally()
    for name, problem in problems.items():
        best = exact.solve(problem, Budget(wall_seconds))
        tally.add(name, problem, best)
        # A ratio over an unproven best could be below 1, and would flatter whoever is measured by it.
        for other in others if best.status is Status.OPTIMAL else ():
            tally.add_other(other, solver(other).load().solve(problem, Budget(wall_seconds)), best)
    return tally.report()


def show(title: str, found: dict[str, Any]) -> None:
    print(
        f"{title:16} {found['proven']:3}/{found['layers']} proven, CPU median "
        f"{found['cpu_median_seconds']:.3f} s, worst {found['cpu_worst_seconds']:.2f} s "
        f"(GEMMs {found['gemm_cpu_median_seconds']:.3f} and {found['gemm_cpu_worst_seconds']:.3f} s), "
        f"peak {found['peak_memory_mib']} MiB",
        flush=True,
    )
    for name, ratio in found["over_optimum"].items():
        print(
            f"{'':16} {name:14} {ratio['geomean']:.4f} times the optimum, worst {ratio['worst']:.3f}, "
            f"optimal on {ratio['optimal']}/{ratio['of']}, CPU mean {ratio['cpu_mean_seconds']:.3f} s",
            flush=True,
        )


def peers(wall_seconds: float) -> list[dict[str, Any]]:
    """The peers' cases: pJ per MAC and CPU seconds, beside theirs."""
    architecture, rows = load_architecture("A_eyeriss_like"), []
    print(f"{'case':28} {'pJ/MAC':>9} {'CPU s':>8}  {'proven':10} {'AccelForge':33} ZigZag")
    for case in PEERS:
        problem = MappingProblem(architecture, case.layer, case.objective, case.rules)
        outcome = exact.solve(problem, Budget(wall_seconds))
        energy = _pj_per_mac(problem, outcome.solution)
        proven = "yes" if outcome.status is Status.OPTIMAL else f"gap {outcome.gap or nan:.2%}"
        ours = f"{energy:9.3f} {outcome.cpu_seconds:8.3f}  {proven:10}"
        theirs = {peer: published_text(case.key, peer) for peer in ("accelforge", "zigzag")}
        print(f"{case.name:28} {ours} {theirs['accelforge']:33} {theirs['zigzag']}", flush=True)
        answer = {"status": str(outcome.status), "gap": outcome.gap, "note": outcome.note}
        measured = {"pj_per_mac": energy, "cpu_seconds": round(outcome.cpu_seconds, 4)}
        rows.append({"case": case.name, **answer, **measured, **theirs})
    return rows


def published_text(key: str, peer: str) -> str:
    """What a peer found and needed for a case; empty where it was not run."""
    return " in ".join(number.text for number in under(f"peers/{key}/{peer}/").values())


def _pj_per_mac(problem: MappingProblem, found: AnyMapping | None) -> float:
    """Energy per MAC of the layer itself: what padding computes in vain costs, and does not count."""
    if found is None:
        return nan
    energy = evaluate(problem.architecture, executed_layer(problem, found), found).energy_pj
    return round(energy / problem.layer.macs, 4)


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--architecture", nargs="*", default=["eyeriss", "simba"])
    parser.add_argument("--objectives", nargs="*", choices=OBJECTIVES, default=list(OBJECTIVES))
    parser.add_argument("--every", type=int, default=1, help="take every N-th layer of a group only")
    parser.add_argument("--groups", nargs="*", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--others", nargs="*", default=[], help="solvers to compare with the optimum")
    parser.add_argument("--wall-seconds", type=float, default=60.0, help="limit of one solve")
    parser.add_argument("--keep", default="fitting", help="what levels keep: fitting, all or free")
    parser.add_argument("--peers", action="store_true", help="the peers' cases only")
    chosen = parser.parse_args()
    if chosen.peers:
        record.finish(peers(chosen.wall_seconds), chosen)
        return
    groups = {group: group_layers(group, chosen.every) for group in chosen.groups}
    rules, found = SpaceRules(keep=chosen.keep), {}
    for name, objective in product(chosen.architecture, chosen.objectives):
        problems = {
            f"{group}/{layer.name} on {name}, {objective}": MappingProblem(
                load_architecture(name), layer, objective, rules
            )
            for group, layers in groups.items()
            for layer in layers
        }
        title = f"{name} {objective}"
        found[title] = measure(problems, chosen.wall_seconds, chosen.others)
        show(title, found[title])
    record.finish(found, chosen)


if __name__ == "__main__":
    main()
