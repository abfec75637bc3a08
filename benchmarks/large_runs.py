"""What it takes to read a large run: its front, its report, and the index that finds its answers.

    python benchmarks/large_runs.py [--designs 500000] [--layers 20] [--lookups 100000] [--keep FOLDER]

A run of so many designs, each with so many distinct solves, is written as workers write it: parts of
ROWS_A_PART rows, from closed formulas. Then each reading is done once in a process of its own:

1. ``archsweep pareto --csv``;
2. ``archsweep report``, and the size of its page;
3. the index of all answers is made, and ids are looked up in batches of BATCH, half of which it has;
4. the run folder is opened by a writer, as the same command run again would.

CPU and wall seconds, and the peak memory of the process. Limits are for half a million designs of 20 solves
each, and smaller runs keep them easily: the status is 1 where a reading takes more CPU time than MOST_SECONDS
or more memory than MOST_MIB, or a report is larger than MOST_PAGE_MB.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from json import JSONEncoder
from pathlib import Path
from typing import Any

import numpy as np
import record

from results.store.known_answers import StoredAnswers
from results.store.parts import write_part
from results.store.schema.columns import Table
from results.store.schema.tables import DESIGNS, LAYERS

as_json = JSONEncoder(separators=(",", ":")).encode
ROWS_A_PART = 2000
BATCH = 1000
LEVELS = ("RegFile", "SRAM", "DRAM")
FANOUTS = ((2, 2), (4, 2), (2, 4), (4, 4), (8, 4), (4, 8), (8, 8), (16, 4), (4, 16), (16, 16))
MOST_SECONDS = {"archsweep pareto --csv": 10.0, "archsweep report": 60.0}
MOST_PAGE_MB = 20.0
MOST_MIB = 620.0
"""Of any reading. The driver that ran such a study has 580 MiB at its end and is to stay below 1 GiB while it
draws the report: 440 MiB, and 180 MiB of modules that it has loaded as well."""
REGISTERS = 50
"""Values of the axis RegFile.size; that of SRAM.size has as many as the designs need."""
BEGAN = datetime(2026, 3, 2, 12, tzinfo=UTC)
STUDY_ID = "5" * 32


@dataclass(frozen=True)
class Measured:
    """One reading; ``megabytes``: what it wrote, or what lies on the disk, None where that says nothing."""

    what: str
    cpu_seconds: float
    wall_seconds: float
    peak_mib: float | None = None
    megabytes: float | None = None
    microseconds_each: float | None = None

    @property
    def kept(self) -> bool:
        """Whether its CPU seconds, its memory, and a report's size are within the limits."""
        in_time = self.cpu_seconds <= MOST_SECONDS.get(self.what, float("inf"))
        in_memory = (self.peak_mib or 0.0) <= MOST_MIB
        small = self.what != "archsweep report" or (self.megabytes or 0.0) <= MOST_PAGE_MB
        return in_time and in_memory and small


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--designs", type=int, default=500_000)
    parser.add_argument("--layers", type=int, default=20)
    parser.add_argument("--lookups", type=int, default=100_000)
    parser.add_argument("--keep", type=Path, help="write the run here, or read the one that is here")
    parser.add_argument("--find", nargs=3, help="of the process that looks up ids")
    options = parser.parse_args()
    if options.find:
        look_up(Path(options.find[0]), *map(int, options.find[1:]))
        return
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for row in measured(options.keep or Path(scratch), options):
            rows.append(row)
            extra = [f"{row.peak_mib:8,.0f} MiB" if row.peak_mib else ""]
            extra += [f"{row.megabytes:9,.1f} MB" if row.megabytes else ""]
            extra += [f"{row.microseconds_each:6.1f} us each" if row.microseconds_each else ""]
            print(f"{row.what:60} {row.cpu_seconds:8.2f} CPU s {row.wall_seconds:8.2f} s", *extra, flush=True)
    record.finish([asdict(row) | {"kept": row.kept} for row in rows], options)
    if not all(row.kept for row in rows):
        raise SystemExit(1)


