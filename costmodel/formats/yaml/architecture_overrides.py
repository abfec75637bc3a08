"""Overrides: new values for keys of an architecture file, set before it is read, as by a study's axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from costmodel.errors import InputError, OverrideError, did_you_mean
from costmodel.formats.yaml.architecture_document import (
    AccessEnergies,
    ArchitectureKeys,
    ComputeKeys,
    LevelKeys,
    PrecisionKeys,
)

SECTIONS = ("levels", "compute", "constraints", "timing")
TOP_KEYS = [key for key in ArchitectureKeys.model_fields if key not in SECTIONS]
FANOUT_PARTS = {"x": 0, "y": 1}
OTHERS_WORDS = {
    **dict.fromkeys(("depth", "entries", "sizeKB", "memory_depth"), "the words of a memory are its size"),
    **dict.fromkeys(("meshX", "meshY", "instances"), "instances are the fanout of the level above them"),
    **dict.fromkeys(("datawidth", "width"), "the bits of a word are word_bits"),
}
"""By Timeloop's name of an attribute, a remedy that names the key of ours with its value."""


@dataclass(frozen=True)
class Overrides:
    """New values by dotted key: ``SRAM.size``, ``SRAM.fanout.x``, ``compute.energy``, ``frequency``,
    ``precision.weights``, ``timing.load.per_request``.

    ``where``: the name of the architecture file, for errors. The values are checked with the file's own, when
    the changed document is read.
    """

    values: dict[str, Any]
    where: str

    def applied_to(self, document: Any) -> Any:
        """A copy of ``document`` with the new values; ``document`` itself without any, or if it is no dict.

        A part of a value (``SRAM.fanout.x``) wins over the whole (``SRAM.fanout``), in any order. Raises
        InputError for an unknown key (it lists the known ones), for a part of a value that the file writes
        without parts, for a section of ``timing`` that the file does not have, and for a key of ``compute``
        or ``precision`` where the file has a single value there.
        """
        if not self.values or not isinstance(document, dict):
            return document
        changed = _copied(document)
        for key, value in sorted(self.values.items(), key=lambda new: new[0].count(".")):
            head, *rest = key.split(".")
            owner, last = self._owner(changed, key, head, rest)
            # copied, for the key of a part may come
            owner[last] = _copied(value)
        return changed

    def blamed_for(self, error: InputError) -> InputError:
        """``error``, or one that names the override that replaced the key at which it was raised."""
        # Longer keys first: SRAM.fanout.x is a part of what SRAM.fanout sets, and is the one to blame for it.
        for key in sorted(self.values, key=len, reverse=True):
            if error.key == (path := _path(key)) or error.key.startswith((f"{path}.", f"{path}[")):
                location = f"override of {self.where}"
                return OverrideError(location, error.expected, error.found, error.remedy, key=key)
        return error

    def _owner(self, document: dict[str, Any], key: str, head: str, rest: list[str]) -> tuple[Any, Any]:
        """The dict or list that holds the value of ``key``, and the value's key or index in it."""
        if not rest:
            self._known(key, head, TOP_KEYS, "a key of the file (or LEVEL.KEY)")
            return document, head
        if head == "timing":
            return self._timing(document, key, rest)
        if head == "precision":
            return self._precision(document, key, rest)
        if head == "compute":
            if document.get("compute") is None:
                document["compute"] = {}
            owner = document["compute"]
            self._known(key, rest[0], list(ComputeKeys.model_fields), "a key of compute")
        else:
            owner = self._level(document, key, head)
            self._known(key, rest[0], list(LevelKeys.model_fields), f"a key of level {head}")
        if not isinstance(owner, dict):
            raise InputError(self.where, "the keys of compute", owner, key=head)
        if len(rest) == 1:
            return owner, rest[0]
        return self._inside(key, owner.get(rest[0], [1, 1] if rest[0] == "fanout" else None), rest, owner)

    def _timing(self, document: dict[str, Any], key: str, rest: list[str]) -> tuple[Any, Any]:
        """The section of ``timing`` that holds the value of ``key``; the keys are checked with the file's."""
        owner: Any = document.get("timing")
        for part in rest[:-1]:
            if isinstance(owner, list):  # of caches, by their names
                named = [entry for entry in owner if isinstance(entry, dict) and entry.get("name") == part]
                owner = named[0] if named else None
            else:
                owner = owner.get(part) if isinstance(owner, dict) else None
        if not isinstance(owner, dict):
            remedy = "The file has no such section of timing"
            raise OverrideError(f"override of {self.where}", "a key of timing", key, remedy, key=key)
        return owner, rest[-1]

    def _precision(self, document: dict[str, Any], key: str, rest: list[str]) -> tuple[Any, Any]:
        """The section ``precision``, made where the file has none, and the key in it."""
        if document.get("precision") is None:
            document["precision"] = {}
        self._known(key, ".".join(rest), list(PrecisionKeys.model_fields), "a key of precision")
        if not isinstance(document["precision"], dict):
            raise InputError(self.where, "the keys of precision", document["precision"], key="precision")
        return document["precision"], rest[0]

    def _inside(self, key: str, value: Any, rest: list[str], owner: dict[str, Any]) -> tuple[Any, Any]:
        if len(rest) == 2 and rest[0] == "fanout" and isinstance(value, list) and len(value) == 2:
            self._known(key, rest[1], list(FANOUT_PARTS), "a part of fanout")
            owner["fanout"] = list(value)
            return owner["fanout"], FANOUT_PARTS[rest[1]]
        if len(rest) == 2 and rest[0] == "energy" and isinstance(value, dict):
            self._known(key, rest[1], list(AccessEnergies.model_fields), "a part of energy")
            return value, rest[1]
        remedy = f"{rest[0]} has no parts here: override it whole"
        raise OverrideError(f"override of {self.where}", "a key of the file", key, remedy, key=key)

    def _level(self, document: dict[str, Any], key: str, name: str) -> dict[str, Any]:
        levels = document.get("levels")
        entries = [level for level in levels if isinstance(level, dict)] if isinstance(levels, list) else []
        self._known(
            key,
            name,
            [str(level.get("name")) for level in entries],
            "a level",
            extra=["compute", "precision", "timing"],
        )
        return next(level for level in entries if str(level.get("name")) == name)

    def _known(
        self, key: str, part: str, known: list[str], what: str, extra: list[str] | None = None
    ) -> None:
        if part in known:
            return
        names = known + (extra or [])
        expected, last = f"{what}: {', '.join(names)}", key.rpartition(".")[2]
        remedy = f"Here {OTHERS_WORDS[last]}" if last in OTHERS_WORDS else did_you_mean(part, names)
        raise OverrideError(f"override of {self.where}", expected, part, remedy, key=key)


def _path(key: str) -> str:
    """Where the value of an override stands in the document, as errors of the document say it."""
    if key.startswith(("compute.", "timing.", "precision.")) or "." not in key:
        return key
    whole, _, part = key.rpartition(".")
    if whole.endswith(".fanout") and part in FANOUT_PARTS:
        return f"levels.{whole}[{FANOUT_PARTS[part]}]"
    return f"levels.{key}"


def _copied(value: Any) -> Any:
    """A deep copy of a parsed file; scalars are not copied, as they cannot be changed."""
    if isinstance(value, dict):
        return {key: _copied(entry) for key, entry in value.items()}
    return [_copied(entry) for entry in value] if isinstance(value, list) else value
