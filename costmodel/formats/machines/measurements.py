"""Measured cycles of layers on a machine: JSON lines or CSV, one run a row.

A row has an ``id`` (else its line number), a ``layer``, its measured ``cycles``, and what the machine ran: a
``mapping`` in the form of the cases, or the ``tile`` and ``loops`` of a walk over tiles::

    {"id": "a", "layer": {"P": 56, "Q": 56, "C": 64, "K": 64, "R": 3, "S": 3}, "stride": 1, "cycles": 451000,
     "tile": {"P": 56, "Q": 8, "C": 64, "K": 16, "R": 3, "S": 3}, "loops": [["K", 4], ["Q", 7]]}

``layer`` has the sizes of a convolution (absent ones are 1) or those of a product, M, N and K, and B for
several; ``stride`` and ``dilation`` are one number or {"P": .., "Q": ..}, ``groups`` a number, 1 by default.
``loops`` are OUTERMOST FIRST. ``layouts`` say how tensors lay in memory where not as the machine's file has
it: ``{"inputs": ["N", "C", "Q", "P"]}``. ``group`` names what rows of one layer have in common, which are
left out of a fit together (default: the layer). In CSV the same columns hold JSON, or a plain number or word.
Rows of Gemmini's RTL runs are recognized by their own keys (:mod:`costmodel.formats.machines.gemmini_runs`).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from dataclasses import field as value_field
from functools import lru_cache
from pathlib import Path
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.cases.mapping import any_mapping_from_json, layouts_from_json
from costmodel.formats.json.json_fields import field, known_names, whole_number, whole_numbers
from costmodel.formats.machines.gemmini_runs import gemmini_run, is_gemmini_run, measured_cycles
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Loop
from costmodel.mapping.timing.counts import StepCounts, step_counts
from costmodel.mapping.timing.cycles import TimedCycles, cycles_of
from costmodel.mapping.timing.walk import Walk, rounded
from costmodel.mapping.uneven import AnyMapping
from costmodel.workload.network import Layer, Role, batched_matmul, convolution

LARGEST_FILE_BYTES = 2**28
"""A file is read whole, and a row takes some hundred bytes: no file of measurements comes near this."""


@dataclass(frozen=True)
class Measurement:
    """One run: ``mapping`` or ``walk`` (tile, then loops outermost first) of ``layer`` took ``cycles``.

    ``architecture`` is the machine of this very run: rows may say another mesh.
    """

    id: str
    group: str
    cycles: float
    architecture: Architecture
    layer: Layer
    overrides: dict[str, int] = value_field(default_factory=dict)
    """Values in which the run's machine differs from its file, by their keys in the file."""
    mapping: AnyMapping | None = None
    walk: tuple[dict[str, int], tuple[Loop, ...]] | None = None
    layouts: dict[Role, tuple[str, ...]] = value_field(default_factory=dict)
    """How tensors of some roles lay in memory in this run; ``architecture`` has these layouts."""

    def on(self, machine: Architecture) -> Measurement:
        """The same run on another machine, with the layouts that it had."""
        if self.layouts and machine.timing is not None:
            machine = replace(machine, timing=machine.timing.with_layouts(self.layouts))
        return replace(self, architecture=machine)


def read_measurements(name_or_path: str, path: Path) -> list[Measurement]:
    """The rows of a file as runs on the machine of an architecture file; InputError names a row's mistake."""
    if path.is_file() and path.stat().st_size > LARGEST_FILE_BYTES:
        raise InputError(str(path), f"at most {LARGEST_FILE_BYTES} bytes", path.stat().st_size)
    rows = [_measurement(name_or_path, row, f"{path}:{line}") for line, row in _rows(path)]
    if not rows:
        raise InputError(str(path), "at least one measured row", "none")
    return rows


