"""Rows and runs as a study would write them, small or realistic, from closed formulas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import product
from math import ceil, sqrt
from pathlib import Path
from typing import Any

import pytest

from results.store.folder import Buffering, RunWriter

Row = dict[str, Any]
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)

RESNET18: dict[str, tuple[int, int, int, int, int, int]] = {  # name: (K, C, P=Q, R=S, stride, occurrences)
    "conv1": (64, 3, 112, 7, 2, 1),
    "layer1.0.conv1": (64, 64, 56, 3, 1, 4),
    "layer2.0.conv1": (128, 64, 28, 3, 2, 1),
    "layer2.0.downsample": (128, 64, 28, 1, 2, 1),
    "layer2.0.conv2": (128, 128, 28, 3, 1, 3),
    "layer3.0.conv1": (256, 128, 14, 3, 2, 1),
    "layer3.0.downsample": (256, 128, 14, 1, 2, 1),
    "layer3.0.conv2": (256, 256, 14, 3, 1, 3),
    "layer4.0.conv1": (512, 256, 7, 3, 2, 1),
    "layer4.0.downsample": (512, 256, 7, 1, 2, 1),
    "layer4.0.conv2": (512, 512, 7, 3, 1, 3),
    "fc": (1000, 512, 1, 1, 1, 1),
}
ARRAYS = ((8, 8), (14, 12), (16, 16))
REGISTERS = (64, 128, 256, 512)
BUFFERS_KIB = (32, 64, 128)
PLAN: dict[str, Any] = {
    "order": ["a", "b", "c", "d", "e", "f"],
    "tensors": {
        name: {
            "residency": [{"start": s, "end": e, "address": address} for s, e, address in residencies],
            "spilled_at": spilled,
            "retrieved_at": retrieved,
        }
        for name, residencies, spilled, retrieved in (
            ("x", [(0, 2, 0)], None, []),
            ("y", [(0, 2, 1024), (4, 6, 3072)], 2, [4]),
            ("z", [(2, 5, 0)], None, []),
            ("w", [(3, 6, 1024)], None, []),
        )
    },
    "parameters": {"c": 2048},
}
COST = ("energy_pj", "cycles", "edp_pj_cycles", "latency_seconds", "networks", "energy_by_level_pj")


def layer_row(number: int = 0, **changes: Any) -> Row:
    """An answered ``layers`` row that no other number shares its task with."""
    row: Row = {
        "task_id": sha256(f"task {number}".encode()).hexdigest()[:32],
        "study": "example",
        "layer_name": f"net/layer{number}",
        "layer_shape": {"dims": {"K": 64, "C": number + 1}},
        "architecture_id": "a" * 32,
        "architecture": {"levels": ["RegFile", "SRAM", "DRAM"]},
        "solver": "cosa",
        "solver_version": "1",
        "params": {"wall_seconds": 20.0},
        "seed": 0,
        "objective_name": "edp",
        "status": "feasible",
        "objective": 1.5e9 + number,
        "bound": 1.2e9,
        "gap": 0.2,
        "energy_bound_pj": 1.3e6,
        "cycles_bound": 900.0,
        "program_proven": True,
        "energy_pj": 1.5e6,
        "cycles": 1000 + number,
        "edp_pj_cycles": 1.5e9 + number,
        "utilization": 0.75,
        "macs": 168_000,
        "mapping": [{"level": "RegFile", "temporal": [["C", 4]]}],
        "energy_by_level_pj": {"RegFile": 5e5, "SRAM": 2e5, "DRAM": 6e5, "MAC": 2e5},
        "cpu_seconds": 0.05,
        "wall_seconds": 0.06,
        "worker": "host:1234",
        "attempts": 1,
        "cached": False,
        "finished_at": NOON + timedelta(milliseconds=number),
    }
    return row | changes


def scratchpad_row(number: int = 0, **changes: Any) -> Row:
    """An answered ``scratchpads`` row whose plan spills y at step 2 and retrieves it at step 4."""
    row: Row = {
        "task_id": sha256(f"graph {number}".encode()).hexdigest()[:32],
        "study": "example",
        "graph": "net",
        "graph_content": sha256(b"net").hexdigest()[:32],
        "setting": {"parameters": False},
        "budget_bytes": 4096 + number,
        "solver": "cosma",
        "solver_version": "1",
        "params": {"wall_seconds": 20.0},
        "seed": 0,
        "status": "optimal",
        "objective_bytes": 1024,  # y, twice
        "bound_bytes": 1024.0,
        "gap": 0.0,
        "plan": PLAN,
        "block_bytes": {"x": 1024, "y": 512, "z": 1024, "w": 1024},
        "parameter_bytes": {"c": 256},
        "cpu_seconds": 0.05,
        "wall_seconds": 0.06,
        "worker": "host:1234",
        "attempts": 1,
        "cached": False,
        "finished_at": NOON + timedelta(milliseconds=number),
    }
    return row | changes


SPATIAL_TEMPORAL = [
    {"layer": "a", "samples": 2, "tiles": [0, 4], "cycles": 300, "starts": [0, 900]},
    {"layer": "b", "samples": 1, "tiles": [0, 3], "cycles": 200, "starts": [300, 500, 1200, 1400]},
    {"layer": "<c>", "samples": 1, "tiles": [3, 4], "cycles": 150, "starts": [500, 700, 1400, 1600]},
]
OPERATORS = ({"operator": "swap", "tried": 30, "invalid": 2, "accepted": 10, "better": 4},)
SEARCH = [
    {
        "name": name,
        "rounds": 50,
        "best": 1.8e9,
        "trajectory": [[0, start], [25, 2e9], [50, 1.8e9]],
        "operators": list(OPERATORS),
        "cpu_seconds": 0.5,
    }
    for name, start in (("layer_sequential", 3.6e9), ("paper", 1.9e9))
]


def schedule_row(number: int = 0, **changes: Any) -> Row:
    """An answered ``schedules`` row of four samples on four tiles, in two halves."""
    row: Row = {
        "task_id": sha256(f"schedule {number}".encode()).hexdigest()[:32],
        "study": "example",
        "network": "net x4",
        "network_content": sha256(b"layers").hexdigest()[:32],
        "batch": 4,
        "chip_id": "b" * 32,
        "chip": {"name": "", "columns": 2},
        "tile_mapper": {"solver": "nvdla"},
        "solver": "set",
        "solver_version": "1",
        "params": {"params": {"beta": 1}, "budget": {"seed": number}},
        "seed": number,
        "objective_name": "edp",
        "status": "feasible",
        "objective": 1.8e9 * (1 + number),
        "bound": 1.08e9,
        "gap": 1 - 0.6 / (1 + number),
        "energy_bound_pj": 0.8e6,
        "cycles_bound": 900.0,
        "energy_pj": 1e6 * (1 + number),
        "cycles": 1800,
        "edp_pj_cycles": 1.8e9 * (1 + number),
        "dram_bytes": 4096,
        "noc_hop_bytes": 8192,
        "utilization": 0.85,
        "energy_by_part_pj": {"noc": 3e5, "dram": 7e5},
        "tree": "T 4/2\n\ta 2\n\tS 2/2\n\t\tb 1\n\t\t<c> 1\n",
        "spatial_temporal": SPATIAL_TEMPORAL,
        "search": SEARCH,
        "cpu_seconds": 1.0,
        "wall_seconds": 1.1,
        "worker": "host:1234",
        "attempts": 1,
        "cached": False,
        "finished_at": NOON + timedelta(milliseconds=number),
    }
    return row | changes


def tile_lot_row(number: int = 0, **changes: Any) -> Row:
    """An answered ``tile_costs`` row of one tile part."""
    row: Row = {
        "task_id": sha256(f"lot {number}".encode()).hexdigest()[:32],
        "study": "example",
        "source_id": "c" * 32,
        "architecture_id": "d" * 32,
        "solver": "cosa",
        "solver_version": "1",
        "objective_name": "edp",
        "status": "feasible",
        "tile_parts": 1,
        "costs": [[[16, 16, 4, 4, 1, 1, 1, 1, 1, 1], 500.0, 64, False, 0.0, ": Inputs Outputs Weights"]],
        "cpu_seconds": 0.5,
        "attempts": 1,
        "cached": False,
        "finished_at": NOON,
    }
    return row | changes


def chip_design_row(number: int = 0, schedules: tuple[Row, ...] = (), **changes: Any) -> Row:
    """A complete ``designs`` row of a chip with one network, the first of whose ``schedules`` is the best."""
    best, chip = schedules[0], {"name": "mesh", "columns": number + 2, "noc": {"hop_pj_per_byte": 5.6}}
    network = {name: best[name] for name in ("energy_pj", "cycles", "batch")}
    network |= {"weight": 1.0, "schedule": best["task_id"], "seeds": [row["task_id"] for row in schedules]}
    row = design_row(number, axes={"columns": number + 2}, architecture_name="mesh", architecture=None)
    row |= {name: best[name] for name in ("energy_pj", "cycles", "edp_pj_cycles", "energy_bound_pj")}
    row |= {"chip": chip, "networks": {best["network"]: network}, "dram_bytes": best["dram_bytes"]}
    return row | {"energy_by_level_pj": best["energy_by_part_pj"]} | changes


def design_row(number: int = 0, **changes: Any) -> Row:
    """A complete ``designs`` row with one network of one layer."""
    energy, cycles = 1e9 / (number + 1), 1_000_000 + 50_000 * number
    row: Row = {
        "design_id": sha256(f"design {number}".encode()).hexdigest()[:32],
        "study": "example",
        "axes": {"SRAM.size": f"{number} KiB"},
        "architecture_name": "eyeriss",
        "architecture": {"name": "eyeriss"},
        "status": "complete",
        "feasible": True,
        "area_um2": 2e6 + 1e5 * number,
        "energy_pj": energy,
        "cycles": cycles,
        "edp_pj_cycles": energy * cycles,
        "latency_seconds": cycles / 2e8,
        "energy_bound_pj": 0.8 * energy,
        "cycles_bound": 0.9 * cycles,
        "energy_gap": 0.2,
        "cycles_gap": 0.1,
        "solves": 1,
        "cached_solves": 0,
        "failures": 0,
        "cpu_seconds": 0.05,
        "networks": {
            "net": {
                "weight": 1.0,
                "energy_pj": energy,
                "cycles": cycles,
                "layers": [
                    {
                        "name": f"layer{number}",
                        "task_id": layer_row(number)["task_id"],
                        "count": 1,
                        "energy_pj": energy,
                        "cycles": cycles,
                    }
                ],
            }
        },
        "energy_by_level_pj": {"RegFile": 0.3 * energy, "DRAM": 0.5 * energy, "MAC": 0.2 * energy},
        "finished_at": NOON + timedelta(seconds=number),
    }
    return row | changes


@dataclass(frozen=True)
class ExampleChip:
    """One member of an Eyeriss-like family and a rough closed-form cost of a layer on it."""

    array: tuple[int, int]
    registers: int
    buffer_kib: int

    @property
    def axes(self) -> Row:
        return {
            "SRAM.fanout": list(self.array),
            "RegFile.size": self.registers,
            "SRAM.size": f"{self.buffer_kib} KiB",
        }

    @property
    def elements(self) -> int:
        return self.array[0] * self.array[1]

    @property
    def area_um2(self) -> float:
        return self.elements * (1200 + 19.9 * self.registers) + 6.8 * self.buffer_kib * 8192

    @property
    def architecture(self) -> Row:
        """As `Architecture.to_json` writes it, of every level a few of its figures."""
        sizes = {"RegFile": self.registers, "SRAM": self.buffer_kib * 512, "DRAM": None}
        levels: list[Row] = [
            {"name": name, "size_words": words, "word_bits": 16} for name, words in sizes.items()
        ]
        levels[1] |= {"fanout_x": self.array[0], "fanout_y": self.array[1], "read_bandwidth": 16.0}
        return {"name": "eyeriss", "levels": levels, "frequency_hz": 2e8}

    def layer(self, name: str) -> Row:
        """The cost columns of a ``layers`` row."""
        k, c, p, r, stride, _ = RESNET18[name]
        macs = k * c * p * p * r * r
        words = k * c * r * r + c * (p * stride) ** 2 + k * p * p
        reuse = sqrt(self.registers / 16) * (self.elements / 64) ** 0.3 * (1 + r / 3)
        refetch = 1 + 40 / self.buffer_kib * min(1.0, words / 4e5)
        energies = {
            "RegFile": 3 * macs * (0.2 + 0.0045 * self.registers),
            "SRAM": 2 * macs / reuse * (0.9 + 0.55 * sqrt(self.buffer_kib)),
            "DRAM": 128.0 * words * refetch,
            "MAC": 2.2 * macs,
        }
        busy = min(1.0, k * p / self.elements / ceil(k * p / self.elements))
        cycles = max(ceil(macs / self.elements / busy), ceil(words * refetch / 4))
        energy = sum(energies.values())
        bound = energies["MAC"] + energies["RegFile"] * 0.8 + 128.0 * words
        return {
            "energy_pj": energy,
            "cycles": cycles,
            "edp_pj_cycles": energy * cycles,
            "objective": energy * cycles,
            "bound": bound * macs / self.elements,
            "gap": 1 - bound * macs / self.elements / (energy * cycles),
            "energy_bound_pj": bound,
            "cycles_bound": macs / self.elements,
            "macs": macs,
            "utilization": macs / self.elements / cycles,
            "energy_by_level_pj": energies,
            "cpu_seconds": 0.01 + macs % 97 / 1500 + words % 31 / 700,
        }


def chips() -> Iterator[ExampleChip]:
    for array, registers, buffer_kib in product(ARRAYS, REGISTERS, BUFFERS_KIB):
        yield ExampleChip(array, registers, buffer_kib)


def write_example(path: Path, *, objectives: tuple[str, ...] = ("energy_pj", "cycles", "area_um2")) -> Path:
    """A run of 36 designs by ResNet-18's 12 layer shapes: some answered from the store, two failures."""
    with RunWriter(path) as run:
        run.write_lock_file(example_lock(objectives))
        for index, chip in enumerate(chips()):
            answers = {name: _example_answer(chip, index, name) for name in RESNET18}
            design = _example_design(chip, index, answers)
            for row in answers.values() if design["status"] != "infeasible" else ():
                run.append("layers", row)
            run.append("designs", design)
    return path


