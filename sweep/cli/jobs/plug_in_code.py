"""The code of plug-ins, copied to where a job finds it as installed: modules, data files and metadata."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from importlib.util import find_spec
from pathlib import Path

from costmodel.errors import InputError
from costmodel.plug_ins import PlugIn, plug_ins
from sweep import PACKAGES

COMPILED = (".so", ".pyd", ".dylib")
LEFT_OUT = ("__pycache__",)
OURS = (*PACKAGES, "archsweep")
METADATA = ("METADATA", "PKG-INFO", "entry_points.txt", "WHEEL")
"""The files of a distribution's metadata that are needed to find its entry points."""


def stage_plug_ins(used: Sequence[PlugIn], stage: Path) -> tuple[str, ...]:
    """Copy the distributions of the plug-ins into ``stage``, a folder that workers import from.

    Returns what they require beside archsweep, for pip. InputError for a distribution with compiled code,
    which need not run on the machines of the cluster, and for one with a module that has the name of ours.
    """
    required: list[str] = []
    for name in sorted({one.distribution for one in used}):
        installed = _Installed(name, distribution(name))
        for source, relative in installed.files():
            _copy(installed, source, stage, relative)
        installed.write_metadata(stage)
        required += installed.requirements()
    return tuple(dict.fromkeys(required))


@dataclass(frozen=True)
class _Installed:
    name: str
    found: Distribution

    def files(self) -> Iterator[tuple[Path, Path]]:
        """Each file with its path relative to the folder of ``sys.path`` that it belongs below."""
        if self._has_its_files:
            for file in self.found.files or ():
                inside = not file.is_absolute() and ".." not in file.parts
                if inside and not file.parts[0].endswith((".dist-info", ".egg-info")):
                    yield Path(str(file.locate())), Path(file)
            return
        for top in self._top_levels():
            yield from _module_files(top)

    @property
    def _has_its_files(self) -> bool:
        """Whether its files lie where it is installed; those of an editable one lie in its checkout."""
        stated = json.loads(self.found.read_text("direct_url.json") or "{}")
        editable = stated.get("dir_info", {}).get("editable", False)
        return not editable and self.found.read_text("RECORD") is not None

    def _top_levels(self) -> list[str]:
        listed = (self.found.read_text("top_level.txt") or "").split()
        of_points = [
            one.module.partition(".")[0]
            for group in {point.group for point in self.found.entry_points}
            if group.startswith("archsweep.")
            for one in plug_ins(group)
            if one.distribution == self.name
        ]
        return sorted({*listed, *of_points})

    def write_metadata(self, stage: Path) -> None:
        folder = stage / f"{re.sub('[-.]+', '_', self.name)}-{self.found.version}.dist-info"
        folder.mkdir(parents=True, exist_ok=True)
        for name in METADATA:
            if text := self.found.read_text(name):
                (folder / name.replace("PKG-INFO", "METADATA")).write_text(text, encoding="utf-8")

    def requirements(self) -> Iterator[str]:
        """What it requires beside archsweep and without its extras."""
        for line in self.found.requires or ():
            requirement, _, marker = line.partition(";")
            named = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
            if named and re.sub("[-_.]+", "-", named[0]).lower() != "archsweep" and "extra" not in marker:
                yield line


def _module_files(top: str) -> Iterator[tuple[Path, Path]]:
    """The files of a package or module of the top level."""
    spec = find_spec(top)
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        if spec.origin:
            yield Path(spec.origin), Path(Path(spec.origin).name)
        return
    for folder in map(Path, spec.submodule_search_locations):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                yield path, Path(top) / path.relative_to(folder)


def _copy(installed: _Installed, source: Path, stage: Path, relative: Path) -> None:
    if set(LEFT_OUT) & set(relative.parts) or not source.is_file():
        return
    where = f"plug-ins of {installed.name} {installed.found.version}"
    if relative.suffix in COMPILED:
        expected = "Python and data files, which run on every machine of a cluster"
        remedy = "Install it on every machine, and submit with --code cluster"
        raise InputError(where, expected, str(source), remedy)
    if relative.parts[0].removesuffix(".py") in OURS or (stage / relative).exists():
        expected = "modules whose names nothing else in the job has"
        raise InputError(where, expected, str(relative), "Rename the module that it installs")
    target = stage / relative
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
