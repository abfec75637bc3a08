"""SET's evaluation (Cai et al., ISCA 2023, sections 5.3 and 6.1) on two platforms, edge and cloud.

The schedulers are SET, the two older patterns, LP (layer-pipeline) and LS (layer-sequential), and in Figures
9 and 10 Tangram's segments. The studies are the library's ``set-fig8-edge``, ``set-fig8-cloud``,
``set-fig10-edge`` and ``set-fig10-cloud``. Quick effort runs parts of them with fewer rounds and seeds. Every
schedule is judged by the chip model and has its lower bound. In place of Figure 5, the programs of the best
schedules are replayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from contextlib import suppress
from dataclasses import dataclass
from math import log10
from random import Random
from statistics import fmean, median
from typing import Any

from costmodel.formats.chips import load_chip
from costmodel.formats.json.programs import unpacked_program
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.formats.yaml.safe_yaml import load_yaml
from costmodel.replay.replay import replay
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.catalogue import solver as solver_entry
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.set.size import tree_at, tree_count
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper
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
from sweep.study.study import study_path

LP, LS, SET, TANGRAM = "layer_pipeline", "layer_sequential", "set", "tangram"
SHOWN = {LP: "LP", LS: "LS", SET: "SET"}
"""The schedulers of Figures 5 and 8, and their names in the columns."""
OVER_TANGRAM = {SET: "SET", LP: "LP", LS: "LS"}
"""The schedulers that Figure 9 sets against Tangram, in the order of its columns."""

PATTERNS = ("set-fig8-edge", "set-fig8-cloud")
"""The studies of Figures 5 and 8: SET against the two patterns."""
SPREADS = ("set-fig10-edge", "set-fig10-cloud")
"""The studies of Figures 9 and 10: several seeds of SET, the patterns, and Tangram."""

PUBLISHED_SPEED_UP = {LP: 1.90, LS: 1.68}
PUBLISHED_SAVING = {LP: 0.217, LS: 0.215}
"""By pattern: how many times as fast SET is, and the fraction of the pattern's energy that SET saves (section
5.3.1)."""
PUBLISHED_GAIN = {"speed-up": 1.78, "saving": 0.132, "E D": 1 - 0.512}
"""SET against Tangram: how many times as fast, the fraction of energy saved, E D over Tangram's (5.2.2).

They are averages over platforms, batches and networks.
"""
PUBLISHED_OVER_TANGRAM = {"best": 1 - 0.539, "mean": 1 - 0.454, "worst": 1 - 0.352}
"""E D over Tangram's of ten seeds, averaged over ten settings (section 5.2.3)."""


@dataclass(frozen=True)
class StudyPart:
    """The part of a library study that quick effort runs: networks, batches, rounds a layer, seeds."""

    networks: tuple[str, ...]
    batches: tuple[int, ...]
    beta: float
    seeds: int

    @property
    def described(self) -> str:
        parts = f"{len(self.networks)} networks, batch {', '.join(map(str, self.batches))}"
        return f"{self.beta:g} rounds a layer, {self.seeds} seeds, {parts}"


QUICK: dict[str, StudyPart] = {
    "set-fig8-edge": StudyPart(("set-resnet50", "set-googlenet", "set-inception-resnet"), (8,), 2, 2),
    "set-fig8-cloud": StudyPart(("set-resnet50", "set-googlenet"), (1,), 2, 2),
    "set-fig10-edge": StudyPart(("set-resnet50", "set-googlenet"), (8,), 3, 5),
    "set-fig10-cloud": StudyPart(("set-resnet50", "set-googlenet"), (8,), 3, 2),
}
"""By study, the part of it that quick effort runs."""

DRAWN = {"quick": 200, "full": 10_000}
"""Trees that Figure 11 draws of each network."""
DRAWN_BATCH = 8
"""Their samples."""
DRAWN_NETWORKS = ("set-resnet50", "set-transformer")


def document(name: str, effort: Effort) -> dict[str, Any]:
    """The content of a library study; with quick effort of a part of it, under a name of its own."""
    stated: dict[str, Any] = load_yaml(study_path(name))
    if effort == "full":
        return stated
    part, schedule = QUICK[name], stated["schedule"]
    networks = [{"network": one, "batch": batch} for one in part.networks for batch in part.batches]
    fewer = {"seeds": part.seeds}
    # rivals that draw nothing have neither seeds nor rounds
    rivals = [
        rival | fewer | {"params": rival["params"] | {"beta": part.beta}}
        if solver_entry(rival["solver"]).draws
        else rival
        for rival in schedule["rivals"]
    ]
    params = schedule["params"] | {"beta": part.beta}
    schedule = schedule | fewer | {"params": params, "rivals": rivals}
    return stated | {"name": f"paper-{name}-quick", "networks": networks, "schedule": schedule}


