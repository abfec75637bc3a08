"""Texts and hashes that are equal for equal content, and checked parameters of solvers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping as ReadOnlyDict
from math import isfinite
from typing import Any

from costmodel.errors import InputError, did_you_mean
from solvers.catalogue import solver


def canonical_json(data: Any) -> str:
    """One text for equal data: sorted keys, no spaces, shortest floats; NaN and infinities are refused."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def content_hash(data: Any) -> str:
    """128 bits of SHA-256 over the canonical JSON, as 32 hexadecimal digits."""
    return text_hash(canonical_json(data))


def text_hash(text: str) -> str:
    """:func:`content_hash` of data whose canonical JSON is ``text``."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def with_tolerance(params: ReadOnlyDict[str, Any], tolerance: float | None) -> dict[str, Any]:
    """Parameters of a solver, and among them the tolerance that was stated beside them, unless it is None.

    A tolerance has a key of its own in studies and an option on the command line, but a solver takes it as a
    parameter like any other.
    """
    return dict(params) if tolerance is None else {**params, "tolerance": tolerance}


def checked_params(solver_name: str, given: ReadOnlyDict[str, Any]) -> Any:
    """The solver's Params with the values in ``given``, which a study or command line states.

    Raises InputError for a parameter that the solver lacks, and for a value that is out of its range.
    """
    entry = solver(solver_name)
    params_type = entry.load().Params
    known = list(params_type.__dataclass_fields__)
    if unknown := sorted(set(given) - set(known)):
        expected = f"parameters of {solver_name} among {', '.join(known)}"
        remedy, key = did_you_mean(unknown[0], known), f"params.{unknown[0]}"
        raise InputError(entry.family, expected, unknown[0], remedy, key=key)
    for key, value in given.items():
        if isinstance(value, float) and not isfinite(value):
            raise InputError(entry.family, "a finite number", value, key=f"params.{key}")
    try:
        return params_type(**given)
    except TypeError as error:
        raise InputError(
            entry.family, f"parameters that {solver_name} takes", str(error), key="params"
        ) from None
