"""Layer graphs from JSON in the form of the released SET evaluator; its paper's networks are included."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.json.json_fields import known_names, whole_number
from costmodel.formats.json.safe_json import load_json
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.layer_graph.layer import KINDS

LIBRARY = Path(__file__).parents[2] / "workload" / "library" / "set_networks"


def graph_from_json(content: Any, where: str) -> LayerGraph:
    """A layer graph from parsed JSON in that form; InputError names the layer and the key that is wrong."""
    if not isinstance(content, dict) or not isinstance(content.get("layers"), list):
        raise InputError(where, "an object with a list of layers", content, key="layers")
    layers = tuple(_layer(item, f"{where}: layers[{i}]") for i, item in enumerate(content["layers"]))
    return LayerGraph(str(content.get("name", "network")), layers)


def load_graph(name: str, beside: Path | None = None) -> LayerGraph:
    """A network by name: from the folder ``networks`` in ``beside`` if it is there, else a built-in one."""
    folders = [folder for folder in (beside and beside / "networks", LIBRARY) if folder]
    for folder in folders:
        for path in (folder / f"{name}.json.gz", folder / f"{name}.json"):
            if Path(name).name == name and path.is_file():
                return _loaded(path)
    known = sorted({path.name.split(".")[0] for folder in folders for path in folder.glob("*.json*")})
    raise InputError("network", f"one of {', '.join(known)}", name, did_you_mean(name, known))


@cache
def _loaded(path: Path) -> LayerGraph:
    return graph_from_json(load_json(path), str(path))


_READ = (
    *("name", "type", "K", "H", "W", "R", "S", "sH", "sW", "pad_h", "pad_w", "ifmap_real", "C", "N", "G"),
    *("order", "external_C", "ifm_prevs", "wgt_prevs"),
)
_FOLLOWS = (
    *("id", "ofmap", "ifmap_padded_total", "weight_bytes", "ops_per_sample", "npt_cycles", "nexts"),
    *("sK", "GC", "GK"),
)
"""Keys that the released program writes, too, but derives from those in ``_READ``: they are not read."""


def _layer(item: Any, where: str) -> NetworkLayer:
    if not isinstance(item, dict):
        raise InputError(where, "an object", item)
    known_names(item, (*_READ, *_FOLLOWS), where, "keys")
    kind, name = item.get("type"), str(item.get("name", ""))
    if kind not in KINDS:
        raise InputError(where, f"one of {', '.join(KINDS)}", kind, key="type")
    shape = item.get("ifmap_real")
    if not isinstance(shape, list) or len(shape) != 3 or not all(isinstance(n, int) and n > 0 for n in shape):
        raise InputError(where, "the input's channels, rows and columns", shape, key="ifmap_real")
    order = tuple(item.get("order", (0, 1, 2)))
    if sorted(order) != [0, 1, 2]:
        raise InputError(where, "0, 1 and 2 in some order", order, key="order")
    if item.get("C", shape[0]) != shape[0]:
        raise InputError(where, f"the input's {shape[0]} channels", item["C"], key="C")

    def size(key: str, least: int = 1, default: int | None = None) -> int:
        return whole_number(item.get(key, default), where, key, least)

    def indices(key: str) -> tuple[int, ...]:
        value = item.get(key, [])
        if not isinstance(value, list) or not all(isinstance(i, int) for i in value):
            raise InputError(where, "a list of layers' numbers", value, key=key)
        return tuple(sorted(value))

    return NetworkLayer(
        name=name,
        kind=kind,
        c=shape[0],
        k=size("K"),
        h=size("H"),
        w=size("W"),
        r=size("R"),
        s=size("S"),
        stride_h=size("sH"),
        stride_w=size("sW"),
        pad_h=size("pad_h", 0),
        pad_w=size("pad_w", 0),
        input_h=shape[1],
        input_w=shape[2],
        operands=size("N", default=1),
        groups=size("G", default=1),
        order=order,
        external_c=size("external_C", 0),
        producers=indices("ifm_prevs"),
        weight_producers=indices("wgt_prevs"),
    )
