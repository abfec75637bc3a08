"""What a learned model is worth to a mapping search: learned annealing, without its model, and random draws.

    python benchmarks/learned_annealing.py [--architecture NAME ...] [--objectives NAME ...] [--every N]
                                           [--devices NAME ...] [--networks NAME ...]

Prints a table for every architecture and objective, then one JSON object. The layers are those of
``exact_quality.py``, of each group every N-th; on KAPLA's ``--devices`` those of ``--networks`` with weights,
for least energy within what the PE array's mapping allows, batch 64 (the edge device: 1). Ratios are over the
optimum that ``exact`` proves within 20 s, on layers where it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import record
from exact_quality import group_layers
from kapla_evaluation.layers import LayerCase
from kapla_mapping import Tally, show

from costmodel.formats.architectures import load_architecture
from costmodel.formats.multi_nodes import load_multi_node
from costmodel.formats.networks import load_network
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import distinct_layers
from solvers.budget import Budget
from solvers.mapping import exact, kapla, learned_annealing, random_search
from solvers.mapping.problem import OBJECTIVES, MappingProblem
from solvers.outcome import Outcome, Status

GROUPS = ("resnet18", "resnet50", "alexnet", "deepbench")
Solve = Callable[[MappingProblem], Outcome[Mapping]]


def annealed(**params: Any) -> Solve:
    asked = learned_annealing.Params(**params)
    return lambda problem: learned_annealing.solve(problem, Budget(600), asked)


def drawn(count: int) -> Solve:
    asked = random_search.Params(victory=count)
    return lambda problem: random_search.solve(problem, Budget(600, count), asked)


VARIANTS: dict[str, Solve] = {
    "learned annealing": annealed(),
    "no chains at the best": annealed(elite_fraction=0.0),
    "invalid ones measured": annealed(avoid_invalid=False),
    "no model": annealed(learn=False),
    "no model, 8 x measured": annealed(learn=False, batches=256),
    "random draws": drawn(4096),
    "random draws, 64 x": drawn(64 * 4096),
    "kapla": lambda problem: kapla.solve(problem, Budget(600)),
}
"""All measure 4096 mappings a layer if nothing else is said, but for kapla."""


def measure(problems: list[MappingProblem]) -> dict[str, Any]:
    """Every variant's distance from the optima."""
    tallies = {name: Tally() for name in VARIANTS}
    for problem in problems:
        best = exact.solve(problem, Budget(20))
        if best.status is not Status.OPTIMAL or best.objective is None:
            continue
        for name, solve in VARIANTS.items():
            tallies[name].add(solve(problem), best.objective)
    return {name: tally.report() for name, tally in tallies.items() if tally.ratios}


def device_problems(device: str, networks: list[str]) -> Iterator[MappingProblem]:
    """Of each distinct layer of the networks one."""
    chip, batch = load_multi_node(device, "released"), 1 if device == "kapla-edge" else 64
    layers = [layer for name in networks for layer in load_network(f"kapla-{name}", batch).layers]
    for layer, _ in distinct_layers(layers):
        yield LayerCase(chip, layer).problem


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--architecture", nargs="*", default=["eyeriss", "simba"])
    parser.add_argument("--objectives", nargs="*", choices=OBJECTIVES, default=["energy", "edp"])
    parser.add_argument("--every", type=int, default=16, help="take every N-th layer of a group only")
    parser.add_argument("--devices", nargs="*", default=["kapla-16x16", "kapla-edge"])
    parser.add_argument("--networks", nargs="*", default=["alexnet", "mlp"])
    chosen = parser.parse_args()
    layers = [layer for group in GROUPS for layer in group_layers(group, chosen.every)]
    cases = {
        f"{name} {objective}": [MappingProblem(load_architecture(name), layer, objective) for layer in layers]
        for name, objective in product(chosen.architecture, chosen.objectives)
    }
    cases |= {name: list(device_problems(name, chosen.networks)) for name in chosen.devices}
    found = {}
    for title, problems in cases.items():
        found[title] = measure(problems)
        show(title, found[title])
    record.finish(found, chosen)


if __name__ == "__main__":
    main()