def predicted(run: Measurement) -> tuple[int, TimedCycles | None]:
    """The cycles that the cost model says a run takes, and what they are spent on if the machine has timing.

    A walk says how a machine with timing was driven. Any other run is a mapping, evaluated as every mapping.
    """
    if run.walk is not None and run.architecture.timing is not None:
        timed = cycles_of(run.architecture.timing, counted(run))
        return timed.cycles, timed
    assert run.mapping is not None, "a run has a walk or a mapping"
    evaluation = evaluate(run.architecture, run.layer, run.mapping)
    return evaluation.cycles, evaluation.timed


def counted(run: Measurement) -> StepCounts:
    """What the steps of a run ask for, before constants say how many cycles that takes; of a walk only."""
    assert run.walk is not None
    assert run.architecture.timing is not None
    walk = rounded(run.architecture.timing, run.layer, *run.walk)
    return step_counts(run.architecture, run.architecture.timing, walk)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows, each with its number of line, counted from 1, by which errors call it."""
    try:
        # spreadsheets write a byte order mark before the first column's name
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InputError(str(path), "a text file of measurements", str(error)) from None
    if path.suffix == ".csv":
        # The header is line 1. An empty cell is a key that its row does not have.
        for line, row in enumerate(csv.DictReader(text.splitlines()), start=2):
            yield line, {key: _cell(value) for key, value in row.items() if key and value not in ("", None)}
        return
    for line, written in enumerate(text.splitlines(), start=1):
        if not written.strip():
            continue
        try:
            row = json.loads(written)
        except (ValueError, RecursionError) as error:  # the latter for brackets nested thousands deep
            raise InputError(f"{path}:{line}", "a JSON object a line", str(error)) from None
        if not isinstance(row, dict):
            raise InputError(f"{path}:{line}", "a JSON object a line", row)
        yield line, row


def _cell(value: str) -> Any:
    """A cell of a CSV file: JSON where it is some, else a word."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def _measurement(name: str, row: dict[str, Any], where: str) -> Measurement:
    """One row of a file: a run in Gemmini's own form, or a layer with a mapping, or a tile and its loops."""
    identity = str(where.rpartition(":")[2] if row.get("id") is None else row["id"])
    if is_gemmini_run(row):
        ran = gemmini_run(row, where)
        machine = _of_mesh(name, tuple(ran.overrides.items()), where)
        return Measurement(
            identity,
            ran.layer.name,
            ran.cycles,
            machine,
            ran.layer,
            ran.overrides,
            walk=(ran.tile, ran.loops),
        )
    layer = _layer(row, where)
    group = str(row.get("group", layer.name))
    cycles = measured_cycles(row, "cycles", where)
    if "mapping" in row:
        machine = _machine(name, ())
        layouts = _layouts(machine, row, where)
        mapping = any_mapping_from_json(machine, layer, row["mapping"], where)
        run = Measurement(identity, group, cycles, machine, layer, mapping=mapping, layouts=layouts)
        return _with_layouts(run, where)
    if "tile" not in row:
        raise InputError(where, "a mapping, or a tile and its loops", ", ".join(row), key="mapping")
    tile = whole_numbers(field(row, "tile", dict, where), layer.sizes, where, "tile")
    loops = tuple(_loop(entry, layer, where) for entry in field(row, "loops", list, where))
    # built for its checks only, to name the row; the machine's rounding makes the walk that is counted
    try:
        Walk(layer, tile, loops)
    except InputError as error:
        raise error.at(where, "tile") from None
    machine = _timed(name, (), where)
    layouts = _layouts(machine, row, where)
    run = Measurement(identity, group, cycles, machine, layer, walk=(tile, loops), layouts=layouts)
    return _with_layouts(run, where)


def _with_layouts(run: Measurement, where: str) -> Measurement:
    """The run on its machine with the layouts that it states; InputError for those that are none."""
    try:
        return run.on(run.architecture)
    except InputError as error:
        raise error.at(where) from None


