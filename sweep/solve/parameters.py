"""The parameters of a solver that one problem is given to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solvers.catalogue import solver
from sweep.study.identity import checked_params


def solver_params(name: str, family: str, given: Mapping[str, Any]) -> Any:
    """The Params of a solver of ``family`` with the values that are ``given``, the others at their defaults.

    Raises InputError for a solver of another family, for unknown parameters and for values out of range.
    """
    solver(name, family)
    return checked_params(name, given)
