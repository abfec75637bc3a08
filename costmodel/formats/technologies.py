"""The library of technologies, and loading one by its name or from a file."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from costmodel.errors import NotFoundError, did_you_mean
from costmodel.formats.yaml.safe_yaml import load_yaml
from costmodel.formats.yaml.technology import technology_from_document
from costmodel.hardware.technology import Technology
from costmodel.plug_ins import TECHNOLOGIES, plug_in, plug_in_names

FOLDER = Path(__file__).parents[1] / "hardware" / "technologies"
FILES = (".yaml", ".yml")
"""How the names of technology files end."""


@lru_cache(maxsize=1)
def _library() -> tuple[str, ...]:
    """The library's names, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def technology_names() -> tuple[str, ...]:
    """The names of the library, sorted, and then those of plug-ins."""
    return (*_library(), *(name for name in plug_in_names(TECHNOLOGIES) if name not in _library()))


def load_technology(name_or_path: str | Path) -> Technology:
    """The technology of the library, a plug-in or a file; NotFoundError with the names that there are."""
    name = str(name_or_path)
    if added := plug_in(TECHNOLOGIES, name, _library()):
        return _of_file(added.file((".yaml",)), added.where, None)
    if name in _library():
        return _of_file(FOLDER / f"{name}.yaml", f"technology {name}", None)
    if name.endswith(FILES):
        path = Path(name)
        return _of_file(path, name, path.stat().st_mtime_ns if path.is_file() else None)
    expected = f"a file, or one of {', '.join(technology_names())}"
    remedy = did_you_mean(name, technology_names()) or "A file's name ends in .yaml or .yml"
    raise NotFoundError("technology", expected, name, remedy, key="technology")


def technology_beside(named: str, folder: Path) -> str:
    """The technology that a file in ``folder`` names: a file with its folder, a library name as it is."""
    return str(folder / named) if named.endswith(FILES) else named


@lru_cache(maxsize=32)
def _of_file(path: Path, where: str, changed: int | None) -> Technology:
    """The technology of a file, read once; ``changed``: when it was, so that a new version is read again."""
    return technology_from_document(load_yaml(path), where)
