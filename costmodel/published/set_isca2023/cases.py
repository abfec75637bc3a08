"""Files of RA trees, each with its network, platform, batch and objective, as searches have written them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.json.json_fields import whole_number
from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.formats.json.safe_json import keys_of_json_file, load_json
from costmodel.formats.yaml.safe_yaml import names_a_file
from costmodel.published.set_isca2023.evaluator import ReleasedNodeCost, TreeEvaluator
from costmodel.published.set_isca2023.hardware import Platform, load_platform
from costmodel.published.set_isca2023.tile_tables import TileTables
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.tree import TreeNode
from costmodel.schedule.tree.validity import NotPossibleError

PAPER_EXPONENTS = {"edge": 2, "cloud": -2}
"""The objectives of section 5.1: E^2 D on the edge platform, E D^2 on the cloud platform."""


@dataclass(frozen=True)
class TreeCase:
    """A tree and all that its cost depends on.

    ``exponent``: the objective's (see :class:`.evaluator.TreeEvaluator`). ``where``: the file, and the tree's
    number in it. ``content``: all that the file says of the tree.
    """

    where: str
    graph: LayerGraph
    platform: Platform
    batch: int
    exponent: int
    tree: TreeNode
    content: dict[str, Any]

    def evaluate(self) -> ReleasedNodeCost:
        """InputError for an invalid tree, NotPossibleError for one that does not fit the platform."""
        try:
            tables = TileTables(self.graph, self.platform, self.batch, self.exponent)
            return TreeEvaluator(tables).evaluate(self.tree)
        except InputError as error:
            raise error.at(self.where) from None


def evaluated_line(case: TreeCase) -> dict[str, Any]:
    """The object that ``archsweep evaluate --json`` prints.

    Where the platform cannot run the tree, numbers are null and ``not_possible`` has the reason.
    """
    try:
        cost = case.evaluate()
    except NotPossibleError as reason:
        nothing = dict.fromkeys(("energy_pj", "latency_cycles", "dram_bytes", "noc_hop_bytes"))
        return {**nothing, "not_possible": str(reason)}
    return {
        "energy_pj": cost.energy_pj,
        "latency_cycles": cost.cycles,
        "dram_bytes": cost.dram_bytes,
        "noc_hop_bytes": cost.hop_bytes,
    }


def is_tree_file(path: Path) -> bool:
    """Whether a file holds RA trees: JSON (.json, .json.gz) with a list ``trees``, or one tree's ``text``."""
    return bool({"trees", "text"} & keys_of_json_file(path))


def read_trees(path: Path) -> Iterator[TreeCase]:
    """The trees of a file.

    Networks are looked up in ``networks/`` and platforms in ``hw.json`` beside the file first, then in the
    library.
    """
    content = load_json(path)
    records = content.get("trees", [content])
    if not isinstance(records, list):
        raise InputError(str(path), "a list of trees", records, key="trees")
    for number, record in enumerate(records):
        where = f"{path}: trees[{number}]"
        try:
            yield _case(record, where, path.parent)
        except InputError as error:
            raise error if error.where.startswith(str(path)) else error.at(where) from None


def _case(record: Any, where: str, folder: Path) -> TreeCase:
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise InputError(where, "an object with the tree's text", record, key="text")
    tree = parse_tree(record["text"], f"{where}: text")
    # a record holds the released evaluator's results under "eval", and its mesh and bandwidths among them
    told = record.get("eval") if isinstance(record.get("eval"), dict) else {}
    standard = PAPER_EXPONENTS.get(str(record.get("platform")), 1)
    return TreeCase(
        where=where,
        graph=load_graph(_network(record, where), folder),
        platform=_platform(record, told or {}, folder, where),
        batch=_whole(record, "batch", tree.batch, where),
        exponent=_whole(record, "objective_param", standard, where, least=-16),
        tree=tree,
        content=record,
    )


def _network(record: dict[str, Any], where: str) -> str:
    if not isinstance(name := record.get("net"), str):
        raise InputError(where, "a network's name", name, key="net")
    return name


def _platform(record: dict[str, Any], told: dict[str, Any], folder: Path, where: str) -> Platform:
    """The platform of a tree's record.

    Its description comes from the record itself, from ``hw.json``, or from the library by name. Mesh and
    bandwidths that the record or its results ``told`` state replace those of the description.
    """
    named = record.get("platform")
    given = dict(named) if isinstance(named, dict) else _described(folder, named)
    given |= {key: value for key, value in (told | record).items() if key in PLATFORM_KEYS or key == "mesh"}
    changed = {PLATFORM_KEYS[key]: value for key, value in given.items() if key in PLATFORM_KEYS}
    if "mesh" in given:
        if not isinstance(given["mesh"], list) or len(given["mesh"]) != 2:
            raise InputError(where, "columns and rows", given["mesh"], key="mesh")
        changed["columns"], changed["rows"] = given["mesh"]
    if {"columns", "rows", "dram_bytes_per_cycle"} <= changed.keys():
        return Platform(**changed)
    return replace(load_platform(str(named)), **changed)


def _described(folder: Path, name: Any) -> dict[str, Any]:
    """What ``hw.json`` beside the trees says of a platform; empty where there is no such file or name."""
    path = folder / "hw.json"
    content = load_json(path) if names_a_file(path) else {}
    platforms = content.get("platforms", {}) if isinstance(content, dict) else {}
    found = platforms.get(name, {}) if isinstance(platforms, dict) and isinstance(name, str) else {}
    return dict(found) if isinstance(found, dict) else {}


PLATFORM_KEYS = {
    "x_len": "columns",
    "y_len": "rows",
    "stride": "stripe",
    "noc_bw": "link_bytes_per_cycle",
    "noc_link_bw": "link_bytes_per_cycle",
    "dram_bw": "dram_bytes_per_cycle",
    "dram_bw_total": "dram_bytes_per_cycle",
}
"""The names of a platform's numbers in the released program and its files, and their names here."""


def _whole(record: dict[str, Any], key: str, default: int, where: str, least: int = 1) -> int:
    return whole_number(record.get(key, default), where, key, least)
