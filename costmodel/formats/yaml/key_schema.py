"""JSON Schemas of users' files, made from the pydantic models that read them.

An editor that knows the schema of a file completes its keys, shows what each means and marks what is wrong
while one types. The schema says everything about a file that can be said key by key: names, types, bounds,
units. What ties several keys together (a constraint that names a level, a fan-out that fits) only the reader
checks, so a file that the schema accepts may still be refused, and none that the reader accepts is.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from costmodel.formats.yaml.quantities import Quantity, Units

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(model: type[BaseModel], title: str) -> dict[str, Any]:
    """The JSON Schema of files that ``model`` reads: plain data, ``title`` its name for people."""
    made = model.model_json_schema(by_alias=True, schema_generator=_WrittenForms)
    plain: dict[str, Any] = _plainly(made)
    return {"$schema": DIALECT, **plain, "title": title}


def quantity_schema(units: Units, meaning: str, *, zero: bool) -> dict[str, Any]:
    """The schema of a number with one of ``units``, or of a plain number, which is in the first of them.

    ``zero`` says whether 0 is allowed.
    """
    default, listed = next(iter(units)), "|".join(map(re.escape, units))
    number = r"\s*\+?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*"
    lowest = "minimum" if zero else "exclusiveMinimum"
    return {
        "anyOf": [
            {"type": "number", lowest: 0, "description": f"A plain number is in {default}."},
            {"type": "string", "pattern": f"^{number}(?:{listed})?\\s*$", "description": meaning},
        ],
    }


def _plainly(made: Any) -> Any:
    """``made`` with descriptions as editors show them: names in one backtick, lines joined to paragraphs."""
    if isinstance(made, list):
        return [_plainly(part) for part in made]
    if not isinstance(made, dict):
        return made
    plain = {key: _plainly(part) for key, part in made.items()}
    if isinstance(text := plain.get("description"), str):
        plain["description"] = re.sub(r"(?<!\n)\n(?!\n)", " ", text.replace("``", "`"))
    return plain


class _WrittenForms(GenerateJsonSchema):
    """Pydantic's generator with defaults as files write them, and without titles that repeat the key."""

    def encode_default(self, dft: Any) -> Any:
        return dft.written if isinstance(dft, Quantity) else super().encode_default(dft)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False
