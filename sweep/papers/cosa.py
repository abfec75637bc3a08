"""CoSA's evaluation (Huang et al., ISCA 2021, section V), judged by our cost model instead of Timeloop.

On accelerators three schedulers are the paper's: Random (the best of five valid draws), Timeloop's Hybrid
(500 mappings, 32 threads) and CoSA's program as printed, with the weights of the released code and with those
that micro-benchmarks of the machine give (*calibrated*). Three are ours: two other programs, each solved once
(*one shot*), and the default, which polishes its mapping by a local search. On models of GPUs the programs
are compared with a search as TVM tunes. All get the same layers, one by one, and all are judged by the cost
model, in one figure by a replay of their programs on a mesh of PEs. A scheduler that searches minimises the
quantity that the figure shows; for the replay that is the cost model's cycles.

The text of the paper from which this was made had lost the numbers of its figures. So the figures here are
numbered in the order of that text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from contextlib import suppress
from statistics import fmean
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.cases.mapping import mapping_from_json
from costmodel.formats.networks import load_network
from costmodel.replay.replay import replay
from costmodel.replay.tables import ReplayOptions
from costmodel.schedule.pe_mesh.writer import mesh_program
from costmodel.workload.network import Layer, distinct_layers
from solvers.mapping.cosa.objective_parts import objective_parts
from solvers.mapping.cosa.params import Params
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
    "CoSA, as printed, calibrated": ("cosa", {"preset": "paper", "weights": "calibrated"}),
    "CoSA, weighted sum, one shot": ("cosa", {"polish": False}),
    "CoSA, cost, one shot": ("cosa", {"surrogate": "cost", "polish": False}),
    "CoSA, polished (default)": ("cosa", {}),
}
"""What a figure of an accelerator compares: by the name of its row, a mapping solver and its parameters."""

TUNED = "AutoTVM's way, 64 measured"
GPU_SCHEDULERS: dict[str, tuple[str, dict[str, Any]]] = {
    TUNED: ("learned_annealing", {"batches": 4, "batch": 16}),
    "AutoTVM's way, 4,096 measured": ("learned_annealing", {}),
    **{name: chosen for name, chosen in SCHEDULERS.items() if chosen[0] == "cosa"},
}
"""The same for the figure of GPUs. TVM measures kernels on a GPU; here the cost model is asked instead."""

MACHINES = {
    "4x4": "simba",
    "8x8": "simba-8x8",
    "large-buffers": "simba-large-buffers",
    "k80": "gpu-k80",
    "a100": "gpu-a100",
}
"""By the name in keys of studies, an architecture of the library. The one with 8 x 8 PEs is that of the
released simba_large.yaml."""

MESHES = ("4x4", "8x8", "large-buffers")
"""The machines of the figure whose mappings are replayed on a mesh of PEs."""
EXACT, EXACT_EDP = "Exact, for cycles", "Exact, for energy times cycles"
MESH_SCHEDULERS: dict[str, tuple[str, dict[str, Any]]] = SCHEDULERS | {
    EXACT: ("exact", {}),
    EXACT_EDP: ("exact", {}),
}
"""What that figure compares. The paper has no exact mapper; it shows how far the others are from the best."""
ON_MESH = ReplayOptions(dram_latency=100, hop_latency=1)
"""Cycles before the first word from DRAM, and cycles of a router. These are numbers of ours: the paper
simulates both."""
MESH_BASES = (RANDOM, "Hybrid")
"""The schedulers over which that figure states speed-ups."""

GPUS = ("k80", "a100")

ABSTRACT = "The paper's abstract says a geometric mean of up to 2.5 times over other approaches."
LOST = "The figure's own numbers are not in the text that this was made from, so none stands beside ours."


def networks(effort: Effort) -> tuple[str, ...]:
    """The networks whose layers are mapped."""
    return FULL if effort == "full" else QUICK


def study_key(machine: str, objective: str, scheduler: str) -> str:
    """The key of a study, such as ``4x4-cycles-cosa-as-printed-one-shot``."""
    short = "".join(c for c in scheduler.lower().replace(" ", "-") if c.isalnum() or c == "-")
    return f"{machine}-{objective}-{short}"


def studies(effort: Effort) -> list[PaperStudy]:
    """A study for each machine, quantity that its scheduler minimises, and scheduler."""
    # Energy is compared on one machine only. Energy times cycles is what one of the mappers of the meshes is
    # asked for (``mesh_objective``).
    asked = [("4x4", "energy"), *((machine, "cycles") for machine in MACHINES)]
    asked += [(machine, "edp") for machine in MESHES]
    return [
        PaperStudy(
            study_key(machine, objective, name),
            {
                "name": f"paper-cosa-{effort}-{study_key(machine, objective, name)}",
                "description": f"{name} on CoSA's layers, for {objective}",
                "networks": list(networks(effort)),
                "architecture": MACHINES[machine],
                "axes": {},
                "mapping": {"solver": solver, "params": params, "objective": objective},
            },
        )
        for machine, objective in asked
        for name, (solver, params) in solved_on(machine, objective).items()
    ]


def schedulers(machine: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """The schedulers that are compared on a machine. The first one is what the others are compared with."""
    return GPU_SCHEDULERS if machine in GPUS else SCHEDULERS


def solved_on(machine: str, objective: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """The schedulers that some figure needs for a machine and quantity."""
    if machine not in MESHES or objective == "energy":
        return schedulers(machine)
    return {name: chosen for name, chosen in MESH_SCHEDULERS.items() if mesh_objective(name) == objective}


def mesh_objective(scheduler: str) -> str:
    """What a scheduler minimises when it finds the mappings that run on the mesh."""
    return "edp" if scheduler == EXACT_EDP else "cycles"


def mesh_key(machine: str, scheduler: str) -> str:
    """The key of the study whose mappings run on the mesh."""
    return study_key(machine, mesh_objective(scheduler), scheduler)


def needed(machine: str, objective: str) -> tuple[str, ...]:
    """The keys of the studies of all schedulers for one machine and quantity."""
    return tuple(study_key(machine, objective, name) for name in schedulers(machine))


def ratios(
    rows: ReadOnlyDict[str, LayerRows], machine: str, objective: str, column: str, network: str
) -> Iterator[tuple[str, list[float]]]:
    """For each scheduler, how many times less its mappings take of ``column`` than the first scheduler's.

    One number for each layer of the network for which both have an answer. The mappings are those found for
    ``objective``.
    """
    layers = [layer for layer, _ in distinct_layers(load_network(network).layers)]
    names = list(schedulers(machine))
    base = rows[study_key(machine, objective, names[0])]
    for name in names:
        own = rows[study_key(machine, objective, name)]
        yield (
            name,
            [
                base[layer][column] / own[layer][column]
                for layer in layers
                if layer in base and layer in own and own[layer][column] and base[layer][column]
            ],
        )


def over_first(
    rows: ReadOnlyDict[str, LayerRows], effort: Effort, machine: str, objective: str, column: str
) -> FigureTable:
    """How many times better than the first scheduler each one is: geometric means of layers, by network.

    A scheduler without any answer has no row.
    """
    names, first = networks(effort), next(iter(schedulers(machine)))
    by_network = {name: dict(ratios(rows, machine, objective, column, name)) for name in names}
    table: list[tuple[str | float, ...]] = []
    series: dict[str, tuple[float, ...]] = {}
    for scheduler in schedulers(machine):
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
    bars = Bars(f"times better than {first}", (*names, "all"), series)
    return FigureTable(("scheduler", *names, "all layers", "layers"), tuple(table), tuple(remarks), bars)


def speed_ups(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Figure 6."""
    return over_first(rows, effort, "4x4", "cycles", "cycles")


