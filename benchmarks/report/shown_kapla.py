"""What BENCHMARKS.md shows of KAPLA's evaluation: solvers beside proven optima, k_S, pruning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from report.table import Table, plain_tables

LAYERS = {"network": "network", "batch": "batch", "proven": "proven", "distinct": "of layers"}


def kapla_paper(found: dict[str, Any]) -> Iterator[Table]:
    """A table a part; S is the proven optimum, K KAPLA, R random search, M learned annealing."""
    for name, part in found.items():
        cases = part.get("cases", [part])
        if all("networks" in case for case in cases):
            rows = [row for case in cases for row in case["networks"]]
            yield _layers(f"{name}: {cases[0]['title']}, layer by layer", rows)
        elif "whole" in part:
            yield _whole(f"{name}: networks as chains of segments", part["whole"])
        else:
            yield from plain_tables(part, name)


def _layers(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    letters = [letter for letter in rows[0]["methods"] if letter != "S"]
    heads = [
        f"{letter} over {what}" for letter in letters for what in ("the best found", "the optimum, at most")
    ]
    seconds = [f"{letter}, CPU s" for letter in rows[0]["methods"]]
    cells = []
    for row in rows:
        methods = row["methods"]
        over = [methods[m][key] for m in letters for key in ("overhead_best", "overhead_at_most")]
        spent = [method["cpu_seconds"] for method in methods.values()]
        cells.append((*(row[key] for key in LAYERS), *over, *spent))
    return Table((*LAYERS.values(), *heads, *seconds), tuple(cells), title)


def _whole(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Objectives over KAPLA's; empty where a method was not asked or found nothing."""
    letters = list(dict.fromkeys(letter for row in rows for letter in row["methods"]))
    cells = []
    for row in rows:
        methods = {letter: row["methods"].get(letter) or {} for letter in letters}
        base = methods["K"].get("objective")
        over = [_ratio(method.get("objective"), base) for method in methods.values()]
        spent = [method.get("cpu_seconds") for method in methods.values()]
        cells.append((row["network"] + row["step"], methods["K"].get("energy_pj"), *over, *spent))
    ratios = [f"{letter} over K" for letter in letters]
    seconds = [f"{letter}, CPU s" for letter in letters]
    return Table(("network", "K, pJ", *ratios, *seconds), tuple(cells), title)


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value and base else None
