"""Checks of values that a request states by name: a solver's parameters, overrides of a file, lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costmodel.errors import InputError
from solvers.catalogue import solver
from sweep.study.identity import checked_params


def solver_params(name: str, family: str, given: Mapping[str, Any]) -> Any:
    """The Params of a solver of ``family`` with the values in ``given`` and defaults for the others.

    Raises InputError for a solver of another family, for unknown parameters and for values out of range.
    """
    solver(name, family)
    check_named_values("params", given)
    return checked_params(name, given)


def check_named_values(key: str, given: object) -> None:
    """InputError, naming ``key``, unless ``given`` is a dict from names to values."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InputError(key, "names and their values, as a dict", given)
