"""What ``archsweep explain`` does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from costmodel.errors import InputError
from results.explain.design import (
    DesignExplanation,
    LayerChange,
    LayerExplanation,
    design_named,
    explained,
    layer_changes,
    leaf_bound_by,
)
from results.explain.page import LACKING, write_explanation
from results.report.data import RunData
from results.units import TIMES, digits, percent, scale_for
from sweep.cli.messages import WorkFailedError, shown, warn
from sweep.run.finished import checked_run
from sweep.run.output import run_at

MOST_DESIGNS = 2
WORDS = (
    "layer",
    "bound by",
    "part",
    "level",
    "run",
    "runs",
    "design",
    "cause",
    "on the front of",
    "not on that of",
)
"""Headers of columns that hold words."""


def explain_designs(location: str, names: list[str], page: Path | None, as_json: bool) -> None:
    """``archsweep explain``: designs of the run at ``location`` (a folder or a URI), by nothing but its rows.

    InputError for no such run or design; WorkFailedError for a design without answers.
    """
    if len(names) > MOST_DESIGNS:
        raise InputError("DESIGN", "one design, or two", ", ".join(names))
    with run_at(location) as path:
        run = RunData.read(checked_run(path).path)
        designs = [explained(run, _design(run, name)) for name in names]
        if page is not None:
            write_explanation(run, designs, page)
    between = layer_changes(designs[0].layers, designs[1].layers) if len(designs) == MOST_DESIGNS else ()
    if as_json:
        content = {"designs": [asdict(one) for one in designs]}
        print(json.dumps(content | ({"changes": [asdict(one) for one in between]} if between else {})))
    else:
        for one in designs:
            _print(one)
        if between:
            _print_changes(between, "the second design over the first")
    for one in designs:
        if one.lacking:
            warn(LACKING.format(count=one.lacking, all=len(one.layers)))
    if page is not None and not as_json:
        print(f"page: {page}")


def _design(run: RunData, name: str) -> int:
    """The one design that ``name`` means, if it has answers."""
    found = design_named(run, name)
    if len(found) != 1:
        number = f"{len(found)} designs whose ids begin so" if found else name
        tags = ", ".join(run.tag(design) for design in run.front[:3])
        remedy = f"archsweep pareto --csv lists ids; of the front {tags}" if tags else ""
        raise InputError(
            "DESIGN", "a design's id or its beginning, #1 of the report, knee, baseline", number, remedy
        )
    (design,) = found
    status = str(run.designs["status"].iloc[design])
    if not run.networks(design) or status in ("infeasible", "failed", "dominated"):
        why = next(filter(None, (*run.reasons([design], "error"), *run.reasons([design], "note"))), "")
        raise WorkFailedError(f"design {name} is {status}, so there is nothing to explain: {why}")
    return design


def _print(design: DesignExplanation) -> None:
    console = Console(highlight=False, soft_wrap=True)
    axes = ", ".join(f"{axis} {text}" for axis, text in design.axes.items())
    console.print(
        f"design {design.tag} {design.design_id}".replace("  ", " "),
        f"({axes})" if axes else "",
        markup=False,
    )
    for name, value in design.metrics.items():
        console.print(f"  {name} {shown(value)}", markup=False)
    total = sum(design.bound_by.values()) or 1.0
    print_table(
        "what binds",
        ("bound by", "cycles", "of all"),
        [(name, f"{cycles:,.0f}", percent(cycles / total)) for name, cycles in design.bound_by.items()],
    )
    if gains := design.gains:
        print_table(
            "what each of them alone costs: cycles that would go if it took no time",
            ("cause", "cycles", "of all"),
            [(name, f"{cycles:,.0f}", percent(cycles / total)) for name, cycles in gains.items()],
        )
    energy = sum(design.energy_by_level_pj.values()) or 1.0
    print_table(
        "where energy goes",
        ("part", "energy", "of all"),
        [(name, _energy(pj), percent(pj / energy)) for name, pj in design.energy_by_level_pj.items()],
    )
    if design.layers:
        headers = ("layer", "runs", "status", "energy", "cycles", "bound by", "full", "MACs busy")
        print_table("layers", headers, [_row(layer) for layer in design.layers])
    for layer in design.layers:
        _print_nest(layer)
    _print_groups(design)
    for schedule in design.schedules:
        leaves = [
            (
                leaf["layer"],
                f"{leaf['runs']:,}",
                f"{leaf['cycles']:,}",
                f"{leaf['tile_cycles']:,}",
                leaf_bound_by(leaf),
            )
            for leaf in schedule.leaves
        ]
        columns = ("layer", "runs", "cycles of a run", "slowest tile computes", "bound by")
        print_table(f"schedule of {schedule.network}, by {schedule.solver}", columns, leaves)
        console.print(schedule.tree, markup=False)
    for better, changes in zip(design.better, design.changes, strict=True):
        change = ", ".join(f"{axis} {here} to {there}" for axis, (here, there) in better.axes.items())
        ratios = ", ".join(f"{name} {TIMES}{digits(r)}" for name, r in better.ratios.items() if r is not None)
        name = f"{better.tag} {better.design_id[:8]}".strip()
        console.print(f"\nnearest better in {better.better_in}: {name} ({change}): {ratios}", markup=False)
        _print_changes(changes, f"{name} over this design")
    if not design.better:
        console.print("\nno design of the run is better in anything", markup=False)


def _row(layer: LayerExplanation) -> tuple[str, ...]:
    return (
        f"{layer.network}/{layer.name}",
        digits(layer.runs),
        layer.status,
        _energy(layer.energy_pj),
        f"{layer.cycles:,}",
        layer.bound_by,
        ", ".join(layer.full),
        percent(layer.utilization),
    )


def _print_nest(layer: LayerExplanation) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"\n{layer.network}/{layer.name}", markup=False)
    console.print("\n".join(f"  {line}" for line in layer.nest), markup=False)
    rows = [
        (
            level["name"],
            name,
            *(
                f"{traffic['instances'] * words:,}"
                for words in (traffic["reads"], traffic["fills"], traffic["updates"])
            ),
            _energy(traffic["energy_pj"]),
            f"{traffic['tile_words']:,}",
        )
        for level in reversed(layer.levels or [])
        for name, traffic in level["tensors"].items()
    ]
    if rows:
        headers = ("level", "tensor", "reads", "fills", "updates", "energy", "words of a tile")
        print_table("accesses of all instances, in words", headers, rows)


def _print_groups(design: DesignExplanation) -> None:
    """What layers cost together and one by one, and the loops of those that are mapped together."""
    rows = [
        (
            f"{group.network}/{group.name}",
            digits(group.runs) if group.runs else "none",
            group.status,
            _energy(group.energy_pj),
            _energy(group.unfused_energy_pj),
            f"{group.cycles:,}",
            f"{group.unfused_cycles:,}",
        )
        for group in design.groups
    ]
    if not rows:
        return
    headers = ("layer", "runs together", "status", "energy", "one by one", "cycles", "one by one")
    print_table("layers mapped together", headers, rows)
    console = Console(highlight=False, soft_wrap=True)
    for group in design.groups:
        if group.runs and group.tree:
            console.print(f"\n{group.network}/{group.name}, bound by {group.causes}", markup=False)
            console.print("\n".join(f"  {line}" for line in group.tree.splitlines()), markup=False)


def _print_changes(changes: tuple[LayerChange, ...], title: str) -> None:
    rows = [
        (
            f"{change.network}/{change.name}",
            f"{TIMES}{digits(change.energy_ratio)}",
            f"{TIMES}{digits(change.cycles_ratio)}",
            _from_to(*change.bound_by),
            _from_to(*(", ".join(full) or "none" for full in change.full)),
        )
        for change in changes
    ]
    if rows:
        print_table(f"layers, {title}", ("layer", "energy", "cycles", "bound by", "full"), rows)


def _from_to(here: str, there: str) -> str:
    return here if here == there else f"{here} → {there}"


def _energy(pj: float) -> str:
    return scale_for("energy_pj", [pj]).text(pj)


def print_table(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on standard output; columns of words stand left, those of numbers right."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for header in headers:
        # a name that is too long is wrapped, not cut: its beginning would name nothing
        table.add_column(header, justify="left" if header in WORDS else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False).print(table)
