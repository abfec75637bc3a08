"""Layers that run at the same time on parts of the array: which layers, and how the array is divided.

Two layers share a loop of four iterations. One after the other on the whole array, a row for each part::

    all columns     a0 b0 a1 b1 a2 b2 a3 b3

As a pipeline each has columns of its own, and works on the iteration behind that of the layer before it::

    turn                   0    1    2    3    4
    columns of a          a0   a1   a2   a3
    columns of b               b0   b1   b2   b3

The layers of a pipeline are its *stages*, and ``iterations + stages - 1`` turns pass until the last one is
done: in the first ones the pipeline fills, in the last ones it drains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

MeshAxis = Literal["x", "y"]
"""Along which side of a fan-out the array is divided: into columns (x), or into rows (y)."""

SIDES: dict[str, str] = {"x": "columns", "y": "rows"}
"""What the parts of an axis are called."""


@dataclass(frozen=True)
class Pipeline:
    """The layers from number ``first`` on, one for each of ``parts``, run at the same time.

    ``parts``: of each stage the columns (``axis`` x) or rows (y) of the fan-out that it has for itself.
    """

    first: int
    axis: MeshAxis
    parts: tuple[int, ...]

    @property
    def stages(self) -> range:
        """The numbers of the layers that are its stages."""
        return range(self.first, self.first + len(self.parts))

    @property
    def side(self) -> str:
        """Columns or rows."""
        return SIDES[self.axis]


def stage_of(pipelines: Iterable[Pipeline], position: int) -> Pipeline | None:
    """The pipeline of which the layer at ``position`` is a stage; None: it runs by itself."""
    return next((one for one in pipelines if position in one.stages), None)


def times(pipelines: Iterable[Pipeline], layers: int) -> Iterator[range]:
    """The layers that run at the same time: the stages of each pipeline, every other layer by itself."""
    position = 0
    while position < layers:
        pipeline = stage_of(pipelines, position)
        together = range(position, position + 1) if pipeline is None else pipeline.stages
        yield together
        position = together.stop
