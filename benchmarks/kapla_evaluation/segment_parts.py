"""The evaluation's parts that schedule whole networks: Figs 9 and 11, Table VI, what solving takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kapla_evaluation.cells import CellFile, Found
from kapla_evaluation.layers import METHODS, Effort
from kapla_evaluation.schedules import PARTS, Method, ScheduleCase, over, schedule
from kapla_evaluation.tables import Table, number, percent
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.schedule.kapla import Params
from solvers.schedule.tiles.layer_parts import Pruning

STEPS = {"inference": "", "training": ".training"}
"""What is done with a network, and what its name ends with."""

KS = (1, 2, 4, 8, 16)
"""Of Fig 11, ranked once as in the paper."""

DRAWS_OF_A_PART = 1000
"""R gives up on a tile's part of a layer after so many mappings that are no better."""


@dataclass(frozen=True)
class SegmentRun:
    """What was asked for: networks, of them which of STEPS, methods, effort; S for ``exact_networks``."""

    networks: Sequence[str]
    steps: Sequence[str]
    methods: Sequence[str]
    exact_networks: Sequence[str]
    effort: Effort
    file: CellFile

    def method(self, letter: str) -> Method:
        """S costs all segments and partitions; R a part, drawn; M asks its annealing about layers."""
        if letter == "S":
            return Method("S", Params(chains=0), Pruning(), mapper_budget=Budget(self.effort.wall_seconds))
        if letter == "R":
            drawn = solver(METHODS["R"], "mapping").load().Params(victory=DRAWS_OF_A_PART)
            return Method("R", Params(probability=self.effort.probability), mapper_params=drawn)
        if letter == "M":
            annealing = solver(METHODS["M"], "mapping").load().Params(batches=self.effort.batches)
            return Method("M", mapper_params=annealing)
        return Method()


def whole_networks(run: SegmentRun) -> dict[str, Any]:
    """Fig 9 with segments, and training: energy at batch 64, its parts, CPU seconds with layers' solves."""
    rows = [row for step in run.steps for row in _whole(run, step)]
    return {"whole": rows, "below_floors": _below(row["methods"] for row in rows)}


def _whole(run: SegmentRun, step: str) -> list[dict[str, Any]]:
    energies, seconds = ([f"{letter} {unit}" for letter in run.methods] for unit in ("mJ", "CPU s"))
    heads = ("network", "segments", "costed", *energies, "K over S", *seconds, *PARTS)
    title = f"whole networks, {step}, batch 64; energy by part in % of K's"
    table, rows = Table(title, heads), []
    for name in run.networks:
        case = ScheduleCase(name, STEPS[step])
        found = {letter: _found(run, letter, case) for letter in run.methods}
        table.line(_line(name, found, run.methods))
        rows.append({"network": name, "step": step, "methods": found})
    return rows


def _found(run: SegmentRun, letter: str, case: ScheduleCase) -> Found | None:
    if letter == "S" and case.network not in run.exact_networks:
        return None
    return schedule(run.file, case, run.method(letter))


def _line(name: str, found: dict[str, Found | None], methods: Sequence[str]) -> list[str]:
    k = found["K"]
    assert k is not None
    answers = [found[letter] for letter in methods]
    energies = [one["objective"] if one else None for one in answers]
    seconds = [one["cpu_seconds"] if one else None for one in answers]
    truth = found.get("S")
    total = k.get("energy_pj")
    return [
        name,
        str(k.get("segments", "none")),
        str(k["costed"]),
        *(number(None if energy is None else energy / 1e9) for energy in energies),
        percent(over(k, truth)) if truth else "",
        *(number(one) for one in seconds),
        *(f"{100 * part / total:.1f}" for part in k["parts_pj"] if total),
    ]


def candidates(run: SegmentRun) -> dict[str, Any]:
    """Fig 11: k_S against energy and CPU seconds: ranked once as in the paper, then till nothing is new."""
    variants = {f"k_S {count}": Params(chains=count, rounds=1) for count in KS}
    variants |= {"default": Params(), "all": Params(chains=0)}
    heads = ("network", *(f"{name} {what}" for name in variants for what in ("over", "CPU s")))
    table, rows = Table("k_S: energy over that of all chains, CPU seconds", heads), []
    for name in run.networks:
        case = ScheduleCase(name)
        found = {
            title: schedule(run.file, case, replace(run.method("K"), params=params))
            for title, params in variants.items()
        }
        cells = [(percent(over(one, found["all"])), number(one["cpu_seconds"])) for one in found.values()]
        table.line([name, *(cell for pair in cells for cell in pair)])
        rows.append({"network": name, "variants": found})
    return {"k_s": rows, "below_floors": _below(row["variants"] for row in rows)}


def pruning(run: SegmentRun) -> dict[str, Any]:
    """Table VI, of all segments together: schemes (segments with their sub-batches) after each pass."""
    heads = ("network", "segments", "schemes", "fitting", "undominated", "% pruned", "costed")
    table, rows = Table("schemes of segments after validity and Pareto pruning; costed in full", heads), []
    for name in run.networks:
        found = schedule(run.file, ScheduleCase(name), run.method("K"))
        counts = counts_of(found["note"])
        pruned = 1 - counts["undominated"] / counts["schemes"]
        shown = [str(counts[head]) for head in heads[1:-2]]
        table.line([name, *shown, f"{100 * pruned:.1f}", str(found["costed"])])
        rows.append({"network": name, **counts, "pruned": pruned, "costed": found["costed"]})
    return {"pruning": rows}


def counts_of(note: str) -> dict[str, int]:
    """The ``name=number`` words of a schedule's note."""
    pairs = (word.rstrip(",:;").split("=") for word in note.split() if "=" in word)
    return {name: int(value) for name, value in pairs}


def _below(rows: Any) -> list[str]:
    """The methods whose answers cannot be, for the program's status."""
    return [title for found in rows for title, one in found.items() if one and one.get("below_floors")]
