"""The keys of users' files, as pydantic models, and pydantic's complaints in the words of InputError."""

from __future__ import annotations

import re
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from costmodel.errors import InputError, did_you_mean


class Keys(BaseModel):
    """One section of a file: no key but the declared ones, no silent conversion, finite numbers, frozen.

    The text below a key is its description in the JSON Schema of the file and in the documentation.
    """

    # deferred: a section's validator is built when a file is read, as a part of the whole file's only
    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        defer_build=True,
    )


KeysT = TypeVar("KeysT", bound=Keys)


def check_keys(model: type[KeysT], document: Any, where: str) -> KeysT:
    """The document as a value of ``model``; InputError for the first mistake, unknown keys before others."""
    if not isinstance(document, dict):
        raise InputError(where, f"the keys {', '.join(_names(model))}", document)
    try:
        return model.model_validate(document)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        # A misspelt key makes two errors, one that it is unknown and one that the right one is missing. Only
        # the first says what to do.
        first = min(problems, key=lambda problem: problem["type"] != "extra_forbidden")
        raise _complaint(model, document, dict(first)).at(where) from None


def _complaint(model: type[Keys], document: Any, problem: dict[str, Any]) -> InputError:
    """One of pydantic's problems as an InputError without a file.

    Errors that our own validators raise pass through with their words; pydantic's are put into plain words,
    and those about names get the nearest name as a remedy.
    """
    path: tuple[str | int, ...] = problem["loc"]
    key, limits = _dotted(path, document), problem.get("ctx", {})
    cause = limits.get("error")
    if isinstance(cause, InputError):
        return cause.at("", key)
    if problem["type"] == "extra_forbidden":
        known = _keys_at(model, path[:-1])
        expected, remedy = f"one of the keys {', '.join(known)}", did_you_mean(path[-1], known)
        return InputError("", expected, str(path[-1]), remedy, key=key)
    if problem["type"] == "missing":
        return InputError("", "a value", "nothing", f"Add the key {path[-1]}", key=key)
    if problem["type"] == "model_type":
        expected = f"the keys {', '.join(_keys_at(model, path))}"
        return InputError("", expected, repr(problem["input"]), key=key)
    if problem["type"] == "union_tag_invalid":
        forms, deciding = limits["expected_tags"], limits["discriminator"].strip("'")
        remedy = _nearest(limits["tag"], forms)
        return InputError("", f"one of {forms}", repr(limits["tag"]), remedy, key=f"{key}.{deciding}")
    if problem["type"] == "literal_error":
        remedy = _nearest(problem["input"], limits["expected"])
        return InputError("", limits["expected"], repr(problem["input"]), remedy, key=key)
    return InputError("", _expected(problem), repr(problem["input"]), key=key)


def _nearest(found: object, quoted: str) -> str:
    """A remedy that suggests the nearest of the names that pydantic lists in quotes."""
    return did_you_mean(found, re.findall("'([^']*)'", quoted))


def _expected(problem: dict[str, Any]) -> str:
    """What the file should have, in plain words, from pydantic's description of the problem."""
    limits = problem.get("ctx", {})
    words = {
        "too_short": f"at least {limits.get('min_length')} entries",
        "too_long": f"at most {limits.get('max_length')} entries",
        "greater_than": f"more than {limits.get('gt')}",
        "greater_than_equal": f"at least {limits.get('ge')}",
        "less_than": f"less than {limits.get('lt')}",
        "less_than_equal": f"at most {limits.get('le')}",
        "finite_number": "a finite number",
        "invalid_key": "keys that are text",
        "string_pattern_mismatch": "a name of letters, digits, - and _, a letter first",
        "string_too_short": "a text that is not empty",
        "int_type": "a whole number",
        "float_type": "a number",
        "list_type": "a list",
        "tuple_type": "a list",
        "dict_type": "keys and values",
        "model_attributes_type": "keys and values",
        "string_type": "a text",
        "bool_type": "true or false",
        "union_tag_not_found": f"the key {limits.get('discriminator')} with the others",
    }
    message = str(problem["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")
    return words.get(problem["type"]) or message


def _names(model: type[BaseModel]) -> list[str]:
    """The keys of a section as a file writes them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _keys_at(model: type[BaseModel], path: tuple[str | int, ...]) -> list[str]:
    """The keys that the section at ``path`` of a document takes."""
    # A path may name a form of a section (a union's tag) where it has several, and indices of lists. Both
    # leave us at the same sections, unless the tag says which one it is.
    sections = [model]
    for part in path:
        fields = {
            field.alias or name: field for section in sections for name, field in section.model_fields.items()
        }
        if part in fields:
            sections = _sections_in(fields[str(part)].annotation)
        else:
            sections = [section for section in sections if part in _tags(section)] or sections
    return list(dict.fromkeys(name for section in sections for name in _names(section)))


def _tags(section: type[BaseModel]) -> set[object]:
    """The values of the key that tells this form of a section from its other forms."""
    return {value for field in section.model_fields.values() for value in get_args(field.annotation)}


def _sections_in(annotation: Any) -> list[type[BaseModel]]:
    """The models within an annotation such as ``list[LevelKeys] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _sections_in(argument)]


def _dotted(path: tuple[str | int, ...], document: Any) -> str:
    """``levels.SRAM.size`` for ``("levels", 1, "size")``: people look for names, not numbers.

    Where a section has several forms, pydantic names the one it took, which no key of the file is called.
    """
    # The document is followed along the path, because only it knows the names of list entries.
    parts: list[str] = []
    for depth, part in enumerate(path):
        if isinstance(document, dict) and part not in document and part in document.values():
            continue
        if not isinstance(part, int):
            document = document.get(part) if isinstance(document, dict) else None
            parts.append(part)
            continue
        document = document[part] if isinstance(document, list) and part < len(document) else None
        name = document.get("name") if isinstance(document, dict) else None
        named = isinstance(name, str) and path[depth + 1 :] != ("name",)
        parts.append(str(name) if named else f"[{part}]")
    return ".".join(parts).replace(".[", "[")
