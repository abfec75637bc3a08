"""KAPLA's networks layer by layer, inference and training: what they cost on its devices, and how fast.

    python benchmarks/kapla_networks.py [--device 16x16] [--costs released] [--solver kapla] [NETWORK ...]

Every layer with weights is mapped by itself (equal ones once), as the released code does in training, where
it pipelines nothing; pooling and element-wise layers are left out. Batch 64 on 16 x 16 nodes, inference at
batch 1 on the edge device, or ``--batch``. A table, then one JSON object: energy, the cost model's lower
bound of it, cycles over MACs / PEs, DRAM words over each tensor once (both at least 1, or it fails), CPU
seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from math import prod
from pathlib import Path
from typing import Any

from costmodel.architecture import Architecture
from costmodel.architectures import load_architecture
from costmodel.evaluate import evaluate
from costmodel.networks import load_network
from costmodel.traffic import distinct_sums
from costmodel.workload import Layer, distinct_layers
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping.problem import MappingProblem

NETWORKS = ("alexnet", "mobilenet", "vgg16", "googlenet", "resnet50", "mlp", "lstm")
WARM_UP = "kapla-mlp-s"


def measure(name: str, architecture: Architecture, options: argparse.Namespace) -> dict[str, Any]:
    """Sums over the layers of a network; of a layer that no mapping was found for, its reason."""
    network = load_network(name, options.batch)
    sums = dict.fromkeys(("energy_pj", "bound_pj", "cycles", "dram_words"), 0.0)
    failed: list[str] = []
    distinct = distinct_layers(network.layers)
    start = time.process_time()
    for layer, count in distinct:
        found = solved(layer, architecture, options)
        if found is None:
            failed.append(layer.name)
            continue
        for key, value in found.items():
            sums[key] += count * value
    seconds = time.process_time() - start
    compulsory = sum(touched_words(layer) for layer in network.layers)
    return {
        "network": name,
        "layers": len(network.layers),
        "distinct": len(distinct),
        "macs": network.macs,
        **sums,
        "cycles_over_floor": sums["cycles"] * architecture.mac_units / network.macs,
        "dram_over_compulsory": sums["dram_words"] / compulsory,
        "cpu_seconds": round(seconds, 2),
        "failed": failed,
    }


def touched_words(layer: Layer) -> int:
    """Words of all tensors that some MAC needs: strides can skip rows and columns of the inputs."""
    return sum(
        prod(
            distinct_sums([(layer.sizes[dim], coefficient) for dim, coefficient in axis])
            for axis in tensor.axes
        )
        for tensor in layer.tensors
    )


def solved(layer: Layer, architecture: Architecture, options: argparse.Namespace) -> dict[str, float] | None:
    problem = MappingProblem(architecture, layer, options.objective)
    outcome = solver(options.solver, "mapping").load().solve(problem, Budget(options.wall_seconds, seed=0))
    if outcome.solution is None:
        return None
    found = evaluate(architecture, layer, outcome.solution)
    memory = found.levels[-1].tensors.values()
    return {
        "energy_pj": found.energy_pj,
        "bound_pj": outcome.bound or 0.0 if options.objective == "energy" else 0.0,
        "cycles": found.cycles,
        "dram_words": sum(one.reads + one.fills + one.updates for one in memory),
    }


def print_row(one: dict[str, Any]) -> None:
    gap = 1 - one["bound_pj"] / one["energy_pj"] if one["bound_pj"] else float("nan")
    print(
        f"{one['network']:26} {one['layers']:6} {one['distinct']:8} {one['macs'] / 1e9:9.2f} "
        f"{one['energy_pj'] / 1e9:10.3f} {gap:6.1%} {one['cycles_over_floor']:8.2f} "
        f"{one['dram_over_compulsory']:8.2f} {one['cpu_seconds']:8.2f}",
        flush=True,
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--device", choices=("16x16", "edge"), default="16x16")
    parser.add_argument("--costs", choices=("paper", "released"), default="released")
    parser.add_argument("--solver", default="kapla")
    parser.add_argument("--objective", default="energy")
    parser.add_argument("--batch", type=int, default=None)
    parser.add_argument("--wall-seconds", type=float, default=30.0, help="of a layer")
    parser.add_argument("--json", type=Path, default=None, help="write the JSON object here as well")
    options = parser.parse_args()
    options.batch = options.batch or (64 if options.device == "16x16" else 1)
    return options


def main() -> int:
    options = arguments()
    architecture = load_architecture(f"kapla-{options.device}-{options.costs}")
    measure(WARM_UP, architecture, options)  # compiles, or loads what was compiled
    steps = ("", ".training") if options.device == "16x16" else ("",)
    print(
        f"{'network, batch ' + str(options.batch):26} {'layers':>6} {'distinct':>8} {'GMACs':>9} {'mJ':>10} "
        f"{'gap':>6} {'x MACs':>8} {'x DRAM':>8} {'CPU s':>8}"
    )
    results = []
    for name in options.networks:
        for step in steps:
            results.append(measure(f"kapla-{name}{step}", architecture, options))
            print_row(results[-1])
    text = json.dumps(
        {"options": {key: str(value) for key, value in vars(options).items()}, "results": results}
    )
    print(text)
    if options.json:
        options.json.write_text(text)
    below = [one for one in results if min(one["cycles_over_floor"], one["dram_over_compulsory"]) < 1]
    return int(bool(below) or any(one["failed"] for one in results))


if __name__ == "__main__":
    sys.exit(main())