SPACE = {"name": "all mappings of perfect factors"}
BASELINE = 19
DISCARDED = (24, 27, 28)


def write_search(path: Path) -> Path:
    """The example as a search with a portfolio would have left it.

    Trials in another order than the grid's, a baseline, half of the solves proven, three designs discarded by
    their bounds.
    """
    order = [7 * index % 36 for index in range(36)]
    family = list(chips())
    with RunWriter(path) as run:
        run.write_lock_file(example_lock(("energy_pj", "cycles", "area_um2")))
        for trial, index in enumerate(order):
            answers = {name: _portfolio_answer(family[index], index, name) for name in RESNET18}
            design = _example_design(family[index], index, answers)
            design |= {"trial": trial, "baseline": index == BASELINE}
            design["finished_at"] = NOON + timedelta(minutes=trial)
            if index in DISCARDED:
                note = "energy_pj >= 1, cycles >= 2: dominated by design a"
                cost = dict.fromkeys((*COST, "energy_gap", "cycles_gap")) | {"solves": 0, "cpu_seconds": None}
                design |= cost | {"status": "dominated", "feasible": None, "note": note}
            elif design["status"] != "infeasible":
                for row in answers.values():
                    run.append("layers", row)
            run.append("designs", design)
    return path


def _portfolio_answer(chip: ExampleChip, index: int, name: str) -> Row:
    row = _example_answer(chip, index, name) | {"solver": "auto", "space": SPACE}
    if row["status"] == "feasible" and index % 2 == 0:
        proven = {name: row[name] for name in ("energy_pj", "cycles", "objective")}
        bounds = dict(zip(("energy_bound_pj", "cycles_bound", "bound"), proven.values(), strict=True))
        return row | bounds | {"status": "optimal", "gap": 0.0, "solved_by": "exact"}
    return row | {"solved_by": "cosa" if row["status"] == "feasible" else None}


