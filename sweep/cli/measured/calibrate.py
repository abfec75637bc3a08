"""What ``archsweep calibrate`` does: a machine's constants from measured runs, in a copy of its file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, pstdev

import numpy as np

from costmodel.errors import InputError
from costmodel.formats.architectures import architecture_file, load_architecture
from costmodel.formats.machines.measurements import Measurement, counted, predicted, read_measurements
from costmodel.formats.yaml.constants import FittedConstant, fitted_constants, with_constants
from costmodel.formats.yaml.safe_yaml import load_yaml
from costmodel.hardware.timing import Timing
from costmodel.mapping.timing.counts import StepCounts
from costmodel.mapping.timing.cycles import cycles_of
from solvers.calibration.fit import Fit, Floats, fit
from sweep.cli.evaluate.evaluate import print_rows
from sweep.cli.measured.validate import compared, draw, print_errors


@dataclass(frozen=True)
class _Machine:
    """A machine's file and measured runs on it; ``keys`` are the constants to fit."""

    name: str
    runs: list[Measurement]
    keys: tuple[str, ...]

    @cached_property
    def counts(self) -> list[StepCounts | None]:
        """What the runs ask for, which no constant changes; None for those that are given as mappings."""
        return [counted(run) if run.walk is not None else None for run in self.runs]

    def predict(self, constants: Sequence[float]) -> Floats:
        """The cycles of every run with other constants."""
        overrides = dict(zip(self.keys, constants, strict=True))
        # runs on several meshes: each with its own fan-outs, all with the same constants
        machines = {
            mesh: load_architecture(self.name, {**dict(mesh), **overrides}) for mesh in set(self.meshes)
        }
        return np.array(
            [
                self._cycles(run.on(machines[mesh]), counts)
                for run, mesh, counts in zip(self.runs, self.meshes, self.counts, strict=True)
            ],
            dtype=float,
        )

    @cached_property
    def meshes(self) -> list[tuple[tuple[str, int], ...]]:
        """What each run's machine has otherwise than the file."""
        return [tuple(run.overrides.items()) for run in self.runs]

    def _cycles(self, run: Measurement, counts: StepCounts | None) -> int:
        if counts is None:
            return predicted(run)[0]
        timing: Timing | None = run.architecture.timing
        assert timing is not None
        return cycles_of(timing, counts).cycles


def calibrate_machine(
    architecture: str, files: Sequence[Path], out: Path | None, page: Path | None, as_json: bool
) -> None:
    """``archsweep calibrate``: fit, write the copy ``out`` (default NAME-calibrated.yaml), show the errors.

    InputError for a machine without constants to fit, files that cannot be read, and an ``out`` that is
    there.
    """
    source = architecture_file(architecture)
    target = out or Path(f"{source.stem}-calibrated.yaml")
    if target.exists():
        raise InputError("--out", "a file that is not there yet", str(target), "Name another with --out")
    start = fitted_constants(load_yaml(source))
    if not start:
        remedy = "Mark those to fit with {value: ..., fitted: true}"
        raise InputError(str(source), "constants of timing with fitted: true", "none", remedy, key="timing")
    runs = [run for path in files for run in read_measurements(architecture, path)]
    machine = _Machine(architecture, runs, tuple(start))
    measured = np.array([run.cycles for run in runs])
    found = fit(machine.predict, tuple(start.values()), measured, [run.group for run in runs])
    constants = _constants(machine, found, files)
    target.write_text(with_constants(source.read_text(encoding="utf-8"), constants), encoding="utf-8")
    rows = [row for path in files for row in compared(str(target), path)]
    if page is not None:
        draw(page, f"{target.stem}: {', '.join(path.name for path in files)}", rows)
    if as_json:
        fields = {key: asdict(constant) for key, constant in constants.items()}
        unseen = [accuracy.to_json() for accuracy in found.unseen]
        print(
            json.dumps(
                {"constants": fields, "seen": found.seen.to_json(), "unseen": unseen, "file": str(target)}
            )
        )
        return
    print_rows(
        [
            {
                "constant": key,
                "before": f"{start[key]:.4g}",
                "fitted": f"{one.value:.4g}",
                "+- of halves": f"{one.relative_error:.0%}",
            }
            for key, one in constants.items()
        ]
    )
    print_errors(rows)
    print(_unseen(found))
    print(f"written to {target}")


def _constants(machine: _Machine, found: Fit, files: Sequence[Path]) -> dict[str, FittedConstant]:
    layers = len({run.group for run in machine.runs})
    names = ", ".join(path.name for path in files)
    source = f"fitted on {len(machine.runs)} runs of {layers} layers ({names}). {_unseen(found)}"
    return {
        key: FittedConstant(value, error, source)
        for key, value, error in zip(machine.keys, found.constants, found.relative_errors, strict=True)
    }


def _unseen(found: Fit) -> str:
    errors = [accuracy.mape for accuracy in found.unseen]
    return f"On layers left out of the fit MAPE is {fmean(errors):.1%} +- {pstdev(errors):.1%}"
