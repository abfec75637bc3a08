"""What BENCHMARKS.md shows of scratchpad plans, schedules on chips, and searches of design spaces."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from report.table import Table


def scratchpad(found: dict[str, Any]) -> Iterator[Table]:
    columns = {
        "solved": "plans",
        "proven": "proven",
        "within_1_s": "within 1 s",
        "median_cpu_seconds": "median CPU s",
        "most_cpu_seconds": "most CPU s",
        "equal": "equal to the reference",
        "reference_cases": "of",
    }
    yield Table.of([found], {key: head for key, head in columns.items() if key in found})


def cosma_paper(found: dict[str, Any]) -> Iterator[Table]:
    for figure in ("Figure 3", "Figure 4"):
        if figure in found:
            yield from _cosma_figure(figure, found[figure])


def _cosma_figure(figure: str, found: dict[str, Any]) -> Iterator[Table]:
    reductions = [
        {"approach": approach, "setting": setting, "less": None if row["all"] is None else 100 * row["all"]}
        for approach, settings in found["reductions"].items()
        for setting, row in settings.items()
    ]
    heads = {"approach": "approach", "setting": "budget", "less": "% fewer bytes than the schemes"}
    yield Table.of(reductions, heads, f"{figure}: mean over networks and schemes")
    columns = {
        "solves": "plans",
        "proven": "proven",
        "mean_cpu_seconds": "mean CPU s",
        "most_cpu_seconds": "most CPU s",
    }
    yield Table.of([found], columns, f"{figure}: cosma")


def cuts(found: dict[str, Any]) -> Iterator[Table]:
    columns = {
        "network": "network",
        "kib": "KiB",
        "moved": "bytes moved",
        "bound": "bound for all cuts",
        "equal_bands": "in equal bands",
        "cpu_seconds": "CPU s",
    }
    yield Table.of(found["rows"], columns)


def packing(found: list[dict[str, Any]]) -> Iterator[Table]:
    columns = {
        "instance": "instance",
        "buffers": "buffers",
        "placed": "placed",
        "seeds": "of seeds",
        "median_cpu_seconds": "median CPU s",
        "worst_cpu_seconds": "worst CPU s",
    }
    yield Table.of(found, columns)


def set_annealing(found: dict[str, Any]) -> Iterator[Table]:
    case, theirs = found["case"], found["released"]
    values, seconds = theirs.get("values"), theirs.get("seconds")
    rows = [
        ("here", len(found["seeds"]), found["median"], found["best"], found["median_cpu_seconds"]),
    ]
    if values or seconds:
        known = (len(values), median(values), min(values)) if values else (None, None, None)
        rows.append(("released program", *known, seconds[0] if seconds else None))
    objective = "E^2 D" if case["platform"] == "edge" else "E D^2"
    heads = ("", "seeds", f"median {objective}", "best", "CPU s a seed")
    title = f"{case['platform']} {case['network']}, batch {case['batch']}, beta {case['beta']:g}"
    yield Table(heads, tuple(rows), title)


def set_paper(found: dict[str, Any]) -> Iterator[Table]:
    """Medians over the seeds of SET's objective over that of LP and of LS."""
    rows = found["patterns"]
    cases = dict.fromkeys((row["platform"], row["network"], row["batch"]) for row in rows)
    shown = []
    for platform, network, batch in cases:
        of = {
            pattern: median(
                row["value"]
                for row in rows
                if (row["platform"], row["network"], row["batch"], row["pattern"])
                == (platform, network, batch, pattern)
            )
            for pattern in ("layer_pipeline", "layer_sequential", "set")
        }
        ratios = of["set"] / of["layer_pipeline"], of["set"] / of["layer_sequential"]
        shown.append((f"{platform} {network}", batch, *ratios))
    yield Table(("case", "batch", "SET over LP", "SET over LS"), tuple(shown))


def tile_tables(found: dict[str, Any]) -> Iterator[Table]:
    columns = {
        "solver": "solver",
        "tile_parts": "tile parts solved",
        "mapped": "mapped",
        "proven": "proven",
        "cpu_seconds": "CPU s",
        "cpu_seconds_of_all": "CPU s for all",
        "edp_ratio": "EDP over the reference's",
    }
    title = (
        f"{found['network']}, batch {found['batch']}, {found['chip']}: {found['all_tile_parts']} tile parts"
    )
    yield Table.of(found["records"], columns, title)


def search_quality(found: dict[str, Any]) -> Iterator[Table]:
    for space, row in found.items():
        first = next(iter(row["methods"].values()))
        fractions = list(first["hypervolume"])
        rows = [
            (
                name,
                *(method["hypervolume"][n][0] for n in fractions),
                *("never" if solves is None else solves for solves in method["solves_to"].values()),
            )
            for name, method in row["methods"].items()
        ]
        heads = (
            "search",
            *(f"{int(designs) * row['layers']} solves" for designs in fractions),
            *(f"solves to {float(fraction):.0%}" for fraction in first["solves_to"]),
        )
        title = f"{space}: {row['designs']} designs, {row['front']} on the front; fraction of the hypervolume"
        yield Table(heads, tuple(rows), title)
