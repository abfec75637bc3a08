"""The keys, types and units of a chip file, and values of it replaced before it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from costmodel.errors import InputError, OverrideError, did_you_mean
from costmodel.frontends.architecture_document import (
    AtLeastOne,
    Bandwidth,
    ByteEnergy,
    Energy,
    Frequency,
    Size,
    Sources,
)
from costmodel.frontends.file_keys import Keys
from costmodel.frontends.quantities import Quantity

MESH = {"mesh.columns": 0, "mesh.rows": 1}


def _columns_and_rows(written: Any) -> Any:
    if isinstance(written, str) and (found := re.fullmatch(r"\s*(\d{1,6})\s*x\s*(\d{1,6})\s*", written)):
        return [int(found[1]), int(found[2])]
    if not isinstance(written, list) or len(written) != 2:
        raise InputError("", "columns and rows such as [4, 4] or 4x4", repr(written))
    return written


class NocKeys(Keys):
    """The ``noc`` entry."""

    link_bandwidth: Bandwidth
    hop_energy: ByteEnergy


class DramKeys(Keys):
    """The ``dram`` entry."""

    bandwidth: Bandwidth
    read_energy: ByteEnergy
    write_energy: ByteEnergy


class BufferKeys(Keys):
    """The ``tile.buffer`` entry."""

    size: Size
    read_energy: ByteEnergy
    write_energy: ByteEnergy
    at_size: Size | None = None


class TileKeys(Keys):
    """The ``tile`` entry."""

    architecture: Annotated[str, Field(min_length=1)]
    buffer: BufferKeys
    output_stream: Size | None = None
    vector_units: AtLeastOne
    vector_energy: Energy


class ChipKeys(Keys):
    """A whole chip file."""

    name: Annotated[str, Field(min_length=1)]
    description: str = ""
    source: Sources = Field(default_factory=list)
    frequency: Frequency = Quantity(1e9, "Hz", "1 GHz")
    mesh: Annotated[list[AtLeastOne], BeforeValidator(_columns_and_rows)]
    stripe: AtLeastOne = 4
    noc: NocKeys
    dram: DramKeys
    tile: TileKeys


def overridden(document: Any, overrides: Mapping[str, Any], where: str) -> Any:
    """A changed copy of ``document``; InputError lists what exists when a key names nothing."""
    if not overrides or not isinstance(document, dict):
        return document
    changed = deepcopy(document)
    for key, value in overrides.items():
        _check_key(key, where)
        if key in MESH:
            changed["mesh"] = list(_columns_and_rows(changed.get("mesh")))
            changed["mesh"][MESH[key]] = value
            continue
        owner, *rest = changed, *key.split(".")
        for part in rest[:-1]:
            if not isinstance(owner.get(part), dict):
                raise InputError(where, "an entry with keys", owner.get(part), key=part)
            owner = owner[part]
        owner[rest[-1]] = value
    return changed


def blamed_for(error: InputError, overrides: Mapping[str, Any], where: str) -> InputError:
    """``error``, pointing at the override where it, and not the file, wrote the wrong value."""
    # what names a part, as mesh.columns does, wrote later than what names the whole
    for key in sorted(overrides, key=len, reverse=True):
        path = f"mesh[{MESH[key]}]" if key in MESH else key
        if error.key == path or error.key.startswith((f"{path}.", f"{path}[")):
            return OverrideError(f"override of {where}", error.expected, error.found, error.remedy, key=key)
    return error


def with_tile_file(document: Any, change: Callable[[str], str]) -> Any:
    """A copy of a chip file's content with the ``tile.architecture`` it names changed, if it names one."""
    tile = document.get("tile") if isinstance(document, dict) else None
    if not isinstance(tile, dict) or not isinstance(named := tile.get("architecture"), str):
        return document
    return {**document, "tile": {**tile, "architecture": change(named)}}


def _check_key(key: str, where: str) -> None:
    known = [*_leaves(ChipKeys, ""), *MESH]
    if key not in known:
        remedy = did_you_mean(key, known)
        raise OverrideError(f"override of {where}", f"one of {', '.join(known)}", key, remedy, key=key)


def _leaves(model: type[BaseModel], prefix: str) -> list[str]:
    """The dotted keys of a section and of those in it."""
    names: list[str] = []
    for name, item in model.model_fields.items():
        section = item.annotation
        if isinstance(section, type) and issubclass(section, Keys):
            names += _leaves(section, f"{prefix}{name}.")
        else:
            names.append(f"{prefix}{name}")
    return names
