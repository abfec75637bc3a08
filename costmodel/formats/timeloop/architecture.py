"""Timeloop architectures, with Accelergy's tables if there are any, translated to our architecture files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.timeloop.components import INHERITED, Component, components, mesh_ratio, storages
from costmodel.formats.timeloop.document import ArchitectureDocument
from costmodel.formats.timeloop.energy import EnergyTables, read_energy_tables
from costmodel.formats.timeloop.files import TimeloopFiles
from costmodel.formats.yaml.architecture import architecture_from_document
from costmodel.hardware.architecture import Architecture


@dataclass(frozen=True)
class FanOut:
    """What a target of Timeloop's spatial blocks is for us: a storage level and sides of its fan-out.

    The sides are "x", "y" or "xy".
    """

    level: str
    sides: str


@dataclass(frozen=True)
class FanOutStep:
    """One of the steps in which a memory fans out, along ``sides``, with the target of its spatial loops.

    In version 0.4 the target is a ``node``; for Timeloop itself it is a ``memory``, either a dummy one or the
    outer one.
    """

    node: str
    memory: str
    sides: str


@dataclass(frozen=True)
class TimeloopArchitecture:
    """The components of a Timeloop architecture, outermost first, and the energies and areas in its files.

    Each memory becomes a storage level. All containers between two memories become one fan-out of the outer
    memory, so that no two of them may fan out along the same axis.
    """

    parts: tuple[Component, ...]
    tables: EnergyTables
    file: str
    name: str

    def __post_init__(self) -> None:
        kinds = [part.kind for part in self.parts]
        if not kinds or kinds[-1] != "compute" or kinds.count("compute") > 1 or kinds[0] != "storage":
            found = ", ".join(f"{part.name} ({part.kind})" for part in self.parts) or "nothing"
            expected = "memories, the outermost one first, and then one kind of MAC"
            raise InputError(self.file, expected, found, key="architecture")
        for _, chain in self._chains():
            self._check_axes(chain)

    @cached_property
    def memories(self) -> tuple[Component, ...]:
        return storages(self.parts)

    def build(self, overrides: Mapping[str, Any] | None = None) -> Architecture:
        """The architecture; ``overrides`` as in :func:`architecture_from_document`."""
        return architecture_from_document(self.document(), self.file, overrides)

    def document(self) -> dict[str, Any]:
        """The content of our architecture file for it; InputError for what such a file cannot state."""
        return {"name": self.name, **ArchitectureDocument(self.parts, self.tables, self.file).content()}

    @cached_property
    def fan_outs(self) -> dict[str, FanOut]:
        """The fan-outs by the names that spatial blocks may address them with.

        A memory's name stands for all that is below it, a dummy memory's for its part of that. In version 0.4
        a node that fans out is a target, too: its fan-out belongs to the memory above it. Timeloop's front
        end calls the fan-out into ``PE`` ``inter_PE_spatial``.
        """
        found: dict[str, FanOut] = {}
        for memory, chain in self._chains():
            for outer, part in pairwise(chain):
                own = FanOut(memory.name, _sides(mesh_ratio(outer.mesh, part.mesh)))
                if part.own_mesh:
                    found[dummy_name(part.name)] = found[part.name] = own
                if outer.kind == "fanout" and not outer.own_mesh:
                    found[outer.name] = own
            # where the memory states a fan-out of its own (0.4), its name stands for that one, found above
            found.setdefault(memory.name, FanOut(memory.name, "xy"))
        return found

    @cached_property
    def fan_out_steps(self) -> dict[str, tuple[FanOutStep, ...]]:
        """By memory: the steps of its fan-out, outermost first."""
        return {memory.name: tuple(self._steps(chain)) for memory, chain in self._chains()}

    def _steps(self, chain: list[Component]) -> Iterator[FanOutStep]:
        for outer, part in pairwise(chain):
            if sides := _sides(mesh_ratio(outer.mesh, part.mesh)):
                names = (part.name, dummy_name(part.name)) if part.own_mesh else (outer.name, outer.name)
                yield FanOutStep(*names, sides)

    def _chains(self) -> Iterator[tuple[Component, list[Component]]]:
        """Every memory, with the chain of components from it to the next memory or the MACs, inclusive."""
        storage = [number for number, part in enumerate(self.parts) if part.kind != "fanout"]
        for start, end in pairwise(storage):
            yield self.parts[start], list(self.parts[start : end + 1])

    def _check_axes(self, chain: list[Component]) -> None:
        """Refuse a chain of which two parts fan out along the same axis."""
        used = ""
        for outer, inner in pairwise(chain):
            sides = _sides(mesh_ratio(outer.mesh, inner.mesh))
            if set(used) & set(sides):
                expected = "one fan-out along each axis between two memories"
                remedy = "Merge the containers, or put a memory between them"
                raise InputError(self.file, expected, f"another along {sides}", remedy, key=inner.key)
            used += sides


def timeloop_architecture(files: TimeloopFiles, name: str) -> TimeloopArchitecture:
    """The architecture of the section ``architecture``, with energies and areas of sections ERT and ART."""
    section = files.section("architecture")
    parts = components(section.data, section.file, _variables(files))
    tables = read_energy_tables(files)
    names = [part.name for part in parts if part.kind != "fanout"]
    # Accelergy lists every component, so the tables may name containers, too: they are known, but not offered
    known = {part.name for part in parts}
    for unknown in sorted((tables.energies.keys() | tables.areas.keys()) - known):
        expected = f"components of the architecture: {', '.join(names)}"
        file, remedy = tables.file or section.file, did_you_mean(unknown, names)
        raise InputError(file, expected, unknown, remedy, key="ERT")
    return TimeloopArchitecture(tuple(parts), tables, section.file, name)


def _variables(files: TimeloopFiles) -> dict[str, Any]:
    """The variables of version 0.4 that all components inherit."""
    if "variables" not in files.sections or (data := files.sections["variables"].data) is None:
        return {}
    if not isinstance(data, dict):
        raise InputError(files.sections["variables"].file, "names and values", data, key="variables")
    return {key: data[key] for key in INHERITED if key in data}


def dummy_name(node: str) -> str:
    """What Timeloop's front end calls the dummy memory whose fan-out is the node's."""
    return f"inter_{node}_spatial"


def _sides(fanout: tuple[int, int]) -> str:
    return ("x" if fanout[0] > 1 else "") + ("y" if fanout[1] > 1 else "")
