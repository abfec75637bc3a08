"""Thistle's evaluation (Vaidya et al., CGO 2022, section V): energy and delay of ResNet-18 and Yolo-9000.

Three things are done with each layer. It is mapped on Eyeriss. It gets an architecture of its own in
Eyeriss's area. And it is mapped on the architecture of the *dominant* layer, the one of both networks that
takes most. The paper's way ("as printed") and ours stand side by side. One architecture for all layers at
once is beyond the paper.

Two more tables show how far the paper's claims about delay depend on three things: the bandwidths, which it
does not state; whether PEs are a mesh or any logical grid (Eq. 3); and the mapper with which it compares.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.hardware.architecture import Architecture
from costmodel.workload.network import Layer, distinct_layers
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.codesign.family import ArchitectureFamily
from solvers.codesign.problem import CodesignProblem, WeightedLayer
from solvers.mapping.problem import Objective
from sweep.papers.paper import (
    Bars,
    Effort,
    FigureTable,
    LayerRows,
    Paper,
    PaperFigure,
    PaperSolves,
    PaperStudy,
    geomean,
)
from sweep.study.identity import canonical_json
from sweep.tasks.codesign import CodesignTask
from sweep.tasks.kinds import PaperTask
from sweep.tasks.mapping import MappingTask, SolveSettings


@dataclass(frozen=True)
class PaperMapper:
    """A mapping solver with its parameters, and the most mappings that it may look at; None: no limit."""

    solver: str
    params: dict[str, Any]
    most: int | None = None


NETWORKS = ("thistle_resnet18", "yolo9000")
EVERY = {"quick": 4, "full": 1}
"""Every fourth layer of each network with quick effort, every layer with full."""

WALL_SECONDS = 1800.0
"""The most seconds on the clock for a solve: far more than any takes, so that no number depends on how busy
the machine is."""
LIMIT = 100_000
"""Mappings after which each thread of Timeloop's mapper gives up (section IV)."""

PRINTED, OURS = "Thistle, as printed", "Thistle"
HYBRID, HYBRID_SHORT, RANDOM = "Hybrid, 100,000", "Hybrid, 500", "random, 100,000"
MAPPERS = {
    PRINTED: PaperMapper("thistle", {"preset": "paper"}),
    OURS: PaperMapper("thistle", {}),
    HYBRID: PaperMapper("hybrid", {"threads": 8, "victory": LIMIT}),
    HYBRID_SHORT: PaperMapper("hybrid", {}),
    RANDOM: PaperMapper("random_search", {"victory": LIMIT}, LIMIT),
}
"""What maps layers on Eyeriss, by the name of a table's column. Hybrid is the default of Timeloop's mapper;
500 is the limit that CoSA's evaluation names."""

PRESETS = {PRINTED: {"preset": "paper"}, OURS: {}}
"""Parameters of the co-design solver: the paper's way and ours."""
JUDGES = {PRINTED: PaperMapper("thistle", {"preset": "paper"}), OURS: PaperMapper("auto", {})}
"""By preset, the mapping solver that maps all layers on the dominant layer's architecture. With the paper's
preset it is the paper's own; with ours any mapper that finds better mappings may be used."""

LIBRARY, LINE, SAMPLE, UNLIMITED = "4 and 16", "4 and 16, 168 in a line", "8, 80 and 4", "unlimited"
BANDWIDTHS: dict[str, tuple[tuple[str, Any], ...]] = {
    LIBRARY: (),
    LINE: (("SRAM.fanout", [168, 1]),),
    SAMPLE: tuple(
        (f"{level}.{side}_bandwidth", f"{words} words/cycle")
        for level, words in (("DRAM", 8), ("SRAM", 80), ("RegFile", 4))
        for side in ("read", "write")
    ),
    UNLIMITED: tuple(
        (f"{level}.{side}_bandwidth", None) for level in ("DRAM", "SRAM") for side in ("read", "write")
    ),
}
"""By name, overrides of the library's Eyeriss. The numbers of a name are words a cycle of DRAM and SRAM (and
of registers): those of the library, those of the sample in Figure 3(a), no limit.

In a line, PEs can be split in any way that multiplies to at most 168, as in Eq. 3; the library has 14 x
12."""