def example_lock(objectives: tuple[str, ...]) -> Row:
    return {
        "study": {
            "name": "example",
            "description": "ResNet-18 on a family around Eyeriss",
            "networks": ["resnet18"],
            "objectives": list(objectives),
            "mapping": {"solver": "cosa", "objective": "edp", "seed": 0},
        },
        "versions": {"archsweep": "0.1.0", "python": "3.11.2", "ortools": "9.15"},
        "commit": "0123456789abcdef",
        "seeds": {"search": 0, "mapping": 0},
        "started_at": "2026-03-02T12:00:00+00:00",
    }


def _example_answer(chip: ExampleChip, index: int, name: str) -> Row:
    number = index * 100 + list(RESNET18).index(name)
    row = layer_row(
        number, layer_name=f"resnet18/{name}", architecture_id=f"{index:032x}", **chip.layer(name)
    )
    if index % 9 == 0:
        row |= {"cached": True, "from_study": "earlier"}
    if index in (7, 22) and name == "fc":
        cost = chip.layer(name).keys() - {"macs", "cpu_seconds"}
        row |= dict.fromkeys(cost) | {"status": "failed", "mapping": None, "attempts": 3}
        row["error"] = "the worker process died 3 times (signal 9); is there enough memory?"
    return row


def _example_design(chip: ExampleChip, index: int, answers: dict[str, Row]) -> Row:
    row = design_row(index, axes=chip.axes, architecture=chip.architecture, area_um2=chip.area_um2)
    row["solves"] = len(answers)
    row["cached_solves"] = sum(answer["cached"] for answer in answers.values())
    if chip.area_um2 > 7.0e6:
        note = f"area_um2 <= 7e+06 (is {chip.area_um2:g})"
        return row | dict.fromkeys(COST) | {"status": "infeasible", "feasible": False, "note": note}
    if any(answer["status"] == "failed" for answer in answers.values()):
        error = "resnet18/fc: failed: the worker process died 3 times"
        row |= {"status": "failed", "feasible": False, "failures": 1, "error": error}
        layers = _example_layers(answers)
        return row | dict.fromkeys(COST) | {"networks": {"resnet18": {"weight": 1.0, "layers": layers}}}
    return row | _example_totals(answers)


