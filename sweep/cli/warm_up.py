"""What ``archsweep warm-up`` does."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from costmodel.compilation import listen
from costmodel.errors import InputError
from costmodel.machine_code import kept_in
from solvers.catalogue import solver
from sweep.cli.compiling import Reporter
from sweep.cli.messages import note
from sweep.tasks.warm_up import every_solver, warm_up

BESIDE = (
    "The user's cache folder cannot be written: machine code is kept beside the source, and where that "
    "cannot be written either every process compiles. Set NUMBA_CACHE_DIR to a folder that can be written"
)


def warm_up_and_print(names: Sequence[str], as_json: bool) -> None:
    """Let the solvers compile what they need, by default all; InputError for a name that is none.

    Of the default, a solver whose optional library is not installed is left out, which is said.
    """
    chosen = [solver(name).name for name in dict.fromkeys(names)] or every_solver()
    reporter = Reporter(advice="")
    before = listen(reporter)
    try:
        rows = [
            _warmed(name, reporter, f"{number} of {len(chosen)}", bool(names))
            for number, name in enumerate(chosen, 1)
        ]
    finally:
        listen(before)
    folder = kept_in()
    if as_json:
        print(json.dumps({"folder": folder and str(folder), "compiled": len(reporter.done), "solvers": rows}))
        return
    count = len(reporter.done)
    compiled = f"{count} functions were compiled" if count else "Nothing was left to compile"
    print(f"{compiled}. {f'Machine code is kept in {folder}' if folder else BESIDE}")


def _warmed(name: str, reporter: Reporter, position: str, asked: bool) -> dict[str, Any]:
    """One solver's row of the JSON object; says on standard error that it begins and ends."""
    note(f"{position}: {name} begins")
    so_far, cpu, wall = len(reporter.done), time.process_time(), time.monotonic()
    missing = ""
    try:
        warm_up([name])
    except InputError as error:
        if asked:
            raise
        missing = str(error)
    compiled = reporter.done[so_far:]
    row = {
        "solver": name,
        "compiled": compiled,
        "cpu_seconds": time.process_time() - cpu,
        "wall_seconds": time.monotonic() - wall,
        "left_out": missing or None,
    }
    ended = f"left out: {missing}" if missing else f"{len(compiled)} functions compiled"
    note(f"{position}: {name}: {ended}, {row['wall_seconds']:.1f} s ({row['cpu_seconds']:.1f} s CPU)")
    return row
