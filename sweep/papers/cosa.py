"""CoSA's evaluation (Huang et al., ISCA 2021, section V), judged by our cost model instead of Timeloop.

Three schedulers are the paper's: Random (the best of five valid draws), Timeloop's Hybrid (500 mappings, 32
threads) and CoSA's program as printed. Three are ours: two other programs, each solved once (*one shot*), and
the default, which polishes its mapping by a local search. All get the same layers, one by one, and all are
judged by the cost model. A scheduler that searches minimises the quantity that the figure shows.

The text of the paper from which this was made had lost the numbers of its figures. So the figures here are
numbered in the order of that text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from typing import Any

from costmodel.formats.networks import load_network
from costmodel.workload.network import distinct_layers
from sweep.papers.paper import (
    Bars,
    Effort,
    FigureTable,
    LayerRows,
    Paper,
    PaperFigure,
    PaperStudy,
    geomean,
)

FULL = ("cosa_alexnet", "cosa_resnet50", "cosa_resnext50", "deepbench")
QUICK = ("cosa_alexnet",)

RANDOM = "Random"
SCHEDULERS: dict[str, tuple[str, dict[str, Any]]] = {
    RANDOM: ("random_search", {"valid": 5}),
    "Hybrid": ("hybrid", {}),
    "CoSA, as printed, one shot": ("cosa", {"preset": "paper"}),
    "CoSA, weighted sum, one shot": ("cosa", {"polish": False}),
    "CoSA, cost, one shot": ("cosa", {"surrogate": "cost", "polish": False}),
    "CoSA, polished (default)": ("cosa", {}),
}
"""The rows of every figure: a mapping solver and its parameters."""

MACHINES: dict[str, dict[str, Any]] = {
    "4x4": {},
    "8x8": {"GlobalBuffer.fanout": {"choices": [[8, 8]]}},
}
"""Axes of one value, over the library's ``simba``: 8 x 8 PEs as in the released simba_large.yaml."""

ABSTRACT = "The paper's abstract says a geometric mean of up to 2.5 times over other approaches."
LOST = "The figure's own numbers are not in the text that this was made from, so none stands beside ours."


def networks(effort: Effort) -> tuple[str, ...]:
    return FULL if effort == "full" else QUICK


def study_key(machine: str, objective: str, scheduler: str) -> str:
    """The key of a study, such as ``4x4-cycles-cosa-as-printed-one-shot``."""
    short = "".join(c for c in scheduler.lower().replace(" ", "-") if c.isalnum() or c == "-")
    return f"{machine}-{objective}-{short}"


def studies(effort: Effort) -> list[PaperStudy]:
    """A study for each machine, quantity and scheduler."""
    asked = [("4x4", "cycles"), ("4x4", "energy"), ("8x8", "cycles")]
    return [
        PaperStudy(
            study_key(machine, objective, name),
            {
                "name": f"paper-cosa-{effort}-{study_key(machine, objective, name)}",
                "description": f"{name} on CoSA's layers, for {objective}",
                "networks": list(networks(effort)),
                "architecture": "simba",
                "axes": MACHINES[machine],
                "mapping": {"solver": solver, "params": params, "objective": objective},
            },
        )
        for machine, objective in asked
        for name, (solver, params) in SCHEDULERS.items()
    ]


def needed(machine: str, objective: str) -> tuple[str, ...]:
    """The keys of the studies of all schedulers for one machine and quantity."""
    return tuple(study_key(machine, objective, name) for name in SCHEDULERS)


def ratios(
    rows: ReadOnlyDict[str, LayerRows], machine: str, objective: str, column: str, network: str
) -> Iterator[tuple[str, list[float]]]:
    """For each scheduler, Random's quantity divided by its own, for each layer where both have an answer."""
    layers = [layer for layer, _ in distinct_layers(load_network(network).layers)]
    base = rows[study_key(machine, objective, RANDOM)]
    for name in SCHEDULERS:
        own = rows[study_key(machine, objective, name)]
        yield (
            name,
            [
                base[layer][column] / own[layer][column]
                for layer in layers
                if layer in base and layer in own and own[layer][column] and base[layer][column]
            ],
        )


