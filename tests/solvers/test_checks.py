"""What users set in Params: solvers of these families refuse values of another kind, by name."""

from __future__ import annotations

from dataclasses import fields
from math import nan
from typing import Any

import pytest

from costmodel.errors import InputError
from solvers.catalogue import CATALOGUE, Entry

FAMILIES = ("mapping", "codesign", "scratchpad", "schedule", "tile", "fusion")
WRONG: dict[str, tuple[Any, ...]] = {
    "bool": ("yes", 1, None),
    "int": ("7", 2.5, True, -1),
    "float": ("0.5", True, nan, -1.0),
}


@pytest.mark.parametrize(
    "entry", [e for e in CATALOGUE if e.family in FAMILIES], ids=lambda entry: entry.name
)
def test_every_parameter_refuses_values_of_another_kind(entry: Entry) -> None:
    params_type = entry.load().Params
    for field in fields(params_type):
        for value in WRONG.get(str(field.type), ()):
            with pytest.raises(InputError, match=field.name):
                params_type(**{field.name: value})
