"""Figures 4 to 8 of Thistle's paper from our own cost model: ResNet-18 and Yolo-9000 of its Table II.

    python benchmarks/thistle_paper.py [--networks thistle_resnet18 yolo9000] [--every N] [--draws N]
        [--objectives energy cycles] [--bandwidths library|figure_3] [--mapper thistle] [--judge auto]
        [--output FOLDER]

Prints a table a figure, then one JSON object, and writes the figures as one HTML page into the folder
(runs/thistle_paper). Every number is the cost model's: pJ and IPC (MACs a cycle) of one run
of each distinct layer. Columns:

    eyeriss      --mapper's mapping on Eyeriss (168 PEs, 512 registers each, 128 KiB)
    random       Timeloop's random-pruned search on Eyeriss, --draws mappings a layer (Figures 4 and 7)
    layer_wise   the layer's own architecture in Eyeriss's area (Figures 5, 6 and 8)
    dominant     every layer on the architecture of the layer, of both networks, that takes most (6 and 8)
    joint        every layer on one architecture for all, weighted by occurrence (beyond the paper)

The layers of a co-designed architecture are mapped by --judge (cosa is faster, and further from the optimum).
The paper does not state the bandwidths of its experiments, which decide Figures 7 and 8: by default they are
those of our library's Eyeriss, with figure_3 those of the sample specification in the paper's Figure 3(a).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import record

from costmodel.formats.networks import load_network
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import Evaluation, evaluate
from costmodel.workload.network import Layer, distinct_layers
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.codesign import thistle
from solvers.codesign.family import ArchitectureFamily
from solvers.codesign.problem import CodesignProblem, WeightedLayer, evaluated
from solvers.mapping import random_search
from solvers.mapping.problem import MappingProblem, Objective

FAMILIES = {
    "library": ArchitectureFamily("eyeriss"),
    "figure_3": ArchitectureFamily(
        "eyeriss",
        tuple(
            (f"{level}.{side}_bandwidth", f"{words} words/cycle")
            for level, words in (("DRAM", 8), ("SRAM", 80), ("RegFile", 4))
            for side in ("read", "write")
        ),
    ),
}
FIGURES: dict[Objective, dict[str, tuple[str, ...]]] = {
    "energy": {
        "Figure 4": ("random", "eyeriss"),
        "Figure 5": ("eyeriss", "layer_wise"),
        "Figure 6": ("eyeriss", "layer_wise", "dominant", "joint"),
    },
    "cycles": {
        "Figure 7": ("random", "eyeriss"),
        "Figure 8": ("eyeriss", "layer_wise", "dominant", "joint"),
    },
}
LOGARITHMIC = ("Figure 8",)
BUDGET = Budget(wall_seconds=1800)
"""Far more than any solve takes: the numbers should not depend on how busy the machine is."""
COLOURS = {
    "random": "#999999",
    "eyeriss": "#1f77b4",
    "layer_wise": "#2ca02c",
    "dominant": "#ff7f0e",
    "joint": "#9467bd",
}
UNITS: dict[Objective, str] = {"energy": "pJ/MAC", "cycles": "IPC (MACs a cycle)"}


@dataclass
class Row:
    """One layer of one network, with a number a column."""

    network: str
    weighted: WeightedLayer
    values: dict[str, float] = field(default_factory=dict)

    @property
    def layer(self) -> Layer:
        return self.weighted.layer


@dataclass(frozen=True)
class Experiment:
    """All columns for one objective."""

    family: ArchitectureFamily
    objective: Objective
    rows: list[Row]
    options: argparse.Namespace

    def run(self) -> dict[str, Any]:
        """Fill the rows' columns; what architectures and bounds come with them."""
        self._on(self.family.base, "eyeriss", self.options.mapper)
        self._random()
        own, bounds = self._layer_wise()
        # Over the layers of both networks, as the paper picks one architecture for all of them.
        dominant = max(range(len(self.rows)), key=self._taken_by)
        self._on(own[dominant], "dominant", self.options.judge)
        joint, bound = self._joint()
        return {
            "layer_wise": [described(architecture) for architecture in own],
            "layer_wise_bounds": bounds,
            "dominant": described(own[dominant]) | {"layer": self.rows[dominant].layer.name},
            "joint": described(joint) | {"bound": bound},
        }

    def measure(self, found: Evaluation) -> float:
        """pJ per MAC, or MACs per cycle."""
        return found.energy_pj / found.macs if self.objective == "energy" else found.macs / found.cycles

    def _taken_by(self, index: int) -> float:
        """Energy or cycles of all runs of a layer on its own architecture."""
        row = self.rows[index]
        value = row.values["layer_wise"]
        each = value if self.objective == "energy" else 1 / value
        return row.weighted.occurrences * row.layer.macs * each

    def _on(self, architecture: Architecture, column: str, mapping_solver: str) -> None:
        mapper = solver(mapping_solver).load()
        for row in self.rows:
            problem = MappingProblem(architecture, row.layer, self.objective)
            outcome = mapper.solve(problem, BUDGET)
            row.values[column] = self.measure(evaluate(architecture, row.layer, outcome.solution))

    def _random(self) -> None:
        for row in self.rows:
            problem = MappingProblem(self.family.base, row.layer, self.objective)
            params = random_search.Params(victory=self.options.draws)
            outcome = random_search.solve(problem, replace(BUDGET, iterations=self.options.draws), params)
            # On a layer with few valid mappings the draws may find none: the figure then has a gap there.
            if outcome.solution is not None:
                row.values["random"] = self.measure(evaluate(self.family.base, row.layer, outcome.solution))

    def _layer_wise(self) -> tuple[list[Architecture], list[float]]:
        own, bounds = [], []
        for row in self.rows:
            problem = CodesignProblem.of(self.family, [row.layer], objective=self.objective)
            outcome = thistle.solve(problem, BUDGET, thistle.Params(mapping_solver=self.options.judge))
            assert outcome.solution is not None
            assert outcome.bound is not None
            row.values["layer_wise"] = self.measure(evaluated(problem, outcome.solution).layers[0])
            own.append(outcome.solution.architecture)
            bound = outcome.bound / row.layer.macs
            # A lower bound on cycles is an upper one on IPC.
            bounds.append(bound if self.objective == "energy" else 1 / bound)
        return own, bounds

    def _joint(self) -> tuple[Architecture, float]:
        """Sets the column, and gives the architecture and the proven bound over the achieved sum."""
        first = CodesignProblem.of(self.family, [self.rows[0].layer], objective=self.objective)
        problem = replace(first, layers=tuple(row.weighted for row in self.rows))
        params = thistle.Params(mapping_solver=self.options.judge)
        outcome = thistle.solve(problem, BUDGET, params)
        assert outcome.solution is not None
        assert outcome.bound is not None
        assert outcome.objective is not None
        for row, found in zip(self.rows, evaluated(problem, outcome.solution).layers, strict=True):
            row.values["joint"] = self.measure(found)
        return outcome.solution.architecture, outcome.bound / outcome.objective


