"""The cost model against chips that were measured: Eyeriss, three layer-fused chips, and NVIDIA's sheet for
NVDLA.

    python benchmarks/silicon_chips.py [--rows FOLDER] [--fit] [--nvdla-seconds 20]

Prints a table for each machine and then one JSON object. FOLDER has eyeriss.jsonl, fused_silicon.jsonl,
aie.jsonl and nvdla_open.jsonl (docs/silicon-eyeriss.md says what is in them). ``--fit`` fits the constants of
``eyeriss-v1`` again, to AlexNet's rows, and leaves out a row at a time: what is printed beside them is what
the file has.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import record

from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture
from solvers.budget import Budget
from sweep.silicon import eyeriss, fused, nvdla
from sweep.silicon.eyeriss_rows import EyerissRow, eyeriss_rows

ROWS = record.ROOT / "tests" / "data" / "silicon"
EYERISS_FIGURES = ("processing_latency_ms", "dram_mb", "global_buffer_mb", "power_mw")
FITTED_CYCLES = np.arange(0.0, 1.51, 0.01)


def off(predicted: float, measured: float) -> float:
    """The error relative to what was measured."""
    return predicted / measured - 1


def eyeriss_found(folder: Path) -> list[dict[str, Any]]:
    """Each row: its figures, measured and predicted, and their errors."""
    architecture = load_architecture("eyeriss-v1")
    found = []
    print(f"{'Eyeriss':26}" + "".join(f"{name:>34}" for name in EYERISS_FIGURES))
    for row in eyeriss_rows(folder / "eyeriss.jsonl"):
        figures = eyeriss.predicted(row, architecture).by_name
        errors = {name: off(figures[name], row.measured[name]) for name in EYERISS_FIGURES}
        cells = [
            f"{row.measured[name]:12.1f} {figures[name]:12.1f} {error:+8.1%}"
            for name, error in errors.items()
        ]
        print(f"{row.id:26}" + "".join(cells))
        found.append({"id": row.id, "measured": row.measured, "predicted": figures, "errors": errors})
    return found


def nvdla_found(folder: Path, seconds: float) -> list[dict[str, Any]]:
    """Each row of the sheet: its cycles and the least that a mapping takes. Equal layers are solved once."""
    architecture, solved, found = load_architecture("nvdla-full"), {}, []
    print(f"\n{'NVDLA':26}{'sheet':>12}{'least':>12}")
    for row in nvdla.nvdla_rows(folder / "nvdla_open.jsonl"):
        # Layers that NVIDIA's sheet leaves blank have nothing to be compared with.
        if row.sheet_cycles is None:
            continue
        key = row.layer.shape
        if key not in solved:
            solved[key] = nvdla.least_cycles(row, architecture, Budget(seconds))
        least = solved[key]
        cycles, proven = (None, False) if least is None else (least.cycles, least.proven)
        error = None if cycles is None else off(cycles, row.sheet_cycles)
        shown = (
            "no mapping"
            if error is None
            else f"{cycles:12.0f} {error:+8.1%}{'' if proven else ' not proven'}"
        )
        print(f"{row.id:26}{row.sheet_cycles:12.0f}{shown}")
        found.append(
            {"id": row.id, "sheet": row.sheet_cycles, "predicted": cycles, "error": error, "proven": proven}
        )
    return found


def fused_found(folder: Path) -> list[dict[str, Any]]:
    """Each run of fused layers: cycles measured, and the bound of its arrays and links."""
    found = []
    print(f"\n{'fused layers':26}{'measured':>12}{'bound':>12}")
    for run in fused.fused_runs(folder / "fused_silicon.jsonl"):
        if run.measured_cycles is None:
            continue
        cycles = fused.least_cycles(run, Budget(20))
        error = off(cycles.cycles, run.measured_cycles)
        print(f"{run.id:26}{run.measured_cycles:12.0f}{cycles.cycles:12.0f} {error:+8.1%}")
        found.append(
            {
                "id": run.id,
                "measured": run.measured_cycles,
                "predicted": cycles.cycles,
                "error": error,
                "steps": cycles.steps,
                "link": cycles.link,
            }
        )
    return found


def aie_found(folder: Path) -> list[dict[str, Any]]:
    """Each dispatch on AIE cores: its cycles, and those of the kernels that the traced core ran, if it goes
    on so.

    The bytes and bandwidths of the streams between the cores are not published with the trace: that is all
    there is.
    """
    found = []
    print(f"\n{'AIE dispatches':32}{'measured':>12}{'kernels':>12}")
    for line in (folder / "aie.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        # The trace covers a window of the dispatch. That the rest goes on like it is the assumption that this
        # row tests.
        kernels = row["kernel_invocations_traced"] * row["dispatch_cycles"] / row["trace_window_cycles"]
        cycles = kernels * row["kernel_cycles_median"]
        error = off(cycles, row["dispatch_cycles"])
        print(f"{row['id']:32}{row['dispatch_cycles']:12.0f}{cycles:12.0f} {error:+8.1%}")
        found.append(
            {"id": row["id"], "measured": row["dispatch_cycles"], "predicted": cycles, "error": error}
        )
    return found


def best_accumulate(rows: Sequence[EyerissRow], with_cycles: Callable[[float], Architecture]) -> float:
    """The cycles a partial sum with the least squared relative errors of processing latency."""
    errors = [
        sum(
            off(
                eyeriss.predicted(row, with_cycles(float(cycles))).processing_latency_ms,
                row.measured["processing_latency_ms"],
            )
            ** 2
            for row in rows
        )
        for cycles in FITTED_CYCLES
    ]
    return float(FITTED_CYCLES[int(np.argmin(errors))])


def fitted(folder: Path) -> dict[str, Any]:
    """``accumulate`` and the two constants of power, fitted to AlexNet; the first one with every row left out
    once."""
    architecture = load_architecture("eyeriss-v1")
    rows = [row for row in eyeriss_rows(folder / "eyeriss.jsonl") if "alexnet" in row.id]

    def with_cycles(cycles: float) -> Architecture:
        return eyeriss.with_accumulation(architecture, cycles)

    left_out = {}
    for row in rows:
        # Only a row that the fit has not seen says how well it predicts.
        cycles = best_accumulate([other for other in rows if other is not row], with_cycles)
        latency = eyeriss.predicted(row, with_cycles(cycles)).processing_latency_ms
        left_out[row.id] = {"fitted": cycles, "error": off(latency, row.measured["processing_latency_ms"])}
    found = {"accumulate": best_accumulate(rows, with_cycles), "left_out": left_out}
    found |= _power(rows, architecture)
    print("\nfitted to AlexNet:", found)
    return found


def _power(rows: Sequence[EyerissRow], architecture: Architecture) -> dict[str, float]:
    """What a MAC takes and what the chip takes in every cycle, by least squares over measured power."""
    # Without leakage, so that what is left is the part of power that grows with what moves; all of it scales
    # with a MAC's energy, as the library's other energies are anchored to it.
    silent = replace(
        architecture,
        levels=tuple(replace(level, leakage_pj_per_cycle=0.0) for level in architecture.levels),
    )
    moving = [eyeriss.predicted(row, silent).power_mw / architecture.compute.energy_pj for row in rows]
    measured = [row.measured["power_mw"] for row in rows]
    (always, mac), *_ = np.linalg.lstsq(np.column_stack([np.ones(len(rows)), moving]), np.array(measured))
    return {"mac_pj": float(mac), "always_pj_per_cycle": float(always) * 1e9 / architecture.frequency_hz}


def summary(errors: Sequence[float | None]) -> dict[str, float]:
    """Rows, mean and worst of the errors' sizes."""
    sizes = [abs(error) for error in errors if error is not None]
    return {"rows": len(sizes), "mape": float(np.mean(sizes)), "worst": max(sizes)}


