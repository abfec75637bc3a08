"""The product as a stranger meets it: size, start, first results cold and warm, memory.

    python benchmarks/product.py [--install] [--most-cold 10] [--most-warm 1] [--most-quickstart 90]

Runs the commands of the README in an empty folder, cold (no machine code on disk: everything compiles) and
warm. ``--install`` also builds the wheel and installs it with pip into a fresh environment, with whatever pip
has cached, and takes the first results there. CPU seconds are those of the command and of the processes that
it waited for; memory is that of the largest one. A table, then one JSON object.

Ends with status 1 where a goal is missed: the wall seconds of the first mapping by ``exact`` with nothing
compiled, the CPU seconds of a later one, or the wall seconds of the first quickstart.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import record
from packaging.requirements import Requirement

FEW = 5
"""Runs of what takes a moment; the least counts."""
SOLVES = (
    ("cosa", "solve mapping --architecture eyeriss --layer resnet18/layer1.0.conv1 --solver cosa"),
    ("exact", "solve mapping --architecture eyeriss --layer resnet18/layer1.0.conv1 --solver exact"),
)


@dataclass(frozen=True)
class Row:
    """One number, and the command that it is of."""

    what: str
    value: float
    unit: str
    command: str


@dataclass(frozen=True)
class Spent:
    """What a command took."""

    wall_seconds: float
    cpu_seconds: float
    peak_mib: float

    def rows(self, what: str, command: str) -> Iterator[Row]:
        yield Row(what, round(self.wall_seconds, 2), "wall s", command)
        yield Row(what, round(self.cpu_seconds, 2), "CPU s", command)
        yield Row(what, round(self.peak_mib), "MiB at most", command)


@dataclass(frozen=True)
class Installation:
    """Programs of an environment, a folder to work in, a home for machine code, what Python imports first."""

    programs: Path
    folder: Path
    home: Path
    python_path: str = ""

    def run(self, words: list[str]) -> Spent:
        """Run ``archsweep`` or ``python`` once. Errors: ``CalledProcessError`` with what it said."""
        environment = os.environ | {"XDG_CACHE_HOME": str(self.home), "PYTHONPATH": self.python_path}
        environment.pop("NUMBA_CACHE_DIR", None)
        command = [str(self.programs / words[0]), *words[1:]]
        start = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        return Spent(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def starts(installation: Installation) -> Iterator[Row]:
    """The command line's start, and what importing takes."""
    for what, words in (
        ("the command line starts", ["archsweep", "--help"]),
        ("import of a study's session", ["python", "-c", "import sweep.run.session"]),
        ("import of the cost model", ["python", "-c", "import costmodel.mapping.evaluate"]),
        ("import of compiled code", ["python", "-c", "import costmodel.mapping.batch.batch"]),
    ):
        installation.run(words)  # compiles to bytecode
        found = min((installation.run(words) for _ in range(FEW)), key=lambda spent: spent.cpu_seconds)
        yield from found.rows(what, " ".join(words))


def first_results(installation: Installation) -> Iterator[Row]:
    """One solve and the quickstart, cold and warm; the quickstart's second run finds every answer stored."""
    for name, command in SOLVES:
        for state in ("cold", "warm"):
            yield from installation.run(["archsweep", *command.split()]).rows(
                f"a layer mapped by {name}, {state}", f"archsweep {command}"
            )
    for state in ("first", "second"):
        words = ["archsweep", "run", "quickstart"]
        yield from installation.run(words).rows(f"the quickstart, {state} run", " ".join(words))


def sizes() -> Iterator[Row]:
    """Bytes of the packages that are needed at run time, as installed here."""
    found = {name: _mib(name) for name in sorted(_needed("archsweep"))}
    command = "pip install archsweep"
    yield Row("packages needed", len(found), "packages", command)
    yield Row("their files", round(sum(found.values())), "MiB", command)
    for name, size in sorted(found.items(), key=lambda item: -item[1])[:4]:
        yield Row(f"of these {name}", round(size), "MiB", command)


def _needed(package: str, found: set[str] | None = None) -> set[str]:
    """The package and all that it requires here, directly or not, without extras."""
    found = {package} if found is None else found
    for text in distribution(package).requires or ():
        requirement = Requirement(text)
        name = requirement.name.lower()
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        try:
            distribution(name)
        except PackageNotFoundError:
            continue
        found.add(name)
        _needed(name, found)
    return found


def _mib(package: str) -> float:
    found = distribution(package)
    paths = [Path(str(found.locate_file(file))) for file in found.files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 2**20


def installed(folder: Path) -> Iterator[Row]:
    """A wheel, and an environment with it: sizes, seconds, and the first results there."""
    wheels, environment = folder / "wheels", folder / "environment"
    venv.create(environment, with_pip=True)
    empty = folder / "empty"
    empty.mkdir()
    fresh = Installation(environment / "bin", empty, folder / "fresh_home")
    build = ["python", "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(wheels), str(record.ROOT)]
    fresh.run(build)
    wheel = next(wheels.glob("*.whl"))
    yield Row("the wheel", round(wheel.stat().st_size / 2**20, 2), "MiB", "pip wheel --no-deps .")
    spent = fresh.run(["python", "-m", "pip", "install", "--quiet", str(wheel)])
    yield from spent.rows("installation", "pip install WHEEL")
    size = sum(path.stat().st_size for path in environment.rglob("*") if path.is_file())
    yield Row("the environment", round(size / 2**20), "MiB", "python -m venv; pip install WHEEL")
    yield from first_results(fresh)


def missed(rows: list[Row], options: Namespace) -> list[str]:
    """What takes longer than its goal, in words."""
    goals = {
        ("a layer mapped by exact, cold", "wall s"): options.most_cold,
        ("a layer mapped by exact, warm", "CPU s"): options.most_warm,
        ("the quickstart, first run", "wall s"): options.most_quickstart,
    }
    limited = [(row, goals[row.what, row.unit]) for row in rows if (row.what, row.unit) in goals]
    assert len(limited) == len(goals), "a goal is of a row that is not there"
    return [
        f"{row.what}: {row.value:g} {row.unit}, more than the goal of {most:g}"
        for row, most in limited
        if row.value > most
    ]


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("--install", action="store_true", help="in a fresh environment, by pip")
    parser.add_argument("--most-cold", type=float, default=10.0, help="wall s, first mapping by exact")
    parser.add_argument("--most-warm", type=float, default=1.0, help="CPU s, a later mapping by exact")
    parser.add_argument("--most-quickstart", type=float, default=90.0, help="wall s, the first quickstart")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        here = Installation(Path(sys.executable).parent, folder, folder / "home", str(record.ROOT))
        rows = [*sizes(), *starts(here)]
        rows += installed(folder) if options.install else first_results(here)
    for row in rows:
        print(f"{row.what:42} {row.value:10,g} {row.unit:12} {row.command}")
    over = missed(rows, options)
    print("\n".join(over))
    record.finish([asdict(row) for row in rows], options)
    return int(bool(over))


if __name__ == "__main__":
    raise SystemExit(main())
