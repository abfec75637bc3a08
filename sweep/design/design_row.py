"""The ``designs`` row: what is known of a design before any solve, and why one has no objectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, cast

from results.front.left_out import reason, reasons
from results.store.schema.rows import DesignRow, HardwareColumns
from sweep.study.designs.design_space import Constraint, Design
from sweep.study.designs.hardware import area_um2, frequency_hz, hardware_columns
from sweep.study.identity import canonical_json, text_hash
from sweep.study.network_choice import ServedRequest
from sweep.study.study import Study
from sweep.tasks.energy_cycles import EnergyCycles


@dataclass(frozen=True)
class DesignIdentity:
    """What makes a design the one that it is beside its hardware: what its study asks of it, as JSON.

    Making it takes half a millisecond, so whoever makes many rows of one study makes it once.
    """

    hardware: Literal["chip", "architecture"]
    asked: str

    @staticmethod
    def of(study: Study) -> DesignIdentity:
        asked = study.identity
        # Keys that came later join only where a study has them: designs of older studies keep their ids.
        keys = ["networks", "mapping"] if study.scratchpad is None else ["networks", "mapping", "scratchpad"]
        if study.schedule is not None:
            keys = ["networks", "schedule", "mapping"]
        if study.fusion is not None:
            keys.append("fusion")
        if study.phases is not None:
            keys = ["phases", *keys]
        text = canonical_json([asked[key] for key in keys])
        return DesignIdentity("architecture" if study.schedule is None else "chip", text)

    def design_id(self, columns: HardwareColumns, of_phases: Mapping[str, Any] | None = None) -> str:
        """The hash of the list [hardware, *asked], whose parts are JSON already.

        ``of_phases``: the design's values on the axes of phases, which stand behind the hardware where there
        are any.
        """
        hardware = canonical_json(columns[self.hardware])
        if of_phases:
            hardware += f",{canonical_json(of_phases)}"
        return text_hash(f"[{hardware},{self.asked.removeprefix('[')}")


def design_row(study: Study, design: Design, identity: DesignIdentity | None = None) -> DesignRow:
    """The part of a ``designs`` row that is known before any solve; all of it for an infeasible design.

    ``identity`` is the study's, None: it is made here.
    """
    columns = hardware_columns(design.hardware)
    row = cast(DesignRow, columns) | {
        "design_id": (identity or DesignIdentity.of(study)).design_id(columns, design.of_phases),
        "study": study.name,
        "axes": dict(design.values),
        "area_um2": area_um2(design.hardware),
        "finished_at": datetime.now(UTC),
        "feasible": design.feasible,
        "trial": design.trial,
        "baseline": design.baseline,
    }
    if not design.feasible:
        row |= {"status": "infeasible", "note": reasons(design.broken), "solves": 0}
    return row


def infeasible_row(
    study: Study, design: Design, note: str, identity: DesignIdentity | None = None
) -> DesignRow:
    """The row of a design that provably cannot run a network, known without a solve."""
    found: DesignRow = {"status": "infeasible", "feasible": False, "solves": 0, "note": note}
    return design_row(study, design, identity) | found


def dominated_row(
    study: Study,
    design: Design,
    bounds: EnergyCycles,
    better: Sequence[float],
    identity: DesignIdentity | None = None,
    *,
    least: EnergyCycles | None = None,
) -> DesignRow:
    """The row of a design that cannot be on the front, known without solves or after some of them.

    ``bounds`` are proven ones, whatever solver maps it. ``least``: the energy and cycles that this study's
    answers cannot undercut, where some of them are known; None: the bounds. An evaluated design with the
    objectives ``better`` dominates what they make of its objectives.
    """
    reached = objective_bounds(study, design, *(least or bounds))
    pairs = zip(study.objectives, reached, better, strict=True)
    note = (
        f"{name} at least {bound:.6g}, an evaluated design has {value:.6g}" for name, bound, value in pairs
    )
    found: DesignRow = {
        "status": "dominated",
        "solves": 0,
        "energy_bound_pj": bounds.energy_pj,
        "cycles_bound": bounds.cycles,
        "note": "; ".join(note),
    }
    return design_row(study, design, identity) | found


def without_answer(bad: Sequence[tuple[str, str]]) -> DesignRow:
    """Why a design has no objectives, from (status, sentence): failures, or what provably does not fit."""
    reasons = "; ".join(sentence for _, sentence in bad[:3])
    if len(bad) > 3:
        reasons += f"; and {len(bad) - 3} more"
    infeasible = all(status == "infeasible" for status, _ in bad)
    if infeasible:
        return {"status": "infeasible", "feasible": False, "note": reasons}
    return {"status": "failed", "feasible": False, "error": reasons}


def objectives(design: Design, energy_pj: float, cycles: int, tokens: float | None = None) -> DesignRow:
    """The columns that a study may minimise; those a token where its networks make ``tokens``.

    No column falls when energy or cycles grow, so lower bounds on these two give lower bounds on all.
    """
    seconds = cycles / frequency_hz(design.hardware)
    row: DesignRow = {
        "area_um2": area_um2(design.hardware),
        "energy_pj": energy_pj,
        "cycles": cycles,
        "edp_pj_cycles": energy_pj * cycles,
        "latency_seconds": seconds,
    }
    if tokens is not None:
        row |= {"seconds_per_token": seconds / tokens, "joules_per_token": energy_pj * 1e-12 / tokens}
    return row


def broken_constraints(constraints: Sequence[Constraint], row: DesignRow) -> DesignRow:
    """What is to be said of a complete design whose answers break constraints on results; else nothing."""
    values = {one: number_in(row, one.quantity) for one in constraints}
    broken = [reason(str(one), value) for one, value in values.items() if not one.met_by(value)]
    return {"feasible": False, "note": reasons(broken)} if broken else {}


_RISING = frozenset(
    {
        "energy_pj",
        "cycles",
        "edp_pj_cycles",
        "latency_seconds",
        "seconds_per_token",
        "joules_per_token",
        "time_to_first_token_seconds",
        "time_per_output_token_seconds",
    }
)
"""The results that no smaller energy or fewer cycles make larger, so that bounds on these bound them."""
_FALLING = frozenset({"tokens_per_second"})
"""The results that no more cycles make larger."""


def broken_by_bounds(constraints: Sequence[Constraint], row: DesignRow) -> str:
    """Why a design breaks constraints whatever its answers; empty where it may meet all.

    ``row``: its columns at energies and cycles that no answer undercuts, computed as those of answers are, so
    that rounding keeps them on their side. Mean power rises with energy and falls with cycles: no such row
    says anything of it.
    """
    values: Mapping[str, Any] = row
    broken: list[str] = []
    for one in constraints:
        value, bounded = values.get(one.quantity), _RISING if one.is_upper else _FALLING
        if value is not None and one.quantity in bounded and not one.met_by(float(value)):
            broken.append(reason(str(one), float(value), "at least " if one.is_upper else "at most "))
    return reasons(broken)


def broken_row(
    study: Study,
    design: Design,
    note: str,
    bounds: EnergyCycles,
    identity: DesignIdentity | None = None,
) -> DesignRow:
    """The row of a design that breaks constraints whatever its answers: see :func:`broken_by_bounds`.

    ``bounds`` are proven ones, whatever solver maps it.
    """
    known: DesignRow = {"energy_bound_pj": bounds.energy_pj, "cycles_bound": bounds.cycles}
    return infeasible_row(study, design, note, identity) | known


def whole_cycles(cycles: float) -> int:
    """A weighted sum of cycles as the column ``cycles`` has it: rounded, and at least 1.

    5 cycles at a weight of 0.5 are 2.5, and 2 in the column. A larger sum never rounds to less, so a bound
    that is rounded the same way stays a bound.
    """
    return max(1, round(cycles))


def complete(
    design: Design, found: EnergyCycles, bounds: EnergyCycles, tokens: float | None = None
) -> DesignRow:
    """The columns of a design whose energy and cycles were ``found``, with proven ``bounds`` on both.

    ``tokens`` are the study's. Columns that are no objectives follow: the mean power, which falls when cycles
    grow, and tokens a second.

    The cycles found are rounded by :func:`whole_cycles`, so the bound on them is rounded where that lowers
    it: a sum of at least 2.5 cycles may stand in the column as 2.
    """
    energy, cycles = found.energy_pj, whole_cycles(found.cycles)
    cycles_bound = min(bounds.cycles, float(whole_cycles(bounds.cycles)))
    row = objectives(design, energy, cycles, tokens)
    seconds = row["latency_seconds"]
    assert seconds is not None
    row["watts"] = energy * 1e-12 / seconds
    row |= token_rate(row, tokens)
    return row | {
        "status": "complete",
        "energy_bound_pj": bounds.energy_pj,
        "cycles_bound": cycles_bound,
        "energy_gap": (energy - bounds.energy_pj) / energy,
        "cycles_gap": (cycles - cycles_bound) / cycles,
    }


def token_rate(row: DesignRow, tokens: float | None) -> DesignRow:
    """The column of tokens a second, of a row with its seconds; none where a study's networks make none."""
    seconds = row["latency_seconds"]
    return {"tokens_per_second": tokens / seconds} if tokens is not None and seconds else {}


