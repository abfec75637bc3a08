"""The one line that a benchmark's record comes down to, for the table on top of BENCHMARKS.md."""

from __future__ import annotations

from statistics import median
from typing import Any

from report.table import written


def checked(number: int, what: str) -> int:
    """The number of ``what`` that a benchmark looked at; ValueError for none, of which nothing follows."""
    if not number:
        raise ValueError(f"expected a benchmark that checked some {what}, found none: raise its limits")
    return number


def conformance(found: dict[str, Any]) -> str:
    return f"{found['equal']} of {checked(found['cases'], 'cases')} cases equal"


def set_conformance(found: dict[str, Any]) -> str:
    kinds = ("trees", "allocations", "intra_tile")
    parts = [
        f"{found[f'equal_{kind}']} of {checked(found[kind], kind)} {kind.replace('_', ' ')}" for kind in kinds
    ]
    return f"equal: {', '.join(parts)}"


def kapla_conformance(found: dict[str, Any]) -> str:
    rows = checked(found["rows"]["rows"], "layer schemes")
    return f"{found['rows']['equal']} of {rows} layer schemes equal"


def attack(found: dict[str, int]) -> str:
    """Of exact_attack.py and uneven.py: what was compared, and how often the proof was wrong."""
    compared = found.get("enumerated", found.get("valid_mappings", 0))
    what = "problems enumerated" if "enumerated" in found else "valid mappings"
    return f"{written(checked(compared, what))} {what}, {found['failures']} failures"


def chip_bounds(found: dict[str, Any]) -> str:
    below = sum(
        energy < found["bound_energy_pj"] or cycles < found["bound_cycles"]
        for _, energy, cycles in found["rows"]
    )
    return f"{below} of {checked(len(found['rows']), 'kinds of trees')} kinds of trees below a bound"


def exact_quality(found: dict[str, dict[str, Any]]) -> str:
    proven, layers = (sum(row[key] for row in found.values()) for key in ("proven", "layers"))
    worst = max(row["cpu_worst_seconds"] for row in found.values())
    return f"{proven} of {layers} optima proven, at most {written(worst)} CPU s each"


def exact_peers(found: list[dict[str, Any]]) -> str:
    proven = [case for case in found if case["status"] == "optimal"]
    worst = max((case["cpu_seconds"] for case in proven), default=None)
    return f"{len(proven)} of {len(found)} optima proven, at most {written(worst)} CPU s each"


def portfolio(found: dict[str, Any]) -> str:
    rows = [row for row in found.values() if isinstance(row, dict)]
    worst, problems = max(row["worst_ratio"] for row in rows), sum(row["problems"] for row in rows)
    return f"at most {written(worst)} times the CPU seconds of the best member, {problems} solves"


def cosa_quality(found: dict[str, Any]) -> str:
    rows = [row for row in found.values() if isinstance(row, dict) and "proven" in row]
    proven, layers = sum(row["proven"] for row in rows), sum(row["layers"] for row in rows)
    worst = max(row["over_lower_bound"] for row in rows)
    return f"{proven} of {layers} programs proven; at most {written(worst)} times the lower bound (mean)"


def thistle_mapping(found: dict[str, Any]) -> str:
    return f"at most {written(found['worst_over_best'])} times the best known"


def scratchpad(found: dict[str, Any]) -> str:
    most = written(found["most_cpu_seconds"])
    return f"{found['proven']} of {found['solved']} plans proven, at most {most} CPU s each"


def cuts(found: dict[str, Any]) -> str:
    return f"{found['proven']} of {found['plans']} plans below the largest operator proven"


def packing(found: list[dict[str, Any]]) -> str:
    placed = sum(row["placed"] == row["seeds"] for row in found)
    return f"{placed} of {len(found)} instances placed with every seed"


def set_annealing(found: dict[str, Any]) -> str:
    values = found["released"].get("values")
    ratio = found["median"] / median(values) if values else None
    beside = f"{written(ratio)} of the released program's median" if ratio else "no released values"
    return f"{beside}, {written(found['median_cpu_seconds'])} CPU s a seed"


def search_quality(found: dict[str, Any]) -> str:
    methods = [
        (name, method["solves_to"]["0.99"])
        for row in found.values()
        for name, method in row["methods"].items()
    ]
    best = min((solves, name) for name, solves in methods if solves is not None)
    return f"99 % of the hypervolume after {written(best[0])} solves ({best[1]})"


def batch_throughput(found: dict[str, Any]) -> str:
    rates = [row["batch_per_second"] for row in found["mappings"]]
    return f"{written(min(rates))} to {written(max(rates))} mappings a second and core"


def store(found: list[dict[str, Any]]) -> str:
    return "; ".join(f"{row['name']}: {written(round(row['rate']))} {row['unit']}" for row in found[:2])


def store_growth(found: list[dict[str, Any]]) -> str:
    limited = [row for row in found if row["limit"] is not None]
    return f"{sum(row['kept'] for row in limited)} of {len(limited)} limits kept"


def blocks(found: dict[str, Any]) -> str:
    without = found["without work"]
    driver, worker = (written(without[f"{who}_us_a_solve"]) for who in ("driver", "worker"))
    many = [part for part in found.values() if "goal" in part]
    said = "; ".join(
        f"{part['workers']:,} workers {part['efficiency']:.0%} efficient, simulated" for part in many
    )
    return f"{driver} us of the driver and {worker} us of a worker for a solve; {said}"


def large_runs(found: list[dict[str, Any]]) -> str:
    shown = [row for row in found if row["what"].startswith("archsweep")]
    return "; ".join(f"{row['what']}: {written(round(row['cpu_seconds'], 1))} CPU s" for row in shown)


def study(found: dict[str, Any]) -> str:
    fraction = written(found["in_solves"])
    return f"{found['solves']} solves, {fraction} of the workers' time in solves, {found['failed']} failed"


def decoders(found: list[dict[str, Any]]) -> str:
    study = found[-1]
    proven = f"{study['proven']} of {checked(study['mappings'], 'mappings')} optima proven"
    return f"{study['what']}: {proven} in {written(round(study['cpu_seconds']))} CPU s"


def faults(found: list[dict[str, Any]]) -> str:
    survived = sum(bool(row["equal"]) for row in found)
    return f"{survived} of {len(found)} faults survived with all rows equal"


def product(found: list[dict[str, Any]]) -> str:
    first = {row["what"]: row["value"] for row in found if row["unit"] == "wall s"}
    cold, warm = (written(first.get(f"a layer mapped by cosa, {state}")) for state in ("cold", "warm"))
    return f"first mapping after {cold} wall s cold, {warm} warm"


def silicon_chips(found: dict[str, Any]) -> str:
    errors = [
        f"{name} {written(numbers['mape'])} off in the mean, {written(numbers['worst'])} at worst"
        for name, numbers in found["summary"].items()
    ]
    return "; ".join(errors[:2])


def gemmini_mappings(found: dict[str, Any]) -> str:
    over = written(found["geomean_over"]["predicted_of_best"])
    return f"{found['proven']} of {found['layers']} proven, {over} of the cycles of DOSA's best"
