"""The library of architectures, and loading one by name or from a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from costmodel.errors import InputError, NotFoundError, did_you_mean
from costmodel.hardware.architecture import Architecture
from costmodel.plug_ins import ARCHITECTURES, plug_in, plug_in_names

FOLDER = Path(__file__).parents[1] / "hardware" / "architectures"


def architecture_names() -> list[str]:
    """The names of the library, sorted, and then those of plug-ins."""
    return [*_library(), *(name for name in plug_in_names(ARCHITECTURES) if name not in _library())]


@lru_cache(maxsize=1)
def _library() -> tuple[str, ...]:
    """The library's names, looked up once, because a study loads its architecture for every design."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def load_architecture(name_or_path: str | Path, overrides: Mapping[str, Any] | None = None) -> Architecture:
    """The architecture that a name of the library, of a plug-in, or a file describes.

    A file is our YAML (or the same as JSON; see :mod:`costmodel.formats.yaml.architecture`), a Timeloop
    file (``arch.yaml``, or several as one: ``arch.yaml+ERT.yaml``), or a JSON in the form of the Timeloop
    cases: one architecture, or several by name with ``FILE.json#NAME``.

    ``overrides`` replace values of our files before any law is evaluated, so that ``{"SRAM.size": "64 KiB"}``
    moves capacity, energy and area together; an energy or area that the file states stays as it is stated.
    Raises InputError for an unknown name, a file that cannot be read or is wrong, and an override of a key
    that does not exist or of a file in the form of the Timeloop cases.
    """
    name = str(name_or_path)
    if added := plug_in(ARCHITECTURES, name, _library()):
        return _from_yaml(added.file((".yaml",)), added.where, overrides)
    if name in _library():
        return _from_yaml(FOLDER / f"{name}.yaml", f"architecture {name}", overrides)
    path, _, member = name.partition("#")
    if path.endswith(".json"):
        return _from_json(path, member, overrides)
    if path.endswith((".yaml", ".yml")):
        return _from_yaml(Path(path), path, overrides)
    remedy = did_you_mean(name, architecture_names()) or "A file's name ends in .yaml, .yml or .json"
    expected = f"a file, or one of {', '.join(architecture_names())}"
    raise NotFoundError("architecture", expected, name, remedy)


def _from_yaml(path: Path, where: str, overrides: Mapping[str, Any] | None) -> Architecture:
    """The architecture of our YAML file or of Timeloop's; ``path`` joins several with +."""
    from costmodel.formats.timeloop.files import is_timeloop, split_files
    from costmodel.formats.yaml.architecture import architecture_from_document

    files = tuple(split_files(str(path)))
    # several files with + between them are always Timeloop's: ours are one file
    if len(files) > 1 or is_timeloop(_document(path, _stamp(path))):
        document = _timeloop_document(files, tuple(map(_stamp, files)))
        return architecture_from_document(document, str(files[0]), overrides)
    return architecture_from_document(_native(path), where, overrides)


def architecture_file(name_or_path: str | Path) -> Path:
    """The one YAML file of ours that describes an architecture; InputError for another form."""
    name = str(name_or_path)
    if added := plug_in(ARCHITECTURES, name, _library()):
        return added.file((".yaml",))
    if name in _library():
        return FOLDER / f"{name}.yaml"
    # a file that cannot be read is reported as such, before its form is looked at
    load_architecture(name)
    if not name.endswith((".yaml", ".yml")) or not Path(name).is_file():
        raise InputError("architecture", "an architecture file of ours (.yaml)", name)
    return Path(name)


