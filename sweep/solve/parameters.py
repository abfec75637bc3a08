"""What is given by name: a solver's parameters, values of a file, lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costmodel.errors import InputError
from solvers.catalogue import solver
from sweep.study.identity import checked_params


def solver_params(name: str, family: str, given: Mapping[str, Any]) -> Any:
    """The Params of a solver of ``family`` with the values that are ``given``, the others at their defaults.

    Raises InputError for a solver of another family, for unknown parameters and for values out of range.
    """
    solver(name, family)
    check_named_values("params", given)
    return checked_params(name, given)


def check_named_values(key: str, given: object) -> None:
    """InputError, with ``key`` as the place, for what is no mapping from names to values."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InputError(key, "names and their values, as a dict", given)