def request_times(
    design: Design, request: ServedRequest, cycles: Mapping[str, float], bounds: Mapping[str, float]
) -> DesignRow:
    """The columns of what a request waits for; none for phases that the study does not have.

    ``cycles``, and proven ``bounds`` on them, are of one run of each network by its name in the study.
    """
    clock, row = frequency_hz(design.hardware), DesignRow()
    (first, step), (first_bound, step_bound) = request.waits(cycles), request.waits(bounds)
    if first is not None and first_bound is not None:
        row["time_to_first_token_seconds"] = first / clock
        row["time_to_first_token_bound_seconds"] = first_bound / clock
    if step is not None and step_bound is not None:
        row["time_per_output_token_seconds"] = step / clock
        row["time_per_output_token_bound_seconds"] = step_bound / clock
    return row


def objective_bounds(study: Study, design: Design, energy_pj: float, cycles: float) -> list[float]:
    """Lower bounds on the study's objectives from those on energy and cycles; 0 where these say nothing."""
    known: Mapping[str, Any] = objectives(design, energy_pj, whole_cycles(cycles), study.tokens)
    return [float(known.get(name, 0.0)) for name in study.objectives]


def objective_values(study: Study, row: DesignRow) -> list[float]:
    """The study's objectives of a complete design, in their order."""
    return [number_in(row, name) for name in study.objectives]


def number_in(row: DesignRow, column: str) -> float:
    """The number in a column that is a study's choice, which no type knows."""
    columns: Mapping[str, Any] = row
    return float(columns[column])
