"""What BENCHMARKS.md shows of conformance, attacks on proofs, and distances from proven bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from report.table import Table

EQUAL = ("what", "equal", "cases")


def conformance(found: dict[str, Any]) -> Iterator[Table]:
    rows = [
        (name, kind.replace("_", " "), counts["equal"], counts["equal"] + len(counts["not_equal"]))
        for name, kinds in found["architectures"].items()
        for kind, counts in kinds.items()
        if counts["equal"] or counts["not_equal"]
    ]
    all_of = ("all", "", found["equal"], found["cases"])
    yield Table(("architecture", "Timeloop's counters", "equal", "cases"), (*rows, all_of))


def set_conformance(found: dict[str, Any]) -> Iterator[Table]:
    kinds = ("trees", "allocations", "intra_tile")
    yield Table(EQUAL, tuple((kind.replace("_", " "), found[f"equal_{kind}"], found[kind]) for kind in kinds))


def kapla_conformance(found: dict[str, Any]) -> Iterator[Table]:
    rows, words, training = found["rows"], found["directives"], found["training"]
    counted = (
        ("layer schemes, all accesses, cycles and energy", rows["equal"], rows["rows"]),
        ("directives: cycles and words from DRAM", words["equal_outside"], words["expressed"]),
        ("directives: all accesses", words["equal_everywhere"], words["expressed"]),
        (
            "backward layers derived",
            sum(row["derived"] for row in training),
            sum(r["layers"] for r in training),
        ),
    )
    yield Table(EQUAL, counted)


def attack(found: dict[str, int]) -> Iterator[Table]:
    """Tallies of exact_attack.py and uneven.py."""
    yield Table(tuple(key.replace("_", " ") for key in found), (tuple(found.values()),))


def chip_bounds(found: dict[str, Any]) -> Iterator[Table]:
    bounds = found["bound_energy_pj"], found["bound_cycles"]
    rows = [(name, energy / bounds[0], cycles / bounds[1]) for name, energy, cycles in found["rows"]]
    yield Table(("trees", "energy over bound", "cycles over bound"), tuple(rows))
    if "parts" in found:
        parts = [
            (name, *(f"{one[key]:.4g}" for key in ("bound", "tree"))) for name, one in found["parts"].items()
        ]
        yield Table(("part", "bound", "tree of the least E D"), tuple(parts), "Where the gap comes from")


def exact_quality(found: dict[str, dict[str, Any]]) -> Iterator[Table]:
    solves = [{"case": case} | row for case, row in found.items()]
    columns = {
        "case": "architecture, objective",
        "proven": "proven",
        "layers": "layers",
        "cpu_median_seconds": "median CPU s",
        "cpu_worst_seconds": "worst CPU s",
        "peak_memory_mib": "peak MiB",
    }
    yield Table.of(solves, columns, "exact: proofs")
    ratios = [
        {"case": case, "solver": name} | ratio
        for case, row in found.items()
        for name, ratio in row["over_optimum"].items()
    ]
    if ratios:
        yield Table.of(ratios, OVER_OPTIMUM, "other solvers: their objective over the proven optimum")


OVER_OPTIMUM = {
    "case": "architecture, objective",
    "solver": "solver",
    "geomean": "geometric mean",
    "worst": "worst",
    "optimal": "optimal on",
    "of": "of layers",
    "cpu_mean_seconds": "CPU s a layer",
}


def exact_peers(found: list[dict[str, Any]]) -> Iterator[Table]:
    columns = {
        "case": "case",
        "pj_per_mac": "pJ/MAC",
        "cpu_seconds": "CPU s",
        "status": "status",
        "gap": "gap",
        "accelforge": "AccelForge",
        "zigzag": "ZigZag",
    }
    yield Table.of(found, columns)


def cosa_quality(found: dict[str, Any]) -> Iterator[Table]:
    objectives = {key: row for key, row in found.items() if isinstance(row, dict) and "proven" in row}
    columns = {
        "objective": "objective",
        "proven": "programs proven",
        "layers": "layers",
        "cpu_mean_seconds": "mean CPU s",
        "cpu_max_seconds": "most CPU s",
        "over_lower_bound": "over the lower bound",
    }
    rows = [{"objective": objective} | row for objective, row in objectives.items()]
    yield Table.of(rows, columns, f"CoSA on {found['architecture']}")
    rivals = [
        {"objective": objective, "multiple": f"{multiple} times CoSA's CPU"} | ratio
        for objective, row in objectives.items()
        for multiple, ratio in row["random_search_over_cosa"].items()
    ]
    heads = {
        "objective": "objective",
        "multiple": "random search with",
        "geomean": "geometric mean over CoSA",
    }
    yield Table.of(rivals, heads | {"worst": "CoSA's worst layer"}, "random search over CoSA")


def portfolio(found: dict[str, Any]) -> Iterator[Table]:
    rows: list[dict[str, Any]] = [
        {"tolerance": key} | row for key, row in found.items() if isinstance(row, dict)
    ]
    columns = {
        "tolerance": "tolerance",
        "problems": "problems",
        "worst_ratio": "auto's CPU over the best member's, worst",
        "geomean_ratio": "geometric mean",
        "total_ratio": "all seconds",
        "auto_cpu_seconds": "CPU s, auto",
        "best_cpu_seconds": "CPU s, best members",
    }
    yield Table.of(rows, columns)
    settled = [{"tolerance": row["tolerance"]} | row["settled"] for row in rows]
    yield Table.of(settled, {key: key for row in settled[:1] for key in row}, "problems settled by")


def thistle_mapping(found: dict[str, Any]) -> Iterator[Table]:
    rows = [{"layer": layer, "bound": row["over_bound"]} | row for layer, row in found["layers"].items()]
    columns = {
        "layer": "layer",
        "cpu_seconds": "CPU s",
        "all_classes_cpu_seconds": "all classes, CPU s",
        "over_best": "over the best known",
        "best_by": "best by",
        "best_is_proven": "best is proven",
        "bound": "over Thistle's own bound",
    }
    yield Table.of(rows, columns)


def thistle_paper(found: dict[str, Any]) -> Iterator[Table]:
    units = {"energy": "pJ/MAC", "cycles": "MACs a cycle"}
    names = ("random", "eyeriss", "layer_wise", "dominant", "joint")
    for objective, unit in units.items():
        if objective in found:
            columns = {"network": "network", "layer": "layer"} | {
                name: name.replace("_", " ") for name in names
            }
            yield Table.of(found[objective]["layers"], columns, unit)


def padding(found: dict[str, Any]) -> Iterator[Table]:
    columns = {
        "architecture": "architecture",
        "layer": "layer",
        "objective": "objective",
        "ratio": "padded over perfect factors",
        "perfect_gap": "gap, perfect",
        "padded_gap": "gap, padded",
        "padded_cpu_seconds": "CPU s, padded",
    }
    yield Table.of(found["rows"], columns)


def uneven(found: list[dict[str, Any]]) -> Iterator[Table]:
    columns = {
        "architecture": "architecture",
        "objective": "objective",
        "layers": "layers",
        "proven": "proven",
        "largest_gap": "largest gap",
        "gained": "gain",
        "geomean": "geometric mean over even",
        "best": "best",
        "cpu_median_seconds": "median CPU s",
        "cpu_worst_seconds": "worst CPU s",
    }
    yield Table.of(found, columns)


def silicon_chips(found: dict[str, Any]) -> Iterator[Table]:
    rows = [{"figure": name, **numbers} for name, numbers in found["summary"].items()]
    columns = {"figure": "figure", "rows": "rows", "mape": "mean error", "worst": "worst error"}
    yield Table.of(rows, columns)


def gemmini_mappings(found: dict[str, Any]) -> Iterator[Table]:
    columns = {
        "layer": "layer",
        "status": "status",
        "cycles": "least, predicted",
        "predicted_of_best": "DOSA's best, predicted",
        "rtl_best": "DOSA's best, RTL",
        "rtl_auto_tiling": "automatic tiling, RTL",
        "cpu_seconds": "CPU s",
    }
    yield Table.of(found["by_layer"], columns)
