"""The library of technologies, and loading one by its name."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.yaml.safe_yaml import load_yaml
from costmodel.formats.yaml.technology import technology_from_document
from costmodel.hardware.technology import Technology

FOLDER = Path(__file__).parents[1] / "hardware" / "technologies"


@cache
def technology_names() -> tuple[str, ...]:
    """The library's names, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


@cache
def load_technology(name: str) -> Technology:
    """The technology called ``name``; InputError with the names that there are."""
    if name not in technology_names():
        expected = f"one of {', '.join(technology_names())}"
        remedy = did_you_mean(name, technology_names())
        raise InputError("technology", expected, name, remedy, key="technology")
    return technology_from_document(load_yaml(FOLDER / f"{name}.yaml"), f"technology {name}")