def described(architecture: Architecture) -> dict[str, Any]:
    """The hardware that is free: registers and PEs, SRAM words, area."""
    registers, sram = architecture.levels[:2]
    return {
        "registers": registers.size_words,
        "pes": architecture.mac_units,
        "sram_words": sram.size_words,
        "area_um2": round(architecture.area_um2),
    }


def rows_of(networks: Sequence[str], every: int) -> list[Row]:
    return [
        Row(name, WeightedLayer(layer, count))
        for name in networks
        for layer, count in distinct_layers(load_network(name).layers)[::every]
    ]


def average(rows: Sequence[Row], column: str, objective: Objective) -> float:
    """Over all runs of all layers: total pJ per MAC, or total MACs per cycle."""
    macs = [row.weighted.occurrences * row.layer.macs for row in rows]
    values = [row.values[column] for row in rows]
    if objective == "energy":
        return sum(m * value for m, value in zip(macs, values, strict=True)) / sum(macs)
    # IPC is a rate: cycles add up, rates do not.
    return sum(macs) / sum(m / value for m, value in zip(macs, values, strict=True))


def show(title: str, objective: Objective, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """A table: a line a layer, and the average over all runs."""
    print(f"\n{title}, {rows[0].network}: {UNITS[objective]}")
    print(f"{'layer':>12} {'runs':>4}" + "".join(f"{column:>12}" for column in columns))
    for row in rows:
        numbers = "".join(f"{row.values.get(column, float('nan')):12.2f}" for column in columns)
        print(f"{row.layer.name:>12} {row.weighted.occurrences:4}{numbers}")
    if all(column in row.values for row in rows for column in columns):
        averages = "".join(f"{average(rows, column, objective):12.2f}" for column in columns)
        print(f"{'all runs':>12} {'':4}{averages}")


def figure_page(results: dict[Objective, list[Row]], networks: Sequence[str]) -> str:
    """All figures on one page that needs no network: a line a figure, a column a network."""
    from plotly.subplots import make_subplots

    panels = [(objective, title) for objective in results for title in FIGURES[objective]]
    titles = [f"{title}: {network}" for _, title in panels for network in networks]
    page = make_subplots(
        rows=len(panels), cols=len(networks), subplot_titles=titles, vertical_spacing=0.35 / len(panels)
    )
    named: set[str] = set()
    for line, (objective, title) in enumerate(panels, start=1):
        for column_number, network in enumerate(networks, start=1):
            rows = [row for row in results[objective] if row.network == network]
            for column in FIGURES[objective][title]:
                page.add_trace(_trace(rows, column, named=column in named), row=line, col=column_number)
                named.add(column)
        axis = {"type": "log", "dtick": "D2"} if title in LOGARITHMIC else {"rangemode": "tozero"}
        page.update_yaxes(title=UNITS[objective], row=line, **axis)
    page.update_layout(height=360 * len(panels), width=620 * len(networks), template="plotly_white")
    return str(page.to_html(include_plotlyjs=True))


def _trace(rows: Sequence[Row], column: str, *, named: bool) -> Any:
    """One column of a figure; ``named``: the legend has it already."""
    from plotly.graph_objects import Scatter

    return Scatter(
        x=[row.layer.name for row in rows],
        y=[row.values.get(column) for row in rows],
        name=column,
        legendgroup=column,
        showlegend=not named,
        mode="lines+markers",
        line={"color": COLOURS[column]},
    )


def show_all(objective: Objective, rows: Sequence[Row], networks: Sequence[str]) -> None:
    """The tables of all figures of one objective."""
    for title, columns in FIGURES[objective].items():
        for network in networks:
            show(title, objective, [row for row in rows if row.network == network], columns)


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--networks", nargs="+", default=["thistle_resnet18", "yolo9000"])
    parser.add_argument("--every", type=int, default=1, help="take every N-th layer only")
    parser.add_argument("--draws", type=int, default=100_000, help="mappings random search draws a layer")
    parser.add_argument("--mapper", default="thistle", help="mapping solver for Eyeriss")
    parser.add_argument("--judge", default="auto", help="mapping solver for co-designed architectures")
    parser.add_argument("--objectives", nargs="+", choices=list(FIGURES), default=list(FIGURES))
    parser.add_argument("--bandwidths", choices=list(FAMILIES), default="library")
    parser.add_argument("--output", type=Path, default=Path("runs/thistle_paper"))
    arguments = parser.parse_args()
    results: dict[Objective, list[Row]] = {}
    family = FAMILIES[arguments.bandwidths]
    found: dict[str, Any] = {
        "eyeriss": described(family.base),
        "mapper": arguments.mapper,
        "judge": arguments.judge,
    }
    for objective in arguments.objectives:
        start = time.process_time()
        rows = rows_of(arguments.networks, arguments.every)
        found[objective] = Experiment(family, objective, rows, arguments).run()
        found[objective]["cpu_seconds"] = round(time.process_time() - start, 1)
        found[objective]["layers"] = [
            {"network": row.network, "layer": row.layer.name, "runs": row.weighted.occurrences} | row.values
            for row in rows
        ]
        results[objective] = rows
        show_all(objective, rows, arguments.networks)
    arguments.output.mkdir(parents=True, exist_ok=True)
    page = figure_page(results, arguments.networks)
    (arguments.output / "thistle_paper.html").write_text(page, encoding="utf-8")
    record.finish(found, arguments)


if __name__ == "__main__":
    main()
