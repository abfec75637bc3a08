"""Schedule one network on one chip: a request becomes a study of one design, whose best schedule answers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from costmodel.formats.yaml.file_keys import check_keys
from results.report.page import write_schedules_page
from results.store.folder import RunFolder
from sweep.design.schedule_workload import alone_offered
from sweep.run.run_tally import RunTally
from sweep.run.session import RuntimeChoice, run_study
from sweep.solve.parameters import check_named_values, solver_params
from sweep.study.lock import study_id
from sweep.study.study import Study

FAMILY = "schedule"
STUDY_NAME = "solve-schedule"
"""Name of the study that a request becomes: all have the same, so that one folder may hold several."""
OF_SEEDS = ("seed", "status", "objective", "gap", "energy_pj", "cycles", "cpu_seconds", "error")


@dataclass(frozen=True)
class ScheduleRequest:
    """A chip, a network, and how it is scheduled.

    ``chip`` and ``network`` are names of the library or files. ``schedule`` and ``mapping`` have the keys of
    a study's blocks. ``place`` is where solves run. ``output`` is the run folder to keep; None keeps none.
    ``chart`` is the HTML file in which to draw the schedule.
    """

    chip: str
    network: str
    schedule: Mapping[str, Any]
    mapping: Mapping[str, Any]
    place: RuntimeChoice
    output: Path | None = None
    chart: Path | None = None
    dims: Mapping[str, int] = field(default_factory=dict)

    def study(self) -> Study:
        """The request as a study of one design; InputError, naming the key, for what is wrong with it."""
        check_named_values("dims", self.dims)
        solver_params(self.schedule["solver"], FAMILY, self.schedule["params"])
        document = {
            "name": STUDY_NAME,
            "networks": [{"network": self.network, "dims": dict(self.dims)}],
            "chip": self.chip,
            "objectives": ["energy_pj", "cycles"],
            "schedule": {**self.schedule, "params": dict(self.schedule["params"])},
            "mapping": dict(self.mapping),
        }
        return check_keys(Study, document, "solve schedule")

    def solved(self, tally: RunTally) -> ScheduleAnswer:
        """The best schedule of all seeds; ``tally`` watches the run, and adds up its CPU seconds.

        Where none was found the answer has no tree, and its note says why.
        """
        study = self.study()
        with _folder(self.output) as path:
            folder = run_study(study, path, self.place, observer=tally)
            if self.chart:
                write_schedules_page(folder.path, self.chart)
            return _answer(folder, study, self, tally)


@dataclass(frozen=True)
class ScheduleAnswer:
    """The best schedule that a solver found for one network on one chip, with its proof.

    ``objective`` is the schedule's E^n D^m, with its energy E in pJ and its delay D in cycles; n and m follow
    from ``objective_name`` (``edp``: E D). ``bound`` is a proven lower bound on it for every schedule.
    ``energy_pj`` and ``cycles`` are of the whole batch; ``dram_bytes`` cross the DRAM's interface;
    ``noc_hop_bytes`` are bytes times links on the mesh. ``tree`` is the schedule as a resource-allocation
    tree in text. It is None, and so are all costs, where no schedule was found; ``note`` says why.
    ``spatial_temporal`` holds rectangles of tiles and cycles for a chart, ``seeds`` the answer of each seed.
    ``cpu_seconds`` are those of the search, ``tile_cpu_seconds`` those of mapping layers. ``asked`` holds
    what is needed, beside the tree, to count the schedule again.
    """

    asked: Mapping[str, Any]
    status: str | None
    objective: float | None
    bound: float | None
    gap: float | None
    energy_pj: float | None
    cycles: int | None
    dram_bytes: int | None
    noc_hop_bytes: float | None
    objective_name: str | None
    utilization: float | None
    energy_by_part_pj: Mapping[str, float] | None
    tree: str | None
    spatial_temporal: Any
    search: Any
    seeds: tuple[Mapping[str, Any], ...]
    note: str
    cpu_seconds: float
    tile_cpu_seconds: float

    def to_json(self) -> dict[str, Any]:
        """The JSON object that ``archsweep solve schedule --json`` prints, and ``evaluate`` reads."""
        own = asdict(self)
        asked: dict[str, Any] = own.pop("asked")
        return asked | own | {"seeds": list(own["seeds"])}


KEPT = (
    "status",
    "objective",
    "bound",
    "gap",
    "energy_pj",
    "cycles",
    "dram_bytes",
    "noc_hop_bytes",
    "objective_name",
    "utilization",
    "energy_by_part_pj",
    "tree",
    "spatial_temporal",
    "search",
)
"""The columns of the best seed's row that the answer holds, under the same names."""


@contextmanager
def _folder(output: Path | None) -> Iterator[Path]:
    """The run folder; without ``output`` a temporary one, which is removed after the block."""
    if output is not None:
        yield output
        return
    with tempfile.TemporaryDirectory(prefix="archsweep-") as scratch:
        yield Path(scratch) / "schedule"


def _answer(folder: RunFolder, study: Study, request: ScheduleRequest, tally: RunTally) -> ScheduleAnswer:
    """The best seed's answer, from the one design of this study: the folder may hold earlier requests'."""
    asked = study_id(study)
    (design,) = (row for row in folder.read_rows("designs") if row["study_id"] == asked)
    rows = {row["task_id"]: row for row in folder.read_rows("schedules")}
    (network,) = design["networks"].values()
    best = rows.get(network.get("schedule", ""), dict.fromkeys(KEPT))
    return ScheduleAnswer(
        asked=_asked(request, study),
        **{name: best[name] for name in KEPT},
        seeds=tuple({name: rows[task_id][name] for name in OF_SEEDS} for task_id in network["seeds"]),
        note=design["note"] or design["error"] or best.get("note") or "",
        cpu_seconds=tally.schedule_cpu_seconds,
        tile_cpu_seconds=tally.layer_cpu_seconds,
    )


def _asked(request: ScheduleRequest, study: Study) -> dict[str, Any]:
    """What costs a tree depends on, with the defaults filled in."""
    assert study.schedule is not None
    return {
        "chip": request.chip,
        "network": request.network,
        **({"dims": dict(request.dims)} if request.dims else {}),
        "batch": study.schedule.batch,
        "tile_solver": study.mapping.solver,
        "tile_objective": study.mapping_objective,
        "most_partitions": study.schedule.pruning(study.mapping.solver).most,
        "alone": alone_offered(study),
    }
