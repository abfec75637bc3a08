"""The keys, types and units of a chip file, and values of it replaced before it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from costmodel.errors import InputError, OverrideError, did_you_mean
from costmodel.formats.yaml.architecture_document import (
    Area,
    AtLeastOne,
    Bandwidth,
    ByteEnergy,
    Energy,
    Frequency,
    InstanceArea,
    Leakage,
    Size,
    Sources,
    fixed_area,
)
from costmodel.formats.yaml.file_keys import Keys
from costmodel.formats.yaml.quantities import AREA, Quantity, reader

MESH = {"mesh.columns": 0, "mesh.rows": 1}


def _columns_and_rows(written: Any) -> Any:
    if isinstance(written, str) and (found := re.fullmatch(r"\s*(\d{1,6})\s*x\s*(\d{1,6})\s*", written)):
        return [int(found[1]), int(found[2])]
    if not isinstance(written, list) or len(written) != 2:
        raise InputError("", "columns and rows such as [4, 4] or 4x4", repr(written))
    return written


ColumnsAndRows = (
    Annotated[str, Field(pattern=r"^\s*\d{1,6}\s*x\s*\d{1,6}\s*$")]
    | Annotated[list[AtLeastOne], Field(min_length=2, max_length=2)]
)
"""How a mesh stands in the JSON Schema of chip files."""


class PartArea(Keys):
    """The area of a part, known at one bandwidth."""

    value: Area
    """The area."""
    at_bandwidth: Bandwidth | None = None
    """The bandwidth at which it is right; another one scales it linearly. Absent: it holds for all."""


_read_area = reader(AREA, "'1239.5 um2'", zero=True)


def _area_at_any_bandwidth(written: Any) -> Any:
    if written is None or isinstance(written, dict):
        return written
    return PartArea.model_construct(value=_read_area(written), at_bandwidth=None)


AreaByBandwidth = Annotated[
    PartArea | None, BeforeValidator(_area_at_any_bandwidth, json_schema_input_type=Area | PartArea | None)
]


class NocKeys(Keys):
    """The network of links between neighbouring tiles."""

    link_bandwidth: Bandwidth
    """The bandwidth of one link in each direction."""
    hop_energy: ByteEnergy | None = None
    """The energy of a byte over one link and through a router. Absent: from the technology."""
    router_area: AreaByBandwidth = None
    """The area of one tile's router with the wires of its links. Absent: from the technology's law."""


class DramKeys(Keys):
    """The DRAM at the edges of the mesh."""

    bandwidth: Bandwidth
    """The bandwidth of reads and writes, all ports together."""
    read_energy: ByteEnergy | None = None
    """The energy of a byte read. Absent: from the technology."""
    write_energy: ByteEnergy | None = None
    """The energy of a byte written. Absent: from the technology."""
    interface_area: AreaByBandwidth = None
    """The area on the chip of the interfaces to all DRAM together. Absent: from the technology's law."""
    idle: Leakage | None = None
    """What DRAM and its interfaces take in a cycle beside transfers. Absent: from the technology's law."""


class BufferKeys(Keys):
    """The buffer of one tile."""

    size: Size
    """What it holds."""
    read_energy: ByteEnergy | None = None
    """The energy of a byte read. Absent: from the technology's law of SRAM."""
    write_energy: ByteEnergy | None = None
    """The energy of a byte written. Absent: from the technology's law of SRAM."""
    at_size: Size | None = None
    """The size at which these energies are right; another size scales them by the law of SRAM.

    Absent: they hold whatever the size.
    """
    area: Annotated[
        InstanceArea | None,
        BeforeValidator(fixed_area, json_schema_input_type=Area | InstanceArea | None),
    ] = None
    """Its area. Absent: from the technology's law of SRAM."""


class TileKeys(Keys):
    """One tile; all tiles of a chip are alike."""

    architecture: Annotated[str, Field(min_length=1)]
    """What computes in it: a tile of the library, a library architecture, or a file beside this one."""
    buffer: BufferKeys
    """Its buffer, which stands for the outermost level of the architecture."""
    output_stream: Size | None = None
    """What the buffer sets aside for outputs on their way out. Absent: nothing."""
    vector_units: AtLeastOne
    """Element operations a cycle, of layers without weights."""
    vector_energy: Energy | None = None
    """The energy of one element operation. Absent: from the technology."""
    vector_area: Area | None = None
    """The area of one vector unit. Absent: from the technology."""
    leakage: Leakage | None = None
    """What one tile leaks in every cycle, beside what its levels leak. Absent: from the technology's law."""


class ChipKeys(Keys):
    """A chip: a mesh of equal tiles with links between them and DRAM at its edges."""

    name: Annotated[str, Field(min_length=1)]
    """The chip's name."""
    description: str = ""
    """What it is, for people."""
    source: Sources = Field(default_factory=list)
    """Where the numbers are from: a text or a list of texts."""
    technology: str | None = None
    """A technology, by name or file, whose laws give what is absent. Absent: that of the tile."""
    frequency: Frequency = Quantity(1e9, "Hz", "1 GHz")
    """The clock of tiles, links and DRAM."""
    word_bits: AtLeastOne | None = None
    """Bits of an element in buffers, on links and in DRAM. Absent: those of a word of the tile's buffer."""
    weight_bits: AtLeastOne | None = None
    """Bits of a weight, where they are others. Absent: the chip's word_bits."""
    partial_sum_bits: AtLeastOne | None = None
    """Bits of an output to which products are still to be added, where they are more. Absent: word_bits."""
    mesh: Annotated[
        list[AtLeastOne], BeforeValidator(_columns_and_rows, json_schema_input_type=ColumnsAndRows)
    ]
    """Columns and rows of tiles, as [4, 4] or 4x4."""
    stripe: AtLeastOne = 4
    """Columns that tile numbers fill row by row before they go on."""
    noc: NocKeys
    """The links."""
    dram: DramKeys
    """The DRAM."""
    tile: TileKeys
    """What every tile is."""


def overridden(document: Any, overrides: Mapping[str, Any], where: str) -> Any:
    """A copy of ``document`` with the new values; a side of the mesh wins over a new mesh, in any order.

    Raises InputError with ``where`` and the key: one that is unknown (it lists the known ones), one inside an
    entry that has no keys, or ``mesh`` where that has no side to replace.
    """
    if not overrides or not isinstance(document, dict):
        return document
    changed = deepcopy(document)
    for key, value in sorted(overrides.items(), key=lambda new: new[0] in MESH):
        _check_key(key, where)
        if key in MESH:
            try:
                changed["mesh"] = list(_columns_and_rows(changed.get("mesh")))
            except InputError as error:
                raise error.at(where, "mesh") from None
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
    """``error``, or one that names the override that replaced the key at which it was raised."""
    # longer keys first: mesh.columns names a part of what mesh names, and is the one to blame for that part
    for key in sorted(overrides, key=len, reverse=True):
        path = f"mesh[{MESH[key]}]" if key in MESH else key
        if error.key == path or error.key.startswith((f"{path}.", f"{path}[")):
            return OverrideError(f"override of {where}", error.expected, error.found, error.remedy, key=key)
    return error


def with_tile_file(document: Any, change: Callable[[str], str]) -> Any:
    """A copy of a chip file's content, with ``change`` applied to ``tile.architecture`` if it is there."""
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
    """The dotted keys of a section, those of the sections inside it included."""
    names: list[str] = []
    for name, item in model.model_fields.items():
        section = item.annotation
        if isinstance(section, type) and issubclass(section, Keys):
            names += _leaves(section, f"{prefix}{name}.")
        else:
            names.append(f"{prefix}{name}")
    return names