OBJECTIVES: tuple[Objective, ...] = ("energy", "cycles")
UNITS = {"energy": "pJ/MAC", "cycles": "MACs a cycle"}
DELAY_BANDWIDTHS = (
    "The paper does not state the bandwidths of its experiments; these are the library's Eyeriss's, 4 words "
    "a cycle from DRAM and 16 from SRAM. 7-sensitivity and 8-sensitivity have others."
)
CHARTS = "The figure's own points are not in the text that this was made from."
PART = "Quick: every fourth layer of each network; --effort full has all."


@dataclass(frozen=True)
class PaperLayer:
    """A distinct layer of one of the networks, and how often it occurs there."""

    network: str
    layer: Layer
    occurrences: int

    @property
    def label(self) -> tuple[str, str]:
        return self.network, self.layer.name


@cache
def layers(effort: Effort) -> tuple[PaperLayer, ...]:
    """The layers of both networks that are mapped, equal layers of a network once."""
    return tuple(
        PaperLayer(network, layer, count)
        for network in NETWORKS
        for layer, count in distinct_layers(load_network(network).layers)[:: EVERY[effort]]
    )


def family(bandwidths: str) -> ArchitectureFamily:
    """Eyeriss with these bandwidths, and the architectures that its sizes and fan-outs can be changed to."""
    return ArchitectureFamily("eyeriss", BANDWIDTHS[bandwidths])


def stated(name: str, params: dict[str, Any]) -> str:
    """All parameters of a solver as a task states them: these, and defaults for the others."""
    return canonical_json(asdict(solver(name).load().Params(**params)))


def mapping_task(
    architecture: Architecture, layer: Layer, objective: Objective, mapper: PaperMapper
) -> MappingTask:
    """One layer on one architecture by ``mapper``."""
    params, budget = stated(mapper.solver, mapper.params), Budget(WALL_SECONDS, iterations=mapper.most)
    return MappingTask(architecture, layer, SolveSettings(mapper.solver, objective, params, budget))


def codesign_task(
    bandwidths: str, some: Sequence[PaperLayer], objective: Objective, preset: str
) -> CodesignTask:
    """The search for the architecture, in Eyeriss's area, that is best for these layers together."""
    weighted = tuple(WeightedLayer(one.layer, one.occurrences) for one in some)
    # ``of`` gives the area and what may be changed; the layers of the problem are set below
    first = CodesignProblem.of(family(bandwidths), [some[0].layer], objective=objective)
    # a single layer is one run, whatever its occurrences: its own architecture does not depend on them
    chosen = (WeightedLayer(some[0].layer),) if len(some) == 1 else weighted
    problem = CodesignProblem(
        first.family, chosen, first.area_um2, objective, first.free_sizes, first.free_fanouts
    )
    params = stated("thistle_codesign", PRESETS[preset])
    return CodesignTask(problem, "thistle_codesign", params, Budget(WALL_SECONDS))


def eyeriss_tasks(effort: Effort, objective: Objective, bandwidths: str) -> dict[Hashable, PaperTask]:
    """The mappings on Eyeriss, by (network, layer, mapper)."""
    base = family(bandwidths).base
    return {
        (*one.label, column): mapping_task(base, one.layer, objective, mapper)
        for one in layers(effort)
        for column, mapper in MAPPERS.items()
    }


def own_tasks(effort: Effort, objective: Objective, bandwidths: str) -> dict[Hashable, PaperTask]:
    """The searches for each layer's own architecture, by (network, layer, preset)."""
    return {
        (*one.label, preset): codesign_task(bandwidths, [one], objective, preset)
        for one in layers(effort)
        for preset in PRESETS
    }


