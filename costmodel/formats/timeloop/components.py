"""The components of a Timeloop architecture, outermost first: its subtrees (0.3) or nodes (0.4) flattened."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from costmodel.errors import InputError
from costmodel.formats.json.json_fields import field as required
from costmodel.formats.json.json_fields import known_names, whole_number
from costmodel.formats.yaml.safe_yaml import TaggedDict

Kind = Literal["storage", "compute", "fanout"]
Mesh = tuple[int, int]

_NAME = re.compile(r"([A-Za-z_][\w-]*)(?:\[\s*(\d{1,18})\s*\.\.\s*(\d{1,18})\s*\])?")
_COMPUTE = ("mac", "compute", "multiplier", "fma")
_STORAGE = ("dram", "sram", "reg", "rf", "buffer", "storage", "latch", "flipflop", "scratchpad", "cache")
DUMMY = "dummy_storage"
"""The class of the dummy memories that Timeloop's front end writes for the fan-out of a container."""
INHERITED = ("technology", "global_cycle_seconds")
"""The attributes that components inherit from the subtrees around them (0.3); in 0.4 they inherit all."""
_TREE_KEYS = ("name", "attributes", "local", "subtree")
_LEAF_KEYS = (
    "name",
    "class",
    "subclass",
    "attributes",
    "spatial",
    "constraints",
    "required_actions",
    "enabled",
)
_TOP_KEYS = ("version", "name", "attributes", "subtree", "nodes", "local")
_IN_PARALLEL = "Only components that keep different tensors; nested branches are not modelled"


@dataclass(frozen=True)
class Component:
    """A memory, the MAC units, or a container (also a dummy memory) that only fans out.

    ``mesh`` is the number of instances along X and Y in the whole chip. ``own_mesh``: the file states the
    component's own fan-out (version 0.4), on which its spatial constraints then are. ``subclass`` says what
    estimators of energy take a generic class such as ``storage`` for. ``constraints`` are those written
    inside it. ``parallel``: it is one of several under ``!Parallel``.
    """

    name: str
    kind: Kind
    class_name: str
    attributes: dict[str, Any]
    mesh: Mesh
    key: str
    own_mesh: bool = False
    constraints: dict[str, Any] = field(default_factory=dict)
    parallel: bool = False
    subclass: str = ""


@dataclass(frozen=True)
class _Surroundings:
    """What a part of the tree inherits from around it, and the file and key that errors name."""

    file: str
    key: str
    instances: int = 1
    mesh: Mesh = (1, 1)
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"{self.file}: {self.key}"

    def refused(self, expected: str, found: object, key: str, remedy: str = "") -> InputError:
        return InputError(self.file, expected, found, remedy, key=f"{self.key}.{key}")


def storages(parts: Iterable[Component]) -> tuple[Component, ...]:
    """The memories among the components."""
    return tuple(part for part in parts if part.kind == "storage")


def mesh_ratio(outer: Mesh, inner: Mesh) -> Mesh:
    """How many instances of the inner component there are along X and Y for each of the outer one."""
    return inner[0] // outer[0], inner[1] // outer[1]


