"""KAPLA's evaluation (Li and Gao, 2023, section VI): single layers by three methods, and chains of segments.

The paper names its methods by letters: B, S, R, M, and K, which is KAPLA itself. Three are run here: S is
``exact``, which proves the optimum or states a bound; R is ``random_search``; K is ``kapla``. They map layers
one by one. The mapping of the array of PEs is fixed, and the methods choose all else. Where S has not proven
the optimum of every layer, K and R are compared both with the best mapping that was found and with the bound;
the optimum lies between the two.

Chains of segments are studies of the chip ``kapla-16x16-released``, judged by the chip model.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from math import ceil
from statistics import fmean
from typing import Any

from costmodel.formats.multi_nodes import load_multi_node
from costmodel.formats.networks import load_network
from costmodel.hardware.multi_node.derived import architecture, array_constraints
from costmodel.hardware.multi_node.template import MultiNode
from costmodel.workload.network import Layer, distinct_layers
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping.problem import Objective
from solvers.mapping.space.rules import LevelRules, SpaceRules
from solvers.mapping.space.space import MappingSpace
from sweep.papers.paper import (
    Bars,
    Effort,
    FigureTable,
    LayerRows,
    Paper,
    PaperFigure,
    PaperSolves,
    PaperStudy,
)
from sweep.study.identity import canonical_json
from sweep.tasks.kinds import PaperTask
from sweep.tasks.mapping import MappingTask, SolveSettings

NETWORKS = ("alexnet", "mobilenet", "vgg16", "googlenet", "resnet50", "mlp", "lstm")
COSTS = "released"
"""The unit costs of the released files, used for all sizes of nodes: most sizes have no published others."""

PROVING_SECONDS = {"quick": 5.0, "full": 60.0}
"""Seconds on the clock for S to map a layer, by effort."""
MOST_DRAWS = {"quick": 10_000, "full": 1_000_000}
"""The most mappings that R draws for a layer, by effort."""

SOLVERS = {"S": "exact", "R": "random_search", "K": "kapla"}
PUBLISHED_MEANS = {"7": "2.2 %", "8": "as Figure 7", "9": "7.7 % over B", "10": "1.9 %"}
"""By figure, by how much K's energy exceeds S's: means of the seven networks (section VI-A)."""
PUBLISHED_HOURS: dict[str, tuple[str, ...]] = {
    "alexnet": ("8.7 h", "12.7 h", "4.6 min", "3.2 h", "32 s"),
    "mobilenet": ("17.6 h", "33.8 h", "16.6 min", "10.1 h", "53 s"),
    "vgg16": ("6.8 h", "12.2 h", "5.5 min", "3.6 h", "35 s"),
    "googlenet": ("64.2 h", "111.0 h", "31.4 min", "37.1 h", "262 s"),
    "resnet50": ("78.6 h", "114.8 h", "42.4 min", "28.6 h", "118 s"),
    "mlp": ("0.2 h", "0.7 h", "1.0 min", "0.2 h", "13 s"),
    "lstm": ("0.2 h", "0.9 h", "7.4 min", "0.1 h", "6 s"),
}
"""Table IV: the time of methods B, S, R, M and K on eight processes."""
PUBLISHED_PRUNING: dict[str, tuple[float, float]] = {
    "alexnet": (700, 2),
    "mobilenet": (331, 42),
    "vgg16": (7, 1),
    "googlenet": (560, 1),
    "resnet50": (63, 4),
    "mlp": (784, 18),
    "lstm": (70, 3),
}
"""Table VI: the schemes of one representative segment, and how many of them pruning leaves."""

NO_ENERGIES = (
    "Not reproduced: bars of B and M. Their heights are not in the text that this was made from, and B "
    "takes hours a network; M is the solver learned_annealing, measured in the chapter on KAPLA."
)
LAYER_BY_LAYER = (
    "Layers by themselves, equal ones once, without segments. The optimum of a layer that S did not prove in "
    "its time lies between the bound and the best found: K's overhead between the two columns."
)


@dataclass(frozen=True)
class LayersOnDevice:
    """The layers with weights of some networks, each mapped for the least ``objective`` on one device.

    ``step``: what follows the networks' names; ``.training`` makes training steps of them.
    """

    key: str
    device: MultiNode
    batch: int
    objective: Objective = "energy"
    step: str = ""
    probability: float = 0.1
    """R draws this fraction of as many mappings as the space has factorisations; 0.85 on the edge device."""
    networks: tuple[tuple[str, ...], tuple[str, ...]] = (("alexnet", "mlp", "lstm"), NETWORKS)
    """The networks of quick and of full effort."""
    every: int = 1
    """With quick effort only every ``every``-th distinct layer of a network is mapped."""

    def networks_of(self, effort: Effort) -> tuple[str, ...]:
        """The networks that the effort maps."""
        return self.networks[effort == "full"]

    def layers(self, network: str, effort: Effort) -> list[tuple[Layer, int]]:
        """Distinct layers, and how often each occurs."""
        name = f"kapla-{network}{self.step}"
        return distinct_layers(load_network(name, self.batch).layers)[
            :: 1 if effort == "full" else self.every
        ]


def library_case(key: str, device: str, batch: int, **more: Any) -> LayersOnDevice:
    """A case on a device of the library, with the released unit costs."""
    return LayersOnDevice(key, load_multi_node(device, COSTS), batch, **more)


TABLE_V = ((64, 4, 8, 32), (64, 4, 8, 64), (64, 4, 8, 128), (8, 4, 16, 32), (1, 16, 8, 64))
"""Batch, nodes of a side, PEs of a side, bytes of registers of a PE; all with buffers of 32 KiB."""
PUBLISHED_TABLE_V = (0.044, 0.027, 0.015, 0.083, 0.067)
"""By which fraction K's energy exceeds S's, row by row."""


def configuration(batch: int, side: int, pes: int, register_bytes: int) -> LayersOnDevice:
    """A row of Table V."""
    device = load_multi_node(f"kapla-{side}x{side}", COSTS)
    word_bytes = device.word_bits // 8
    changed = replace(
        device,
        pe_columns=pes,
        pe_rows=pes,
        buffer_words=32 * 1024 // word_bytes,
        register_words=register_bytes // word_bytes,
    )
    key = f"table-5-batch{batch}-{side}x{side}-{pes}x{pes}-{register_bytes}"
    only = ("googlenet",)
    return LayersOnDevice(key, changed, batch, networks=(only, only), every=10)


@cache
def figure_cases() -> dict[str, LayersOnDevice]:
    """The cases of Figures 7 to 10."""
    return {
        "7": library_case("fig-7", "kapla-16x16", 64, step=".training"),
        "8": library_case("fig-8", "kapla-16x16", 64, step=".training", objective="cycles"),
        "9": library_case("fig-9", "kapla-16x16", 64),
        "10": library_case("fig-10", "kapla-edge", 1, probability=0.85, networks=(NETWORKS, NETWORKS)),
    }


@cache
def configurations() -> tuple[LayersOnDevice, ...]:
    """The rows of Table V."""
    return tuple(configuration(*row) for row in TABLE_V)


# Figures state what they need before any case is made, which reads files: so keys are written once more here.
KEYS = {number: f"fig-{number}" for number in PUBLISHED_MEANS}
TABLE_V_KEYS = tuple(f"table-5-batch{b}-{side}x{side}-{pes}x{pes}-{regs}" for b, side, pes, regs in TABLE_V)


def rules_of(device: MultiNode, layer: Layer) -> SpaceRules:
    """The rules of mappings in which the array's own mapping to columns and rows is fixed."""
    return SpaceRules(levels=tuple(LevelRules(**one) for one in array_constraints(device, layer)))


