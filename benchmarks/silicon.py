"""Predicted cycles against those of Gemmini's RTL: errors by set and mesh, the choice between mappings.

    python benchmarks/silicon.py [--data FOLDER] [--halves N]

Reads the rows of tests/data/silicon (or another folder with files of the same names) and prints, for DOSA's
mappings and for random ones on each mesh, the errors of `archsweep validate gemmini`; then how well the
model chooses between mappings of one layer on one mesh: how often its least cycles name the RTL's best
within 2 %, and how much longer what it names takes. That is counted twice: run by run, where runs of one
program (the same tiles and loops) differ by the RTL's own repetition, and program by program, each taken at
the mean of its runs, over the layers that have two programs or more. Rows marked as suspect are left out here
and counted.

With `--halves N` the fitted constants are fitted again on N random halves of the layers of DOSA's runs and of
the random ones of mesh 16, and on the N other halves; errors and choices are those of the layers that each
fit has not seen, their means and standard deviations.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, NamedTuple

import numpy as np
import record
from numpy.typing import NDArray

from costmodel.formats.architectures import architecture_file, load_architecture
from costmodel.formats.machines.measurements import Measurement, counted, predicted, read_measurements
from costmodel.formats.yaml.constants import fitted_constants
from costmodel.formats.yaml.safe_yaml import load_yaml
from costmodel.mapping.timing.accuracy import Accuracy
from costmodel.mapping.timing.cycles import cycles_of
from solvers.calibration.fit import fitted

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "silicon"
FILES = {"DOSA's": "gemmini_dosa.jsonl", "random": "gemmini_random.jsonl"}
OWN_MESH = 16
"""The mesh of the library's file, whose runs its constants were fitted on."""
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


def runs(folder: Path) -> tuple[list[Run], list[Measurement], int]:
    """All rows but the suspect ones, twice, and how many those are."""
    found, measurements, suspect = [], [], 0
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
            measurements.append(run)
    return found, measurements, suspect


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


def unseen(rows: list[Run], measurements: list[Measurement], halves: int) -> dict[str, tuple[float, float]]:
    """Means and standard deviations over fits of half of the layers, on the layers that each has not seen.

    ``rows`` and ``measurements`` are the same runs, all on the mesh of the library's file.
    """
    start = fitted_constants(load_yaml(architecture_file("gemmini")))
    counts = [counted(run) for run in measurements]
    measured = np.array([run.cycles for run in measurements])

    def predict(constants: Sequence[float]) -> NDArray[np.float64]:
        timing = load_architecture("gemmini", dict(zip(start, constants, strict=True))).timing
        assert timing is not None
        return np.array([cycles_of(timing, each).cycles for each in counts], dtype=float)

    layers = sorted({run.layer for run in rows})
    rng, found = np.random.default_rng(0), defaultdict(list)
    for _ in range(halves):
        drawn = set(rng.permutation(layers)[: len(layers) // 2].tolist())
        one_half = np.array([run.layer in drawn for run in rows])
        for seen in (one_half, ~one_half):
            said = predict(fitted(predict, tuple(start.values()), measured, seen))
            left = [row._replace(predicted=int(said[i])) for i, row in enumerate(rows) if not seen[i]]
            dosa = [row for row in left if row.kind == "DOSA's"]
            for name, those in (("all", left), ("DOSA's", dosa)):
                errors = Accuracy.of([row.measured for row in those], [row.predicted for row in those])
                found[f"{name} MAPE"].append(errors.mape)
            for name, each in (("runs", choices(dosa)), ("programs", choices(programs(dosa)))):
                found[f"best by {name}"].append(each["best"])
                found[f"regret by {name}"].append(each["mean_regret"])
    return {name: (fmean(values), pstdev(values)) for name, values in found.items()}


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with the rows")
    parser.add_argument("--halves", type=int, default=0, help="how often to fit on halves of the layers")
    options = parser.parse_args()
    rows, measurements, suspect = runs(options.data)
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
    if options.halves:
        own = [number for number, row in enumerate(rows) if row.mesh == OWN_MESH]
        of_halves = unseen([rows[i] for i in own], [measurements[i] for i in own], options.halves)
        found["unseen"] = of_halves
        print(f"layers that a fit of half of them has not seen, {2 * options.halves} fits")
        for name, (mean, spread) in of_halves.items():
            print(f"    {name}: {mean:.1%} +- {spread:.1%}")
    record.finish(found, options)


if __name__ == "__main__":
    main()
