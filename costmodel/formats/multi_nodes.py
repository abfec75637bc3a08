"""KAPLA's multi-node devices (Fig 4) by their name in the library, or out of a file."""

from __future__ import annotations

from pathlib import Path

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.yaml.multi_node import multi_node_from_document
from costmodel.formats.yaml.safe_yaml import load_yaml
from costmodel.hardware.multi_node.template import MultiNode

FOLDER = Path(__file__).parents[1] / "hardware" / "multi_node"


def multi_node_names() -> list[str]:
    """The names of the library's devices, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_multi_node(name_or_path: str | Path, costs: str) -> MultiNode:
    """The device that a library name or a file describes, with its set of unit costs called ``costs``.

    Raises InputError for an unknown name, for a wrong file (:mod:`.yaml.multi_node` has the format), and for
    a set of unit costs that the file does not have.
    """
    name, names = str(name_or_path), multi_node_names()
    if name in names:
        return multi_node_from_document(load_yaml(FOLDER / f"{name}.yaml"), f"multi-node {name}", costs)
    if name.endswith((".yaml", ".yml")):
        return multi_node_from_document(load_yaml(name), name, costs)
    expected = f"a file, or one of {', '.join(names)}"
    raise InputError("multi-node", expected, name, did_you_mean(name, names))
