"""Llama-3-8B, every layer mapped by `exact`: on two architectures, and in a study of 100 designs x 4 phases.

    python benchmarks/decoders.py [--most-layers 30] [--most-study 600]

The layers are those of 2,048 tokens read and of one token behind 8,191 in the cache, on `simba` and
`tpu-like`. The study asks 100 chips in the manner of the TPU to read 512 tokens and 2,048, and to write one
behind 640 and one behind 8,192. CPU seconds are of a whole run in this process, with all that it reads and
compiles; two cores take half of them each. Exits with status 1 where that is more than its limit, or a
mapping was not proven.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import record

from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import Study

CORES = 2
MAPPING = {"solver": "exact", "objective": "edp", "wall_seconds": 60}
READ = {"role": "prefill", "network": "llama3_8b"}
WRITTEN = {"role": "decode", "network": "llama3_8b", "per_request": 128}
SERVING = {
    "name": "hundred-chips-four-phases",
    "architecture": "tpu-like",
    "phases": [
        READ | {"name": "short-prompt", "per_request": 0.75, "dims": {"seq": 512, "logits": 1}},
        READ | {"name": "long-prompt", "per_request": 0.25, "dims": {"seq": 2048, "logits": 1}},
        WRITTEN | {"name": "short-context", "dims": {"seq": 1, "past": 640}},
        WRITTEN | {"name": "long-context", "dims": {"seq": 1, "past": 8192}},
    ],
    "axes": {
        "UnifiedBuffer.fanout": {"choices": [[columns, 1] for columns in (16, 32, 64, 128, 256)]},
        "Accumulators.fanout": {"choices": [[1, rows] for rows in (16, 32, 64, 128, 256)]},
        "UnifiedBuffer.size": {"choices": ["256 KiB", "1 MiB"]},
        "DRAM.shared_bandwidth": {"choices": ["64 words/cycle", "256 words/cycle"]},
    },
    "objectives": ["time_per_output_token_seconds", "joules_per_token", "area_um2"],
    "mapping": MAPPING,
}


def layers_of(architecture: str) -> dict[str, Any]:
    """The study of all distinct layers of both phases on one architecture."""
    lengths = ({"seq": 2048}, {"seq": 1, "past": 8191})
    return {
        "name": f"layers-{architecture}",
        "networks": [{"network": "llama3_8b", "dims": dims} for dims in lengths],
        "architecture": architecture,
        "objectives": ["energy_pj", "cycles"],
        "mapping": MAPPING,
    }


def measure(what: str, asked: dict[str, Any]) -> dict[str, Any]:
    """One study, run in this process with nothing stored before."""
    chosen = Study.model_validate(asked)
    with tempfile.TemporaryDirectory() as scratch:
        before = time.process_time()
        folder = run_study(chosen, Path(scratch) / "runs" / chosen.name, RuntimeChoice(in_process=True))
        spent = time.process_time() - before
        rows = folder.read("layers").to_pandas()
        designs = folder.read("designs", ["status"]).to_pandas()["status"]
    return {
        "what": what,
        "designs": len(designs),
        "complete": int((designs == "complete").sum()),
        "mappings": len(rows),
        "proven": int((rows["status"] == "optimal").sum()),
        "cpu_seconds": spent,
        "solve_cpu_seconds": float(rows["cpu_seconds"].sum()),
    }


def missed(found: list[dict[str, Any]]) -> list[str]:
    """What was not proven, and what took longer than its limit, in words."""
    wrong = [
        f"{row['what']}: {row['proven']} of {row['mappings']} mappings proven"
        for row in found
        if row["proven"] < row["mappings"]
    ]
    limited = ((row, row["cpu_seconds"] / row["cores"], row["limit_seconds"]) for row in found)
    return wrong + [
        f"{row['what']}: {seconds:.0f} s on {row['cores']} cores, at most {most:g}"
        for row, seconds, most in limited
        if seconds > most
    ]


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument(
        "--most-layers", type=float, default=30.0, help="CPU s of the layers on one architecture"
    )
    parser.add_argument("--most-study", type=float, default=600.0, help="CPU s of the study on each core")
    options = parser.parse_args()
    found = [
        measure(f"all layers, {name}", layers_of(name)) | {"cores": 1, "limit_seconds": options.most_layers}
        for name in ("simba", "tpu-like")
    ]
    found.append(
        measure("100 designs x 4 phases", SERVING) | {"cores": CORES, "limit_seconds": options.most_study}
    )
    for row in found:
        print(
            "  ".join(
                f"{key} {value:.2f}" if isinstance(value, float) else f"{key} {value}"
                for key, value in row.items()
            )
        )
    wrong = missed(found)
    print("\n".join(wrong))
    record.finish(found, options)
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