def known(names: Sequence[str], effort: Effort) -> list[str]:
    """Those of the studies that the effort runs."""
    return [name for name in names if effort == "full" or name in QUICK]


def studies(effort: Effort) -> list[PaperStudy]:
    """The studies of all figures, by their names in the library."""
    return [PaperStudy(name, document(name, effort)) for name in known((*PATTERNS, *SPREADS), effort)]


Seeds = list[ReadOnlyDict[str, Any]]
"""The rows of all seeds of one solver in one case."""


def cases(rows: LayerRows, names: Sequence[str] = tuple(SHOWN)) -> Iterator[tuple[str, dict[str, Seeds]]]:
    """The rows of each of the solvers ``names``, by network and batch as the study shows them.

    Cases in which one of them has no answer are left out.
    """
    for network in dict.fromkeys(network for network, _, _ in rows):
        found: dict[str, Seeds] = {
            one: [row for (of, name, _), row in rows.items() if (of, name) == (network, one)] for one in names
        }
        if all(found.values()):
            yield network, found


def median_of(seeds: Seeds, column: str) -> float:
    """The median of a column over the seeds."""
    return float(median(row[column] for row in seeds))


def platform_of(study: str) -> str:
    """Edge or cloud, with which the names of studies end."""
    return study.rpartition("-")[2]


