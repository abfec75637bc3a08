"""Tile cost tables as tasks: solved once, filed, found again by other studies, the same as solved here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tile_filling import TileFiling, fill, tile_costs, tile_source

from clusters.in_process import InProcessRuntime
from clusters.runtime import RuntimeSettings
from costmodel.formats.chips import load_chip
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from results.store.folder import RunFolder, RunWriter
from results.store.known_answers import StoredAnswers
from results.store.schema.rows import TileCostRow
from solvers.mapping.kapla import filling
from solvers.schedule.tiles.cost_table import MissingTilePartError, solved_costs
from solvers.schedule.tiles.layer_parts import Pruning, TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper
from sweep.design.tile_table import TileTable
from sweep.tasks.chips.tile_costs import TileCostSource
from sweep.tasks.kinds import answer_task

MAPPER = TileMapper("cosa")
SIZES: dict[str, Any] = {
    "r": 1,
    "s": 1,
    "stride_h": 1,
    "stride_w": 1,
    "pad_h": 0,
    "pad_w": 0,
    "input_h": 4,
    "input_w": 4,
}


def chain(k: int = 8, name: str = "conv") -> LayerGraph:
    """A convolution and a pooling of its outputs."""
    first: dict[str, Any] = {"c": 4, "k": k, "h": 4, "w": 4, "external_c": 4}
    pool: dict[str, Any] = {"c": k, "k": k, "h": 4, "w": 4, "producers": (0,)}
    layers = (
        NetworkLayer(name, "conv", **first, **SIZES),
        NetworkLayer("pool", "pool", **pool, **SIZES),
    )
    return LayerGraph("chain", layers)


def demand(graph: LayerGraph | None = None, batch: int = 2, tiles: int = 2) -> TileCostDemand:
    return TileCostDemand(graph or chain(), load_chip("set-edge").tile, tiles, batch, Pruning())


def run(
    table: TileTable, wanted: list[tuple[TileCostSource, TileCostDemand]], folder: Path
) -> list[TileCostRow]:
    runtime = InProcessRuntime(answer_task, RuntimeSettings())
    with RunWriter(folder) as writer, runtime:
        return list(fill(table, wanted, runtime, TileFiling(writer, folder.name)))


@pytest.mark.slow
def test_the_table_is_what_solving_here_gives(tmp_path: Path) -> None:
    asked = demand()
    source = tile_source(asked, MAPPER)
    table = TileTable()
    assert len(table.open_parts(source, asked.tile_parts())) == len(asked.tile_parts()) > 2
    rows = run(table, [(source, asked)], tmp_path / "one")
    assert [row["status"] for row in rows] == ["feasible"]
    assert not table.open_parts(source, asked.tile_parts())
    here, tabled = solved_costs(asked, MAPPER), tile_costs(table, source, asked)
    for layer in range(2):
        assert here.normalized_cycles(layer) == tabled.normalized_cycles(layer)
        for batch in (1, 2):
            for tiles in (1, 2):
                one, other = here.rows(layer, batch, tiles), tabled.rows(layer, batch, tiles)
                assert one.parts.tolist() == other.parts.tolist() != []
                assert one.energy_pj.tolist() == other.energy_pj.tolist()
                assert one.cycles.tolist() == other.cycles.tolist()
    filed = RunFolder(tmp_path / "one").read_rows("tile_costs")
    assert [row["task_id"] for row in filed] == [row["task_id"] for row in rows]
    assert filed[0]["tile_parts"] == len(filed[0]["costs"]) == len(asked.tile_parts())
    assert set(table.part_costs(source, asked.tile_parts())) == set(asked.tile_parts())


@pytest.mark.slow
def test_other_studies_find_the_costs_and_solve_only_what_is_new(tmp_path: Path) -> None:
    asked = demand()
    source = tile_source(asked, MAPPER)
    run(TileTable(StoredAnswers(tmp_path)), [(source, asked)], tmp_path / "one")
    again = TileTable(StoredAnswers(tmp_path))
    assert run(again, [(source, asked)], tmp_path / "two") == []
    # another name, a smaller batch, fewer tiles: nothing new; more tiles: some
    assert again.open_parts(source, demand(chain(name="other"), 1, 1).tile_parts()) == []
    more = demand(tiles=4)
    new = again.open_parts(source, more.tile_parts())
    assert 0 < len(new) < len(more.tile_parts())
    rows = run(again, [(source, more)], tmp_path / "two")
    assert [tuple(cost[0]) for row in rows for cost in row["costs"] or ()] == [tuple(part) for part in new]
    # another solver or budget is another table
    other = tile_source(asked, TileMapper("cosa", "energy"))
    assert other.id != source.id
    assert len(again.open_parts(other, asked.tile_parts())) == len(asked.tile_parts())


def test_what_two_demands_share_is_in_one_task() -> None:
    small, large = demand(batch=1), demand(batch=4)
    source = tile_source(small, MAPPER)
    table = TileTable()
    first, second = table.tasks(source, small.tile_parts()), table.tasks(source, large.tile_parts())
    assert {task.id for task in first} < {task.id for task in second}
    parts = [part for task in second for part in task.parts]
    assert sorted(parts) == sorted(set(parts) | set(small.tile_parts())) == sorted(large.tile_parts())


def test_a_failed_task_leaves_its_parts_open() -> None:
    asked = demand()
    source = tile_source(asked, MAPPER)
    table = TileTable()
    (task,) = table.tasks(source, asked.tile_parts())
    table.record(task, {"status": "failed", "error": "lost"})
    assert [again.id for again in table.tasks(source, asked.tile_parts())] == [task.id]
    with pytest.raises(MissingTilePartError):
        tile_costs(table, source, asked).rows(0, 1, 1)


@pytest.mark.slow
def test_a_lot_says_which_limits_its_mapper_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = demand()
    said = "limit of 1 products of divisors in one pass reached: "
    for most, count in ((filling.MOST_PRODUCTS, 0), (1, 1)):
        monkeypatch.setattr(filling, "MOST_PRODUCTS", most)
        source = tile_source(asked, TileMapper("kapla"))
        (row,) = run(TileTable(), [(source, asked)], tmp_path / f"most{most}")
        assert (row["note"] or "").count(said) == count
        (stored,) = RunFolder(tmp_path / f"most{most}").read_rows("tile_costs")
        assert stored["note"] == row["note"]


def test_identity_is_the_content() -> None:
    asked = demand()
    source = tile_source(asked, MAPPER)
    (task,) = TileTable().tasks(source, asked.tile_parts())
    (named,) = TileTable().tasks(source, demand(chain(name="other")).tile_parts())
    assert task.id == named.id
    assert json.loads(json.dumps(task.content)) == task.content
    changed = load_chip("set-edge", {"tile.buffer.size": "512 KiB"}).tile
    # a smaller buffer costs less an access
    assert tile_source(TileCostDemand(chain(), changed, 2, 2), MAPPER).id != source.id


def test_parts_without_a_mapping_are_known_as_such(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {**SIZES, "r": 6, "s": 6, "input_h": 6, "input_w": 6}
    channels: dict[str, Any] = {"c": 4096, "k": 8, "h": 1, "w": 1, "external_c": 4096}
    graph = LayerGraph("wide", (NetworkLayer("wide", "conv", **channels, **sizes),))
    asked, mapper = demand(graph, 1, 1), TileMapper("nvdla")
    source = tile_source(asked, mapper)
    (row,) = run(TileTable(StoredAnswers(tmp_path)), [(source, asked)], tmp_path / "one")
    assert [cost[1:] for cost in row["costs"] or ()] == [[None, None, False, 0.0, ""]] * len(
        asked.tile_parts()
    )
    again = TileTable(StoredAnswers(tmp_path))
    assert again.open_parts(source, asked.tile_parts()) == []
    assert len(tile_costs(again, source, asked).rows(0, 1, 1).parts) == 0
