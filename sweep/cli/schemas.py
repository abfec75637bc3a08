"""``archsweep list json-schema/KIND``: what an editor needs to complete and check a file of that kind."""

from __future__ import annotations

from typing import Any

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.json.programs import ProgramKeys
from costmodel.formats.yaml.architecture_document import ArchitectureKeys
from costmodel.formats.yaml.chip_document import ChipKeys
from costmodel.formats.yaml.file_keys import Keys
from costmodel.formats.yaml.key_schema import json_schema
from costmodel.formats.yaml.technology import TechnologyKeys
from sweep.study.mapping_space import SpaceKeys
from sweep.study.study import Study

FILES: dict[str, tuple[type[Keys], str]] = {
    "study": (Study, "A study of archsweep"),
    "architecture": (ArchitectureKeys, "An architecture of archsweep"),
    "chip": (ChipKeys, "A chip of archsweep"),
    "technology": (TechnologyKeys, "A technology of archsweep"),
    "constraints": (SpaceKeys, "Constraints on the mappings of archsweep"),
    "program": (ProgramKeys, "A program of archsweep"),
}
"""The kinds of files, each with the model that reads it and a title."""


def file_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of files of one kind; InputError with the kinds that there are."""
    if kind not in FILES:
        expected = f"json-schema/ and one of {', '.join(FILES)}"
        raise InputError("list", expected, f"json-schema/{kind}", did_you_mean(kind, FILES))
    return json_schema(*FILES[kind])
