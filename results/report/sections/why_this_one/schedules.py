"""Schedules on chips: the cost of each network's best one, how it fills the chip, and how seeds differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

from results.front.networks import NetworkRuns, RunTotal
from results.report.data import RunData
from results.report.html import (
    Cell,
    Markup,
    ReportSection,
    element,
    embedded,
    joined,
    live_table,
    paragraph,
    table,
)
from results.report.schedule_chart import acceptance, chart_content, trajectory_content
from results.store.schema.rows import ScheduleRow
from results.units import NOTHING, TIMES, byte_text, digits, percent, scale_for, seconds

MOST_CHARTS = 40
"""The most schedules whose charts, trees and searches are put into the page, which is a single file."""
LONGEST_TABLE = 200
HEADERS = ("Design", "Network", "Solver", "Minimised", "Seeds", "Energy", "Latency", "DRAM traffic")
SPREAD_HEADERS = ("Gap", "Median seed", "Worst seed", "Energy of seeds", "Latency of seeds", "Tree found on")
LAST_HEADERS = ("Tiles busy", "CPU time")
SEED_HEADERS = ("Search", "Status", "Objective", "Gap", "Energy", "Latency", "CPU time")
OPERATOR_HEADERS = ("Phase", "Operator", "Tried", "Invalid", "Accepted", "Better", "Accepted of tried")


@dataclass(frozen=True)
class Scheduled:
    """One network on one design: the best schedule and the rows of all seeds, in their order.

    ``refinements``: the rows of searches that went on from a tree of another chip. ``costings``: the rows of
    trees that were found for other chips. One of either may be the best.
    """

    design: int
    network: NetworkRuns
    best: ScheduleRow
    seeds: tuple[ScheduleRow, ...]
    refinements: tuple[ScheduleRow, ...] = ()
    costings: tuple[ScheduleRow, ...] = ()

    @property
    def all(self) -> tuple[ScheduleRow, ...]:
        """Every row."""
        return (*self.seeds, *self.refinements, *self.costings)

    def of_runs(self, amount: float | None) -> float:
        """An amount of the best schedule, for all runs of the network that the design's totals count."""
        assert amount is not None, "the best schedule is one that was found"
        return self.network.weight * amount

    @property
    def objective(self) -> float:
        """The best schedule's objective."""
        objective = self.best["objective"]
        assert objective is not None, "the best schedule is one that was found"
        return objective

    @cached_property
    def by_solver(self) -> dict[str, float | None]:
        """The best objective that each scheduler found, in the order of the study."""
        found: dict[str, float | None] = {}
        for row in self.seeds:
            least = [value for value in (found.get(row["solver"]), row["objective"]) if value is not None]
            found[row["solver"]] = min(least, default=None)
        return found

    @cached_property
    def objectives(self) -> list[float]:
        """The objectives of the seeds that found a schedule, the least first."""
        return sorted(row["objective"] for row in self.seeds if row["objective"] is not None)

    def over_best(self, objective: float | None) -> str:
        """How many times the best schedule's objective it is."""
        times = self.times_best(objective)
        return NOTHING if times is None else f"{TIMES}{digits(times)}"

    def times_best(self, objective: float | None) -> float | None:
        """The same as a number."""
        return None if objective is None else objective / self.objective


def schedules_section(run: RunData) -> ReportSection | None:
    """Absent where the study schedules no network on a chip."""
    if not run.schedules:
        return None
    found = list(_scheduled(run))
    text = (
        "The best schedule that was found for each network on the front designs. Energy, latency and "
        f"traffic are of {_of_runs(run)}. Seeds are compared by what they minimise, as multiples of the best "
        "schedule's, and their energy and latency are given from the least to the most. Where the tree was "
        "found on another design, no seed of this design's own found one as good; its searches then went on "
        "from there, which counts as neither the median nor the worst seed. A gap of 20 % means: it is "
        "proven that no schedule saves more than 20 % of the objective."
    )
    if not found:
        return ReportSection("schedules", "Schedules", paragraph("No design is complete.", class_="empty"))
    rows = [_cells(run, one) for one in found[:LONGEST_TABLE]]
    parts = [paragraph(text), table([*HEADERS, *SPREAD_HEADERS, *LAST_HEADERS], rows, "Best schedules")]
    if len(found) > LONGEST_TABLE:
        parts.append(paragraph(f"The first {LONGEST_TABLE} of {len(found)} are shown."))
    if any(len(one.by_solver) > 1 for one in found):
        parts.append(_rivals(run, found[:LONGEST_TABLE]))
    return ReportSection("schedules", "Schedules", joined([*parts, _charts(run, found)]))