def joint_tasks(effort: Effort, objective: Objective) -> dict[Hashable, PaperTask]:
    """The architecture for all layers of both networks at once."""
    return {"all": codesign_task(LIBRARY, layers(effort), objective, OURS)}


def dominant_of(rows: LayerRows, effort: Effort, objective: Objective, preset: str) -> PaperLayer:
    """The layer of both networks whose occurrences together take most (section V-A).

    Each layer counts on an architecture of its own.
    """
    column = "energy_pj" if objective == "energy" else "cycles"
    answered = [one for one in layers(effort) if (*one.label, preset) in rows]
    return max(answered, key=lambda one: one.occurrences * rows[*one.label, preset][column])


def architecture_of(row: ReadOnlyDict[str, Any]) -> Architecture:
    """The architecture that a co-design answer found."""
    return load_architecture("eyeriss", row["overrides"])


def dominant_tasks(effort: Effort, objective: Objective, own: LayerRows) -> dict[Hashable, PaperTask]:
    """The mappings on the dominant layer's architecture, by (network, layer, preset)."""
    found: dict[Hashable, PaperTask] = {}
    for preset in PRESETS:
        dominant = dominant_of(own, effort, objective, preset)
        architecture = architecture_of(own[*dominant.label, preset])
        for one in layers(effort):
            label = (*one.label, preset)
            found[label] = mapping_task(architecture, one.layer, objective, JUDGES[preset])
    return found


def key(what: str, objective: str, bandwidths: str = LIBRARY) -> str:
    """The key of solves: ``what`` is eyeriss, own, dominant or joint, as the functions of tasks are named."""
    short = {LIBRARY: "library", LINE: "line", SAMPLE: "sample", UNLIMITED: "unlimited"}[bandwidths]
    return f"{what}-{objective}-{short}"


def solves(effort: Effort, rows: ReadOnlyDict[str, LayerRows]) -> Iterator[PaperSolves]:
    """All solves that ``rows`` lacks. Those on the dominant layer's architecture need the layers' own first.

    Bandwidths matter for cycles only.
    """
    for objective in OBJECTIVES:
        for bandwidths in BANDWIDTHS if objective == "cycles" else (LIBRARY,):
            for what, make in (("eyeriss", eyeriss_tasks), ("own", own_tasks)):
                if key(what, objective, bandwidths) not in rows:
                    made = make(effort, objective, bandwidths)
                    yield PaperSolves(key(what, objective, bandwidths), made)
        if key("joint", objective) not in rows:
            yield PaperSolves(key("joint", objective), joint_tasks(effort, objective))
        if (own := rows.get(key("own", objective))) and key("dominant", objective) not in rows:
            yield PaperSolves(key("dominant", objective), dominant_tasks(effort, objective, own))


Values = dict[str, dict[tuple[str, str], float]]
"""By column and layer: pJ a MAC, or MACs a cycle."""


def measured(row: ReadOnlyDict[str, Any], macs: int, objective: Objective) -> float:
    """The quantity of a table: pJ a MAC, or MACs a cycle."""
    return float(row["energy_pj"] / macs if objective == "energy" else macs / row["cycles"])


def column(rows: LayerRows, effort: Effort, objective: Objective, kind: str) -> dict[tuple[str, str], float]:
    """The layers' values of one mapper or preset; layers without an answer are missing."""
    return {
        one.label: measured(rows[*one.label, kind], one.layer.macs, objective)
        for one in layers(effort)
        if (*one.label, kind) in rows
    }


def joint_column(rows: LayerRows, effort: Effort, objective: Objective) -> dict[tuple[str, str], float]:
    """The layers' values on the architecture for all of them; empty if none was found."""
    if "all" not in rows:
        return {}
    found = rows["all"]["layers"]
    return {
        one.label: measured(row, one.layer.macs, objective)
        for one, row in zip(layers(effort), found, strict=True)
    }


