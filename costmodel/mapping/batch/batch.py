"""What many mappings of one layer on one architecture cost, as arrays: the fast path of ``evaluate``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.divided_compiling import Call, Part
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.timing import Layouts
from costmodel.mapping.batch.batch_tables import BatchRows, Tables, tables_of, workspace
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping, layout_violations
from costmodel.mapping.timing.walk import has_inner_steps
from costmodel.workload.network import Layer

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class MappingBatch:
    """``n`` mappings of one layer on one architecture, as arrays with a row for each.

    Levels are innermost first; dims and tensors stand in the layer's order.

    * ``temporal``, ``spatial_x``, ``spatial_y`` int32 [n, levels, dims]: factors, 1 where there is no loop;
    * ``permutation`` int8 [n, levels, dims]: every row the indices of all dims, INNERMOST loop first;
    * ``keep`` bool [n, levels, tensors]: whether the level keeps the tensor (else it is bypassed);
    * ``layouts`` object [n]: ``Mapping.layouts`` of every row; None where all lie as the machine's file says.
    """

    temporal: Array
    permutation: Array
    spatial_x: Array
    spatial_y: Array
    keep: Array
    layouts: Array | None = None

    def __len__(self) -> int:
        return len(self.temporal)

    def __getitem__(self, rows: slice | Array) -> MappingBatch:
        layouts = None if self.layouts is None else self.layouts[rows]
        return replace(MappingBatch(*(array[rows] for array in self.rows)), layouts=layouts)

    @property
    def rows(self) -> BatchRows:
        """The same arrays as compiled code takes them."""
        return BatchRows(self.temporal, self.permutation, self.spatial_x, self.spatial_y, self.keep)

    @classmethod
    def empty(cls, n: int, architecture: Architecture, layer: Layer) -> MappingBatch:
        """``n`` rows without loops that keep nothing; they are not valid until the caller fills them."""
        shape = (n, len(architecture.levels), len(layer.dims))
        factors = (np.ones(shape, np.int32) for _ in range(3))
        permutation = np.broadcast_to(np.arange(shape[2], dtype=np.int8), shape).copy()
        keep = np.zeros((*shape[:2], len(layer.tensors)), np.bool_)
        temporal, spatial_x, spatial_y = factors
        return cls(temporal, permutation, spatial_x, spatial_y, keep)

    @classmethod
    def of(cls, mappings: Sequence[Mapping], architecture: Architecture, layer: Layer) -> MappingBatch:
        """A row for each of ``mappings``, which must have no ``mapping.violations``."""
        batch = cls.empty(len(mappings), architecture, layer)
        index = {dim: number for number, (dim, _) in enumerate(layer.dims)}
        for row, mapping in enumerate(mappings):
            for level_index, level in enumerate(mapping.levels):
                for dim, bound in level.temporal:
                    batch.temporal[row, level_index, index[dim]] = bound
                for dim, bound in level.spatial_x:
                    batch.spatial_x[row, level_index, index[dim]] = bound
                for dim, bound in level.spatial_y:
                    batch.spatial_y[row, level_index, index[dim]] = bound
                # Every row lists all dims: those without a loop follow, where they change nothing.
                first = [index[dim] for dim, _ in level.temporal]
                batch.permutation[row, level_index] = first + [d for d in range(len(index)) if d not in first]
                batch.keep[row, level_index] = [tensor.name in level.keep for tensor in layer.tensors]
        if all(not mapping.layouts for mapping in mappings):
            return batch
        layouts = np.empty(len(mappings), object)
        # one by one: from a list of equally long tuples numpy would make a table
        for row, mapping in enumerate(mappings):
            layouts[row] = mapping.layouts
        return replace(batch, layouts=layouts)

    def mapping(self, row: int, layer: Layer) -> Mapping:
        """Row ``row`` as a mapping; spatial loops stand in the order of the layer's dims."""
        names = [dim for dim, _ in layer.dims]
        levels = []
        for level_index in range(self.temporal.shape[1]):
            order = self.permutation[row, level_index].tolist()
            keep = frozenset(
                tensor.name
                for tensor, kept in zip(layer.tensors, self.keep[row, level_index].tolist(), strict=True)
                if kept
            )
            levels.append(
                LevelMapping(
                    tuple(_loops(names, self.temporal[row, level_index].tolist(), order)),
                    tuple(_loops(names, self.spatial_x[row, level_index].tolist(), range(len(names)))),
                    tuple(_loops(names, self.spatial_y[row, level_index].tolist(), range(len(names)))),
                    keep,
                )
            )
        return Mapping(tuple(levels), () if self.layouts is None else self.layouts[row])