@lru_cache(maxsize=64)
def _machine(name: str, overrides: tuple[tuple[str, Any], ...]) -> Architecture:
    """The machine of that file; kept, as thousands of rows ran on a few machines."""
    return load_architecture(name, dict(overrides))


def _timed(name: str, overrides: tuple[tuple[str, Any], ...], where: str) -> Architecture:
    """The machine, which a row with a walk but no mapping needs the timing of."""
    machine = _machine(name, overrides)
    if machine.timing is None:
        remedy = "Give the rows a mapping, or the architecture file its timing"
        raise InputError(f"architecture {name}", f"timing, as {where} has a tile", "none", remedy)
    return machine


def _of_mesh(name: str, mesh: tuple[tuple[str, int], ...], where: str) -> Architecture:
    """The machine with the array that a run of Gemmini's RTL had; InputError for one that is no Gemmini."""
    levels = [level.name for level in _machine(name, ()).levels]
    if not {key.partition(".")[0] for key, _ in mesh} <= set(levels):
        remedy = "Take gemmini, or a copy of its file"
        expected = "a machine with Gemmini's levels, as the row is a run of its RTL"
        raise InputError(where, expected, f"{name} with {', '.join(levels)}", remedy)
    return _timed(name, mesh, where)


def _layouts(machine: Architecture, row: dict[str, Any], where: str) -> dict[Role, tuple[str, ...]]:
    """The layouts that a row states, whether the machine's file permits them to mappings or not: it ran."""
    if "layouts" not in row:
        return {}
    if isinstance(row.get("mapping"), dict) and "layouts" in row["mapping"]:
        raise InputError(where, "layouts of the row or of its mapping", "both", key="layouts")
    layouts = layouts_from_json(row, where)
    if machine.timing is None:
        remedy = "Leave out layouts, or give the architecture file its timing"
        expected = "a machine with timing, whose transfers see layouts"
        raise InputError(where, expected, "none", remedy, key="layouts")
    return layouts


def _layer(row: dict[str, Any], where: str) -> Layer:
    """The convolution or product of a row, named by its sizes."""
    sizes = field(row, "layer", dict, where)
    product = "M" in sizes
    dims = ("B", "M", "N", "K") if product else ("N", "K", "C", "P", "Q", "R", "S")
    numbers = dict.fromkeys(dims, 1) | whole_numbers(sizes, dims, where, "layer")
    name = "x".join(f"{dim}{numbers[dim]}" for dim in dims)
    if product:
        for key in ("stride", "dilation", "groups"):
            if row.get(key, 1) != 1:
                raise InputError(where, "none, in a matrix product", row[key], key=key)
        return batched_matmul(name, **numbers)
    stride, dilation = (_along(row, key, where) for key in ("stride", "dilation"))
    groups = whole_number(row.get("groups", 1), where, "groups")
    for sign, steps in (("/", stride), ("d", dilation)):
        if steps != (1, 1):
            name += f"{sign}{steps[0]}x{steps[1]}"
    if groups > 1:
        name += f"g{groups}"
    try:
        return convolution(name, stride=stride, dilation=dilation, groups=groups, **numbers)
    except InputError as error:
        raise error.at(where) from None


def _along(row: dict[str, Any], key: str, where: str) -> tuple[int, int]:
    """Steps along P and along Q, of which a row gives one number for both, or those that are not 1."""
    written = row.get(key, 1)
    if isinstance(written, dict):
        steps = whole_numbers(written, ("P", "Q"), where, key)
        return steps.get("P", 1), steps.get("Q", 1)
    step = whole_number(written, where, key)
    return step, step


def _loop(entry: Any, layer: Layer, where: str) -> Loop:
    if not isinstance(entry, list) or len(entry) != 2:
        raise InputError(where, "loops as [dim, bound]", entry, key="loops")
    known_names(entry[:1], layer.sizes, where, "loops")
    return entry[0], whole_number(entry[1], where, "loops")
