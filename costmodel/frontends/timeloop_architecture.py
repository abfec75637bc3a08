"""Timeloop architectures, with Accelergy's tables if there are any, as architecture files of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from costmodel.architecture import Architecture
from costmodel.errors import InputError, did_you_mean
from costmodel.frontends.architecture_yaml import architecture_from_document
from costmodel.frontends.timeloop_components import INHERITED, Component, Mesh, components
from costmodel.frontends.timeloop_energy import EnergyTables, read_energy_tables
from costmodel.frontends.timeloop_files import TimeloopFiles
from costmodel.frontends.timeloop_memory import MemoryAttributes, check_spelling, technology_name
from costmodel.technology import TECHNOLOGIES, Kind

_OF_MACS = ("datawidth", "word_bits", "energy_per_op", "area", "technology", "instances", "meshX", "meshY")


@dataclass(frozen=True)
class FanOut:
    """Where a spatial block stands for us: a storage level, and the sides ("x", "y", "xy") of its fan-out."""

    level: str
    sides: str


@dataclass(frozen=True)
class FanOutStep:
    """One of the steps that a memory fans out in, along ``sides``: what spatial loops there are addressed to.

    In version 0.4 that is a ``node``, for Timeloop itself a ``memory`` (a dummy one, or the outer one).
    """

    node: str
    memory: str
    sides: str


@dataclass(frozen=True)
class TimeloopArchitecture:
    """The components of a Timeloop architecture, outermost first, and what their files say of energies.

    Each memory is a storage level; the containers between two memories are together the fan-out of the outer
    one, so two of them must not fan out along the same axis.
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
        return tuple(part for part in self.parts if part.kind == "storage")

    def build(self, overrides: Mapping[str, Any] | None = None) -> Architecture:
        """The architecture; ``overrides`` as in :func:`architecture_from_document`."""
        return architecture_from_document(self.document(), self.file, overrides)

    def document(self) -> dict[str, Any]:
        """The same as an architecture file of ours: what cannot be said there raises InputError."""
        seconds = self._cycle_seconds()
        clock = {} if seconds is None else {"frequency": round(1 / seconds, 3)}
        table = {} if (name := self._technology()) is None else {"technology": name}
        meshes = [part.mesh for part in (*self.memories, self.parts[-1])]
        levels = [
            self._level(memory, self._fanout(memory, outer, inner))
            for memory, (outer, inner) in zip(self.memories, pairwise(meshes), strict=True)
        ]
        return {"name": self.name, **clock, **table, "levels": levels, "compute": self._compute()}

    @cached_property
    def fan_outs(self) -> dict[str, FanOut]:
        """By target: a memory's is all that is below it, a dummy memory's its part of that.

        Nodes of version 0.4 that fan out are targets themselves, of what is above them; Timeloop's front end
        calls the fan-out into ``PE`` ``inter_PE_spatial``.
        """
        found: dict[str, FanOut] = {}
        for memory, chain in self._chains():
            for outer, part in pairwise(chain):
                own = FanOut(memory.name, _sides(_ratio(outer.mesh, part.mesh)))
                if part.own_mesh:
                    found[dummy_name(part.name)] = found[part.name] = own
                if outer.kind == "fanout" and not outer.own_mesh:
                    found[outer.name] = own
            found.setdefault(memory.name, FanOut(memory.name, "xy"))
        return found

    @cached_property
    def fan_out_steps(self) -> dict[str, tuple[FanOutStep, ...]]:
        """By memory: the steps of its fan-out, outermost first."""
        return {memory.name: tuple(self._steps(chain)) for memory, chain in self._chains()}

    def _steps(self, chain: list[Component]) -> Iterator[FanOutStep]:
        for outer, part in pairwise(chain):
            if sides := _sides(_ratio(outer.mesh, part.mesh)):
                names = (part.name, dummy_name(part.name)) if part.own_mesh else (outer.name, outer.name)
                yield FanOutStep(*names, sides)

    def _chains(self) -> Iterator[tuple[Component, list[Component]]]:
        """Every memory with what follows it up to the next memory or the MACs, both included."""
        places = [place for place, part in enumerate(self.parts) if part.kind != "fanout"]
        for start, end in pairwise(places):
            yield self.parts[start], list(self.parts[start : end + 1])

    def _check_axes(self, chain: list[Component]) -> None:
        used = ""
        for outer, inner in pairwise(chain):
            sides = _sides(_ratio(outer.mesh, inner.mesh))
            if set(used) & set(sides):
                expected = "one fan-out along each axis between two memories"
                remedy = "Merge the containers, or put a memory between them"
                raise InputError(self.file, expected, f"another along {sides}", remedy, key=inner.key)
            used += sides

    def _fanout(self, memory: Component, outer: Mesh, inner: Mesh) -> list[int]:
        if inner[0] % outer[0] or inner[1] % outer[1]:
            expected = f"meshX and meshY that the next component's {inner} are multiples of"
            raise InputError(self.file, expected, outer, key=memory.key)
        return list(_ratio(outer, inner))

    def _level(self, memory: Component, fanout: list[int]) -> dict[str, Any]:
        attributes = MemoryAttributes(memory, self.file)
        level = {"name": memory.name, "fanout": fanout, **attributes.document()}
        level |= self._energy(memory, attributes, attributes.size_words)
        area = self.tables.areas.get(memory.name, attributes.area_um2)
        return level if area is None else {**level, "area": area}

    def _energy(self, memory: Component, attributes: MemoryAttributes, size: int | None) -> dict[str, Any]:
        """From the ERT, else from the attributes, else nothing where the technology's law will do."""
        kind: Kind | None = attributes.kind
        stated = self.tables.storage(memory.name)
        if stated is not None:
            access: dict[str, Any] = {"read": stated.read, "write": stated.write, "update": stated.update}
            if kind is not None and size is not None:
                access["at_size"] = size
            return {"kind": kind or "sram", "energy": access, "leakage": stated.leakage}
        if attributes.access_energy_pj is not None:
            return {"kind": kind or "sram", "energy": attributes.access_energy_pj}
        if kind is None:
            expected = "a class whose energy has a law (DRAM, SRAM, regfile), or its energies"
            raise self._no_energy(memory, expected, memory.class_name, "class")
        if self._technology() is None:
            raise self._no_law(memory)
        own = memory.attributes.get("technology")
        if own is not None and kind != "dram" and technology_name(memory) != self._technology():
            expected = f"the MACs' technology ({self._technology()}), whose laws give the energies"
            raise self._no_energy(memory, expected, str(own), "attributes.technology")
        return {"kind": kind}

    def _compute(self) -> dict[str, Any]:
        macs = self.parts[-1]
        for key in macs.attributes:
            check_spelling(macs, key, _OF_MACS, self.file)
        bits = macs.attributes.get("datawidth", macs.attributes.get("word_bits"))
        document: dict[str, Any] = {"name": macs.name, "word_bits": bits or self._inner_word_bits()}
        energy = self.tables.compute(macs.name)
        energy = macs.attributes.get("energy_per_op") if energy is None else energy
        if energy is None and self._technology() is None:
            raise self._no_law(macs)
        area = self.tables.areas.get(macs.name, macs.attributes.get("area"))
        document |= {} if energy is None else {"energy": energy}
        return document if area is None else {**document, "area": area}

    def _inner_word_bits(self) -> int:
        return MemoryAttributes(self.memories[-1], self.file).word_bits

    def _technology(self) -> str | None:
        """The table for components without energies, by what the MACs are made in."""
        return technology_name(self.parts[-1])

    def _no_law(self, part: Component) -> InputError:
        expected = f"an energy, or MACs in a technology with a table: 45nm, {', '.join(TECHNOLOGIES)}"
        written = self.parts[-1].attributes.get("technology")
        found = "neither" if written is None else f"no energy, MACs in {written}"
        return self._no_energy(part, expected, found, "attributes.technology")

    def _no_energy(self, part: Component, expected: str, found: str, key: str) -> InputError:
        remedy = (
            "Give an ERT beside the architecture (arch.yaml+ERT.yaml), "
            f"{'energy_per_op' if part.kind == 'compute' else 'vector_access_energy'}, "
            "or technology: thistle-45nm"
        )
        return InputError(self.file, expected, found, remedy, key=f"{part.key}.{key}")

    def _cycle_seconds(self) -> float | None:
        """The clock's period, one for all components that state it."""
        found: float | None = None
        for part in self.parts:
            seconds = part.attributes.get("global_cycle_seconds")
            if seconds is None:
                continue
            key = f"{part.key}.attributes.global_cycle_seconds"
            if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 1e-15 < seconds < 1:
                raise InputError(self.file, "seconds of a cycle", seconds, key=key)
            if found not in (None, float(seconds)):
                raise InputError(self.file, f"one clock, {found:g} s as others have", seconds, key=key)
            found = float(seconds)
        return found


def timeloop_architecture(files: TimeloopFiles, name: str) -> TimeloopArchitecture:
    """The architecture of the section ``architecture``, with energies and areas of sections ERT and ART."""
    section = files.section("architecture")
    parts = components(section.data, section.file, _variables(files))
    tables = read_energy_tables(files)
    names = [part.name for part in parts if part.kind != "fanout"]
    known = {*names, *(part.name for part in parts)}
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


def _ratio(outer: Mesh, inner: Mesh) -> Mesh:
    return inner[0] // outer[0], inner[1] // outer[1]


def _sides(fanout: Mesh) -> str:
    return ("x" if fanout[0] > 1 else "") + ("y" if fanout[1] > 1 else "")
