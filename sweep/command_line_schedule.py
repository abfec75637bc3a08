"""What ``archsweep solve schedule`` does: a study of one chip and one network, and its best schedule."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from costmodel.frontends.file_keys import check_keys
from results.report import write_schedules_page
from results.schedule_text import text_chart
from results.store import RunFolder
from sweep.command_line import WorkFailedError
from sweep.command_line_compiling import said_of_workers
from sweep.command_line_run import ProgressBar, terminate_as_interrupt
from sweep.command_line_words import check_file_to_write
from sweep.lock import study_id
from sweep.schedule_work import alone_offered
from sweep.session import Place, run_study
from sweep.solver_options import solver_params
from sweep.study import Study

FAMILY = "schedule"
STUDY_NAME = "solve-schedule"
"""Of the study that a command makes of its options: commands may share a folder, but not with a study."""
SHOWN = ("status", "objective", "bound", "gap", "energy_pj", "cycles", "dram_bytes", "noc_hop_bytes")
KEPT = (*SHOWN, "objective_name", "utilization", "energy_by_part_pj", "tree", "spatial_temporal", "search")
OF_SEEDS = ("seed", "status", "objective", "gap", "energy_pj", "cycles", "cpu_seconds", "error")


@dataclass(frozen=True)
class ScheduleRequest:
    """The command's options; ``schedule`` and ``mapping`` as a study's blocks of these names.

    ``output``: the run folder to keep; None: none is kept. ``chart``: where to draw the S-T chart.
    """

    chip: str
    network: str
    schedule: dict[str, Any]
    mapping: dict[str, Any]
    workers: int
    output: Path | None = None
    chart: Path | None = None
    dims: Mapping[str, int] = field(default_factory=dict)

    def asked(self, study: Study) -> dict[str, Any]:
        """What a schedule has to be counted on again."""
        assert study.schedule is not None
        return {
            "chip": self.chip,
            "network": self.network,
            **({"dims": dict(self.dims)} if self.dims else {}),
            "batch": self.schedule["batch"],
            "tile_solver": self.mapping["solver"],
            "tile_objective": study.mapping_objective,
            "most_partitions": study.schedule.pruning(study.mapping.solver).most,
            "alone": alone_offered(study),
        }

    def study(self, params: str) -> Study:
        """InputError for what is wrong with any of them, naming the option."""
        solver_params(self.schedule["solver"], FAMILY, params)
        schedule = {**self.schedule, "params": json.loads(params)}
        asked = {
            "name": STUDY_NAME,
            "networks": [{"network": self.network, "dims": dict(self.dims)}],
            "chip": self.chip,
        }
        blocks = {"schedule": schedule, "mapping": self.mapping}
        return check_keys(Study, {**asked, "objectives": ["energy_pj", "cycles"], **blocks}, "solve schedule")


def solve_schedule(request: ScheduleRequest, params: str, as_json: bool) -> None:
    """Solve and print; a network without a schedule ends with status 1 and the reason."""
    study = request.study(params)
    check_file_to_write("--chart", request.chart)
    place = Place(in_process=True) if request.workers == 1 else Place(workers=request.workers)
    with terminate_as_interrupt(), _folder(request.output) as path:
        with _Spending() as bar, said_of_workers(not place.in_process):
            folder = run_study(study, path, place, observer=bar)
        answer = request.asked(study) | solved(folder, study_id(study)) | bar.spent
        if as_json:
            print(json.dumps(answer))
        elif answer["tree"] is not None:
            _print_answer(answer)
        if request.chart:
            write_schedules_page(folder.path, request.chart)
    if answer["tree"] is None:
        raise WorkFailedError(f"no schedule: {answer['note']}")


class _Spending(ProgressBar):
    """Adds up the CPU time of what this command solves, answers from the store not among it.

    ``tile_cpu_seconds``: of what layers cost, on tiles and alone on the chip.
    """

    def __init__(self) -> None:
        super().__init__()
        self.spent = {"cpu_seconds": 0.0, "tile_cpu_seconds": 0.0}

    def answered(self, row: dict[str, Any]) -> None:
        super().answered(row)
        if not row["cached"]:
            name = "cpu_seconds" if "network" in row else "tile_cpu_seconds"
            self.spent[name] += row["cpu_seconds"] or 0.0


@contextmanager
def _folder(output: Path | None) -> Iterator[Path]:
    """The run folder; one that nobody wants is gone after the block."""
    if output is not None:
        yield output
        return
    with tempfile.TemporaryDirectory(prefix="archsweep-") as scratch:
        yield Path(scratch) / "schedule"


def solved(folder: RunFolder, asked: str) -> dict[str, Any]:
    """What ``archsweep solve schedule --json`` prints beside the request: the best seed's answer, all seeds.

    ``asked``: the study's identity; a kept folder may hold designs of earlier commands.
    """
    (design,) = (row for row in folder.read_rows("designs") if row["study_id"] == asked)
    rows = {row["task_id"]: row for row in folder.read_rows("schedules")}
    (network,) = design["networks"].values()
    seeds = [rows[task_id] for task_id in network["seeds"]]
    best = rows.get(network.get("schedule", ""), dict.fromkeys(KEPT))
    return {
        **{name: best[name] for name in KEPT},
        "seeds": [{name: row[name] for name in OF_SEEDS} for row in seeds],
        "note": design["note"] or design["error"] or best.get("note") or "",
    }


def _print_answer(answer: dict[str, Any]) -> None:
    console = Console()
    table = Table(show_header=False, box=None)
    for key in (*SHOWN, "cpu_seconds", "tile_cpu_seconds", "note"):
        if answer[key] != "":
            table.add_row(key.replace("_", " "), _shown(answer[key]))
    console.print(table)
    seeds = Table("seed", "status", answer["objective_name"], "CPU s", box=None)
    for row in answer["seeds"]:
        texts = (_shown(row[name]) for name in ("seed", "status", "objective", "cpu_seconds"))
        seeds.add_row(*texts)
    console.print(seeds)
    console.print(answer["tree"].expandtabs(2), markup=False, highlight=False)
    print(text_chart(answer["spatial_temporal"]))


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.5g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
