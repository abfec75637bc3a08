"""Plug-ins: what installed distributions add to the libraries, by Python's entry points.

A distribution says in its ``pyproject.toml`` what it adds, by the names under which studies know it::

    [project.entry-points."archsweep.solvers"]
    hill_climbing = "hill_climbing"               # a module: see solvers/plug_in_solver.py
    [project.entry-points."archsweep.technologies"]
    acme-7nm = "acme_chips"                       # a package that holds the file acme-7nm.yaml
    [project.entry-points."archsweep.architectures"]
    acme_edge = "acme_chips"                      # a package that holds the file acme_edge.yaml
    [project.entry-points."archsweep.networks"]
    acme_vision = "acme_chips"                    # a package that holds acme_vision.onnx, .json or .yaml
    acme_speech = "acme_chips.networks:speech"    # or a function: from the batch to a Network

Nothing of a distribution is imported before one of its names is asked for or listed. A plug-in that is
broken, that has the name of another one, or a name of archsweep's own is an InputError when its name is asked
for; studies that name others go on.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Container
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from costmodel.errors import InputError

SOLVERS = "archsweep.solvers"
TECHNOLOGIES = "archsweep.technologies"
NETWORKS = "archsweep.networks"
ARCHITECTURES = "archsweep.architectures"
GROUPS = (SOLVERS, TECHNOLOGIES, NETWORKS, ARCHITECTURES)
"""The groups of entry points that are read."""

OURS = "archsweep"
"""Where what no plug-in adds is from, as lists show it."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
"""What a name may look like: dots and slashes would make it look like a file or a layer of a network."""


@dataclass(frozen=True)
class PlugIn:
    """One entry point: ``module``, or the object ``attribute`` in it, of an installed distribution."""

    group: str
    name: str
    module: str
    attribute: str
    distribution: str
    version: str

    @property
    def origin(self) -> str:
        """The distribution and its version, as ``acme-chips 1.2``."""
        return f"{self.distribution} {self.version}"

    @property
    def where(self) -> str:
        """How errors name it."""
        return f"plug-in {self.name} of {self.origin} ({self.group})"

    def load(self) -> Any:
        """The module or object that it names; InputError where it cannot be imported."""
        try:
            found: Any = import_module(self.module)
            for part in filter(None, self.attribute.split(".")):
                found = getattr(found, part)
        except Exception as error:  # the code of others may raise anything when it is imported
            named = f"{self.module}:{self.attribute}" if self.attribute else self.module
            raise InputError(
                self.where,
                f"{named} to be importable",
                f"{type(error).__name__}: {error}",
                f"Mend or uninstall {self.distribution}",
            ) from error
        return found

    def file(self, suffixes: tuple[str, ...]) -> Path:
        """The file ``NAME`` with one of the ``suffixes`` in the package; InputError where there is none."""
        looked_for = " or ".join(f"{self.name}{suffix}" for suffix in suffixes)
        expected, remedy = f"a package that holds {looked_for}", f"Mend or uninstall {self.distribution}"
        if self.attribute:
            raise InputError(self.where, expected, f"{self.module}:{self.attribute}", remedy)
        folders = [Path(folder) for folder in getattr(self.load(), "__path__", ())]
        if not folders:
            raise InputError(self.where, expected, f"{self.module}, which is no package", remedy)
        for path in (folder / f"{self.name}{suffix}" for folder in folders for suffix in suffixes):
            if path.is_file():
                return path
        raise InputError(self.where, expected, f"no such file in {folders[0]}", remedy)


def plug_ins(group: str) -> tuple[PlugIn, ...]:
    """The plug-ins of a group that are installed, by name and distribution."""
    return _installed(tuple(sys.path))[group]


def plug_in_names(group: str) -> list[str]:
    """The names of a group's plug-ins, sorted, each once."""
    return sorted({plug_in.name for plug_in in plug_ins(group)})


def plug_in(group: str, name: str, ours: Container[str]) -> PlugIn | None:
    """The plug-in of that name, None where there is none.

    InputError, which names the distributions, where two have the name, where it is one of ``ours``, and where
    the name is none that a plug-in may have.
    """
    found = [candidate for candidate in plug_ins(group) if candidate.name == name]
    if not found:
        return None
    first = found[0]
    if name in ours:
        remedy = f"Uninstall {first.distribution}, or a version of it that uses another name"
        raise InputError(first.where, "a name that archsweep does not use itself", name, remedy)
    if len(found) > 1:
        origins = " and ".join(one.origin for one in found)
        remedy = "Uninstall all of them but one"
        raise InputError(f"plug-in {name} ({group})", "one distribution that has it", origins, remedy)
    if not NAME.fullmatch(name):
        expected = "a name of letters, digits, _ and -"
        raise InputError(first.where, expected, name, f"Mend or uninstall {first.distribution}")
    return first


def origin_of(group: str, name: str) -> str:
    """Where a name that was listed is from: a plug-in's distribution and version, or archsweep itself."""
    return next((one.origin for one in plug_ins(group) if one.name == name), OURS)


@lru_cache(maxsize=8)
def _installed(path: tuple[str, ...]) -> dict[str, tuple[PlugIn, ...]]:
    """The plug-ins that ``sys.path`` leads to, by group; looked for again where the path has changed."""
    found: dict[str, list[PlugIn]] = {group: [] for group in GROUPS}
    seen: set[str] = set()
    installed = list(distributions(path=list(path)))
    # their names are in files of metadata, which take long to read: only where there is a plug-in at all
    if not any(point.group in found for one in installed for point in one.entry_points):
        installed = []
    for distribution in installed:
        name = _normal_name(distribution)
        # of two copies the first on the path is the one that is imported
        if not name or name in seen:
            continue
        seen.add(name)
        for point in distribution.entry_points:
            if point.group in found:
                found[point.group].append(
                    PlugIn(
                        point.group, point.name, point.module, point.attr or "", name, distribution.version
                    )
                )
    return {
        group: tuple(sorted(some, key=lambda one: (one.name, one.distribution)))
        for group, some in found.items()
    }


def _normal_name(distribution: Distribution) -> str:
    """The distribution's name as package indexes compare it; empty for one that is damaged and has none."""
    name: str | None = distribution.metadata["Name"]
    return re.sub(r"[-_.]+", "-", name).lower() if name else ""
