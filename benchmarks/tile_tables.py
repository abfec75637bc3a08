"""Tile cost tables of chips: their tile parts, what solving and finding them again takes, how good they are.

    python benchmarks/tile_tables.py [--chip set-edge] [--network set-resnet50] [--batch 8]
        [--solvers nvdla cosa kapla exact] [--most-partitions N] [--sample N]

Prints a table and one JSON object. Each solver fills a table of its own in this process, as a study does on a
cluster, and a second study beside it finds every cost again. With ``--sample`` (200; 0 is all) about so many
tile parts are solved, evenly picked, and seconds are scaled. Ratios are geometric means over tile parts, to
``exact`` if it is among the solvers, of energy times cycles.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import record
from tile_filling import TileFiling, fill, tile_source

from clusters.in_process import InProcessRuntime
from clusters.runtime import RuntimeSettings
from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from results.store.folder import RunWriter
from results.store.known_answers import StoredAnswers
from solvers.budget import Budget
from solvers.schedule.tiles.cost_table import TilePartCosts
from solvers.schedule.tiles.layer_parts import Pruning, TileCostDemand, TilePart
from solvers.schedule.tiles.mapper import TileMapper, TilePartCost
from sweep.design.tile_table import TileTable
from sweep.tasks.kinds import answer_task


@dataclass(frozen=True)
class Sampled(TileCostDemand):
    """A demand of which only every ``step``-th tile part is asked for."""

    step: int = 1

    def tile_parts(self) -> tuple[TilePart, ...]:
        return super().tile_parts()[:: self.step]


def filled(demand: TileCostDemand, mapper: TileMapper, folder: Path) -> tuple[TilePartCosts, dict[str, Any]]:
    """All costs of the demand, and what they took: CPU seconds, and seconds to find them again."""
    source, table = tile_source(demand, mapper), TileTable()
    with RunWriter(folder / "first") as writer, InProcessRuntime(answer_task, RuntimeSettings()) as runtime:
        rows = list(fill(table, [(source, demand)], runtime, TileFiling(writer, "first")))
    start, again = time.process_time(), TileTable(StoredAnswers(folder))
    left = len(again.open_parts(source, demand.tile_parts()))
    found = time.process_time() - start
    return table.part_costs(source, demand.tile_parts()), {
        "tasks": len(rows),
        "cpu_seconds": sum(row["cpu_seconds"] for row in rows),
        "seconds_to_find": found,
        "solved_again": left,
        "parquet_bytes": sum(path.stat().st_size for path in folder.glob("first/tile_costs/*.parquet")),
    }


def ratio(costs: TilePartCosts, reference: TilePartCosts) -> float | None:
    """Geometric mean of energy times cycles over the reference's, where both have a mapping."""
    pairs = [(costs[tile_part], reference[tile_part]) for tile_part in costs]
    logs = [log(_edp(one) / _edp(other)) for one, other in pairs if one and other]
    return exp(sum(logs) / len(logs)) if logs else None


def _edp(cost: TilePartCost) -> float:
    return cost.energy_pj * cost.cycles


def measured(demand: TileCostDemand, solvers: Sequence[str], seconds: float) -> list[dict[str, Any]]:
    """A record a solver, in their order."""
    costs: dict[str, TilePartCosts] = {}
    records = []
    for name in solvers:
        mapper = TileMapper(name, budget=Budget(wall_seconds=seconds))
        # the first solve of a process compiles
        mapper.cost(tile_source(demand, mapper).architecture, demand.tile_parts()[0])
        with TemporaryDirectory() as folder:
            costs[name], spent = filled(demand, mapper, Path(folder))
        some = [cost for cost in costs[name].values() if cost]
        records.append(
            {
                "solver": name,
                "tile_parts": len(costs[name]),
                "mapped": len(some),
                "proven": sum(cost.proven for cost in some),
                **spent,
            }
        )
    best = costs.get("exact", costs[solvers[0]])
    return [row | {"edp_ratio": ratio(costs[row["solver"]], best)} for row in records]


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--chip", default="set-edge")
    parser.add_argument("--network", default="set-resnet50")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--solvers", nargs="+", default=["nvdla", "cosa", "kapla", "exact"])
    parser.add_argument("--most-partitions", type=int, default=None)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each solve at most")
    asked = parser.parse_args()
    chip, graph = load_chip(asked.chip), load_layer_graph(asked.network)
    start = time.process_time()
    whole = TileCostDemand(graph, chip.tile, chip.tiles, asked.batch, Pruning(most=asked.most_partitions))
    tile_parts = len(whole.tile_parts())
    listing = time.process_time() - start
    step = max(1, tile_parts // asked.sample) if asked.sample else 1
    demand = Sampled(graph, chip.tile, chip.tiles, asked.batch, whole.pruning, step)
    records = measured(demand, asked.solvers, asked.seconds)
    where = f"{asked.network}, batch {asked.batch}, {asked.chip}"
    print(f"{where}: {tile_parts} tile parts, listed in {listing:.2f} CPU s")
    print("solver          solved  mapped  proven   CPU s  CPU s of all  ms to find  again  EDP ratio")
    for one in records:
        one["cpu_seconds_of_all"] = one["cpu_seconds"] * tile_parts / one["tile_parts"]
        counts = f"{one['solver']:15} {one['tile_parts']:6} {one['mapped']:7} {one['proven']:7}"
        seconds = f"{one['cpu_seconds']:7.2f} {one['cpu_seconds_of_all']:13.1f}"
        found = f"{1e3 * one['seconds_to_find']:11.1f} {one['solved_again']:6}"
        print(counts, seconds, found, f"{one['edp_ratio']:10.4f}" if one["edp_ratio"] else "         -")
    totals = {"all_tile_parts": tile_parts, "listing_cpu_seconds": listing}
    record.finish({**vars(asked), **totals, "json": None, "records": records}, asked)


if __name__ == "__main__":
    main()
