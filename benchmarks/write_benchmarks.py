"""Writes BENCHMARKS.md: runs the benchmarks one after the other, or reads the records of earlier runs.

    python benchmarks/write_benchmarks.py [--effort quick|full] [--references FOLDER] [--keep]
    python benchmarks/write_benchmarks.py --only NAME ...       these anew, the others as recorded
    python benchmarks/write_benchmarks.py --from FOLDER         nothing runs

Quick runs take about twenty CPU minutes together, full ones hours. Records go to runs/benchmarks/EFFORT, a
file and a log each; a record of the same arguments and the same clean commit is not made again, with
``--keep`` one of any commit. A benchmark that fails becomes a line that says so. ``--references`` has the
whole sets of reference data, in timeloop/, set/, kapla/ and graphs/, of which the checkout has a part.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from record import ROOT, Record
from report.document import document
from report.inputs import input_paths
from report.running import Session, told
from report.suite import EFFORTS, ENTRIES


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [entry.name for entry in ENTRIES]
    parser.add_argument("--effort", choices=EFFORTS, default="quick")
    parser.add_argument("--references", type=Path, metavar="FOLDER")
    parser.add_argument("--records", type=Path, default=ROOT / "runs" / "benchmarks", metavar="FOLDER")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="run these, and anew")
    parser.add_argument("--keep", action="store_true", help="records of other commits are good enough")
    parser.add_argument(
        "--from", dest="recorded", type=Path, metavar="FOLDER", help="only read these records"
    )
    parser.add_argument("--wall-minutes", type=float, default=30.0, help="of each benchmark")
    parser.add_argument("--output", type=Path, default=ROOT / "BENCHMARKS.md")
    return parser.parse_args()


def run(session: Session, only: list[str] | None) -> None:
    """Run what has no record yet, or ``only`` these; a line on standard error for each."""
    for entry in ENTRIES:
        if session.finished(entry) if only is None else entry.name not in only:
            continue
        start = time.perf_counter()
        print(f"{entry.name} ...", end=" ", file=sys.stderr, flush=True)
        found = session.run(entry)
        said = f"{found.cpu_seconds:.1f} CPU s" if isinstance(found, Record) else found
        print(f"{time.perf_counter() - start:.1f} s, {said}", file=sys.stderr, flush=True)


def main() -> None:
    asked = arguments()
    folder = asked.recorded or asked.records / asked.effort
    where = input_paths(asked.references, folder / "scratch")
    if asked.recorded is None:
        session = Session(folder, asked.effort, where, asked.keep, asked.wall_minutes)
        run(session, asked.only)
    results = {entry.name: told(folder, entry) for entry in ENTRIES}
    command = f"python benchmarks/write_benchmarks.py --effort {asked.effort}"
    asked.output.write_text(document(results, asked.effort, where, command), encoding="utf-8")
    missing = [name for name, found in results.items() if isinstance(found, str)]
    print(f"{asked.output}: {len(results) - len(missing)} benchmarks, without {', '.join(missing) or 'none'}")


if __name__ == "__main__":
    main()