def measured(root: Path, options: Any) -> Iterator[Measured]:
    folder = root / "large"
    solves = options.designs * options.layers
    if not folder.exists():
        cpu, wall = time.process_time(), time.perf_counter()
        write_run(folder, options.designs, options.layers)
        spent = time.process_time() - cpu, time.perf_counter() - wall
        size = sum(part.stat().st_size for part in folder.glob("*/*.parquet")) / 1e6
        yield Measured(f"{options.designs:,} designs, {solves:,} solves written", *spent, megabytes=size)
    command = [sys.executable, "-m", "archsweep"]
    yield alone("archsweep pareto --csv", [*command, "pareto", str(folder), "--csv"])
    report = alone("archsweep report", [*command, "report", str(folder)])
    page = (folder / "report.html").stat().st_size / 1e6
    yield Measured(report.what, report.cpu_seconds, report.wall_seconds, report.peak_mib, page)
    asked = [str(solves), str(options.lookups)]
    found, told = told_alone([sys.executable, __file__, "--find", str(root), *asked])
    index_cpu, index_wall, lookup_cpu, lookup_wall = map(float, told.split())
    yield Measured(f"index of {solves:,} answers", index_cpu, index_wall, found.peak_mib)
    each = 1e6 * lookup_cpu / options.lookups
    what = f"{options.lookups:,} look-ups, {BATCH:,} at a time"
    yield Measured(what, lookup_cpu, lookup_wall, microseconds_each=each)
    opening = "import sys; from pathlib import Path; from results.store.folder import RunWriter; "
    opening += "RunWriter(Path(sys.argv[1])).close()"
    yield alone("opened to write", [sys.executable, "-c", opening, str(folder)])


def alone(what: str, command: list[str]) -> Measured:
    """Run a command in a process of its own."""
    return replace(told_alone(command)[0], what=what)