def _loops(names: Sequence[str], bounds: Sequence[int], order: Iterable[int]) -> Iterator[tuple[str, int]]:
    """(dim, bound) of the loops larger than 1, in the order given."""
    return ((names[dim], bounds[dim]) for dim in order if bounds[dim] != 1)


@dataclass(frozen=True, eq=False)
class BatchEvaluation:
    """What each of ``n`` mappings costs: ``cycles`` int64, ``energy_pj`` float64 and ``valid`` bool, each
    [n].

    A row that is no valid mapping (see ``mapping.violations``) has the largest int64 as its cycles and an
    infinite energy.
    """

    cycles: Array
    energy_pj: Array
    valid: Array

    @property
    def edp_pj_cycles(self) -> Array:
        """The energy-delay products, float64 [n]."""
        return self.energy_pj * self.cycles


@dataclass(frozen=True)
class BatchEvaluator:
    """Evaluates mappings of ``layer`` on ``architecture`` in large batches, with the counts of ``evaluate``.

    The first call compiles, or loads what an earlier process compiled. Where timed steps are those of a level
    inside the outermost one, rows are counted one by one, a thousand times slower."""

    architecture: Architecture
    layer: Layer

    def evaluate(self, batch: MappingBatch) -> BatchEvaluation:
        """Cycles and energy of every row of ``batch``; in one thread that does not hold Python's lock."""
        if batch.layouts is not None:
            return self._in_groups(batch, batch.layouts)
        if has_inner_steps(self.architecture):
            return self._one_by_one(batch)
        shape = (len(self.architecture.levels), len(self.layer.dims))
        if batch.temporal.shape[1:] != shape:
            raise ValueError(f"rows of {batch.temporal.shape[1:]} levels and dims, expected {shape}")
        n = len(batch)
        found = BatchEvaluation(np.empty(n, np.int64), np.empty(n), np.empty(n, np.bool_))
        function, arguments = self._call(batch, found)
        function(*arguments)
        return found

    def code(self) -> Part:
        """What has to be compiled before the first call, for any architecture and layer."""
        found = BatchEvaluation(np.empty(0, np.int64), np.empty(0), np.empty(0, np.bool_))
        return (self._call(MappingBatch.empty(0, self.architecture, self.layer), found),)

    def _call(self, batch: MappingBatch, found: BatchEvaluation) -> Call:
        from costmodel.mapping.batch.batch_kernel import evaluate_rows

        rows = BatchRows(*(np.ascontiguousarray(array) for array in batch.rows))
        numbers = (found.cycles, found.energy_pj, found.valid)
        return Call(evaluate_rows, (self.tables, rows, workspace(self.tables), *numbers))

    def _in_groups(self, batch: MappingBatch, layouts: Array) -> BatchEvaluation:
        """Rows with the same layouts together: the machine has other tables in each."""
        n, rows_of = len(batch), defaultdict(list)
        for row, own in enumerate(layouts):
            rows_of[own].append(row)
        cycles, energy_pj = np.full(n, np.iinfo(np.int64).max), np.full(n, np.inf)
        valid = np.zeros(n, np.bool_)
        for own, numbers in rows_of.items():
            if next(layout_violations(self.architecture, own), None):
                continue
            rows = np.array(numbers)
            if own not in self._in_layouts:
                self._in_layouts[own] = BatchEvaluator(self.architecture.in_layouts(own), self.layer)
            found = self._in_layouts[own].evaluate(replace(batch[rows], layouts=None))
            cycles[rows], energy_pj[rows], valid[rows] = found.cycles, found.energy_pj, found.valid
        return BatchEvaluation(cycles, energy_pj, valid)

    def _one_by_one(self, batch: MappingBatch) -> BatchEvaluation:
        """Rows whose timed steps are those of a level inside, by ``evaluate``.

        What is timed is a layer as large as the tile of that level. Where its tensors lie depends on that, so
        each row would need tables of its own, and filling these takes longer than counting a mapping.
        """
        found = self._untimed.evaluate(batch)
        for row in np.flatnonzero(found.valid).tolist():
            evaluation = evaluate(self.architecture, self.layer, batch.mapping(row, self.layer))
            found.cycles[row], found.energy_pj[row] = evaluation.cycles, evaluation.energy_pj
        return found

    @cached_property
    def _untimed(self) -> BatchEvaluator:
        return BatchEvaluator(replace(self.architecture, timing=None), self.layer)

    @cached_property
    def _in_layouts(self) -> dict[Layouts, BatchEvaluator]:
        """The evaluators of rows whose tensors lie otherwise than the machine's file says."""
        return {}

    @cached_property
    def tables(self) -> Tables:
        """The layer and the architecture as compiled code takes them."""
        return tables_of(self.architecture, self.layer)