def main(options: Namespace) -> None:
    eyeriss_rows_found = eyeriss_found(options.rows)
    found: dict[str, Any] = {
        "eyeriss": eyeriss_rows_found,
        "nvdla": nvdla_found(options.rows, options.nvdla_seconds),
        "fused": fused_found(options.rows),
        "aie": aie_found(options.rows),
    }
    found["summary"] = {
        **{
            f"eyeriss {name}": summary([row["errors"][name] for row in eyeriss_rows_found])
            for name in EYERISS_FIGURES
        },
        "nvdla": summary([row["error"] for row in found["nvdla"]]),
        "fused": summary([row["error"] for row in found["fused"]]),
        "aie": summary([row["error"] for row in found["aie"]]),
    }
    print()
    for name, numbers in found["summary"].items():
        print(
            f"{name:34}{numbers['rows']:4} rows, mean {numbers['mape']:6.1%}, worst {numbers['worst']:6.1%}"
        )
    if options.fit:
        found["fit"] = fitted(options.rows)
    record.finish(found, options)


if __name__ == "__main__":
    parser = record.parser(__doc__)
    parser.add_argument("--rows", type=Path, default=ROWS, metavar="FOLDER", help="measurements")
    parser.add_argument("--fit", action="store_true", help="fit the constants of eyeriss-v1 again")
    parser.add_argument("--nvdla-seconds", type=float, default=20.0, help="for each layer of NVDLA's sheet")
    main(parser.parse_args())