def _scheduled(run: RunData) -> Iterator[Scheduled]:
    """The networks of the shown designs, the knee's first."""
    # False comes before True, and the sort keeps the order of the others
    designs = sorted(run.shown, key=lambda design: design != run.knee)
    for design in designs:
        for network in run.networks(design).values():
            seeds = tuple(run.schedules[s] for s in network.one_run.get("seeds", ()) if s in run.schedules)
            refinements = network.one_run.get("refinements", ())
            refined = tuple(run.schedules[one] for one in refinements if one in run.schedules)
            costings = network.one_run.get("costings", ())
            costed = tuple(run.schedules[one] for one in costings if one in run.schedules)
            best = run.schedules.get(network.one_run.get("schedule", ""))
            if best is not None:
                yield Scheduled(design, network, best, seeds, refined, costed)


def _of_runs(run: RunData) -> str:
    """Which runs of a network the first table adds up."""
    if not run.weighted:
        return "one run"
    runs = " and ".join(network.label for network in run.weighted)
    return f"all runs that the study's weights ask for ({runs}), and of one run where seeds are listed below"


def _label(run: RunData, design: int) -> str:
    return run.tag(design) or run.axis_line(design)


def _cells(run: RunData, one: Scheduled) -> list[Cell]:
    best, values, traffic = one.best, one.objectives, one.of_runs(one.best["dram_bytes"])
    middle, worst = (median(values), values[-1]) if values else (None, None)
    spent = sum(row["cpu_seconds"] or 0.0 for row in one.all)
    # The row of a tree from another chip names ``known_trees`` as its solver, which only costed it. The table
    # names the solver that found the tree.
    found_by = run.schedules.get(best.get("tree_from") or "", best)
    return [
        Cell(_label(run, one.design), sort=float(one.design)),
        Cell(one.network.label),
        Cell(found_by["solver"]),
        Cell(best["objective_name"]),
        Cell(len(one.seeds), sort=len(one.seeds), number=True),
        _metric(one.of_runs(best["energy_pj"]), "energy_pj"),
        _metric(one.of_runs(best["cycles"]), "cycles"),
        Cell(byte_text(traffic), sort=traffic, number=True),
        Cell(percent(best["gap"]), sort=best["gap"], number=True),
        Cell(one.over_best(middle), sort=one.times_best(middle), number=True),
        Cell(one.over_best(worst), sort=one.times_best(worst), number=True),
        _over_seeds(one, "energy_pj"),
        _over_seeds(one, "cycles"),
        Cell(_found_on(run, one)),
        Cell(percent(best["utilization"]), sort=best["utilization"], number=True),
        Cell(seconds(spent), sort=spent, number=True),
    ]


def _found_on(run: RunData, one: Scheduled) -> str:
    """The design whose search found the tree, or from whose tree this design's own search went on."""
    found, start = run.searched_for(one.best.get("tree_from")), one.best.get("refined_from")
    if (refined := run.searched_for(start)) is None:
        return "its own search" if found is None else _label(run, found)
    of = run.schedules[start or ""]["solver"] if refined == one.design else _label(run, refined)
    return f"its own search, from the tree of {of}"


def _over_seeds(one: Scheduled, name: RunTotal) -> Cell:
    """The least and the most that the design's own searches found, for all runs of the network."""
    values = sorted(one.of_runs(row[name]) for row in one.seeds if row[name] is not None)
    if not values:
        return Cell(NOTHING, number=True)
    scale = scale_for(name, values)
    return Cell(f"{scale.text(values[0])} to {scale.text(values[-1])}", sort=values[-1], number=True)


def _rivals(run: RunData, found: list[Scheduled]) -> Markup:
    """For each scheduler its best objective, as a multiple of the best of all, and its CPU time."""
    solvers = list(dict.fromkeys(name for one in found for name in one.by_solver))
    headers = ["Design", "Network", *solvers, *(f"{name}, CPU time" for name in solvers)]
    rows = [
        [
            Cell(_label(run, one.design), sort=float(one.design)),
            Cell(one.network.name),
            *(_over_best(one, name) for name in solvers),
            *(_spent(one, name) for name in solvers),
        ]
        for one in found
    ]
    return table(headers, rows, "Schedulers compared")


def _over_best(one: Scheduled, solver: str) -> Cell:
    objective = one.by_solver.get(solver)
    return Cell(one.over_best(objective), sort=objective, number=True)


def _spent(one: Scheduled, solver: str) -> Cell:
    spent = sum(row["cpu_seconds"] or 0.0 for row in one.seeds if row["solver"] == solver)
    return Cell(seconds(spent), sort=spent, number=True)