def components(architecture: Any, file: str, inherited: dict[str, Any] | None = None) -> list[Component]:
    """The components of the section ``architecture``; raises InputError with file and key.

    ``inherited`` are attributes of every component that does not state its own.
    """
    top = _Surroundings(file, "architecture", attributes=inherited or {})
    if not isinstance(architecture, dict):
        raise InputError(file, "subtree (0.3) or nodes (0.4)", architecture, key="architecture")
    known_names(architecture, _TOP_KEYS, file, "architecture")
    stated = _attributes(architecture, top)
    own = stated if "nodes" in architecture else {key: stated[key] for key in INHERITED if key in stated}
    top = replace(top, attributes=top.attributes | own)
    if "nodes" in architecture:
        known_names(architecture, [key for key in _TOP_KEYS if key != "subtree"], file, "architecture")
        found = list(_nodes(required(architecture, "nodes", list, top.where), top))
    else:
        # the section is itself the outermost subtree, whose name nobody writes
        found = list(_subtree({"name": "architecture", **architecture}, top, depth=0))
    names = [component.name for component in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(file, "names that are all different", ", ".join(twice), key="architecture")
    return found


def _subtree(node: dict[str, Any], around: _Surroundings, depth: int) -> Iterator[Component]:
    """The components of a subtree (version 0.3): those local to the node, then those below it."""
    if depth:
        known_names(node, _TREE_KEYS, around.where, f"subtree {node.get('name', '')}".strip())
        around = _inside(node, around)
    for local in _listed(node, "local", around):
        yield _local(local, around)
    below = _listed(node, "subtree", around)
    if len(below) > 1:
        names = ", ".join(str(entry.get("name")) for entry in below)
        remedy = "Branches are not modelled"
        raise around.refused("one subtree: a stack of memories", names, "subtree", remedy)
    for entry in below:
        yield from _subtree(entry, around, depth + 1)


def _listed(node: dict[str, Any], key: str, around: _Surroundings) -> list[dict[str, Any]]:
    entries = [] if node.get(key) is None else node[key]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise around.refused("a list of components", entries, key)
    return entries


def _inside(node: dict[str, Any], around: _Surroundings) -> _Surroundings:
    name, count = _name(node, around)
    attributes = _attributes(node, around)
    inherited = {key: attributes[key] for key in INHERITED if key in attributes}
    return replace(
        around,
        key=f"{around.key}.{name}",
        instances=around.instances * count,
        attributes=around.attributes | inherited,
    )


def _local(entry: dict[str, Any], around: _Surroundings) -> Component:
    name, count = _name(entry, around)
    here = replace(around, key=f"{around.key}.{name}")
    known_names(entry, _LEAF_KEYS, here.where, "component")
    attributes = around.attributes | _attributes(entry, here)
    instances = around.instances * count
    # stated in the attributes, the number is that of the whole chip, whatever the names of subtrees count to
    if "instances" in attributes:
        instances = whole_number(attributes["instances"], here.where, "instances")
    component = _component(name, entry, here)
    return replace(component, attributes=attributes, mesh=_mesh(attributes, instances, here))


def _mesh(attributes: dict[str, Any], instances: int, here: _Surroundings) -> Mesh:
    """Instances along X and Y; one that is not stated follows, and without either all are along X."""
    given = {
        key: whole_number(attributes[key], here.where, key) for key in ("meshX", "meshY") if key in attributes
    }
    x = given.get("meshX", instances // given["meshY"] if "meshY" in given else instances)
    y = given.get("meshY", instances // x if x else 1)
    if x * y != instances:
        raise here.refused(f"meshX x meshY = {instances} instances", f"{x} x {y}", "attributes")
    return x, y


def _nodes(entries: list[Any], around: _Surroundings) -> Iterator[Component]:
    """The components of a list of nodes (version 0.4), each of which is inside all those before it."""
    for index, entry in enumerate(entries):
        tag = entry.tag.removeprefix("!") if isinstance(entry, TaggedDict) else ""
        if not tag:
            raise around.refused("a node with a tag such as !Component", entry, f"nodes[{index}]")
        # a node's fan-out multiplies the instances of all nodes after it, so ``around`` goes on from node to
        # node
        if tag in ("Component", "Element", "Container"):
            component, around = _leaf(entry, around, container=tag == "Container")
            if component is not None:
                yield component
        elif tag == "Hierarchical":
            yield from _nodes(required(entry, "nodes", list, around.where), around)
        elif tag == "Parallel":
            yield from _parallel(required(entry, "nodes", list, around.where), around)
        elif tag != "Nothing":
            remedy = "Pipelines are not modelled"
            raise around.refused("nodes one inside the other", entry.tag, f"nodes[{index}]", remedy)


def _parallel(entries: list[Any], around: _Surroundings) -> Iterator[Component]:
    """Memories side by side, each for tensors of its own; ``!Nothing`` is for those that pass all by."""
    for entry in entries:
        if isinstance(entry, TaggedDict) and entry.tag == "!Nothing":
            known_names(entry, ("name", "constraints"), around.where, "!Nothing")
            continue
        if not isinstance(entry, TaggedDict) or entry.tag not in ("!Component", "!Element"):
            raise around.refused("components", getattr(entry, "tag", entry), "!Parallel", _IN_PARALLEL)
        component, after = _leaf(entry, around, container=False)
        if component is None or component.kind != "storage" or after.mesh != around.mesh:
            raise around.refused("memories without a fan-out", entry.get("name"), "!Parallel", _IN_PARALLEL)
        yield replace(component, parallel=True)


def _leaf(
    entry: dict[str, Any], around: _Surroundings, *, container: bool
) -> tuple[Component | None, _Surroundings]:
    """The component of a node, and what the nodes inside it inherit.

    None for a container without a fan-out and without constraints, which changes nothing.
    """
    name, count = _name(entry, around)
    here = replace(around, key=f"{around.key}.{name}")
    known_names(entry, _LEAF_KEYS, here.where, "node")
    spatial = _section(entry, "spatial", here, "meshX and meshY")
    known_names(spatial, ("meshX", "meshY"), here.where, "spatial")
    x, y = (whole_number(spatial.get(key, 1), here.where, f"spatial.{key}") for key in ("meshX", "meshY"))
    if count > 1:
        raise here.refused("spatial: {meshX: ...} for several instances (version 0.4)", entry["name"], "name")
    mesh = around.mesh[0] * x, around.mesh[1] * y
    attributes = _attributes(entry, here)
    for key in sorted({"meshX", "meshY", "instances"} & attributes.keys()):
        raise here.refused("spatial: {meshX: ..., meshY: ...} beside the attributes (version 0.4)", key, key)
    inside = replace(around, mesh=mesh)
    if container:
        # what a container states holds for all that is in it; a memory's attributes are its own
        inside = replace(inside, attributes=around.attributes | attributes)
        if (x, y) == (1, 1) and not _constraints(entry, here):
            return None, inside
        found = Component(name, "fanout", "", {}, mesh, here.key, constraints=_constraints(entry, here))
    else:
        found = replace(_component(name, entry, here), mesh=mesh, attributes=around.attributes | attributes)
    return replace(found, own_mesh=container or (x, y) != (1, 1)), inside


def _component(name: str, entry: dict[str, Any], here: _Surroundings) -> Component:
    class_name = required(entry, "class", str, here.where)
    if entry.get("enabled") is False:
        raise here.refused("components that are enabled", "enabled: false", "enabled", "Remove the component")
    subclass = "" if entry.get("subclass") is None else required(entry, "subclass", str, here.where)
    found = Component(name, _kind(class_name, here), class_name, {}, (1, 1), here.key, subclass=subclass)
    return replace(found, constraints=_constraints(entry, here))


def _kind(class_name: str, here: _Surroundings) -> Kind:
    folded = class_name.casefold()
    # A class is any text with such a word in it, so the order of these questions matters: a dummy_storage
    # holds nothing though it says storage, and a MAC may have a register in its name.
    if folded == DUMMY:
        return "fanout"
    if any(part in folded for part in _COMPUTE):
        return "compute"
    if any(part in folded for part in _STORAGE):
        return "storage"
    expected = f"a memory ({', '.join(_STORAGE)}) or a MAC ({', '.join(_COMPUTE)})"
    remedy = "Networks and other components are not modelled; remove it if it only costs energy"
    raise here.refused(expected, class_name, "class", remedy)


def _constraints(entry: dict[str, Any], here: _Surroundings) -> dict[str, Any]:
    return _section(entry, "constraints", here, "temporal, spatial and dataspace")


def _attributes(entry: dict[str, Any], here: _Surroundings) -> dict[str, Any]:
    return _section(entry, "attributes", here, "keys and values")


def _section(entry: dict[str, Any], key: str, here: _Surroundings, expected: str) -> dict[str, Any]:
    """The content of an optional section, {} if it is missing or empty; InputError for anything else."""
    found = entry.get(key)
    if found is not None and not isinstance(found, dict):
        raise here.refused(expected, found, key)
    return {} if found is None else found


def _name(entry: Any, around: _Surroundings) -> tuple[str, int]:
    """A component's name and number of instances: ``PE`` and 4 of ``PE[0..3]``, 1 without bounds."""
    written = required(entry, "name", str, around.where)
    match = _NAME.fullmatch(written.strip())
    if match is None:
        raise around.refused("a name such as PE or PE[0..15]", written, "name")
    name, first, last = match.groups()
    count = 1 if first is None else int(last) - int(first) + 1
    if count < 1:
        raise around.refused("an array of at least one instance", written, "name")
    return name, count
