"""What ``archsweep replay`` does: run a program on its chip event by event, and print what that took."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from costmodel.hardware.chip import Chip
from costmodel.hardware.pe_mesh import PeMesh
from costmodel.replay.replay import Replay
from costmodel.replay.tables import ReplayOptions
from costmodel.replay.trace import trace_lines
from results.report.replay_page import write_replay_page
from sweep.cli.arguments.files_to_write import check_file_to_write, write_file
from sweep.cli.messages import shown
from sweep.solve.replay import replay_numbers, replay_of, replay_shown

DIRECTIONS = ("east", "north", "west", "south")


def replay_file(
    path: Path, options: ReplayOptions, trace: Path | None, page: Path | None, as_json: bool
) -> None:
    """Replay the program of a file and print the numbers.

    ``trace``: write all events to this file; ``page``: an HTML page on which the run can be watched.
    InputError for a file that is no program, and for a program that cannot run.
    """
    check_file_to_write("--trace", trace)
    check_file_to_write("--page", page)
    program, found = replay_of(path, options, log=bool(trace or page))
    if trace:
        write_file("--trace", trace, "".join(trace_lines(program, found)))
    if page:
        write_replay_page(page, replay_shown(program, found))
    if as_json:
        print(json.dumps(to_json(found, program.chip)))
    else:
        _print_tables(found, program.chip)


def to_json(found: Replay, chip: Chip) -> dict[str, Any]:
    """All numbers of a replay as plain data; lists by tile, and the links that carry anything."""
    links = [
        {"column": x, "row": y, "to": DIRECTIONS[way], "bytes": int(load) / 8 / found.ports}
        for x in range(chip.columns)
        for y in range(chip.rows)
        for way, load in enumerate(found.link_port_bits[x, y])
        if load
    ]
    return {
        **replay_numbers(found),
        "tiles": {
            "peak_bytes": found.peak_bytes,
            "busy_cycles": found.busy_cycles.tolist(),
            "waited_for_data_cycles": found.waited_for_data.tolist(),
            "waited_for_outputs_cycles": found.waited_for_outputs.tolist(),
        },
        "layers": [asdict(layer) for layer in found.layers],
        "links": links,
    }


def _print_tables(found: Replay, chip: Chip) -> None:
    console = Console()
    numbers = Table(show_header=False, box=None)
    for key, value in replay_numbers(found).items():
        numbers.add_row(key.replace("_", " "), shown(value))
    console.print(numbers)
    tiles = Table("tile", "column, row", "peak bytes", "busy", "waited for data", "for outputs", box=None)
    rows = zip(
        chip.positions,
        found.peak_bytes,
        found.busy_cycles.tolist(),
        found.waited_for_data.tolist(),
        found.waited_for_outputs.tolist(),
        strict=True,
    )
    for number, (position, *values) in enumerate(rows):
        # of the many units of a mesh only PEs compute
        if isinstance(chip, PeMesh) and not values[1]:
            continue
        tiles.add_row(str(number), f"{position[0]}, {position[1]}", *map(_whole, values))
    console.print(tiles)
    layers = Table("layer", "first start", "last end", "operations", box=None)
    for layer in found.layers:
        layers.add_row(
            layer.layer, _whole(layer.first_start), _whole(layer.last_end), f"{layer.operations:,}"
        )
    console.print(layers)


def _whole(value: float) -> str:
    """Bytes or cycles in a table, rounded to whole ones; --json has the fractions."""
    return f"{value:,.0f}"