@cache
def factorisations(device: MultiNode, layer: Layer) -> int:
    """How many factorisations the space of a layer has, over all sets of kept tensors."""
    space = MappingSpace(architecture(device), layer, rules_of(device, layer))
    return sum(map(space.count_factorisations, product(*space.keep_sets)))


def task(case: LayersOnDevice, layer: Layer, method: str, effort: Effort) -> MappingTask:
    """One layer by one method. S ends by its time, R by its draws, K by itself."""
    name, params = SOLVERS[method], {}
    budget = Budget(600.0)
    if method == "S":
        budget = Budget(PROVING_SECONDS[effort])
    if method == "R":
        draws = max(1, min(ceil(case.probability * factorisations(case.device, layer)), MOST_DRAWS[effort]))
        params, budget = {"victory": draws}, Budget(600.0, draws)
    stated = canonical_json(asdict(solver(name).load().Params(**params)))
    settings = SolveSettings(name, case.objective, stated, budget, rules_of(case.device, layer))
    return MappingTask(architecture(case.device), layer, settings)


def tasks(case: LayersOnDevice, effort: Effort) -> dict[Hashable, PaperTask]:
    """All solves of a case, by (network, layer, method)."""
    return {
        (network, layer.name, method): task(case, layer, method, effort)
        for network in case.networks_of(effort)
        for layer, _ in case.layers(network, effort)
        for method in SOLVERS
    }