def over_all(values: dict[tuple[str, str], float], some: Sequence[PaperLayer], objective: Objective) -> float:
    """The mean over all occurrences of layers: total pJ over total MACs, or total MACs over total cycles."""
    macs = [one.occurrences * one.layer.macs for one in some]
    own = [values[one.label] for one in some]
    if objective == "energy":
        return sum(m * v for m, v in zip(macs, own, strict=True)) / sum(macs)
    return sum(macs) / sum(m / v for m, v in zip(macs, own, strict=True))


def layer_table(
    values: Values, effort: Effort, objective: Objective, remarks: Sequence[str], ratio: tuple[str, str]
) -> FigureTable:
    """A row for each layer, and one for all runs of each network.

    ``ratio``: two columns, a better and a worse one. The last column says how many times better the one is.
    """
    better, worse = ratio
    up = f"{worse} / {better}" if objective == "energy" else f"{better} / {worse}"
    table: list[tuple[str | float, ...]] = []
    for network in NETWORKS:
        some = [one for one in layers(effort) if one.network == network]
        lines = [(one.layer.name, [{k: v.get(one.label)} for k, v in values.items()]) for one in some]
        for name, cells in lines:
            found = {k: v for cell in cells for k, v in cell.items()}
            table.append((f"{network}/{name}", *_line(found, better, worse, objective)))
        whole = [one for one in some if all(one.label in own for own in values.values())]
        if whole:
            means: dict[str, float | None] = {k: over_all(v, whole, objective) for k, v in values.items()}
            table.append((f"{network}, all runs", *_line(means, better, worse, objective)))
    labels = tuple(f"{one.network}/{one.layer.name}" for one in layers(effort))
    series = {name: tuple(own.get(one.label, 0.0) for one in layers(effort)) for name, own in values.items()}
    said = [*remarks, CHARTS] if effort == "full" else [*remarks, CHARTS, PART]
    bars = Bars(UNITS[objective], labels, series)
    headers = (f"layer, {UNITS[objective]}", *values, up)
    return FigureTable(headers, tuple(table), tuple(said), bars)


def _line(
    found: dict[str, float | None], better: str, worse: str, objective: Objective
) -> tuple[str | float, ...]:
    """The cells of a row, with how many times better the column ``better`` is than ``worse``."""
    ours, theirs = found.get(better), found.get(worse)
    up: str | float = "-"
    if ours and theirs:
        up = theirs / ours if objective == "energy" else ours / theirs
    return (*("no answer" if value is None else value for value in found.values()), up)


def on_eyeriss(rows: ReadOnlyDict[str, LayerRows], effort: Effort, objective: Objective) -> Values:
    """The values on Eyeriss, by mapper."""
    own = rows[key("eyeriss", objective)]
    return {name: column(own, effort, objective, name) for name in MAPPERS}


def codesigned(
    rows: ReadOnlyDict[str, LayerRows], effort: Effort, objective: Objective, one_chip: bool
) -> Values:
    """Eyeriss, each layer's own architecture and, with ``one_chip``, one architecture for all."""
    eyeriss, own = rows[key("eyeriss", objective)], rows[key("own", objective)]
    values = {f"Eyeriss, {name}": column(eyeriss, effort, objective, name) for name in PRESETS}
    values |= {f"own chip, {name}": column(own, effort, objective, name) for name in PRESETS}
    if one_chip:
        single = rows[key("dominant", objective)]
        values |= {f"dominant's chip, {name}": column(single, effort, objective, name) for name in PRESETS}
        values["chip for all"] = joint_column(rows[key("joint", objective)], effort, objective)
    return values


