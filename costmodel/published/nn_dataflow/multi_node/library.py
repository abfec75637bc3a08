"""Multi-node accelerators after KAPLA's template (Fig 4), and the two devices of its evaluation.

The unit costs that the paper prints differ from those of its released files: those of registers, buffers and
DRAM by factors of 2 to 3.1. The library has both, and :func:`load_multi_node` asks which to use.
"""

from __future__ import annotations

from pathlib import Path

from costmodel.errors import InputError, did_you_mean
from costmodel.published.nn_dataflow.multi_node.derived import (
    architecture,
    array_constraints,
    chip_of_nodes,
    node,
)
from costmodel.published.nn_dataflow.multi_node.template import ArrayMapping, EnergyTable, MultiNode

__all__ = [
    "ArrayMapping",
    "EnergyTable",
    "MultiNode",
    "architecture",
    "array_constraints",
    "chip_of_nodes",
    "load_multi_node",
    "multi_node_names",
    "node",
]
FOLDER = Path(__file__).parent


def multi_node_names() -> list[str]:
    """The names of the library's devices, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_multi_node(name_or_path: str | Path, costs: str) -> MultiNode:
    """The device that a library name or a file describes, with its set of unit costs called ``costs``.

    Raises InputError for an unknown name, for a wrong file (:mod:`.reader` has the format), and for a set of
    unit costs that the file does not have.
    """
    from costmodel.formats.yaml.safe_yaml import load_yaml
    from costmodel.published.nn_dataflow.multi_node.reader import multi_node_from_document

    name, names = str(name_or_path), multi_node_names()
    if name in names:
        return multi_node_from_document(load_yaml(FOLDER / f"{name}.yaml"), f"multi-node {name}", costs)
    if name.endswith((".yaml", ".yml")):
        return multi_node_from_document(load_yaml(name), name, costs)
    expected = f"a file, or one of {', '.join(names)}"
    raise InputError("multi-node", expected, name, did_you_mean(name, names))