def patterns(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Figure 8: medians over the seeds of energy and cycles of LP, LS and SET, and what SET gains."""
    table: list[tuple[str | float, ...]] = []
    gains: dict[str, list[tuple[float, ...]]] = {}
    for study in known(PATTERNS, effort):
        for case, found in cases(rows[study]):
            energy = {one: median_of(seeds, "energy_pj") for one, seeds in found.items()}
            cycles = {one: median_of(seeds, "cycles") for one, seeds in found.items()}
            gain = (
                *(cycles[one] / cycles[SET] for one in (LP, LS)),
                *(1 - energy[SET] / energy[one] for one in (LP, LS)),
            )
            gains.setdefault(platform_of(study), []).append(gain)
            absolute = (value for one in SHOWN for value in (energy[one] / 1e9, cycles[one] / 1e6))
            gap = min(row["gap"] for row in found[SET])
            table.append((f"{platform_of(study)} {case}", *absolute, *gain, gap))
    # of a row: the case, energy and cycles of the three schedulers, then from 7 on the speed-ups
    bars = Bars(
        "cycles over SET's",
        tuple(str(row[0]) for row in table),
        {SHOWN[one]: tuple(float(row[7 + at]) for row in table) for at, one in enumerate((LP, LS))},
    )
    every = [gain for some in gains.values() for gain in some]
    for platform, some in (*gains.items(), ("all", every)):
        means = (fmean(column) for column in zip(*some, strict=True))
        table.append((f"{platform}, mean of {len(some)}", *["-"] * 6, *means, "-"))
    published = (*PUBLISHED_SPEED_UP.values(), *PUBLISHED_SAVING.values())
    table.append(("the paper, mean of 70", *["-"] * 6, *published, "-"))
    headers = (
        "case",
        *(f"{name} {unit}" for name in SHOWN.values() for unit in ("mJ", "Mcycles")),
        "times as fast as LP",
        "as LS",
        "energy saved of LP",
        "of LS",
        "best seed's gap",
    )
    return FigureTable(headers, tuple(table), tuple(pattern_remarks(effort)), bars)


def pattern_remarks(effort: Effort) -> Iterator[str]:
    """What a reader of Figure 8 has to know."""
    yield (
        "Medians over the seeds. The gap is that of the objective, E^2 D on edge and E D^2 on cloud, to a "
        "bound that is proven for all trees: the schedule may be the best there is, or that much worse."
    )
    yield (
        "Not comparable bar by bar: the released evaluator loads weights once a run; here each sub-batch of "
        "the root loads them again, as section 3.3.1 says."
    )
    if effort == "quick":
        for name in known(PATTERNS, effort):
            yield f"Quick, {platform_of(name)}: {QUICK[name].described}."
        yield "--effort full has the paper's 100 rounds a layer, five seeds, batches 1 to 64, all networks."


def over_tangram(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Figure 9: SET, LP and LS against Tangram's segments; medians over the seeds."""
    table: list[tuple[str | float, ...]] = []
    gains: dict[str, list[tuple[float, ...]]] = {}
    for study in known(SPREADS, effort):
        for case, found in cases(rows[study], (*OVER_TANGRAM, TANGRAM)):
            energy, cycles, product = (
                {name: median_of(seeds, column) for name, seeds in found.items()}
                for column in ("energy_pj", "cycles", "objective")
            )
            gain = tuple(
                value
                for one in OVER_TANGRAM
                for value in (
                    cycles[TANGRAM] / cycles[one],
                    1 - energy[one] / energy[TANGRAM],
                    product[one] / product[TANGRAM],
                )
            )
            gains.setdefault(platform_of(study), []).append(gain)
            absolute = energy[TANGRAM] / 1e9, cycles[TANGRAM] / 1e6
            table.append((f"{platform_of(study)} {case}", *absolute, *gain))
    # of a row: the case, energy and cycles of Tangram, then three gains a scheduler, of which E D is the last
    bars = Bars(
        "E D over Tangram's",
        tuple(str(row[0]) for row in table),
        {
            name: tuple(float(row[5 + 3 * at]) for row in table)
            for at, name in enumerate(OVER_TANGRAM.values())
        },
    )
    every = [gain for some in gains.values() for gain in some]
    for platform, some in (*gains.items(), ("all", every)):
        means = (fmean(column) for column in zip(*some, strict=True))
        table.append((f"{platform}, mean of {len(some)}", "-", "-", *means))
    table.append(("the paper, mean", "-", "-", *PUBLISHED_GAIN.values(), *["-"] * 6))
    headers = (
        "case",
        "Tangram mJ",
        "Tangram Mcycles",
        *(
            f"{name}: {what}"
            for name in OVER_TANGRAM.values()
            for what in ("times as fast", "energy saved", "E D over Tangram's")
        ),
    )
    remarks = [
        "Medians over the seeds; Tangram's segments draw nothing. Tangram here is the best chain of its "
        "space, as far as the chip model can state that: alternate loop orders go by samples, not by "
        "channels. The released program counts in its own way, and keeps one chain a layer unless told "
        "otherwise.",
        "Tiles are NVDLA-style; the paper compares with Tangram on Eyeriss-style tiles.",
    ]
    return FigureTable(headers, tuple(table), (*remarks, *spread_remarks(effort)), bars)


def spreads(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Figure 10: E D of all seeds over Tangram's, over the better pattern's, and over their mean."""
    table: list[tuple[str | float, ...]] = []
    for study in known(SPREADS, effort):
        for case, found in cases(rows[study], (*SHOWN, TANGRAM)):
            values = [row["objective"] for row in found[SET]]
            mean = fmean(values)
            tangram = median_of(found[TANGRAM], "objective")
            patterns = min(median_of(found[one], "objective") for one in (LP, LS))
            over = (
                value / base for base in (tangram, patterns) for value in (min(values), mean, max(values))
            )
            inner = (min(values) / mean, max(values) / mean)
            table.append((f"{platform_of(study)} {case}", float(len(values)), *over, *inner))
    if table:
        columns = list(zip(*table, strict=True))[2:]
        means = (fmean(float(value) for value in column) for column in columns)
        table.append((f"mean of {len(table)}", "-", *means))
    best, mean, worst = PUBLISHED_OVER_TANGRAM.values()
    published = (best, mean, worst, "-", "-", "-", best / mean, worst / mean)
    table.append(("the paper, mean of 10", 10.0, *published))
    headers = (
        "case",
        "seeds",
        "best over Tangram",
        "mean",
        "worst",
        "best over the better of LP, LS",
        "mean",
        "worst",
        "best over the mean",
        "worst over the mean",
    )
    remarks = (
        "E D of the seeds of SET, and their mean, over that of Tangram's segments and over the better median "
        "of LP and LS. The paper's spread, in the last two columns, is a quotient of its averages.",
        "The paper does not say which ten settings it took.",
    )
    return FigureTable(headers, tuple(table), (*remarks, *spread_remarks(effort)))


def spread_remarks(effort: Effort) -> Iterator[str]:
    """What quick effort leaves out of the studies with many seeds."""
    if effort == "quick":
        for name in known(SPREADS, effort):
            yield f"Quick, {platform_of(name)}: {QUICK[name].described}."
        yield "--effort full has 100 rounds a layer, ten seeds, and batches 1 to 64 on both platforms."


def replays(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """In place of Figure 5: the best schedules' programs, run event by event, beside the model's count."""
    table: list[tuple[str | float, ...]] = []
    for study in known(PATTERNS, effort):
        for case, found in cases(rows[study]):
            for solver, seeds in found.items():
                for row in seeds:
                    if "program" in row:
                        name = f"{platform_of(study)} {case}, {SHOWN[solver]}"
                        table.append((name, *replayed(row)))
    ratios = [float(row[3]) for row in table]
    if ratios:
        table.append((f"geometric mean of {len(ratios)}", "-", "-", geomean(ratios), "-", "-", "-"))
    headers = (
        "best schedule",
        "model Mcycles",
        "replay Mcycles",
        "model over replay",
        "DRAM MB, model and replay",
        "hop MB, model and replay",
        "tiles busy",
    )
    remarks = (
        "Not reproduced: two blocks of Inception-ResNet-v1 against a Tangram-like schedule (41.1 % of the "
        "latency, 31.5 % of the energy saved), as the paper does not say which blocks. In its place: the "
        "whole networks' best schedules on the simulator of programs, which shares no code with the chip "
        "model. `archsweep replay` writes Figure 5's chart as a trace.",
    )
    return FigureTable(headers, tuple(table), remarks)


def replayed(row: ReadOnlyDict[str, Any]) -> tuple[str | float, ...]:
    """The cells of one schedule. Bytes on which model and replay agree are written once."""
    found = replay(unpacked_program(row["program"]))
    dram = (row["dram_bytes"], found.dram_read_bytes + found.dram_write_bytes)
    hops = (row["noc_hop_bytes"], found.hop_bytes)
    return (
        row["cycles"] / 1e6,
        found.cycles / 1e6,
        row["cycles"] / found.cycles,
        *(" = ".join(dict.fromkeys(f"{value / 1e6:.2f}" for value in pair)) for pair in (dram, hops)),
        found.utilization,
    )


def drawn_trees(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Figure 11's random trees: how many drawn uniformly from the whole space can run."""
    table = [drawn(name, DRAWN[effort]) for name in DRAWN_NETWORKS]
    headers = ("cloud, batch 8", "layers", "log10 of the trees", "drawn", "can run")
    remarks = (
        "Trees with the layers in the network's order, each as likely as any other (rank and unrank: "
        "solvers.schedule.set.size). Not reproduced: the clouds of dots. The paper does not say how it drew; "
        "hardly any tree drawn uniformly can run, as a cut deep in the tree has fewer tiles than children, "
        "or a leaf's weights do not fit its tiles. `python benchmarks/set_paper.py` has a walk over trees "
        "that can run, and a search's way, with the depth, energy, cycles and DRAM time of each.",
    )
    return FigureTable(headers, tuple(table), remarks)


def drawn(name: str, count: int) -> tuple[str | float, ...]:
    """A row of Figure 11: of ``count`` trees of a network drawn uniformly, how many can run."""
    graph, chip = load_layer_graph(name), load_chip("set-cloud")
    costs = solved_costs(TileCostDemand(graph, chip.tile, chip.tiles, DRAWN_BATCH), TileMapper("nvdla"))
    problem = ScheduleProblem(graph, ChipModel(chip, costs), DRAWN_BATCH, Objective.named("ed2"))
    evaluator, random, able = problem.evaluator(), Random(1), 0
    layers = tuple(graph.producers)
    size = tree_count(len(layers), DRAWN_BATCH)
    for _ in range(count):
        tree = tree_at(random.randrange(size), layers, DRAWN_BATCH)
        with suppress(NotPossibleError):
            evaluator.evaluate(tree)
            able += 1
    return name, float(len(layers)), log10(size), float(count), float(able)


def networks(effort: Effort) -> tuple[str, ...]:
    """None: no study maps layers by themselves."""
    return ()


FIGURES = (
    PaperFigure("5", "Schedules on the simulator", PATTERNS, replays),
    PaperFigure("8", "LP, LS and SET", PATTERNS, patterns),
    PaperFigure("9", "Comparison with Tangram", SPREADS, over_tangram),
    PaperFigure("10", "How far seeds lie apart", SPREADS, spreads),
    PaperFigure("11", "Trees drawn uniformly", (), drawn_trees),
)

SET_PAPER = Paper(
    "set",
    "SET: Inter-layer Scheduling Space Definition and Exploration for Tiled Accelerators (ISCA 2023)",
    studies,
    networks,
    FIGURES,
)