def solves(effort: Effort, rows: ReadOnlyDict[str, LayerRows]) -> Iterator[PaperSolves]:
    """The solves of all cases that ``rows`` lacks."""
    for case in (*figure_cases().values(), *configurations()):
        if case.key not in rows:
            yield PaperSolves(case.key, tasks(case, effort))


def percent(fraction: float) -> str:
    """A fraction as a cell of a table."""
    return f"{100 * fraction:.2f} %"


@dataclass(frozen=True)
class NetworkSums:
    """Sums over all layers of a network, each layer as often as it occurs, in pJ or cycles.

    ``distinct``: how many different layers there are; ``proven``: for how many of these S proved its optimum.
    ``found`` and ``seconds``: by method, the sum of what it found and of its CPU seconds.
    """

    distinct: int
    proven: int
    least: float
    """The sum of the lower bounds that S proves, which are the optima of proven layers."""
    best: float
    """The sum of the best values that any method found."""
    found: dict[str, float]
    seconds: dict[str, float]

    def line(self, scale: float) -> tuple[str | float, ...]:
        """The cells of a row: proven layers, K's sum divided by ``scale``, and :attr:`over` in per cent."""
        return (
            f"{self.proven} of {self.distinct}",
            self.found["K"] / scale,
            *map(percent, self.over),
        )

    @property
    def over(self) -> tuple[float, ...]:
        """By which fraction K's sum exceeds the best found, then the bound; then the same of R's sum."""
        return tuple(
            self.found[method] / base - 1 for method in ("K", "R") for base in (self.best, self.least)
        )


def compared(rows: LayerRows, case: LayersOnDevice, network: str, effort: Effort) -> NetworkSums | None:
    """The sums of a network; None where some method has no answer for a layer."""
    column = "energy_pj" if case.objective == "energy" else "cycles"
    least = best = 0.0
    found, seconds = dict.fromkeys(SOLVERS, 0.0), dict.fromkeys(SOLVERS, 0.0)
    proven = 0
    layers = case.layers(network, effort)
    for layer, count in layers:
        own = {method: rows.get((network, layer.name, method)) for method in SOLVERS}
        answers = {method: row for method, row in own.items() if row is not None}
        if len(answers) < len(SOLVERS):
            return None
        values = {method: float(row[column]) for method, row in answers.items()}
        optimal = answers["S"]["status"] == "optimal"
        proven += optimal
        least += count * (values["S"] if optimal else float(answers["S"]["bound"] or 0.0))
        best += count * min(values.values())
        for method, row in answers.items():
            found[method] += count * values[method]
            seconds[method] += float(row["cpu_seconds"])
    return NetworkSums(len(layers), proven, least, best, found, seconds)


