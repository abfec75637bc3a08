"""Accelergy's reference tables: the energy of each action of a component (ERT), and its area (ART)."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.json.json_fields import field as required
from costmodel.formats.timeloop.files import TimeloopFiles
from costmodel.number_checks import is_number

COMPUTE_ACTIONS = ("compute", "random_compute", "mac_random", "multiply", "mult_random")
_ARRAY = re.compile(r"\[[^]]*\]")


class NotCountedWarning(UserWarning):
    """Something in a file costs energy that the cost model does not count."""


@dataclass(frozen=True)
class TableEnergies:
    """Energies of a memory in pJ: of one access, which moves a block, and of leakage in one cycle."""

    read: float
    write: float
    update: float
    leakage: float


@dataclass(frozen=True)
class EnergyTables:
    """Energies in pJ by component and action, and areas in um2 by component.

    A component is known by the last part of its name: ``RF`` of ``system.chip.PE[0..15].RF``.
    """

    energies: dict[str, dict[str, float]] = field(default_factory=dict)
    areas: dict[str, float] = field(default_factory=dict)
    file: str = ""

    def storage(self, name: str) -> TableEnergies | None:
        """A memory's energies; None if the tables lack it. An update without an energy costs a write."""
        actions = self.energies.get(name)
        if actions is None:
            return None
        read = self._first(name, actions, ("read", "random_read", "access"))
        write = self._first(name, actions, ("write", "random_fill", "access"))
        update = next((actions[key] for key in ("update", "random_update") if key in actions), write)
        return TableEnergies(read, write, update, actions.get("leak", 0.0))

    def compute(self, name: str) -> float | None:
        """The energy of one multiply-accumulate; None if the tables lack the component."""
        actions = self.energies.get(name)
        if actions is None:
            return None
        if leak := actions.get("leak"):
            missing = f"{self.file}: ERT.{name}.leak: {leak} pJ a cycle: leakage of MAC units is not modelled"
            warnings.warn(missing, NotCountedWarning, stacklevel=2)
        return self._first(name, actions, COMPUTE_ACTIONS)

    def _first(self, name: str, actions: dict[str, float], known: tuple[str, ...]) -> float:
        for action in known:
            if action in actions:
                return actions[action]
        found = ", ".join(actions) or "none"
        raise InputError(self.file, f"an action {known[0]!r}", found, key=f"ERT.{name}")


def read_energy_tables(files: TimeloopFiles) -> EnergyTables:
    """The tables of the files' sections ERT and ART; without them, empty tables.

    An action may be listed for several arguments (whether address and data lines switch); the most expensive
    one counts, as in Timeloop.
    """
    energies: dict[str, dict[str, float]] = {}
    for name, entry, where in _entries(files, "ERT"):
        actions = energies.setdefault(name, {})
        for action in required(entry, "actions", list, where):
            key = required(action, "name", str, where)
            actions[key] = max(actions.get(key, 0.0), _number(action, "energy", f"{where}.{key}"))
    areas = {name: _number(entry, "area", where) for name, entry, where in _entries(files, "ART")}
    return EnergyTables(energies, areas, files.sections["ERT"].file if "ERT" in files.sections else "")


def bare_name(name: str) -> str:
    """``RF`` of ``system.chip.PE[0..15].RF[0..3]``."""
    return _ARRAY.sub("", name).rpartition(".")[2]


def _entries(files: TimeloopFiles, kind: str) -> list[tuple[str, dict[str, Any], str]]:
    if kind not in files.sections:
        return []
    section = files.sections[kind]
    found: dict[str, tuple[str, dict[str, Any], str]] = {}
    for entry in required(section.data, "tables", list, f"{section.file}: {kind}"):
        written = required(entry, "name", str, f"{section.file}: {kind}.tables")
        name = bare_name(written)
        if name in found:
            raise InputError(
                section.file, "different last names of components", written, key=f"{kind}.{name}"
            )
        found[name] = name, entry, f"{section.file}: {kind}.{name}"
    return list(found.values())


def _number(entry: Any, key: str, where: str) -> float:
    value: Any = entry.get(key) if isinstance(entry, dict) else entry
    if not is_number(value, 0):
        raise InputError(where, "a number of at least 0", value, key=key)
    return float(value)
