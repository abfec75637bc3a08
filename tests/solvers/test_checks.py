"""What users set in Params: solvers of these families refuse values of another kind, by name."""

from __future__ import annotations

from dataclasses import fields
from math import inf, nan
from typing import Any

import pytest

from costmodel.errors import InputError
from solvers.catalogue import CATALOGUE, Entry
from solvers.checks import is_number, is_whole

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


def test_numbers_are_finite_within_their_range_and_no_truth_values() -> None:
    assert all(is_number(value, 0, inf) for value in (0, 1.0, 1e300))
    assert not any(is_number(value, 0, inf) for value in (True, nan, inf, -0.1, "1", None))
    assert is_whole(3, 3)
    assert not any(is_whole(value, 0) for value in (True, 1.0, "1", None, -1))
