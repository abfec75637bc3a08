"""The array that stages of a pipeline divide among them, and the architecture that one of them sees.

The array hangs below the outermost level with a fan-out. All levels from there outwards have one instance,
which the stages share; those further in, and the MAC units, belong to the columns or rows that they hang in.
"""

from __future__ import annotations

from dataclasses import replace

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.fused.pipeline import MeshAxis


def divided_level(architecture: Architecture) -> int | None:
    """The level whose fan-out is divided; None where nothing has a fan-out, or only the outermost level.

    What hangs below the outermost level cannot be divided for layers that share loops: no level of the chip
    has one instance there, so none could hold what passes between them.
    """
    fanned = [number for number, level in enumerate(architecture.levels) if level.fanout > 1]
    return fanned[-1] if fanned and fanned[-1] < len(architecture.levels) - 1 else None


def array_size(architecture: Architecture, axis: MeshAxis) -> int:
    """How many columns (``axis`` x) or rows (y) the array has that pipelines divide; 1 if there is none."""
    number = divided_level(architecture)
    if number is None:
        return 1
    level = architecture.levels[number]
    return level.fanout_x if axis == "x" else level.fanout_y


def part_of_array(architecture: Architecture, axis: MeshAxis, part: int) -> Architecture:
    """The architecture with ``part`` columns or rows of its array, and without leakage.

    A stage does not know how long its pipeline takes, so leakage is counted once for the whole pipeline.
    """
    number = divided_level(architecture)
    assert number is not None, "the checker refuses pipelines where there is nothing to divide"
    levels = [replace(level, leakage_pj_per_cycle=0.0) for level in architecture.levels]
    own = levels[number]
    levels[number] = replace(own, fanout_x=part) if axis == "x" else replace(own, fanout_y=part)
    return replace(architecture, levels=tuple(levels))
