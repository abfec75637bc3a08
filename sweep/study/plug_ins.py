"""Finds the plug-ins that a study uses: their names stand in it, or in a file that it or a plug-in names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.operator_networks import TRAINING
from costmodel.formats.timeloop.files import parse_timeloop
from costmodel.formats.yaml.safe_yaml import names_a_file
from costmodel.plug_ins import ARCHITECTURES, GROUPS, TECHNOLOGIES, PlugIn, plug_ins
from sweep.study.study import Study

YAML = (".yaml", ".yml")


def plug_ins_of(study: Study) -> tuple[PlugIn, ...]:
    """The installed plug-ins that the study names, directly or through files, by group and name.

    Any text that is a plug-in's name counts, wherever it stands: an axis may choose between technologies, a
    solver's parameters may name another solver.
    """
    installed = [one for group in GROUPS for one in plug_ins(group)]
    if not installed:
        return ()
    found: set[PlugIn] = set()
    read: set[Path] = set()
    texts = list(_texts(study.model_dump(mode="json", by_alias=True)))
    while texts:
        text = texts.pop()
        named = {one for one in installed if one.name == text.removesuffix(TRAINING)} - found
        found |= named
        files = [Path(part) for part in text.split("+") if part.endswith(YAML)]
        files += [one.file((".yaml",)) for one in named if one.group in (ARCHITECTURES, TECHNOLOGIES)]
        for path in files:
            if path not in read and names_a_file(path):
                read.add(path)
                texts += _texts_of_file(path)
    return tuple(sorted(found, key=lambda one: (one.group, one.name, one.distribution)))


def _texts_of_file(path: Path) -> list[str]:
    """The texts of a YAML file; files that it names stand beside it."""
    try:
        texts = list(_texts(parse_timeloop(path)))
    except InputError:  # whoever uses the file says what is wrong with it
        return []
    return [str(path.parent / text) if text.endswith(YAML) else text for text in texts]


def _texts(data: Any) -> Iterator[str]:
    """Every text in plain data, keys left out."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for value in data.values():
            yield from _texts(value)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _texts(value)
