"""Timeloop's input files, of versions 0.3 and 0.4: the sections that several files make up together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.yaml.safe_yaml import MOST_BYTES, TaggedDict, names_a_file, parse_yaml, read_text

NODE_TAGS = ("!Component", "!Container", "!Element", "!Hierarchical", "!Parallel", "!Pipelined", "!Nothing")
CONSTRAINT_SECTIONS = ("architecture_constraints", "mapspace_constraints", "constraints")
_READ = ("architecture", "problem", "mapping", "ERT", "ART", "variables", *CONSTRAINT_SECTIONS)
_SPEAKS_OF_NO_COUNT = (
    "mapper",
    "compound_components",
    "components",
    "ERT_summary",
    "ART_summary",
)
"""Sections that may be there and are not read: settings of Timeloop's own search, and what Accelergy computes
an ERT from. A value that depends on them (an expression, a compound class without energies) is refused where
it is read."""
_REFUSED = {
    "sparse_optimizations": "Only dense problems are modelled; remove the section",
    "globals": "Timeloop's defaults are modelled; remove the section",
    "mapspace": "Choose the space in the study or on the command line (padding for imperfect factors)",
    "arch": "Write the architecture as version 0.3 does: architecture with subtree and local",
    "layout": "Layouts are not modelled; remove the section",
}
_ALWAYS_WRITTEN: dict[str, dict[str, tuple[Any, ...]]] = {
    "mapspace": {"version": ("0.4", 0.4), "template": ("uber",)},
    "globals": {
        "version": ("0.4", 0.4),
        "environment_variables": (),
        "expression_custom_functions": (),
        "accelergy_plug_ins": (),
    },
}
"""Keys of refused sections that are no reason to refuse: if empty, or if they have one of these values."""
_HARMLESS_VARIABLES = {"TIMELOOP_HIDE_INCONSEQUENTIAL_STATS", "TIMELOOP_DISABLE_LINK_TRANSFERS"}
PROCESSED_MARK = "dumped_by_timeloop_front_end"
SEPARATOR = "+"
"""Between the files of one specification: ``arch.yaml+ERT.yaml``."""


@dataclass(frozen=True)
class FileSection:
    """The content of a top-level key, and the file that it is in."""

    data: Any
    file: str


@dataclass(frozen=True)
class TimeloopFiles:
    """The sections (top-level keys) of some files by name; hyphens in keys (0.3) are underscores (0.4)."""

    sections: dict[str, FileSection] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    def section(self, name: str) -> FileSection:
        """The section of that name; InputError if none of the files has it."""
        if name not in self.sections:
            there = ", ".join(self.sections) or "nothing"
            raise InputError(SEPARATOR.join(self.files), f"a section {name!r}", f"only {there}", key=name)
        return self.sections[name]


def split_files(specification: str, folder: str | Path = "") -> list[Path]:
    """The files of ``arch.yaml+ERT.yaml``; just one where ``folder`` has a file with that very name."""
    if SEPARATOR not in specification or names_a_file(Path(folder) / specification):
        return [Path(specification)]
    return [Path(part) for part in specification.split(SEPARATOR)]


def each_file(specification: str, change: Callable[[str], str], folder: str | Path = "") -> str:
    """The specification with the name of each of its files changed."""
    # a file's own name may have the separator in it, and is then one file
    if len(files := split_files(specification, folder)) == 1:
        return change(specification)
    return SEPARATOR.join(change(str(file)) for file in files)


def read_timeloop(paths: Iterable[str | Path]) -> TimeloopFiles:
    """All sections of the files together, as Timeloop takes its inputs; each may stand in one file only.

    Raises InputError with file and key for what is not YAML, for unknown sections, and for those that would
    change counts in ways that are not modelled.
    """
    sections: dict[str, FileSection] = {}
    names = [str(path) for path in paths]
    for name in names:
        for key, data in _document(name).items():
            _check_section(key, data, name)
            # an empty section says nothing, so any number of files may have it
            if data in (None, []):
                continue
            if key in sections:
                first = sections[key].file
                raise InputError(name, f"one section {key!r}", f"another, the first in {first}", key=key)
            sections[key] = FileSection(data, name)
    return TimeloopFiles(sections, tuple(names))


def is_timeloop(data: Any) -> bool:
    """Whether a parsed YAML file is one of Timeloop's, and not an architecture file of ours."""
    return isinstance(data, dict) and not {"levels", "storage"} & data.keys() and "architecture" in data


def parse_timeloop(path: str | Path) -> Any:
    """The document of one file with Timeloop's node tags, its keys as they are written."""
    text = read_text(path, MOST_BYTES)
    for number, line in enumerate(text.splitlines(), 1):
        # a template in a comment is no template
        content = line.partition("#")[0]
        if "{{" in content or "{%" in content:
            remedy = "Render the templates first: Timeloop's front end writes parsed-processed-input.yaml"
            raise InputError(f"{path}:{number}", "plain YAML without Jinja templates", line.strip(), remedy)
    return parse_yaml(text, str(path), NODE_TAGS)


def _document(path: str) -> dict[str, Any]:
    data = parse_timeloop(path)
    if not isinstance(data, dict):
        raise InputError(path, f"sections such as {', '.join(_READ[:3])}", data)
    sections: dict[str, Any] = with_underscores(data)
    return sections


def with_underscores(data: Any) -> Any:
    """The data with ``_`` for ``-`` in all keys; tags and values stay as they are."""
    if isinstance(data, list):
        return [with_underscores(value) for value in data]
    if not isinstance(data, dict):
        return data
    changed = {str(key).replace("-", "_"): with_underscores(value) for key, value in data.items()}
    if isinstance(data, TaggedDict):
        tagged = TaggedDict(changed)
        tagged.tag = data.tag
        return tagged
    return changed


def _asks_for_nothing(key: str, data: Any) -> bool:
    """Whether a refused section has only what Timeloop's front end always writes into it."""
    if key not in _ALWAYS_WRITTEN or not isinstance(data, dict):
        return False
    for name, value in data.items():
        known = value in _ALWAYS_WRITTEN[key].get(name, ())
        variables = name == "environment_variables" and isinstance(value, dict)
        harmless = variables and value.keys() <= _HARMLESS_VARIABLES
        if name not in _ALWAYS_WRITTEN[key] or (value and not known and not harmless):
            return False
    return True


def _check_section(key: str, data: Any, file: str) -> None:
    if key in _REFUSED and data and not _asks_for_nothing(key, data):
        raise InputError(file, "what archsweep models", f"the section {key!r}", _REFUSED[key], key=key)
    if key not in (*_READ, *_SPEAKS_OF_NO_COUNT, *_REFUSED, PROCESSED_MARK):
        expected = f"a section among {', '.join((*_READ, *_SPEAKS_OF_NO_COUNT))}"
        raise InputError(file, expected, key, did_you_mean(key, _READ), key=key)
