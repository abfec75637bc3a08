"""The components of a Timeloop architecture in the keys of our architecture files."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.technologies import technology_names
from costmodel.formats.timeloop.components import Component, Mesh, mesh_ratio, storages
from costmodel.formats.timeloop.energy import EnergyTables
from costmodel.formats.timeloop.memory import MemoryAttributes, check_spelling, technology_name
from costmodel.hardware.technology import Kind
from costmodel.number_checks import is_number

_OF_MACS = ("datawidth", "word_bits", "energy_per_op", "area", "technology", "instances", "meshX", "meshY")


@dataclass(frozen=True)
class ArchitectureDocument:
    """The translation of components, outermost first, with Accelergy's tables (perhaps empty ones)."""

    parts: tuple[Component, ...]
    tables: EnergyTables
    file: str

    def content(self) -> dict[str, Any]:
        """All keys but the name; InputError for what these keys cannot state."""
        seconds = self._cycle_seconds()
        clock = {} if seconds is None else {"frequency": round(1 / seconds, 3)}
        table = {} if (name := self._technology()) is None else {"technology": name}
        # Timeloop states instances in the whole chip, we state the fan-out of each level: the quotient of two
        # neighbouring meshes.
        memories = storages(self.parts)
        meshes = [part.mesh for part in (*memories, self._macs)]
        levels = [
            self._level(memory, self._fanout(memory, outer, inner))
            for memory, (outer, inner) in zip(memories, pairwise(meshes), strict=True)
        ]
        return {**clock, **table, "levels": levels, "compute": self._compute()}

    @property
    def _macs(self) -> Component:
        """The MAC units, which are the innermost component."""
        return self.parts[-1]

    def _fanout(self, memory: Component, outer: Mesh, inner: Mesh) -> list[int]:
        if inner[0] % outer[0] or inner[1] % outer[1]:
            expected = f"meshX and meshY that the next component's {inner} are multiples of"
            raise InputError(self.file, expected, outer, key=memory.key)
        return list(mesh_ratio(outer, inner))

    def _level(self, memory: Component, fanout: list[int]) -> dict[str, Any]:
        attributes = MemoryAttributes(memory, self.file)
        level = {"name": memory.name, "fanout": fanout, **attributes.document()}
        level |= self._energy(memory, attributes, attributes.size_words)
        return level | self._area(memory, attributes)

    def _area(self, memory: Component, attributes: MemoryAttributes) -> dict[str, Any]:
        """The area, from the ART or else from the attributes; without either, the technology's law gives it.

        A stated area is right at the size in the file, so that another size can scale it.
        """
        area = self.tables.areas.get(memory.name, attributes.area_um2)
        if area is None:
            return {}
        if attributes.kind is None or attributes.size_words is None:
            return {"area": area}
        return {"area": {"value": area, "at_size": attributes.size_words}}

    def _energy(self, memory: Component, attributes: MemoryAttributes, size: int | None) -> dict[str, Any]:
        """The energies, from the ERT or else from the attributes; without either, the law gives them."""
        kind: Kind | None = attributes.kind
        stated = self.tables.storage(memory.name)
        if stated is not None:
            access: dict[str, Any] = {"read": stated.read, "write": stated.write, "update": stated.update}
            # A class that follows no law can still be an SRAM to us: its stated energies hold at any size
            # then.
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
        # Our laws come from one technology a chip. DRAM is off the chip, so its own may differ.
        own = memory.attributes.get("technology")
        if own is not None and kind != "dram" and technology_name(memory) != self._technology():
            expected = f"the MACs' technology ({self._technology()}), whose laws give the energies"
            raise self._no_energy(memory, expected, str(own), "attributes.technology")
        return {"kind": kind}

    def _compute(self) -> dict[str, Any]:
        macs = self._macs
        for key in macs.attributes:
            check_spelling(macs, key, _OF_MACS, self.file)
        bits = macs.attributes.get("datawidth", macs.attributes.get("word_bits"))
        document: dict[str, Any] = {"name": macs.name}
        document["word_bits"] = self._inner_word_bits() if bits is None else bits
        energy = self.tables.compute(macs.name)
        energy = macs.attributes.get("energy_per_op") if energy is None else energy
        if energy is None and self._technology() is None:
            raise self._no_law(macs)
        area = self.tables.areas.get(macs.name, macs.attributes.get("area"))
        document |= {} if energy is None else {"energy": energy}
        return document if area is None else {**document, "area": area}

    def _inner_word_bits(self) -> int:
        """The word of the innermost memory, which feeds the MAC units."""
        return MemoryAttributes(storages(self.parts)[-1], self.file).word_bits

    def _technology(self) -> str | None:
        """The technology of components without energies: that of the MACs; None if it is none of ours."""
        return technology_name(self._macs)

    def _no_law(self, part: Component) -> InputError:
        expected = f"an energy, or MACs in a technology with a table: 45nm, {', '.join(technology_names())}"
        written = self._macs.attributes.get("technology")
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
        """The clock's period in seconds, which all components that state one must agree on."""
        found: float | None = None
        for part in self.parts:
            seconds = part.attributes.get("global_cycle_seconds")
            if seconds is None:
                continue
            key = f"{part.key}.attributes.global_cycle_seconds"
            if not is_number(seconds, 0) or not 1e-15 < seconds < 1:
                raise InputError(self.file, "seconds of a cycle", seconds, key=key)
            if found not in (None, float(seconds)):
                raise InputError(self.file, f"one clock, {found:g} s as others have", seconds, key=key)
            found = float(seconds)
        return found
