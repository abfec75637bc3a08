"""The tiles of chips, by the name of a tile in the library or from an architecture file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costmodel.errors import NotFoundError, did_you_mean
from costmodel.formats.architectures import architecture_names, load_architecture, named_technology
from costmodel.hardware.architecture import Architecture

TILES = Path(__file__).parents[1] / "hardware" / "chips" / "tiles"
FILES = (".yaml", ".yml", ".json")
"""How the names of architecture files end."""


def tile_names() -> list[str]:
    """The library's tiles, sorted: architectures whose outermost level is the tile's buffer."""
    return sorted(path.stem for path in TILES.glob("*.yaml"))


def tile_technology(name_or_path: str | Path) -> str | None:
    """The technology that the tile's file names: see :func:`.architectures.named_technology`."""
    name = str(name_or_path)
    return named_technology(TILES / f"{name}.yaml" if name in tile_names() else name)


def load_tile(name_or_path: str | Path, overrides: Mapping[str, Any] | None = None) -> Architecture:
    """A tile of the library, or any architecture, by name or file; its outermost level is the buffer."""
    name = str(name_or_path)
    if name in tile_names():
        return load_architecture(TILES / f"{name}.yaml", overrides)
    known = [*tile_names(), *architecture_names()]
    if name not in known and not name.partition("#")[0].endswith(FILES):
        raise NotFoundError("tile", f"a file, or one of {', '.join(known)}", name, did_you_mean(name, known))
    return load_architecture(name, overrides)