def figure(number: str, rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Figures 7 to 10: a row a network, and the means of all."""
    case = figure_cases()[number]
    scale, unit = (1e9, "mJ") if case.objective == "energy" else (1e6, "Mcycles")
    own = {network: compared(rows[case.key], case, network, effort) for network in case.networks_of(effort)}
    whole = {network: one for network, one in own.items() if one is not None}
    table: list[tuple[str | float, ...]] = [(network, *one.line(scale)) for network, one in whole.items()]
    if whole:
        columns = zip(*(one.over for one in whole.values()), strict=True)
        means = (percent(fmean(column)) for column in columns)
        table.append((f"mean of {len(whole)}", "-", "-", *means))
    table.append(("the paper, mean of 7", "-", "-", PUBLISHED_MEANS[number], "-", "-", "-"))
    headers = (
        f"network, {unit}",
        "proven layers",
        "K",
        "K over the best found",
        "K at most over the optimum",
        "R over the best found",
        "R at most",
    )
    remarks = [LAYER_BY_LAYER, NO_ENERGIES, *quick_remarks(case, effort)]
    series = {method: tuple(one.found[method] / one.least for one in whole.values()) for method in SOLVERS}
    return FigureTable(headers, tuple(table), tuple(remarks), Bars("over the bound", tuple(whole), series))


def quick_remarks(case: LayersOnDevice, effort: Effort) -> Iterator[str]:
    """What quick effort leaves out; nothing with full effort."""
    if effort == "quick":
        part = "" if case.networks_of(effort) == NETWORKS else f", {len(case.networks_of(effort))} networks"
        yield (
            f"Quick: {PROVING_SECONDS[effort]:g} s on the clock for S, {MOST_DRAWS[effort]:,} draws for R at "
            f"most{part}; --effort full: {PROVING_SECONDS['full']:g} s, {MOST_DRAWS['full']:,}, all networks."
        )


def table_4(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Table IV: what solving the layers of a training step takes."""
    case = figure_cases()["7"]
    own = {network: compared(rows[case.key], case, network, effort) for network in case.networks_of(effort)}
    table: list[tuple[str | float, ...]] = [
        (network, *one.seconds.values(), *PUBLISHED_HOURS[network]) for network, one in own.items() if one
    ]
    headers = ("network", *(f"{m}, CPU s" for m in SOLVERS), *(f"paper's {m}" for m in "BSRMK"))
    remarks = (
        "Ours: CPU seconds of all distinct layers, without segments; S stops at its time on the clock. The "
        "paper's: eight processes on the clock, segments included.",
    )
    return FigureTable(headers, tuple(table), remarks)


def table_5(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Table V: K on other configurations, GoogLeNet."""
    table: list[tuple[str | float, ...]] = []
    for case, sizes, published in zip(configurations(), TABLE_V, PUBLISHED_TABLE_V, strict=True):
        batch, side, pes, registers = sizes
        name = f"batch {batch}, {side} x {side} nodes of {pes} x {pes} PEs, {registers} B"
        if one := compared(rows[case.key], case, "googlenet", effort):
            table.append((name, *one.line(1e9), f"{100 * published:g} %"))
    headers = (
        "GoogLeNet, mJ",
        "proven layers",
        "K",
        "K over the best found",
        "K at most over the optimum",
        "R over the best found",
        "R at most",
        "the paper's K",
    )
    remarks = [LAYER_BY_LAYER]
    if effort == "quick":
        remarks.append("Quick: every tenth distinct layer.")
    return FigureTable(headers, tuple(table), (*remarks, *quick_remarks(figure_cases()["10"], effort)))


CHAINS: dict[str, dict[str, Any]] = {
    **{f"k_S {count}": {"chains": count, "rounds": 1} for count in (1, 2, 4, 8, 16)},
    "default": {},
    "all": {"chains": 0},
}
"""Figure 11: chains ranked once, as in the paper, for several k_S; by default, ranked until no scheme is new;
all schemes that may fit costed in full."""
CHAINED = {"quick": ("mlp", "lstm", "alexnet"), "full": NETWORKS}
CHAIN_SECONDS = 36_000.0
"""Seconds on the clock for all chains of a network, more than any takes."""


def chain_key(variant: str) -> str:
    """The key of the study for a way to rank chains, such as ``chains-ks-4``."""
    return f"chains-{variant.replace(' ', '-').lower().replace('_', '')}"


def studies(effort: Effort) -> list[PaperStudy]:
    """A study of one chip for each way to rank chains of segments."""
    return [
        PaperStudy(
            chain_key(variant),
            {
                "name": f"paper-kapla-{effort}-{chain_key(variant)}",
                "description": f"KAPLA's chains of segments, {variant}, energy at batch 64",
                "networks": [f"kapla-{network}" for network in CHAINED[effort]],
                "chip": "kapla-16x16-released",
                "objectives": ["energy_pj", "cycles"],
                "mapping": {"solver": "kapla"},
                "schedule": {
                    "solver": "kapla_schedule",
                    "objective": "energy",
                    "batch": 64,
                    "params": params,
                    "wall_seconds": CHAIN_SECONDS,
                    "sibling_trees": False,
                },
            },
        )
        for variant, params in CHAINS.items()
    ]


def chain(rows: ReadOnlyDict[str, LayerRows], variant: str, network: str) -> ReadOnlyDict[str, Any] | None:
    """The schedule of a network by a way to rank chains; None without one."""
    found = rows[chain_key(variant)]
    return next((row for (name, _, _), row in found.items() if name == f"kapla-{network}"), None)


def figure_11(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Figure 11: energy by k_S over that of all chains, and CPU seconds."""
    table: list[tuple[str | float, ...]] = []
    for network in CHAINED[effort]:
        best = chain(rows, "all", network)
        for variant in CHAINS:
            if best and (own := chain(rows, variant, network)):
                over = f"{100 * (own['energy_pj'] / best['energy_pj'] - 1):.2f} %"
                seconds = own["cpu_seconds"]
                table.append((f"{network}, {variant}", own["energy_pj"] / 1e9, over, own["gap"], seconds))
    headers = ("network, k_S", "mJ", "over all chains", "gap to the bound", "CPU s of ranking and costing")
    remarks = (
        "The paper's curves have no numbers in the text that this was made from; it says that energy hardly "
        "rises as k_S falls. Seconds are of all calls of the scheduler, without those that map layers.",
    )
    return FigureTable(headers, tuple(table), remarks)


def table_6(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Table VI: how many schemes are left out because they do not fit, are dominated, or rank too low."""
    table: list[tuple[str | float, ...]] = []
    for network in CHAINED[effort]:
        if own := chain(rows, "default", network):
            counts = counts_of(own["note"])
            schemes, fitting, left = (counts[key] for key in ("schemes", "fitting", "undominated"))
            costed = counts["costed"]
            pruned = f"{100 * (1 - left / schemes):.1f} %"
            before, after = PUBLISHED_PRUNING[network]
            published = f"{before:g} to {after:g}, {100 * (1 - after / before):.1f} %"
            table.append(
                (
                    network,
                    *map(float, (schemes, schemes - fitting, fitting - left, costed)),
                    pruned,
                    published,
                )
            )
    headers = (
        "network",
        "schemes",
        "do not fit",
        "dominated",
        "costed in full",
        "pruned",
        "the paper, one segment",
    )
    remarks = (
        "Ours: all segments with their sub-batches together. The paper's: one representative segment of each "
        "network, which it does not name. More may be costed in full than are left, as single layers "
        "with the whole batch always are.",
    )
    return FigureTable(headers, tuple(table), remarks)


def counts_of(note: str) -> dict[str, int]:
    """The counts in a schedule's note, which has them as ``name=number``."""
    pairs = (word.rstrip(",:;").split("=") for word in note.split() if word.count("=") == 1)
    return {name: int(value) for name, value in pairs if value.isdigit()}


def networks(effort: Effort) -> tuple[str, ...]:
    """None: no study maps layers by themselves."""
    return ()


def layer_figure(number: str, title: str) -> PaperFigure:
    return PaperFigure(number, title, (KEYS[number],), lambda rows, effort: figure(number, rows, effort))


def figures() -> Sequence[PaperFigure]:
    return (
        layer_figure("7", "Energy of training, batch 64, 16 x 16 nodes"),
        layer_figure("8", "Cycles of training, batch 64, 16 x 16 nodes"),
        layer_figure("9", "Energy of inference, batch 64, 16 x 16 nodes"),
        layer_figure("10", "Energy of inference, batch 1, edge device"),
        PaperFigure("table-4", "Time to the answer", (KEYS["7"],), table_4),
        PaperFigure("table-5", "Other configurations", TABLE_V_KEYS, table_5),
        PaperFigure("11", "How many chains are kept", tuple(map(chain_key, CHAINS)), figure_11),
        PaperFigure("table-6", "What pruning leaves", (chain_key("default"),), table_6),
    )


KAPLA = Paper(
    "kapla",
    "KAPLA: Pragmatic Representation and Fast Solving of Scalable NN Accelerator Dataflow (Li and Gao, 2023)",
    studies,
    networks,
    tuple(figures()),
    lambda effort, rows: list(solves(effort, rows)),
)