def energies(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Figure 7."""
    return over_first(rows, effort, "4x4", "energy", "energy_pj")


def larger_array(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Figure 9."""
    table = over_first(rows, effort, "8x8", "cycles", "cycles")
    more = (
        "8 x 8 PEs with the buffers and the DRAM bandwidth of 4 x 4, as in the released simba_large.yaml. "
        "Not reproduced: the paper's architecture with larger buffers, whose sizes are neither in the text "
        "that this was made from nor in the released code. Figure 10 has one with sizes of ours."
    )
    return FigureTable(table.headers, table.rows, (*table.remarks, more), table.bars)


def mesh_cycles(machine: str, rows: LayerRows) -> dict[Layer, int]:
    """The cycles that each layer's mapping takes when its program runs on the mesh of the machine's PEs.

    A program of too many events to be run is left out.
    """
    architecture, found = load_architecture(MACHINES[machine]), dict[Layer, int]()
    for layer, row in rows.items():
        mapping = mapping_from_json(architecture, layer, json.loads(row["mapping"]))
        with suppress(InputError):
            found[layer] = replay(mesh_program(architecture, layer, mapping), ON_MESH).cycles
    return found


def on_meshes(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Figure 10: speed-ups in replayed cycles, over Random by network and over Hybrid on all layers.

    A further column has replayed over counted cycles: what the cost model does not know of the mesh.
    """
    names, table, left_out = networks(effort), list[tuple[str | float, ...]](), 0
    series: dict[str, tuple[float, ...]] = {}
    of_network = {name: {layer for layer, _ in distinct_layers(load_network(name).layers)} for name in names}
    for machine in MESHES:
        keys = {name: mesh_key(machine, name) for name in MESH_SCHEDULERS}
        cycles = {name: mesh_cycles(machine, rows[key]) for name, key in keys.items()}
        left_out += sum(len(rows[key]) - len(cycles[name]) for name, key in keys.items())
        for name, own in cycles.items():
            # by base and layer, how many times as fast this scheduler is; layers that the base lacks are left
            # out
            over = {
                base: {
                    layer: cycles[base][layer] / one for layer, one in own.items() if layer in cycles[base]
                }
                for base, found in cycles.items()
                if base in MESH_BASES
            }
            counted = [one / rows[keys[name]][layer]["cycles"] for layer, one in own.items()]
            if not over[RANDOM] or not over["Hybrid"]:
                continue
            means = [
                geomean(some)
                if (some := [over[RANDOM][layer] for layer in over[RANDOM] if layer in of])
                else 0.0
                for of in of_network.values()
            ]
            all_over = [geomean(list(over[base].values())) for base in MESH_BASES]
            series[f"{machine}: {name}"] = (*means, all_over[0])
            layers = float(len(over[RANDOM]))
            table.append((f"{machine}: {name}", *means, *all_over, geomean(counted), layers))
    remarks = [
        ABSTRACT,
        LOST,
        "Each mapping, found for the cost model's cycles, runs as a program on a mesh of PEs with X-Y "
        "routes, 8 bytes a cycle on each link and one port of the global buffer; DRAM has the architecture's "
        f"rates, {ON_MESH.dram_latency} cycles to the first word, and a router takes {ON_MESH.hop_latency}. "
        "`archsweep solve mapping --program` and `archsweep replay` do the same for one layer.",
        "The paper's simulator has generated routers and DRAMSim2, its Random and Hybrid are Timeloop's and "
        "judged by Timeloop as they search, and here a step starts only when all its data is there.",
        "Replayed over counted is what the network and the ends take: the cost model's cycles know neither "
        "links nor the first fetch and the last store. Mappings of the least cycles are many, and the exact "
        "mapper takes one of them whatever it moves over the network; CoSA's program has the network in its "
        "objective. Energy times cycles has it, too.",
        "Larger buffers: twice those of the PEs and eight times the global one; the text has lost the "
        "paper's.",
    ]
    if left_out:
        remarks.append(f"Left out: {left_out} mappings whose programs have too many events to be run.")
    if effort == "quick":
        remarks.append("Quick: AlexNet's layers only; --effort full has all four networks.")
    headers = ("scheduler", *names, "all layers", "over Hybrid", "replayed over counted", "layers")
    bars = Bars(f"times better than {RANDOM}", (*names, "all"), series)
    return FigureTable(headers, tuple(table), tuple(remarks), bars)


def on_gpus(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Figure 11: speed-ups over the tuner with few measurements on both GPUs, and CPU seconds a layer."""
    tables = {gpu: over_first(rows, effort, gpu, "cycles", "cycles") for gpu in GPUS}
    table: list[tuple[str | float, ...]] = []
    for gpu, found in tables.items():
        for scheduler, *means, layers in found.rows:
            spent = [row["cpu_seconds"] for row in rows[study_key(gpu, "cycles", str(scheduler))].values()]
            seconds = [one for one in spent if one is not None]
            table.append((f"{gpu}: {scheduler}", *means, layers, sum(seconds) / max(1, len(seconds))))
    remarks = (
        "No GPU ran. The GPUs are architectures (gpu-k80, gpu-a100) whose cycles the cost model counts: "
        "multiprocessors, threads, shared memory and registers as the paper formulates them, without "
        "occupancy, latency, or the replacement of a cache.",
        "TVM is not asked either. Its tuner's way, an annealing guided by a learned model, is our "
        "learned_annealing, which measures with the cost model. The paper's number of trials is not in the "
        "text that this was made from.",
        *tables[GPUS[0]].remarks[1:],
    )
    names = networks(effort)
    series = {
        f"{gpu}: {name}": values
        for gpu, found in tables.items()
        if found.bars
        for name, values in found.bars.series.items()
    }
    bars = Bars(f"times as fast as {TUNED}", (*names, "all"), series)
    return FigureTable(
        ("scheduler", *names, "all layers", "layers", "CPU s a layer"), tuple(table), remarks, bars
    )


def parts_of_objective(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Figure 8: Util, Comp and Traf of every scheduler's mappings, and the paper's weighted sum (Eq. 12).

    All are means over the layers.
    """
    machine, params = load_architecture(MACHINES["4x4"]), Params(preset="paper")
    every = [layer for name in networks(effort) for layer, _ in distinct_layers(load_network(name).layers)]
    table: list[tuple[str | float, ...]] = []
    for scheduler in SCHEDULERS:
        own = rows[study_key("4x4", "cycles", scheduler)]
        parts = [
            objective_parts(
                machine, layer, mapping_from_json(machine, layer, json.loads(own[layer]["mapping"]))
            )
            for layer in dict.fromkeys(every)
            if layer in own
        ]
        if parts:
            columns = (
                [one.utilisation for one in parts],
                [one.compute for one in parts],
                [one.traffic for one in parts],
                [one.weighted_sum(params) for one in parts],
            )
            table.append((scheduler, *(fmean(column) for column in columns), float(len(parts))))
    remarks = (
        "Base-2 logarithms of mappings found for cycles. CoSA minimises the sum, -0.1 Util + 10 Comp + Traf "
        "with the weights of the released code; Traf is over the network on chip (Eq. 11).",
        "The paper shows one layer of ResNet-50, and says that CoSA's sum is the least of the three. Which "
        "layer, and the numbers, are not in the text that this was made from.",
    )
    series = {str(row[0]): tuple(float(part) for part in row[1:4]) for row in table}
    bars = Bars("mean of layers, log2", ("Util", "Comp", "Traf"), series)
    return FigureTable(("scheduler", "Util", "Comp", "Traf", "sum", "layers"), tuple(table), remarks, bars)


def solve_times(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Table 6: CPU seconds that each scheduler takes for a layer, when it minimises cycles."""
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
        "Calibrated weights are found once for a machine; that is in no layer's seconds.",
    )
    return FigureTable(("scheduler", "CPU s a layer", "worst", "layers"), tuple(table), remarks)


def figures() -> Sequence[PaperFigure]:
    baseline = needed("4x4", "cycles")
    return (
        PaperFigure("6", "Speed-up over Random, 4 x 4 PEs", baseline, speed_ups),
        PaperFigure("7", "Energy, times less than Random's, 4 x 4 PEs", needed("4x4", "energy"), energies),
        PaperFigure(
            "8",
            "Parts of the objective, means of layers",
            baseline,
            parts_of_objective,
            columns=("mapping",),
        ),
        PaperFigure("9", "Speed-up over Random, 8 x 8 PEs", needed("8x8", "cycles"), larger_array),
        PaperFigure(
            "10",
            "Speed-up over Random, replayed on meshes of PEs",
            tuple(mesh_key(machine, name) for machine in MESHES for name in MESH_SCHEDULERS),
            on_meshes,
            columns=("mapping",),
        ),
        PaperFigure(
            "11",
            "Speed-up over TVM's way to tune, on models of two GPUs",
            tuple(key for gpu in GPUS for key in needed(gpu, "cycles")),
            on_gpus,
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