def _metric(value: float, name: str) -> Cell:
    return Cell(scale_for(name, [value]).text(value), sort=value, number=True)


def _charts(run: RunData, found: list[Scheduled]) -> Markup:
    """A chooser, the S-T chart of the chosen schedule, and how its seeds went."""
    drawn = found[:MOST_CHARTS]
    options = [_option(run, index, one) for index, one in enumerate(drawn)]
    label = element("label", "Schedule of ", element("select", *options, id="schedule-pick"), class_="choice")
    text = (
        "Spatial-temporal chart of one run: each rectangle is a layer that computes some samples on some "
        "tiles for some time. Tiles are numbered as the chip lays them out, in stripes. Choosing a design "
        "above chooses its first network here."
    )
    if len(found) > len(drawn):
        text += f" The first {len(drawn)} of {len(found)} schedules can be chosen."
    columns = [
        _figure("schedule-trajectories", "Objective along the search, a line a seed"),
        live_table("schedule-seeds", SEED_HEADERS, "What every seed found"),
    ]
    operators = live_table("schedule-operators", OPERATOR_HEADERS, "What became of each operator's trees")
    tree = element("pre", id="schedule-tree")
    return joined(
        [
            element(
                "div", label, paragraph(text), _figure("schedule-chart", "Tiles over time"), class_="panel"
            ),
            element("div", *columns, class_="grid"),
            element("details", element("summary", "The search: acceptance by operator"), operators),
            element("details", element("summary", "The schedule as an RA tree"), tree),
            embedded("schedule-data", _contents(run, drawn)),
        ]
    )


def _figure(key: str, description: str) -> Markup:
    return element("div", class_="figure", id=key, role="img", aria_label=description)


def _option(run: RunData, index: int, one: Scheduled) -> Markup:
    name = one.network.name
    text = f"{name} on {run.axis_line(one.design)}" if run.axes else name
    if tag := run.tag(one.design):
        text = f"{tag}: {text}"
    return element("option", text, value=index, data_design=one.design)


def _contents(run: RunData, drawn: list[Scheduled]) -> list[dict[str, Any]]:
    """What ``report.js`` shows of each schedule."""
    charts = run.schedule_charts(
        row["task_id"] for one in drawn for row in (*one.seeds, *one.refinements, one.best)
    )
    return [_content(one, charts) for one in drawn]


def _content(one: Scheduled, charts: Mapping[str, ScheduleRow]) -> dict[str, Any]:
    mine = charts[one.best["task_id"]]
    searched = (*one.seeds, *one.refinements)
    searches = [charts[row["task_id"]]["search"] for row in searched]
    return {
        "chart": chart_content(mine["spatial_temporal"]),
        "tree": mine["tree"] or "",
        "seeds": [_seed_cells(one, row) for row in one.all],
        "trajectories": [
            {"name": _search(one, row), **trajectory_content(search, one.objective)}
            for row, search in zip(searched, searches, strict=True)
        ],
        "operators": [_operator_cells(counts) for counts in acceptance(searches)],
    }


def _search(one: Scheduled, row: ScheduleRow) -> str:
    """The name of a row's search: its seed, its scheduler if there are several, and a known tree as start."""
    if any(row is costing for costing in one.costings):
        return "trees of other designs"
    seed = f"{row['solver']}, seed {row['seed']}" if len(one.by_solver) > 1 else f"seed {row['seed']}"
    return f"{seed}, from a known tree" if row.get("refined_from") else seed


def _seed_cells(one: Scheduled, row: ScheduleRow) -> list[Any]:
    energy, cycles = row["energy_pj"], row["cycles"]
    name = _search(one, row)
    # trees of other designs have no seed, and stand behind those that do when the table is sorted
    order = len(one.seeds) if row["seed"] is None else row["seed"]
    mark = {"strong": name} if row is one.best else [name, order]
    spent = row["cpu_seconds"]
    return [
        mark,
        row["status"],
        [one.over_best(row["objective"]), row["objective"]],
        [percent(row["gap"]), row["gap"]],
        [scale_for("energy_pj", [energy]).text(energy), energy],
        [scale_for("cycles", [cycles]).text(cycles), cycles],
        [NOTHING if spent is None else seconds(spent), spent],
    ]


def _operator_cells(counts: tuple[str, str, int, int, int, int]) -> list[Any]:
    phase, operator, tried, _, accepted, _ = counts
    fraction = accepted / tried if tried else 0.0
    return [phase, operator, *([f"{n:,}", n] for n in counts[2:]), [percent(fraction), fraction]]
