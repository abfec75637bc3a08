"""How a run is going, in one small file that the run writes every second and anybody may read.

The file is as small for ten million solves as for ten: it holds counts, the designs that joined the front
when they were finished, and the slowest and the latest failed solves. So whoever follows a run reads neither
rows nor parts, and a run behind a URI is followed by fetching one object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from results.errors import DamagedFileError
from results.store.parts import write_whole

PROGRESS_FILE = "progress.json"
State = Literal["running", "ended", "stopped"]


@dataclass(frozen=True)
class FrontStep:
    """A design that joined the front when it was finished: none finished before was as good in everything.

    ``finished``: designs that had their rows by then, this one among them. ``seconds``: since the run began.
    ``values``: of the run's objectives, in their order.
    """

    design_id: str
    axes: Mapping[str, Any]
    values: tuple[float, ...]
    finished: int
    seconds: float


@dataclass(frozen=True)
class SlowSolve:
    """A solve that took long: what was solved, seconds on the clock, and the process and host that did it."""

    what: str
    wall_seconds: float
    worker: str


@dataclass(frozen=True)
class FailedSolve:
    """A solve that failed: what was to be solved, and why it was not."""

    what: str
    error: str


@dataclass(frozen=True)
class RunProgress:
    """How a run is going.

    ``began``, ``seen``: when the run began and when these numbers were true, in seconds since 1970.
    ``planned``: the most designs that the search looks at. ``designs``: how many have a row, by its status.
    ``solves``: how many are known to be needed. ``done``: how many of them have ended; ``cached``: how many
    of these were answered from the store; ``failed``: how many failed. ``workers``: how many have answered so
    far; ``busy``: how many of them within the last minute. ``rate``: solves a second over the last minute.
    ``seconds_left``: at the pace so far; None before that can be told. ``best``, ``worst``: the values of
    each objective over all designs that have some. ``steps``: how the front grew. ``slowest``: the solves
    that took longest. ``failures``: the latest failed solves.
    """

    study: str
    objectives: tuple[str, ...]
    state: State
    began: float
    seen: float
    planned: int = 0
    designs: Mapping[str, int] | None = None
    solves: int = 0
    done: int = 0
    cached: int = 0
    failed: int = 0
    cpu_seconds: float = 0.0
    workers: int = 0
    busy: int = 0
    rate: float = 0.0
    seconds_left: float | None = None
    best: tuple[float, ...] = ()
    worst: tuple[float, ...] = ()
    steps: tuple[FrontStep, ...] = ()
    slowest: tuple[SlowSolve, ...] = ()
    failures: tuple[FailedSolve, ...] = ()

    def write(self, folder: Path) -> None:
        """Write the file into a run folder, whole or not at all; CannotWriteError if it cannot be written."""
        text = json.dumps(asdict(self), separators=(",", ":"))
        write_whole(folder / PROGRESS_FILE, lambda file: file.write_text(text, encoding="utf-8"))

    @staticmethod
    def parsed(text: str | bytes, where: Path | str) -> RunProgress:
        """What :meth:`write` wrote; DamagedFileError for anything else, which ``where`` names."""
        try:
            content: dict[str, Any] = json.loads(text)
            for key in ("objectives", "best", "worst"):
                content[key] = tuple(content[key])
            content["steps"] = tuple(
                FrontStep(**step | {"values": tuple(step["values"])}) for step in content["steps"]
            )
            content["slowest"] = tuple(SlowSolve(**one) for one in content["slowest"])
            content["failures"] = tuple(FailedSolve(**one) for one in content["failures"])
            return RunProgress(**content)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            problem = f"does not say how a run is going ({error})"
            raise DamagedFileError(Path(where), problem, "A run writes it anew while it goes on") from error


def read_progress(folder: Path) -> RunProgress | None:
    """How the run in ``folder`` is going, or went; None where no run has said so."""
    path = folder / PROGRESS_FILE
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedFileError(path, f"cannot be read: {error.strerror}", "Mend the folder") from error
    return RunProgress.parsed(text, path)
