"""How many of a folder's SET cases the set_isca2023 convention counts equally: a table, then one JSON object.

    python benchmarks/set_conformance.py FOLDER

FOLDER has ``trees.json.gz``, ``alloc_ref.json.gz`` and ``coremap_ref.json.gz`` (or ``allocations`` and
``intra_tile``, as in tests/data/set). Equal means: of every node of a tree that the file gives cycles, hops,
DRAM bytes, busiest link, buffers, tiles, partition and placement exactly and energies within 1e-9; an
allocation or a mapping as it is. CPU milliseconds a tree: with nothing known (the first one also compiles or
loads the kernels), with the tile cost table known, with all leaves known.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import record

from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.formats.json.safe_json import load_json
from costmodel.published.set_isca2023.allocation import allocate
from costmodel.published.set_isca2023.cases import TreeCase, read_trees
from costmodel.published.set_isca2023.evaluator import ReleasedNodeCost, TreeEvaluator
from costmodel.published.set_isca2023.nvdla_tile.hardware import NvdlaTile
from costmodel.published.set_isca2023.nvdla_tile.mapper import NvdlaMapper, OutputPart
from costmodel.published.set_isca2023.tile_tables import TileTables
from costmodel.schedule.tree.validity import NotPossibleError

CLOSE = 1e-9


def measure(folder: Path) -> dict[str, Any]:
    """What is equal, per kind of case, and the CPU time of trees."""
    trees = [tree_result(case) for case in read_trees(folder / "trees.json.gz")]
    result: dict[str, Any] = {
        "trees": len(trees),
        "equal_trees": sum(not tree["differences"] for tree in trees),
        "nodes": sum(tree["nodes"] for tree in trees),
        "tree_results": trees,
    }
    for name, files, check in (
        ("allocations", ("alloc_ref.json.gz", "allocations.json.gz"), allocation_equal),
        ("intra_tile", ("coremap_ref.json.gz", "intra_tile.json.gz"), mapping_equal),
    ):
        cases = [case for file in files if (folder / file).is_file() for case in load_json(folder / file)]
        result[name], result[f"equal_{name}"] = len(cases), sum(map(check, cases))
    return result


def tree_result(case: TreeCase) -> dict[str, Any]:
    content, counted = case.content, case.content["eval"]["tree"]
    tables = TileTables(case.graph, case.platform, case.batch, case.exponent)
    evaluator = TreeEvaluator(tables)
    try:
        cold, cost = timed(lambda: evaluator.evaluate(case.tree))
    except NotPossibleError as reason:
        return {"name": case_name(content), "nodes": 0, "differences": [str(reason)]}
    known, _ = timed(lambda: evaluator.evaluate(case.tree))
    fresh = TreeEvaluator(tables)  # knows the table and no leaf
    table, _ = timed(lambda: fresh.evaluate(case.tree))
    wrong = list(differences(cost, counted))
    milliseconds = {"cold_ms": cold, "table_ms": table, "known_ms": known}
    return {
        "name": case_name(content),
        "nodes": count_nodes(counted),
        "differences": wrong,
        **{key: round(1e3 * value, 1) for key, value in milliseconds.items()},
    }


def timed(work: Callable[[], ReleasedNodeCost]) -> tuple[float, ReleasedNodeCost]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def case_name(content: dict[str, Any]) -> str:
    keys = ("net", "platform", "batch", "beta", "search")
    return " ".join(str(content.get(key, "?")) for key in keys)


def count_nodes(counted: dict[str, Any]) -> int:
    return 1 + sum(count_nodes(child) for child in counted.get("children", []))


def differences(cost: ReleasedNodeCost, counted: dict[str, Any], path: str = "root") -> Iterator[str]:
    """What differs in a node and below it."""
    for key, found in exact_numbers(cost).items():
        if key in counted and found != counted[key]:
            yield f"{path}: {key} {found}, not {counted[key]}"
    energies = ("energy", "E_ubuf", "E_buf", "E_bus", "E_mac", "E_noc", "E_dram")
    for key, value in zip(energies, (cost.energy_pj, *cost.parts_pj.tolist()), strict=True):
        if key in counted and abs(value - counted[key]) > CLOSE * abs(counted[key]):
            yield f"{path}: {key} {value}, not {counted[key]}"
    for index, (child, expected) in enumerate(zip(cost.children, counted.get("children", []), strict=False)):
        yield from differences(child, expected, f"{path}.{index}")


def exact_numbers(cost: ReleasedNodeCost) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        "time": cost.cycles,
        "hops": cost.hop_bytes,
        "dram": cost.dram_bytes,
        "max_link": int(cost.links.max()),
        "tile_first": cost.first_tile,
        "tile_end": cost.first_tile + cost.tiles,
        "buf_max": int(cost.held.busy.max()),
        "wgt_max": int(cost.held.weights.max()),
        "ifm_max": int(cost.held.inputs.max()),
    }
    if cost.leaf is not None:
        placement = cost.leaf.placement
        numbers["part"] = dict(zip("KBHW", placement.parts, strict=True))
        numbers["order"] = "".join("KBHW"[axis] for axis in placement.order)
        numbers["core_time"] = cost.leaf.tile.cycles
    return numbers


def allocation_equal(case: dict[str, Any]) -> bool:
    found = allocate(case["tiles"], case["npt"], case["min_util"])
    return bool((None if found is None else list(found)) == case["alloc"])


MAPPER = NvdlaMapper(NvdlaTile(), 1)


def mapping_equal(case: dict[str, Any]) -> bool:
    layer = load_graph(case["net"]).layers[case["layer"]]
    cost = MAPPER.cost(layer, OutputPart.of(layer, tuple(case["part"]), case["B"]))
    if cost is None or not case["valid"]:
        return cost is None and not case["valid"]
    found = (cost.energy_pj, cost.shared_pj, cost.buffers_pj, cost.bus_pj, cost.mac_pj)
    expected = [case[key] for key in ("energy", "ubuf", "buf", "bus", "mac")]
    close = all(abs(a - b) <= CLOSE * abs(b) for a, b in zip(found, expected, strict=True))
    return close and cost.cycles == case["time"]


def print_table(result: dict[str, Any]) -> None:
    print(f"{'tree':34} {'nodes':>5} {'equal':>6} {'cold ms':>9} {'table ms':>9} {'known ms':>9}")
    for tree in result["tree_results"]:
        equal = "no" if tree["differences"] else "yes"
        times = " ".join(f"{tree.get(key, '-'):>9}" for key in ("cold_ms", "table_ms", "known_ms"))
        print(f"{tree['name']:34} {tree['nodes']:5} {equal:>6} {times}")
    for name in ("trees", "allocations", "intra_tile"):
        print(f"{name}: {result[f'equal_{name}']} of {result[name]} equal")


def main() -> int:
    parser = record.parser(__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    result = measure(options.folder)
    print_table(result)
    record.finish(result, options)
    return int(any(result[f"equal_{name}"] < result[name] for name in ("trees", "allocations", "intra_tile")))


if __name__ == "__main__":
    sys.exit(main())
