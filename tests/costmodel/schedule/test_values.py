"""Values of the chip model: what no chip, table or schedule has is refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from costmodel.errors import InputError
from costmodel.hardware.chip import TileBuffer
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.partitions import factorizations, utilization, well_used
from costmodel.schedule.leaf.streams import Stream, streams_of
from costmodel.schedule.tile_cost import TileRows, table_floor
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, chip, layer


@pytest.mark.parametrize(("columns", "rows", "stripe"), [(4, 4, 4), (5, 3, 2), (3, 2, 4), (1, 4, 1)])
def test_stripes_cover_every_tile_once_and_neighbours_follow_one_another(
    columns: int, rows: int, stripe: int
) -> None:
    positions = chip(columns, rows, stripe=stripe).positions
    assert sorted(positions) == [(x, y) for x in range(columns) for y in range(rows)]
    for (x, y), (next_x, next_y) in pairwise(positions):
        assert abs(y - next_y) <= 1
        assert abs(x - next_x) <= 2 * stripe - 1


def test_ports_are_at_both_ends_of_every_row() -> None:
    assert chip(3, 2).ports == ((0, 0), (0, 1), (2, 0), (2, 1))
    assert chip(1, 2).ports == ((0, 0), (0, 1))
    assert chip(3, 2).links == 2 * (2 * 2 + 3)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"columns": 0}, "whole number of at least 1"),
        ({"rows": 2.0}, "whole number of at least 1"),
        ({"stripe": True}, "whole number of at least 1"),
        ({"frequency_ghz": 0.0}, "more than 0 GHz"),
        ({"columns": 100_000, "rows": 100_000}, "at most 4,096 tiles"),
    ],
)
def test_no_such_chip(change: dict[str, object], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        replace(chip(), **change)  # type: ignore[arg-type]


def test_no_such_buffer() -> None:
    with pytest.raises(InputError, match="read_pj_per_byte: expected a number of at least 0"):
        TileBuffer(1024, -1.0, 1.0)
    with pytest.raises(InputError, match="read_pj_per_byte"):
        TileBuffer(1024, float("nan"), 1.0)


def test_rows_of_tile_costs() -> None:
    rows = TileRows.of([((2, 1, 1, 1), 3.0, 4), ((1, 2, 1, 1), 5.0, 2)])
    assert rows.parts.shape == (2, 4)
    assert len(TileRows.of([]).parts) == 0
    with pytest.raises(InputError, match="arrays of"):
        replace(rows, cycles=np.array([1]))
    with pytest.raises(InputError, match="cycles of at least 1"):
        replace(rows, cycles=np.array([1, 0]))


def test_a_floor_is_the_least_of_all_rows_for_a_sample() -> None:
    """An operation is 1 pJ and a quarter of a cycle wherever parts are equal: nothing is below."""
    floor = table_floor(FormulaCosts(chain(1)), chain(1), 0, [1, 2, 4], 4)
    assert (floor.energy_pj, floor.tile_cycles) == (256.0, 64.0)


def test_partitions() -> None:
    assert sorted(factorizations(4)) == sorted(
        (k, b, h, w)
        for k in (1, 2, 4) for b in (1, 2, 4) for h in (1, 2, 4) for w in (1, 2, 4)
        if k * b * h * w == 4
    )  # fmt: skip
    assert utilization((3, 1, 4, 4), (2, 1, 2, 1)) == 3 / 4
    assert well_used((4, 1, 1, 1), factorizations(4)) == ((4, 1, 1, 1),)
    # 5 of 6, 3 of 4: the better of what both leave more idle than is allowed
    assert well_used((5, 3, 1, 1), ((2, 1, 1, 1), (1, 2, 1, 1)), least=0.9) == ((2, 1, 1, 1),)


def test_operands_may_share_a_producer() -> None:
    """10 channels are two operands of 5: the second producer ends the first and is all of the second."""
    graph = LayerGraph(
        "shared",
        (
            layer("four", k=4, external_c=4),
            layer("six", k=6, external_c=4),
            layer("sum", "eltwise", c=10, k=5, operands=2, producers=(0, 1)),
        ),
    )
    assert streams_of(graph, 2) == (
        Stream("inputs", 0, 4, 0),
        Stream("inputs", 4, 10, 1),
        Stream("inputs", -1, 5, 1),
        Stream("outputs", 0, 5),
    )