def over_random(
    rows: ReadOnlyDict[str, LayerRows], effort: Effort, machine: str, objective: str, column: str
) -> FigureTable:
    """How many times better than Random each scheduler is, geometric means of layers, by network."""
    names = networks(effort)
    by_network = {name: dict(ratios(rows, machine, objective, column, name)) for name in names}
    table: list[tuple[str | float, ...]] = []
    series: dict[str, tuple[float, ...]] = {}
    for scheduler in SCHEDULERS:
        found = [by_network[name][scheduler] for name in names]
        every = [ratio for some in found for ratio in some]
        if not every:
            continue
        means = tuple(geomean(some) if some else 0.0 for some in found)
        series[scheduler] = (*means, geomean(every))
        table.append((scheduler, *series[scheduler], float(len(every))))
    remarks = [ABSTRACT, LOST]
    if effort == "quick":
        remarks.append("Quick: AlexNet's layers only; --effort full has all four networks.")
    bars = Bars("times better than Random", (*names, "all"), series)
    return FigureTable(("scheduler", *names, "all layers", "layers"), tuple(table), tuple(remarks), bars)


def speed_ups(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    return over_random(rows, effort, "4x4", "cycles", "cycles")


def energies(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    return over_random(rows, effort, "4x4", "energy", "energy_pj")


def larger_array(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    table = over_random(rows, effort, "8x8", "cycles", "cycles")
    more = (
        "8 x 8 PEs with the buffers and the DRAM bandwidth of 4 x 4, as in the released simba_large.yaml. "
        "Not reproduced: the architecture with larger buffers, whose sizes are not in the text that this was "
        "made from, nor in the released code."
    )
    return FigureTable(table.headers, table.rows, (*table.remarks, more), table.bars)


def solve_times(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Mean CPU seconds a layer of each scheduler, for cycles."""
    table: list[tuple[str | float, ...]] = []
    for name in SCHEDULERS:
        spent = [row["cpu_seconds"] for row in rows[study_key("4x4", "cycles", name)].values()]
        spent = [seconds for seconds in spent if seconds is not None]
        if spent:
            table.append((name, sum(spent) / len(spent), max(spent), float(len(spent))))
    remarks = (
        "The paper's abstract says that CoSA improves the time to the answer by 90 times. "
        "Not reproduced: the seconds are of another machine, of Gurobi, and of Timeloop's mapper, which "
        "evaluates a mapping far more slowly than the compiled cost model that our searches call.",
    )
    return FigureTable(("scheduler", "CPU s a layer", "worst", "layers"), tuple(table), remarks)


def figures() -> Sequence[PaperFigure]:
    baseline = needed("4x4", "cycles")
    return (
        PaperFigure("6", "Speed-up over Random, 4 x 4 PEs", baseline, speed_ups),
        PaperFigure("7", "Energy, times less than Random's, 4 x 4 PEs", needed("4x4", "energy"), energies),
        PaperFigure(
            "8",
            "Parts of the objective of one layer",
            not_reproduced="Util, Comp and Traf of other schedulers' mappings are not computed: the program "
            "states them for its own solutions only.",
        ),
        PaperFigure("9", "Speed-up over Random, 8 x 8 PEs", needed("8x8", "cycles"), larger_array),
        PaperFigure(
            "10",
            "Speed-up in a simulation of the network on chip",
            not_reproduced="a layer's mapping is not written as a program of a mesh of PEs yet, which the "
            "replay could run; mappings are judged by the cost model, which has no congestion.",
        ),
        PaperFigure(
            "11",
            "Speed-up over TVM on a GPU",
            not_reproduced="no GPU ran, and the GPU's constraints on threads are not an architecture here.",
        ),
        PaperFigure("table-6", "Time to the answer", baseline, solve_times),
    )


COSA = Paper(
    "cosa",
    "CoSA: Scheduling by Constrained Optimization for Spatial Accelerators (Huang et al., ISCA 2021)",
    studies,
    networks,
    tuple(figures()),
)
