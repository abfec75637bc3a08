"""Layers alone on a chip: how near the levels that mapping solvers see are to what the mesh then costs.

    python benchmarks/layers_alone.py [--chip kapla-16x16-released] [--networks kapla-alexnet ...]
                                      [--batch 64] [--every 3] [--solver kapla]

Solvers map on a stack of levels that charges hops in the mean; what counts are the links of the mesh. The
table has, for every so many layers with products (equal ones once), the energy that the levels charge over
the energy that is counted; in the middle how much of the latter is links, and CPU milliseconds of counting.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import record

from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.hardware.chip import Chip
from costmodel.hardware.whole_chip import whole_architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.schedule.whole_chip.cost import whole_chip_cost
from costmodel.workload.network import Layer
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping.problem import MappingProblem, Objective, executed_layer

OBJECTIVES: tuple[Objective, ...] = ("edp", "energy")
NETWORKS = ("kapla-alexnet", "kapla-resnet50", "kapla-googlenet")


@dataclass(frozen=True)
class Counted:
    """One layer: energy charged over energy counted, the part of links, CPU milliseconds of counting."""

    charged: float
    links: float
    milliseconds: float


def counted(chip: Chip, nest: Layer, objective: Objective, name: str) -> Counted | None:
    """The mapping of a solver on the whole chip; None where it finds none."""
    whole = whole_architecture(chip)
    if whole is None:
        raise SystemExit(f"{chip.name}: tiles without an architecture")
    problem, entry = MappingProblem(whole, nest, objective), solver(name).load()
    mapping = entry.solve(problem, Budget(wall_seconds=60), entry.Params()).solution
    if mapping is None:
        return None
    executed = executed_layer(problem, mapping)
    started = time.process_time()
    cost = whole_chip_cost(chip, executed, mapping)
    seconds = time.process_time() - started
    charged = evaluate(whole, executed, mapping).energy_pj
    return Counted(charged / cost.energy_pj, cost.parts_pj[2] / cost.energy_pj, 1000 * seconds)


def nests(networks: Sequence[str], batch: int, every: int) -> Iterator[Layer]:
    """Every so many layers of the networks, those with products, equal ones once."""
    layers = (layer for name in networks for layer in load_layer_graph(name).layers[::every])
    distinct = {(nest := layer.nest(batch)).shape: nest for layer in layers if layer.has_weights}
    yield from distinct.values()


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("--chip", default="kapla-16x16-released")
    parser.add_argument(
        "--networks", nargs="+", default=["kapla-alexnet", "kapla-resnet50", "kapla-googlenet"]
    )
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--solver", default="kapla")
    asked = parser.parse_args()
    chip, found = load_chip(asked.chip), {}
    chosen = list(nests(asked.networks, asked.batch, asked.every))
    title = "charged / counted: least, median, most"
    print(f"{'objective':10} {'layers':>6} {title:>40} {'links':>6} {'ms':>5}")
    for objective in OBJECTIVES:
        each = [one for nest in chosen if (one := counted(chip, nest, objective, asked.solver))]
        charged = [one.charged for one in each]
        row = {"least": min(charged), "median": median(charged), "most": max(charged)}
        for key in ("links", "milliseconds"):
            row[key] = median(getattr(one, key) for one in each)
        shown = ", ".join(f"{row[key]:.3f}" for key in ("least", "median", "most"))
        print(f"{objective:10} {len(each):6} {shown:>40} {row['links']:6.2f} {row['milliseconds']:5.1f}")
        found[objective] = {"layers": len(each), **row}
    record.finish(found, asked)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
