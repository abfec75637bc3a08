"""Pieces of sorted rows, cut where a traced example's experts ended, are said and not counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel.formats.onnx.reader import read_onnx
from costmodel.workload.counting import uncounted_rows
from tests.costmodel.formats.onnx.graphs import floats, model, node, numbers, tensor, written


def experts(tmp_path: Path, first: int, end: int = 99, *, sort: bool = True) -> Path:
    """Twelve rows of width 4 for two experts: the first gets so many, the second those up to ``end``."""
    nodes = [
        node("TopK", "gate twelve", "best order"),
        node("Div", "order one", "rows"),
        node("Gather", "x rows" if sort else "x fixed", "sorted", axis=0),
        node("Slice", "sorted zero cut zero", "mine"),
        node("Slice", "sorted cut end zero", "yours"),
        node("MatMul", "mine w", "a"),
        node("Relu", "a", "b"),
        node("MatMul", "b v", "c"),
        node("MatMul", "yours w", "d"),
        node("MatMul", "d v", "e"),
        node("Concat", "c e", "together", axis=0),
        node("MatMul", "together w", "y"),
    ]
    parameters = [
        *(numbers(n, v) for n, v in (("twelve", 12), ("one", 1), ("zero", 0), ("end", end), ("cut", first))),
        numbers("fixed", *range(12)),
        floats("w", 4, 4),
        floats("v", 4, 4),
    ]
    return written(tmp_path, model(nodes, [tensor("x", 12, 4), tensor("gate", 12)], parameters))


def test_unequal_pieces_of_rows_that_values_order(tmp_path: Path) -> None:
    network = read_onnx(experts(tmp_path, 5))
    rows = uncounted_rows(network)
    assert [row["node"] for row in rows] == ["a", "c", "d", "e"]
    assert all("depends on data: node" in row["why"] and "node sorted picks" in row["why"] for row in rows)
    assert network.macs == 12 * 4 * 4


@pytest.mark.parametrize(("first", "sort"), [(6, True), (5, False)])
def test_equal_pieces_and_rows_in_a_fixed_order_are_counted(tmp_path: Path, first: int, sort: bool) -> None:
    network = read_onnx(experts(tmp_path, first, sort=sort))
    assert uncounted_rows(network) == []
    assert network.macs == 12 * 4 * 4 * 3


def test_equal_pieces_that_are_not_the_whole_are_a_shorter_example(tmp_path: Path) -> None:
    """Traced with eight rows, of which each expert happened to get four, and read with twelve."""
    network = read_onnx(experts(tmp_path, 4, 8))
    assert [row["node"] for row in uncounted_rows(network)] == ["a", "c", "d", "e"]
