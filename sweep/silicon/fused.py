"""Lower bounds on the cycles of chips that run several layers fused, by their arrays and links.

The layers that ran on these chips, and their cycles, are published. Of the chips' insides only a third
party's models are known. So the prediction is a bound like a roofline. Every layer runs on the array that ran
it, by the mapping of least cycles there (``exact`` proves it), and every tensor crosses the link between
cores once. The cycles of cores that take turns add up. Of cores that work as a pipeline the slowest one
counts, or the busiest link. Filling the pipeline, loading weights and control are left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.json.safe_json import json_lines
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.workload.network import Layer, convolution
from solvers.budget import Budget
from solvers.mapping import exact
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules

MOST_LINE_BYTES = 1 << 20
CHIPS = Path(__file__).with_name("fused_chips.json")
POOLED = 4
"""Elements of the window of a pooling; all poolings of the rows are 2 x 2 with stride 2."""


@dataclass(frozen=True)
class FusedStep:
    """One layer of a run: a convolution, or element operations, of which each lane does one a cycle."""

    name: str
    core: str
    layer: Layer | None
    operations: int
    input_words: int
    output_words: int


@dataclass(frozen=True)
class FusedRun:
    """A run of fused layers on a chip, and the cycles that the chip took."""

    id: str
    steps: tuple[FusedStep, ...]
    chip: dict[str, Any]
    measured_cycles: float | None = field(compare=False)


@dataclass(frozen=True)
class FusedCycles:
    """Cycles of every step on its core, of the busiest link, and (``cycles``) of the whole run."""

    steps: tuple[float, ...]
    link: float
    cycles: float


@lru_cache(maxsize=1)
def _chips() -> dict[str, Any]:
    return dict(json.loads(CHIPS.read_text(encoding="utf-8")))


def fused_runs(path: Path) -> tuple[FusedRun, ...]:
    """The runs of a file, a JSON object a line.

    InputError names file and line, also for a chip that is not known.
    """
    return tuple(_run(data, where) for where, data in json_lines(path, MOST_LINE_BYTES))


def _run(data: Any, where: str) -> FusedRun:
    if not isinstance(data, dict) or not isinstance(data.get("layers"), list):
        raise InputError(where, "an object with id and layers", data)
    chip = _chips().get(str(data.get("id")))
    if not isinstance(chip, dict):
        known = ", ".join(name for name in _chips() if name != "source")
        raise InputError(where, f"one of {known}", data.get("id"), key="id")
    if len(data["layers"]) != len(chip["runs_on"]):
        expected = f"{len(chip['runs_on'])} layers, as ran"
        raise InputError(where, expected, len(data["layers"]), key="layers")
    steps = tuple(
        _step(f"{data['id']}/{number}", core, layer)
        for number, (core, layer) in enumerate(zip(chip["runs_on"], data["layers"], strict=True), start=1)
    )
    return FusedRun(data["id"], steps, chip, data.get("measured_cycles"))


def _step(name: str, core: str, data: dict[str, Any]) -> FusedStep:
    if "R" in data:
        layer = convolution(name, **data)
        pixels = layer.sizes["P"] * layer.sizes["Q"]
        return FusedStep(name, core, layer, 0, pixels * layer.sizes["C"], pixels * layer.sizes["K"])
    words = data["P"] * data["Q"] * data["K"]
    window = POOLED if "pool" in data else 1
    return FusedStep(name, core, None, window * words, window * words, words)


def least_cycles(run: FusedRun, budget: Budget) -> FusedCycles:
    """A lower bound on the cycles of a run, by its arrays and links."""
    steps = tuple(_step_cycles(step, run.chip["cores"][step.core], budget) for step in run.steps)
    width = run.chip["link_bytes_per_cycle"]
    link = max(max(step.input_words, step.output_words) / width for step in run.steps) if width else 0.0
    together = max(*steps, link) if run.chip["pipelined"] else max(sum(steps), link)
    return FusedCycles(steps, link, together)


def _step_cycles(step: FusedStep, core: Any, budget: Budget) -> float:
    if step.layer is None:
        return float(ceil(step.operations / core))
    rules = LevelRules(
        "Memory",
        spatial=tuple(FactorRule(dim, most=most) for dim, most in {**core["x"], **core["y"]}.items()),
        spatial_x=tuple(core["x"]),
        spatial_y=tuple(core["y"]),
    )
    problem = MappingProblem(_array(*core["fanout"]), step.layer, "cycles", SpaceRules(levels=(rules,)))
    outcome = exact.solve(problem, budget)
    if outcome.objective is None:
        raise InputError(step.name, "a mapping on the array within the budget", outcome.status)
    return outcome.objective


def _array(x: int, y: int) -> Architecture:
    """An array of x by y MACs below a memory that keeps up with it."""
    memory = StorageLevel("Memory", None, 8, 0.0, 0.0, 0.0, fanout_x=x, fanout_y=y)
    return Architecture("array", (memory,), Compute("MAC", 8, 0.0))
