"""What all benchmarks share: their parser, their line of JSON, and the record of what was measured where.

A benchmark prints tables and ends with one line of JSON. With ``--json FILE`` that JSON also goes to a file,
beside the machine, the versions, the commit, the date, and what the run took: a :class:`Record`, of which
``write_benchmarks.py`` makes BENCHMARKS.md.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STARTED = time.perf_counter()
PACKAGES = (
    "clarabel",
    "highspy",
    "moocore",
    "numba",
    "numpy",
    "optuna",
    "ortools",
    "pandas",
    "plotly",
    "pyarrow",
    "pydantic",
    "ray",
    "scikit-learn",
    "scipy",
)
"""Packages whose versions decide answers or seconds."""


@dataclass(frozen=True)
class Surroundings:
    """Where, when and with what a benchmark ran; ``commit`` ends with ``+`` if files differed from it."""

    machine: str
    system: str
    python: str
    packages: dict[str, str]
    commit: str
    date: str

    @classmethod
    def now(cls) -> Surroundings:
        machine = f"{_processor()}, {os.cpu_count()} cores, {_memory_gib():.0f} GiB"
        system = f"{platform.system()} {platform.release()}, {platform.machine()}"
        packages = {name: found for name in PACKAGES if (found := _version(name))}
        date = datetime.now(UTC).strftime("%Y-%m-%d")
        return cls(machine, system, platform.python_version(), packages, commit(), date)


@dataclass(frozen=True)
class Record:
    """One finished run of a benchmark: what it found, and what the run took.

    ``cpu_seconds`` are of the process and of those that it waited for; Ray's workers are not among them.
    """

    benchmark: str
    arguments: tuple[str, ...]
    found: Any
    cpu_seconds: float
    wall_seconds: float
    peak_memory_mib: int
    surroundings: Surroundings
    status: int = 0
    """The exit status; not 0 where something that has to hold did not."""

    @classmethod
    def read(cls, path: Path) -> Record:
        """Errors: ``ValueError`` for a file that is no record."""
        content = json.loads(path.read_text(encoding="utf-8"))
        try:
            surroundings = Surroundings(**content.pop("surroundings"))
            arguments = tuple(content.pop("arguments"))
            return cls(**content, arguments=arguments, surroundings=surroundings)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is no record of a benchmark: {error}") from error

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def parser(description: str | None) -> ArgumentParser:
    """A benchmark's parser, with ``--json``."""
    made = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    made.add_argument(
        "--json", type=Path, metavar="FILE", help="also write a record with machine and versions"
    )
    return made


def finish(found: Any, options: Namespace) -> None:
    """Print what was found as the last line, and write the record if it was asked for."""
    print(json.dumps(found))
    if options.json is None:
        return
    # Of children, too: many benchmarks run the command line in a process of its own.
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    Record(
        benchmark=Path(sys.argv[0]).stem,
        arguments=_without_json(sys.argv[1:]),
        found=found,
        cpu_seconds=round(sum(usage.ru_utime + usage.ru_stime for usage in spent), 2),
        wall_seconds=round(time.perf_counter() - STARTED, 2),
        peak_memory_mib=max(usage.ru_maxrss for usage in spent) // 1024,
        surroundings=Surroundings.now(),
    ).write(options.json)


def proof_status(tally: dict[str, int], compared: str) -> int:
    """The exit status of a benchmark that attacks a proof: 1 for a failure, and where nothing was compared.

    ``compared`` names the entry of the tally that counts what the proof was held against.
    """
    # A limit set too low would otherwise pass: no failures among no problems.
    if not tally[compared]:
        print(
            f"nothing was compared ({compared}: 0), so nothing is proven: raise the limits", file=sys.stderr
        )
    return int(tally["failures"] > 0 or not tally[compared])


def commit() -> str:
    """The checkout's commit, with ``+`` where tracked files differ from it; empty outside of a checkout."""
    head = _git("rev-parse", "--short=12", "HEAD")
    return head + "+" * bool(head and _git("status", "--porcelain", "--untracked-files=no"))


def _git(*words: str) -> str:
    try:
        run = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""


def _without_json(arguments: list[str]) -> tuple[str, ...]:
    """The arguments that decide what is measured."""
    kept = list(arguments)
    if "--json" in kept:
        position = kept.index("--json")
        del kept[position : position + 2]
    return tuple(word for word in kept if not word.startswith("--json="))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    """The processor's name where the system tells it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
