"""What docs/ has from the code: JSON Schemas of files, and the reference of commands, files and columns.

``python -m tests.docs.generated_pages`` writes all of it anew; a test holds what is there equal to it.
"""

from __future__ import annotations

import html
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from results.store.schema.tables import schema_markdown
from sweep.cli.schemas import FILES, file_schema
from tests.docs import notebook

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@cache
def pages() -> dict[Path, str]:
    """Every generated file and its text."""
    schemas = {kind: file_schema(kind) for kind in FILES}
    return {
        **{
            DOCS / "schemas" / f"{kind}.schema.json": f"{json.dumps(schema, indent=2)}\n"
            for kind, schema in schemas.items()
        },
        DOCS / "notebook.md": notebook.page(),
        DOCS / "reference" / "commands.md": commands(),
        DOCS / "reference" / "keys.md": "\n".join(keys(schemas)),
        DOCS / "reference" / "columns.md": columns(),
        DOCS / "reference" / "published.md": "\n".join(published()),
    }


def commands() -> str:
    """The command line as Typer describes it."""
    described = subprocess.run(
        [sys.executable, "-m", "typer", "sweep.cli.main", "utils", "docs", "--name", "archsweep"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    text = html.unescape(described.stdout).replace("# `archsweep`", "# The command line", 1)
    return f"{text.rstrip()}\n"


def columns() -> str:
    """The columns of results, as ``archsweep list schema`` prints them."""
    return f"{schema_markdown().rstrip()}\n"


def published() -> Iterator[str]:
    """What benchmarks/published.yaml holds: each number that others published, with where it stands."""
    found = yaml.safe_load((ROOT / "benchmarks" / "published.yaml").read_text(encoding="utf-8"))
    yield "# What others published"
    yield ""
    yield "The numbers that benchmarks and chapters compare with, from `benchmarks/published.yaml`."
    for source, title in found["sources"].items():
        yield ""
        yield f"## {source.replace('_', ' ')}"
        yield ""
        yield f"{title}."
        yield ""
        yield "| number | what | where |"
        yield "|---|---|---|"
        for number in found["numbers"].values():
            if number["source"] == source:
                yield f"| {_number(number)} | {_cell(number['unit'])} | {_cell(number['where'])} |"
    yield ""


def _number(number: dict[str, Any]) -> str:
    value = number["value"]
    words = ", ".join(f"{one:g}" for one in value) if isinstance(value, list) else f"{value:g}"
    return f"at least {words}" if number.get("at_least") else words


def keys(schemas: dict[str, dict[str, Any]]) -> Iterator[str]:
    """A page of tables: of each kind of file and of each section in it, every key with its meaning."""
    yield "# Keys of files"
    yield ""
    yield "Every key that files may have, from the models that read them. Headings say where sections stand."
    for kind, schema in schemas.items():
        yield ""
        yield f"## {kind.capitalize()} files"
        places = {"": f"{kind} file", **_places(schema)}
        for name, place in places.items():
            section = schema["$defs"][name] if name else schema
            if name:
                yield ""
                yield f"### {kind.capitalize()} files: {place}"
            yield from _section(section, places)
    yield ""


def _places(schema: dict[str, Any]) -> dict[str, str]:
    """Where each section of a schema stands in a file, in the order in which one meets them."""
    found: dict[str, str] = {}

    def visit(section: dict[str, Any], path: str) -> None:
        for key, value in section["properties"].items():
            for name in _sections_in(value):
                inner, place = schema["$defs"][name], f"{path}{key}"
                form = next(
                    (f", {k} {v['const']}" for k, v in inner["properties"].items() if "const" in v), ""
                )
                if name not in found:
                    found[name] = f"{place}{form}"
                    visit(inner, f"{place}.")

    visit(schema, "")
    return found


def _sections_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(name := value.get("$ref"), str):
            yield name.rpartition("/")[2]
        for key, part in value.items():
            if key != "discriminator":
                yield from _sections_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from _sections_in(part)


def _section(section: dict[str, Any], places: dict[str, str]) -> Iterator[str]:
    yield ""
    yield section["description"]
    yield ""
    yield "| key | what may stand there | default | meaning |"
    yield "|---|---|---|---|"
    needed = section.get("required", ())
    for key, value in section["properties"].items():
        default = "must be there" if key in needed else _default(value)
        meaning = " ".join(value.get("description", "").split())
        yield f"| `{key}` | {_cell(_form(value, places))} | {_cell(default)} | {_cell(meaning)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _default(value: dict[str, Any]) -> str:
    default = value.get("default")
    if default in (None, "", [], {}) or "$ref" in value or "discriminator" in value:
        return ""
    return f"`{json.dumps(default)}`"


def _form(value: dict[str, Any], places: dict[str, str]) -> str:
    """What may stand at a key, in words."""
    if "$ref" in value:
        return f"the keys of *{places[value['$ref'].rpartition('/')[2]]}*"
    if "enum" in value:
        return ", ".join(f"`{one}`" for one in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    for several in ("anyOf", "oneOf"):
        if several in value:
            forms = [one for one in value[several] if one.get("type") != "null"]
            if all("description" in one for one in forms):  # a quantity, whose forms say what they are
                return " ".join(one["description"] for one in reversed(forms))
            return " or ".join(dict.fromkeys(_form(one, places) for one in forms))
    return _plain_form(value, places)


def _plain_form(value: dict[str, Any], places: dict[str, str]) -> str:
    kind = value.get("type", "any")
    if kind == "array":
        return f"a list: {_form(value.get('items', {}), places)}"
    if kind == "object":
        inner = value.get("additionalProperties")
        return f"names, each with {_form(inner, places)}" if isinstance(inner, dict) else "names with values"
    names = {"string": "a text", "integer": "a whole number", "number": "a number"}
    names["boolean"] = "`true` or `false`"
    return names.get(kind, "any value") + _bounds(value)


def _bounds(value: dict[str, Any]) -> str:
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    found = [f"{word} {value[key]:,}" for key, word in words.items() if key in value]
    return f" {' and '.join(found)}" if found else ""


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))
