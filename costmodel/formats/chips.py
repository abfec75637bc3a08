"""The library of tiled chips and of their tiles, and loading one by name or from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costmodel.errors import NotFoundError, did_you_mean
from costmodel.formats.tiles import FILES
from costmodel.formats.timeloop.files import each_file
from costmodel.hardware.chip import Chip

FOLDER = Path(__file__).parents[1] / "hardware" / "chips"


def chip_names() -> list[str]:
    """The library's chips, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_chip(name_or_path: str | Path, overrides: Mapping[str, Any] | None = None) -> Chip:
    """The chip that a library name or a YAML file describes (see :mod:`costmodel.formats.yaml.chip`).

    Files that ``tile.architecture`` and ``technology`` name stand beside the chip's own, where their paths
    are not absolute.
    ``overrides`` replace values of the file before it is read, ``{"mesh": "6x6"}``. Raises InputError for an
    unknown name, a file that cannot be read or is wrong, and a key that does not exist.
    """
    from costmodel.formats.technologies import technology_beside
    from costmodel.formats.yaml.chip import chip_from_document
    from costmodel.formats.yaml.chip_document import with_tile_file
    from costmodel.formats.yaml.safe_yaml import load_yaml

    name = str(name_or_path)
    if name in chip_names():
        return chip_from_document(load_yaml(FOLDER / f"{name}.yaml"), f"chip {name}", overrides)
    if name.endswith((".yaml", ".yml")):
        folder = Path(name).parent
        document = with_tile_file(load_yaml(name), lambda tile: tile_beside(tile, folder))
        if isinstance(document, dict) and isinstance(named := document.get("technology"), str):
            document = {**document, "technology": technology_beside(named, folder)}
        return chip_from_document(document, name, overrides)
    remedy = did_you_mean(name, chip_names()) or "A file's name ends in .yaml or .yml"
    raise NotFoundError("chip", f"a file, or one of {', '.join(chip_names())}", name, remedy)


def tile_beside(named: str, folder: Path) -> str:
    """The tile that a chip file in ``folder`` names: a file with its folder, a library name as it is."""

    def with_folder(file: str) -> str:
        return str(folder / file) if file.partition("#")[0].endswith(FILES) else file

    return each_file(named, with_folder, folder)
