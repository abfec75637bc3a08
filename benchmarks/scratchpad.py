"""Scratchpad plans: proofs and CPU seconds over operator graphs, and optima compared with a reference file.

    python benchmarks/scratchpad.py --graphs FOLDER [--optima FILE] [--only human|nas|large|llama] [--schemes]

FOLDER holds operator graphs (NETWORK.json.gz fused, NETWORK.raw.json.gz one operator an ATen op); a network
without a file is left out, and said.
``human``: ten networks x fused and raw x activations and with parameters x MR, MH and MP, each solved by
cosma; ``nas``: networks from architecture search at MR; ``large``: graphs of 5,000 operators at MR;
``llama``: a block whose heads share keys and values, at MR and at budgets above it.
``--optima`` is a JSON file of budgets and optima; every case of it that was run is compared. ``--schemes``
adds the four comparison schemes' bytes. CPU seconds are of the solve alone, on one core. ``--cpu-clock``
makes the budget one of CPU seconds, for a machine that others use too. Prints a line a solve, then one JSON
object.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import record
from large_graphs import llama_block, stacked_cells, transformer

from costmodel.formats.networks import load_network
from costmodel.scratchpad.graph import OperatorGraph, ScratchpadSettings, operator_graph
from solvers.budget import Budget, Stopwatch
from solvers.outcome import Status
from solvers.scratchpad import comparison
from solvers.scratchpad.budgets import NAMES, budget_bytes
from solvers.scratchpad.cosma import solver as cosma
from solvers.scratchpad.problem import ScratchpadProblem
from sweep.papers.cosma import HUMAN

NAS = ("amoebanet_d", "nasnet_a_large", "pnasnet5_large", "randwire", "darts")
SCHEMES = [
    (order, policy) for order in ("default", "minimum_peak") for policy in ("belady", "greedy")
]  # the paper's four

GROUPS = ("human", "nas", "large", "llama")
LLAMA_MEBIBYTES = (24, 24.5, 25, 26, 26.5, 27)
"""From MR on, to where nothing moves."""

Case = tuple[dict[str, Any], OperatorGraph]


def cases(group: str, folder: Path) -> Iterator[Case]:
    """The problems of a group: what identifies each, and its graph."""
    if group == "large":
        for network in (transformer(), stacked_cells()):
            yield {"network": network.name, "params": False, "budget": "MR"}, operator_graph(network)
        return
    if group == "llama":
        graph = operator_graph(llama_block())
        for mebibytes in LLAMA_MEBIBYTES:
            budget = str(round(mebibytes * 2**20))
            yield {"network": graph.name, "params": False, "budget": budget}, graph
        return
    for name in HUMAN if group == "human" else NAS:
        for granularity, suffix in (("fused", ""), ("raw", ".raw")):
            path = folder / f"{name}{suffix}.json.gz"
            if not path.is_file():
                print(f"{name}, {granularity}, is left out: there is no such file", file=sys.stderr)
                continue
            network = load_network(path)
            for parameters in (False, True):
                graph = operator_graph(network, ScratchpadSettings(parameters=parameters))
                for budget in NAMES if group == "human" else ("MR",):
                    key = {"network": name, "granularity": granularity}
                    yield key | {"params": parameters, "budget": budget}, graph


def row(case: Case, wall_seconds: float, schemes: bool) -> dict[str, Any]:
    key, graph = case
    size = budget_bytes(graph, key["budget"]).size_bytes
    problem = ScratchpadProblem(graph, size)
    outcome = cosma.solve(problem, Budget(wall_seconds))
    found = {
        "operators": len(graph.operators),
        "budget_bytes": size,
        "status": str(outcome.status),
        "objective_bytes": outcome.objective,
        "bound_bytes": outcome.bound,
        "gap": outcome.gap,
        "cpu_seconds": round(outcome.cpu_seconds, 3),
    }
    if schemes:
        for order, policy in SCHEMES:
            params = comparison.Params(order, policy)  # type: ignore[arg-type]
            found[f"{order}_{policy}"] = comparison.solve(problem, Budget(wall_seconds), params).objective
    return key | found


def compared(rows: list[dict[str, Any]], path: Path) -> dict[str, int]:
    """How many of the file's budgets and optima were run, and how many equal."""
    data = json.loads(path.read_text(encoding="utf-8"))
    known = {
        (case["net"], case.get("granularity", "fused"), case["params"], case["budget"]): case
        for case in data["human"] + data["nas"]
    }
    run = equal = 0
    for found in rows:
        case = known.get((found["network"], found.get("granularity"), found["params"], found["budget"]))
        if case is not None:
            run += 1
            optimum = case.get("optimal", case.get("obj"))
            equal += (case["B"], optimum) == (found["budget_bytes"], found["objective_bytes"])
            if (case["B"], optimum) != (found["budget_bytes"], found["objective_bytes"]):
                print(f"  differs: {case}")
    return {"reference_cases": run, "equal": equal}


def warm_up() -> None:
    """A solve that needs the libraries and the packer's compiled kernel, so that no row pays for loading."""
    graph = operator_graph(load_network("resnet50"), ScratchpadSettings(parameters=True))
    cosma.solve(ScratchpadProblem(graph, budget_bytes(graph, "MH").size_bytes), Budget())


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--graphs", type=Path, required=True)
    parser.add_argument("--optima", type=Path)
    parser.add_argument("--only", choices=GROUPS, action="append")
    parser.add_argument("--wall-seconds", type=float, default=60.0)
    parser.add_argument("--schemes", action="store_true")
    parser.add_argument("--cpu-clock", action="store_true")
    options = parser.parse_args()
    if options.cpu_clock:
        Stopwatch.wall_seconds = Stopwatch.cpu_seconds  # type: ignore[method-assign]
    warm_up()
    rows: list[dict[str, Any]] = []
    for group in options.only or ("human", "nas", "large"):
        for case in cases(group, options.graphs):
            rows.append({"group": group} | row(case, options.wall_seconds, options.schemes))
            print(*rows[-1].values(), flush=True)
    seconds = [found["cpu_seconds"] for found in rows]
    summary: dict[str, Any] = {
        "solved": len(rows),
        "proven": sum(found["status"] == Status.OPTIMAL for found in rows),
        "within_1_s": sum(s <= 1 for s in seconds),
        "within_3_s": sum(s <= 3 for s in seconds),
        "median_cpu_seconds": median(seconds),
        "most_cpu_seconds": max(seconds),
    }
    if options.optima:
        summary |= compared(rows, options.optima)
    record.finish(summary | {"rows": rows}, options)


if __name__ == "__main__":
    main()
