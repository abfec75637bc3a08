"""What ``archsweep solve schedule`` does: a study of one chip and one network, and its best schedule."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from results.report.schedule_text import text_chart
from sweep.cli.arguments.files_to_write import check_file_to_write
from sweep.cli.compiling import said_of_workers
from sweep.cli.messages import WorkFailedError, shown
from sweep.cli.run import ProgressBar, terminate_as_interrupt
from sweep.solve.schedule import ScheduleRequest

SHOWN = ("status", "objective", "bound", "gap", "energy_pj", "cycles", "dram_bytes", "noc_hop_bytes")


def solve_schedule(request: ScheduleRequest, as_json: bool) -> None:
    """Solve and print; a network without a schedule ends with status 1 and the reason."""
    check_file_to_write("--chart", request.chart)
    check_file_to_write("--program", request.program)
    with terminate_as_interrupt(), ProgressBar() as bar, said_of_workers(not request.runtime.in_process):
        answer = request.solved(bar).to_json()
    if as_json:
        print(json.dumps(answer))
    elif answer["tree"] is not None:
        _print_answer(answer)
    if answer["tree"] is None:
        raise WorkFailedError(f"no schedule: {answer['note']}")


def _print_answer(answer: dict[str, Any]) -> None:
    console = Console()
    table = Table(show_header=False, box=None)
    for key in (*SHOWN, "cpu_seconds", "tile_cpu_seconds", "note"):
        if answer[key] != "":
            table.add_row(key.replace("_", " "), shown(answer[key], 5))
    console.print(table)
    seeds = Table("seed", "status", answer["objective_name"], "CPU s", box=None)
    for row in answer["seeds"]:
        texts = (shown(row[name], 5) for name in ("seed", "status", "objective", "cpu_seconds"))
        seeds.add_row(*texts)
    console.print(seeds)
    console.print(answer["tree"].expandtabs(2), markup=False, highlight=False)
    print(text_chart(answer["spatial_temporal"]))
