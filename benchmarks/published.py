"""Numbers that others published, each with its source: what ``published.yaml`` says."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_suffix(".yaml")


@dataclass(frozen=True)
class Number:
    """A published number, or several: ``at_least`` says that the true one is larger."""

    values: tuple[float, ...]
    unit: str
    source: str
    where: str
    at_least: bool = False

    def __post_init__(self) -> None:
        if not (self.values and self.unit and self.source and self.where):
            raise ValueError(f"a published number needs values, a unit, a source and a place: {self}")

    @classmethod
    def of(cls, content: dict[str, Any], sources: dict[str, str]) -> Number:
        """Errors: ``KeyError`` for a source that the file does not name."""
        value = content.pop("value")
        values = tuple(map(float, value)) if isinstance(value, list) else (float(value),)
        return cls(values, source=sources[content.pop("source")], **content)

    @property
    def text(self) -> str:
        between = " to " if len(self.values) == 2 else ", "
        numbers = between.join(f"{value:g}" for value in self.values)
        return f"{'over ' * self.at_least}{numbers} {self.unit}"


@cache
def numbers() -> dict[str, Number]:
    """All of them by key."""
    content = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return {key: Number.of(dict(entry), content["sources"]) for key, entry in content["numbers"].items()}


def under(prefix: str) -> dict[str, Number]:
    """Those whose key begins with ``prefix``, by the rest of their key."""
    return {key.removeprefix(prefix): number for key, number in numbers().items() if key.startswith(prefix)}
