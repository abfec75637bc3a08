"""The constants of an architecture file that were fitted to measurements: found in its text, and replaced
there.

The rest of the text stays as it is, comments and order included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml


@dataclass(frozen=True)
class FittedConstant:
    """A new value of a constant, how far it moves when layers are left out, and on what it was fitted."""

    value: float
    relative_error: float
    source: str


def fitted_constants(document: Any) -> dict[str, float]:
    """The constants of a parsed file's ``timing`` with ``fitted: true``, by key as overrides write it."""
    timing = document.get("timing") if isinstance(document, dict) else None
    return dict(_marked(timing, "timing"))


def _marked(section: Any, key: str) -> Iterator[tuple[str, float]]:
    if isinstance(section, list):
        for entry in section:
            if isinstance(entry, dict):
                yield from _marked(entry, f"{key}.{entry.get('name')}")
    elif isinstance(section, dict) and section.get("fitted") is True:
        yield key, float(section["value"])
    elif isinstance(section, dict):
        for name, entry in section.items():
            yield from _marked(entry, f"{key}.{name}")


def with_constants(text: str, constants: Mapping[str, FittedConstant]) -> str:
    """The text of a file with these constants, whose keys :func:`fitted_constants` gave, replaced."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    spans = []
    for key, constant in constants.items():
        node = _node(root, key.split("."))
        spans.append((node.start_mark.index, node.end_mark.index, _written(constant)))
    for begin, end, written in sorted(spans, reverse=True):
        old = text[begin:end]
        # the span of a section in block style reaches over the line's end
        text = text[:begin] + written + old[len(old.rstrip()) :] + text[end:]
    return text


def _node(node: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(node, yaml.SequenceNode):
            node = next(entry for entry in node.value if _named(entry) == part)
        else:
            node = next(value for name, value in node.value if name.value == part)
    return node


def _named(entry: Any) -> str:
    return next((str(value.value) for name, value in entry.value if name.value == "name"), "")


def _written(constant: FittedConstant) -> str:
    value, error = float(f"{constant.value:.4g}"), float(f"{constant.relative_error:.2g}")
    source = json.dumps(constant.source)
    return f"{{value: {value:g}, fitted: true, relative_error: {error:g}, source: {source}}}"