def chips(rows: ReadOnlyDict[str, LayerRows], effort: Effort, objective: Objective) -> Iterator[str]:
    """The architectures of the dominant layers, and the one for all layers."""
    own = rows[key("own", objective)]
    for preset in PRESETS:
        dominant = dominant_of(own, effort, objective, preset)
        row = own[*dominant.label, preset]
        yield f"Dominant, {preset}: {dominant.network}/{dominant.layer.name}, {_described(row)}."
    if "all" in (joint := rows[key("joint", objective)]):
        row = joint["all"]
        gap = f"within {row['gap']:.0%} of the proven bound over all architectures" if row["gap"] else ""
        yield f"For all layers at once: {_described(row)}; {gap}."


def _described(row: ReadOnlyDict[str, Any]) -> str:
    """The architecture of a co-design answer in a few words."""
    sizes = ", ".join(f"{name} {value}" for name, value in row["overrides"].items() if "size" in name)
    used = row["area_um2"] / family(LIBRARY).base.area_um2
    return f"{row['mac_units']} PEs, {sizes}, {used:.0%} of Eyeriss's area"


def figure_4(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    remarks = (
        "The paper: between 20 and 30 pJ/MAC, Thistle slightly better than Timeloop's mapper (section V-A).",
    )
    return layer_table(on_eyeriss(rows, effort, "energy"), effort, "energy", remarks, (OURS, HYBRID))


def figure_5(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    remarks = ("The paper: around 5 pJ/MAC for most layers, below 10 for all (section V-A).",)
    values = codesigned(rows, effort, "energy", one_chip=False)
    ratio = (f"own chip, {PRINTED}", f"Eyeriss, {PRINTED}")
    return layer_table(values, effort, "energy", remarks, ratio)


def figure_6(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    remarks = (
        "The paper: very few layers lose much on the dominant layer's architecture (section V-A).",
        *chips(rows, effort, "energy"),
    )
    values = codesigned(rows, effort, "energy", one_chip=True)
    ratio = (f"dominant's chip, {PRINTED}", f"Eyeriss, {PRINTED}")
    return layer_table(values, effort, "energy", remarks, ratio)


def figure_7(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    remarks = (
        "The paper: Thistle's throughput is above that of Timeloop's mapper, more clearly than its energy "
        "(section V-B). 168 MACs a cycle are the most.",
        DELAY_BANDWIDTHS,
    )
    return layer_table(on_eyeriss(rows, effort, "cycles"), effort, "cycles", remarks, (OURS, HYBRID))


def most_units(bandwidths: str) -> float:
    """An upper bound on MAC units: those in Eyeriss's area with one register each and no SRAM."""
    base = family(bandwidths).base
    registers = family(bandwidths).law("RegFile")
    each = base.compute.area_um2 + registers.fixed_um2 + registers.um2_per_word
    return base.area_um2 / each


def figure_8(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    most = most_units(LIBRARY)
    remarks = (
        "Not reproduced: gains of orders of magnitude (section V-B). By the paper's own Table III no "
        f"architecture in Eyeriss's area has more than {most:.0f} PEs, {most / 168:.1f} times Eyeriss's, so "
        "only a layer that Eyeriss runs far below its 168 MACs a cycle can gain more than that.",
        DELAY_BANDWIDTHS,
        *chips(rows, effort, "cycles"),
    )
    values = codesigned(rows, effort, "cycles", one_chip=True)
    ratio = (f"own chip, {PRINTED}", f"Eyeriss, {PRINTED}")
    return layer_table(values, effort, "cycles", remarks, ratio)


def sensitivity_7(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """How far Thistle is ahead of each mapper on Eyeriss, by bandwidths."""
    table: list[tuple[str | float, ...]] = []
    for bandwidths in BANDWIDTHS:
        own = rows[key("eyeriss", "cycles", bandwidths)]
        for ours in PRESETS:
            best = column(own, effort, "cycles", ours)
            for mapper in (HYBRID, HYBRID_SHORT, RANDOM):
                theirs = column(own, effort, "cycles", mapper)
                ratios = [best[label] / theirs[label] for label in best if label in theirs]
                if ratios:
                    ahead = sum(ratio > 1 for ratio in ratios)
                    line = (min(ratios), geomean(ratios), max(ratios), f"{ahead} of {len(ratios)}")
                    table.append((bandwidths, ours, mapper, *line))
    headers = ("words a cycle", "Thistle", "mapper", "least", "geometric mean", "most", "ahead on")
    remarks = (
        "Times as many MACs a cycle. Timeloop's mapper ends a thread after so many mappings without a better "
        "one: 100,000 in the paper, 500 in CoSA's. Its default algorithm is Hybrid (solver hybrid), which "
        "takes the loop orders of one factorisation after the other; random search draws all anew.",
    )
    return FigureTable(headers, tuple(table), remarks if effort == "full" else (*remarks, PART))


def sensitivity_8(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """What co-design gains over Eyeriss, by bandwidths and by the mapper that Eyeriss is given."""
    table: list[tuple[str | float, ...]] = []
    for bandwidths in BANDWIDTHS:
        eyeriss = rows[key("eyeriss", "cycles", bandwidths)]
        own = rows[key("own", "cycles", bandwidths)]
        for preset in PRESETS:
            best = column(own, effort, "cycles", preset)
            for mapper in (preset, HYBRID, HYBRID_SHORT):
                theirs = column(eyeriss, effort, "cycles", mapper)
                ratios = [best[label] / theirs[label] for label in best if label in theirs]
                if ratios:
                    line = (min(ratios), geomean(ratios), max(ratios))
                    table.append((bandwidths, preset, mapper, *line, most_units(bandwidths) / 168))
    headers = (
        "words a cycle",
        "own chip by",
        "Eyeriss by",
        "least",
        "geometric mean",
        "most",
        "PEs in the area / 168",
    )
    remarks = (
        "Times as many MACs a cycle as Eyeriss. Orders of magnitude need a baseline far below 168 MACs a "
        "cycle: with no limit of bandwidth at all, PEs in the area bound the gain over a baseline that keeps "
        "its own busy.",
        "A least below 1: of one layer none of the roundings as printed (whole divisors near the real "
        "optimum) fits the architecture, and its mapping is serial, on one PE.",
    )
    return FigureTable(headers, tuple(table), remarks if effort == "full" else (*remarks, PART))


def networks(effort: Effort) -> tuple[str, ...]:
    """None: no study maps layers."""
    return ()


def studies(effort: Effort) -> Sequence[PaperStudy]:
    return ()


def needed(objective: str, *what: str) -> tuple[str, ...]:
    return tuple(key(one, objective) for one in what)


EVERYTHING = ("eyeriss", "own", "dominant", "joint")
EYERISS_BANDWIDTHS, OWN_BANDWIDTHS = (
    tuple(key(what, "cycles", bandwidths) for bandwidths in BANDWIDTHS) for what in ("eyeriss", "own")
)
FIGURES = (
    PaperFigure("4", "Energy on Eyeriss", needed("energy", "eyeriss"), figure_4),
    PaperFigure("5", "Energy, an architecture for each layer", needed("energy", "eyeriss", "own"), figure_5),
    PaperFigure("6", "Energy, one architecture for all layers", needed("energy", *EVERYTHING), figure_6),
    PaperFigure("7", "Throughput on Eyeriss", needed("cycles", "eyeriss"), figure_7),
    PaperFigure("7-sensitivity", "What Figure 7 depends on", EYERISS_BANDWIDTHS, sensitivity_7),
    PaperFigure("8", "Throughput of co-designed architectures", needed("cycles", *EVERYTHING), figure_8),
    PaperFigure(
        "8-sensitivity", "What Figure 8 depends on", EYERISS_BANDWIDTHS + OWN_BANDWIDTHS, sensitivity_8
    ),
)

THISTLE = Paper(
    "thistle",
    "Thistle: Comprehensive Accelerator-Dataflow Co-design Optimization (Vaidya et al., CGO 2022)",
    studies,
    networks,
    FIGURES,
    lambda effort, rows: list(solves(effort, rows)),
)
