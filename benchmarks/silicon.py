"""Predicted cycles against those of Gemmini's RTL: errors by set and mesh, the choice between mappings.

    python benchmarks/silicon.py [--data FOLDER]

Reads the rows of tests/data/silicon (or another folder with files of the same names) and prints, for DOSA's
mappings and for random ones on each mesh, the errors of `archsweep validate gemmini`; then how well the
model chooses between mappings of one layer on one mesh: how often its least cycles name the RTL's best
within 2 %, and how much longer what it names takes. That is counted twice: run by run, where runs of one
program (the same tiles and loops) differ by the RTL's own repetition, and program by program, each taken at
the mean of its runs, over the layers that have two programs or more. Rows marked as suspect are left out here
and counted.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import record

from costmodel.formats.machines.measurements import predicted, read_measurements
from costmodel.mapping.timing.accuracy import Accuracy

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "silicon"
FILES = {"DOSA's": "gemmini_dosa.jsonl", "random": "gemmini_random.jsonl"}
TIED = 1.02
"""Runs of one program differ by as much, so a mapping within it of the best is the best."""


class Run(NamedTuple):
    """A row: which file, mesh and layer it is of, the tile and loops that ran, measured and predicted
    cycles."""

    kind: str
    mesh: int
    layer: str
    program: tuple[object, ...]
    measured: float
    predicted: int


def runs(folder: Path) -> tuple[list[Run], int]:
    """All rows but the suspect ones, and how many those are."""
    found, suspect = [], 0
    for kind, name in FILES.items():
        lines = [json.loads(line) for line in (folder / name).read_text().splitlines() if line.strip()]
        for line, run in zip(lines, read_measurements("gemmini", folder / name), strict=True):
            if line.get("suspect"):
                suspect += 1
                continue
            mesh = run.overrides["Scratchpad.fanout.x"]
            assert run.walk is not None, "the rows of these files have tiles"
            program = (*sorted(run.walk[0].items()), *run.walk[1])
            found.append(Run(kind, mesh, run.group, program, run.cycles, predicted(run)[0]))
    return found, suspect


def programs(those: list[Run]) -> list[Run]:
    """Each program once, measured at the mean of its runs."""
    same: dict[tuple[object, ...], list[Run]] = defaultdict(list)
    for run in those:
        same[run.mesh, run.layer, run.program].append(run)
    return [one[0]._replace(measured=fmean(run.measured for run in one)) for one in same.values()]


def choices(those: list[Run]) -> dict[str, Any]:
    """Of layers with several mappings: how often ours is the RTL's best, and how much longer it takes."""
    by_layer: dict[tuple[int, str], list[Run]] = defaultdict(list)
    for run in those:
        by_layer[run.mesh, run.layer].append(run)
    regrets = []
    for mappings in by_layer.values():
        if len(mappings) > 1:
            # of mappings that we cannot tell apart, all: the mean of what they take
            least = min(run.predicted for run in mappings)
            taken = fmean(run.measured for run in mappings if run.predicted == least)
            regrets.append(taken / min(run.measured for run in mappings) - 1)
    best = fmean(regret <= TIED - 1 for regret in regrets)
    return {"layers": len(regrets), "best": best, "mean_regret": fmean(regrets)}


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the rows")
    options = parser.parse_args()
    rows, suspect = runs(options.data)
    found: dict[str, Any] = {"suspect": suspect}
    for kind, mesh in sorted({(run.kind, run.mesh) for run in rows}):
        those = [run for run in rows if (run.kind, run.mesh) == (kind, mesh)]
        errors = Accuracy.of([run.measured for run in those], [run.predicted for run in those])
        chosen, of_programs = choices(those), choices(programs(those))
        found[f"{kind} {mesh}"] = errors.to_json() | chosen | {"programs": of_programs}
        rank = 0.0 if errors.spearman is None else errors.spearman
        print(f"{kind} mesh {mesh}: {errors.rows} rows, MAPE {errors.mape:.1%}, Spearman {rank:.4f}")
        print(f"    median {errors.median_ape:.1%}, predicted / measured {errors.geomean_ratio:.3f}")
        for name, each in (("runs", chosen), ("programs", of_programs)):
            layers, best, regret = each["layers"], each["best"], each["mean_regret"]
            print(f"    by {name}, {layers} layers: best {best:.0%}, regret {regret:.1%}")
    record.finish(found, options)


if __name__ == "__main__":
    main()