def overridden_document(name_or_path: str | Path, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The content of an architecture file of ours that describes the architecture with these ``overrides``.

    A technology file is named by its whole path, so that the content can be written anywhere. InputError for
    a file in the form of the Timeloop cases, and for what :func:`load_architecture` refuses.
    """
    from costmodel.formats.timeloop.files import split_files
    from costmodel.formats.yaml.architecture_overrides import Overrides

    load_architecture(name_or_path, overrides)
    document = _own_document(name_or_path)
    if document is None:
        if not str(name_or_path).endswith((".yaml", ".yml")):
            raise InputError("architecture", "an architecture file (.yaml)", str(name_or_path))
        files = tuple(split_files(str(name_or_path)))
        document = _timeloop_document(files, tuple(map(_stamp, files)))
    changed: dict[str, Any] = Overrides(dict(overrides), str(name_or_path)).applied_to(document)
    named = changed.get("technology")
    if isinstance(named, str) and Path(named).is_file():
        return {**changed, "technology": str(Path(named).resolve())}
    return dict(changed)


def named_technology(name_or_path: str | Path) -> str | None:
    """The technology that an architecture file of ours names, empty where it names none.

    None for a file of another form, which states every number. A technology file beside the architecture's is
    given with its folder.
    """
    document = _own_document(name_or_path)
    if document is None:
        return None
    named = document.get("technology") or ""
    return named if isinstance(named, str) else None


def stated_constraints(name_or_path: str | Path) -> dict[str, Any]:
    """What an architecture file of ours states under ``constraints``, as it stands there; {} without any.

    A file of another form has none here: Timeloop's constraints have a frontend of their own.
    """
    found = (_own_document(name_or_path) or {}).get("constraints")
    return found if isinstance(found, dict) else {}


def _own_document(name_or_path: str | Path) -> dict[str, Any] | None:
    """The content of an architecture file of ours; None for a file of another form, and for no file."""
    from costmodel.formats.timeloop.files import is_timeloop, split_files

    path = Path(name_or_path)
    if added := plug_in(ARCHITECTURES, str(name_or_path), _library()):
        path = added.file((".yaml",))
    elif name_or_path in _library():
        path = FOLDER / f"{name_or_path}.yaml"
    if path.suffix not in (".yaml", ".yml") or len(split_files(str(path))) > 1 or not path.is_file():
        return None
    document = _native(path)
    return None if not isinstance(document, dict) or is_timeloop(document) else document


def _native(path: Path) -> Any:
    """The content of one of our architecture files; a technology file beside it is named with its folder."""
    from costmodel.formats.technologies import technology_beside

    document = _document(path, _stamp(path))
    named = document.get("technology") if isinstance(document, dict) else None
    if not isinstance(named, str) or (found := technology_beside(named, path.parent)) == named:
        return document
    return {**document, "technology": found}


def _from_json(path: str, member: str, overrides: Mapping[str, Any] | None) -> Architecture:
    """The architecture of a JSON file: our own keys, or the form of the Timeloop cases."""
    from costmodel.formats.yaml.architecture import architecture_from_document

    data = _document(Path(path), _stamp(Path(path)))
    if isinstance(data, dict) and "levels" in data:  # our own keys, written as JSON
        return architecture_from_document(_native(Path(path)), path, overrides)
    name, data = _member(path, member, data)
    if overrides:
        remedy = "Write the architecture as YAML, where a technology's laws follow the sizes"
        raise InputError(path, "no overrides: this form states every number", ", ".join(overrides), remedy)
    from costmodel.formats.cases.architecture import architecture_from_json

    return architecture_from_json(name, data, f"{path}#{member}" if member else path)


def _member(path: str, member: str, data: Any) -> tuple[str, Any]:
    """The name and the data of one architecture of a JSON file that may hold several by name."""
    if isinstance(data, dict) and "storage" in data:
        return str(data.get("name", Path(path).stem)), data
    names = (
        [str(key) for key, value in data.items() if isinstance(value, dict)] if isinstance(data, dict) else []
    )
    if member in names:
        return member, data[member]
    expected = f"#NAME after the file, one of {', '.join(names)}" if names else "architectures by name"
    raise InputError(path, expected, f"#{member}" if member else "no name")


def _stamp(path: Path) -> tuple[int, int] | None:
    """When a file was changed (in ns), and its size in bytes; None where that cannot be asked for.

    Parsed files are cached by it, so that an edited file is read again. Where there is no stamp the reader is
    called all the same, because it says what is wrong with the file.
    """
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=32)
def _document(path: Path, stamp: tuple[int, int] | None) -> Any:
    """The parsed file, cached because a study loads it thousands of times.

    ``stamp``: when the file was changed, and its size; another stamp reads it again.
    """
    from costmodel.formats.json.safe_json import load_json
    from costmodel.formats.timeloop.files import parse_timeloop

    return load_json(path) if path.suffix == ".json" else parse_timeloop(path)


@lru_cache(maxsize=32)
def _timeloop_document(files: tuple[Path, ...], stamps: tuple[object, ...]) -> Any:
    """The content of our architecture file for a Timeloop architecture, whose keys a study can vary."""
    from costmodel.formats.timeloop.architecture import timeloop_architecture
    from costmodel.formats.timeloop.files import read_timeloop

    return timeloop_architecture(read_timeloop(files), files[0].stem).document()