def _example_layers(answers: dict[str, Row]) -> list[Row]:
    return [
        {"name": name, "count": RESNET18[name][-1]}
        | {column: answer[column] for column in ("task_id", "energy_pj", "cycles")}
        for name, answer in answers.items()
    ]


def _example_totals(answers: dict[str, Row]) -> Row:
    counts = {name: shape[-1] for name, shape in RESNET18.items()}

    def total(column: str) -> float:
        return float(sum(counts[name] * answer[column] for name, answer in answers.items()))

    energy, cycles = total("energy_pj"), int(total("cycles"))
    energy_bound, cycles_bound = total("energy_bound_pj"), total("cycles_bound")
    levels = {
        level: sum(counts[name] * answer["energy_by_level_pj"][level] for name, answer in answers.items())
        for level in ("RegFile", "SRAM", "DRAM", "MAC")
    }
    return {
        "energy_pj": energy,
        "cycles": cycles,
        "edp_pj_cycles": energy * cycles,
        "latency_seconds": cycles / 2e8,
        "energy_bound_pj": energy_bound,
        "cycles_bound": cycles_bound,
        "energy_gap": 1 - energy_bound / energy,
        "cycles_gap": 1 - cycles_bound / cycles,
        "energy_by_level_pj": levels,
        "networks": {
            "resnet18": {
                "weight": 1.0,
                "energy_pj": energy,
                "cycles": cycles,
                "layers": _example_layers(answers),
            }
        },
    }


@pytest.fixture
def make_layer() -> Callable[..., Row]:
    return layer_row


@pytest.fixture
def make_scratchpad() -> Callable[..., Row]:
    return scratchpad_row


@pytest.fixture
def make_schedule() -> Callable[..., Row]:
    return schedule_row


@pytest.fixture
def make_tile_lot() -> Callable[..., Row]:
    return tile_lot_row


@pytest.fixture
def make_chip_design() -> Callable[..., Row]:
    return chip_design_row


@pytest.fixture
def make_design() -> Callable[..., Row]:
    return design_row


@pytest.fixture
def make_example() -> Callable[..., Path]:
    return write_example


@pytest.fixture
def make_search() -> Callable[..., Path]:
    return write_search


@pytest.fixture
def run_path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "example"


@pytest.fixture
def small_parts() -> Buffering:
    """Parts of ten rows, and no flushing by the clock within a test."""
    return Buffering(rows=10, seconds=3600)