def told_alone(command: list[str]) -> tuple[Measured, str]:
    """The same, and what it printed."""
    before = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(record.ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    printed = process.stdout.read().decode()
    # wait4 gives this child's own peak memory; getrusage would give the largest of all children so far.
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    wall = time.perf_counter() - before
    return Measured("", used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024), printed


def look_up(root: Path, rows: int, lookups: int) -> None:
    """Print CPU and wall seconds of making the index, then of look-ups, half of them of ids it has."""
    cpu, wall = time.process_time(), time.perf_counter()
    answers = StoredAnswers(root)
    check(len(answers.known(LAYERS, [task_id(0)])), 1)
    spent = [time.process_time() - cpu, time.perf_counter() - wall]
    draw = random.Random(3)
    asked = [draw.randrange(rows) + (rows if number % 2 else 0) for number in range(lookups)]
    batches = [[task_id(n) for n in asked[first : first + BATCH]] for first in range(0, lookups, BATCH)]
    cpu, wall = time.process_time(), time.perf_counter()
    found = [answers.known(LAYERS, batch) for batch in batches]
    spent += [time.process_time() - cpu, time.perf_counter() - wall]
    for known, batch in zip(found, batches, strict=True):
        check(len(known), len(set(batch[::2])))
    print(*spent)


def check(found: int, expected: int) -> None:
    if found != expected:
        raise SystemExit(f"expected {expected} answers, found {found}")


def write_run(folder: Path, designs: int, layers: int) -> None:
    """The run folder of a study that has ended."""
    for table in (LAYERS, DESIGNS):
        (folder / table.name).mkdir(parents=True)
    study = {"name": "large", "networks": ["network"], "objectives": ["energy_pj", "cycles", "area_um2"]}
    (folder / "study.lock.yaml").write_text(as_json({"study_id": STUDY_ID, "study": study}))
    chips = Chips.of(np.arange(designs))
    # Rows of a design stay in one part, as a worker writes them.
    a_part = max(1, ROWS_A_PART // layers)
    for number, first in enumerate(range(0, designs, a_part)):
        chosen = np.arange(first, min(first + a_part, designs))
        write_columns(LAYERS, layer_columns(chips, chosen, layers), folder, number)
    for number, first in enumerate(range(0, designs, ROWS_A_PART)):
        chosen = np.arange(first, min(first + ROWS_A_PART, designs))
        write_columns(DESIGNS, design_columns(chips, chosen, layers), folder, number)


def write_columns(table: Table[Any], columns: dict[str, Any], folder: Path, number: int) -> None:
    """A part of these columns; one value stands for all rows, and others are null."""
    import pyarrow

    rows = next(len(values) for values in columns.values() if isinstance(values, list | np.ndarray))
    arrays = []
    for field in table.arrow_schema():
        values = columns.get(field.name, table.version if field.name == "schema_version" else None)
        if not isinstance(values, list | np.ndarray):
            values = [values] * rows
        arrays.append(pyarrow.array(values, field.type))
    schema = table.arrow_schema()
    path = folder / table.name / f"{number + 1:08d}.parquet"
    write_part(pyarrow.Table.from_arrays(arrays, schema=schema), path)


@dataclass(frozen=True)
class Chips:
    """Axes and costs of all designs, by closed formulas; arrays of one length."""

    fanout: np.ndarray
    registers: np.ndarray
    sram_kib: np.ndarray
    area_um2: np.ndarray
    energy_pj: np.ndarray
    cycles: np.ndarray

    @staticmethod
    def of(numbers: np.ndarray) -> Chips:
        fanout = numbers % len(FANOUTS)
        registers = 16 * (1 + numbers // len(FANOUTS) % REGISTERS)
        sram = 1 + numbers // (len(FANOUTS) * REGISTERS)
        units = np.array([x * y for x, y in FANOUTS])[fanout]
        draw = np.random.default_rng(7)
        # Without it the front would be the designs of one formula: too few, and sorted by their numbers.
        luck = draw.uniform(1.0, 1.15, (2, len(numbers)))
        refetch = 1 + 30 / (sram + 4) + 4 / registers
        energy = 4e8 * (1 + 0.004 * registers + 0.05 * np.sqrt(sram) + refetch) * luck[0]
        cycles = np.maximum(5e8 / units, 2e6 * refetch) * luck[1]
        area = units * (1200 + 20.0 * registers) + 55_000.0 * sram
        return Chips(fanout, registers, sram, area, energy, cycles.astype(np.int64))


def layer_columns(chips: Chips, chosen: np.ndarray, layers: int) -> dict[str, Any]:
    numbers = np.repeat(chosen, layers) * layers + np.tile(np.arange(layers), len(chosen))
    energy = np.repeat(chips.energy_pj[chosen], layers) / layers
    cycles = np.repeat(chips.cycles[chosen], layers) // layers
    # Texts of 64 kinds, as in a real run: many rows share a layer's shape, which Parquet's dictionaries make
    # use of. Different texts everywhere would measure a store that no study writes.
    kinds = (numbers % 64).tolist()
    draw = np.random.default_rng(int(chosen[0]))
    gap = draw.uniform(0, 0.3, len(numbers))
    finished = [BEGAN + timedelta(milliseconds=int(n)) for n in numbers]
    return {
        "task_id": [task_id(n) for n in numbers.tolist()],
        "study": "large",
        "layer_name": [f"network/layer{n}" for n in (numbers % layers).tolist()],
        "layer_shape": [SHAPES[kind] for kind in kinds],
        "architecture_id": [f"{n:032x}" for n in np.repeat(chosen, layers).tolist()],
        "architecture": [ARCHITECTURE % n for n in np.repeat(chosen, layers).tolist()],
        "solver": "exact",
        "solver_version": "1",
        "params": '{"wall_seconds":20.0}',
        "seed": 0,
        "objective_name": "edp",
        "status": np.where(gap < 0.2, "optimal", "feasible").tolist(),
        "objective": energy * cycles,
        "bound": energy * cycles * (1 - gap),
        "gap": gap,
        "energy_bound_pj": 0.8 * energy,
        "cycles_bound": 0.9 * cycles,
        "program_proven": True,
        "space": '{"name":"all mappings of perfect factors"}',
        "energy_pj": energy,
        "cycles": cycles,
        "edp_pj_cycles": energy * cycles,
        "utilization": draw.uniform(0.3, 1, len(numbers)),
        "macs": 1_000_000,
        "mapping": [MAPPINGS[kind] for kind in kinds],
        "energy_by_level_pj": [BY_LEVEL % (0.3 * e, 0.2 * e, 0.3 * e, 0.2 * e) for e in energy.tolist()],
        "compute_cycles": cycles,
        "levels": [LEVEL_TEXTS[kind] for kind in kinds],
        "cpu_seconds": draw.gamma(2.0, 0.02, len(numbers)),
        "wall_seconds": draw.gamma(2.0, 0.02, len(numbers)),
        "worker": [f"host-{n % 64}:{1000 + n % 64}" for n in numbers.tolist()],
        "attempts": 1,
        "cached": False,
        "finished_at": finished,
    }


def design_columns(chips: Chips, chosen: np.ndarray, layers: int) -> dict[str, Any]:
    energy, cycles = chips.energy_pj[chosen], chips.cycles[chosen]
    axes = zip(chips.sram_kib[chosen], chips.registers[chosen], chips.fanout[chosen], strict=True)
    return {
        "design_id": [design_id(n) for n in chosen.tolist()],
        "study": "large",
        "study_id": STUDY_ID,
        "axes": [
            as_json({"SRAM.size": f"{s} KiB", "RegFile.size": f"{r} B", "SRAM.fanout": FANOUTS[f]})
            for s, r, f in axes
        ],
        "architecture_name": "eyeriss",
        "architecture": [ARCHITECTURE % n for n in chosen.tolist()],
        "status": "complete",
        "trial": chosen,
        "feasible": True,
        "area_um2": chips.area_um2[chosen],
        "energy_pj": energy,
        "cycles": cycles,
        "edp_pj_cycles": energy * cycles,
        "latency_seconds": cycles / 2e8,
        "energy_bound_pj": 0.8 * energy,
        "cycles_bound": 0.9 * cycles,
        "energy_gap": 0.2,
        "cycles_gap": 0.1,
        "solves": layers,
        "cached_solves": 0,
        "failures": 0,
        "cpu_seconds": 0.04 * layers,
        "networks": [
            networks_text(n, layers, e, c)
            for n, e, c in zip(chosen.tolist(), energy.tolist(), cycles.tolist(), strict=True)
        ],
        "energy_by_level_pj": [BY_LEVEL % (0.3 * e, 0.2 * e, 0.3 * e, 0.2 * e) for e in energy.tolist()],
        "finished_at": [BEGAN + timedelta(milliseconds=layers * int(n)) for n in chosen],
    }


def networks_text(design: int, layers: int, energy: float, cycles: int) -> str:
    listed = ",".join(
        f'{{"name":"layer{layer}","task_id":"{task_id(design * layers + layer)}","count":1,'
        f'"energy_pj":{energy / layers!r},"cycles":{cycles // layers}}}'
        for layer in range(layers)
    )
    return f'{{"network":{{"weight":1.0,"energy_pj":{energy!r},"cycles":{cycles},"layers":[{listed}]}}}}'


def task_id(number: int) -> str:
    # Multiplied by an odd constant modulo 2^128: all ids differ, and they come in no order, as hashes do. Ids
    # in a row would make every index look better than it is.
    return f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC834 % 2**128:032x}"


def design_id(number: int) -> str:
    return f"{number * 0xD1B54A32D192ED03C2B2AE3D27D4EB4F % 2**128:032x}"


BY_LEVEL = '{"RegFile":%.6f,"SRAM":%.6f,"DRAM":%.6f,"MAC":%.6f}'
ARCHITECTURE = as_json(
    {
        "name": "eyeriss",
        "levels": [
            {"name": name, "size_words": 64, "word_bits": 16, "fanout_x": 4, "text": name * 20}
            for name in LEVELS
        ],
        "number": "%d",
    }
).replace('"%d"', "%d")
KINDS = range(64)
SHAPES = [as_json({"dims": {"K": 64 + kind, "C": 64, "P": 56, "Q": 56, "R": 3}}) for kind in KINDS]
MAPPINGS = [
    as_json(
        {
            "levels": [
                {"target": name, "type": "temporal", "factors": dict.fromkeys("KCPQRS", 1 + kind % 7)}
                for name in LEVELS
            ],
            "bypass": [{"target": name, "keep": ["Weights", "Inputs", "Outputs"]} for name in LEVELS],
        }
    )
    for kind in KINDS
]
LEVEL_TEXTS = [
    as_json(
        [
            {"name": name, "cycles": 1000 + kind, "port": "read", "words": 100 + kind, "usable_words": 512}
            | {"full": False, "energy_pj": 1e6 + kind, "leakage_pj": 0.0}
            | {"tensors": {t: {"reads": 10**6 + kind, "fills": 10**5, "updates": 0} for t in ("W", "I", "O")}}
            for name in LEVELS
        ]
    )
    for kind in KINDS
]

if __name__ == "__main__":
    main()
