"""``--solver`` and ``--params`` of the commands that solve one problem."""

from __future__ import annotations

import json
from typing import Any

from costmodel.errors import InputError
from solvers.catalogue import solver
from sweep.task import checked_params


def solver_params(name: str, family: str, text: str, **given: Any) -> Any:
    """The Params of a solver of ``family`` from a JSON object, and from options of their own, if ``given``.

    Raises InputError for a solver of another family, for what is no JSON object and for unknown parameters.
    """
    try:
        solver(name, family)
    except InputError as error:
        raise error.at("--solver") from None
    try:
        params = json.loads(text)
    except (ValueError, RecursionError) as error:  # the latter of hundreds of nested brackets
        raise InputError("--params", "a JSON object", text, str(error)) from None
    if not isinstance(params, dict):
        raise InputError("--params", "a JSON object", text)
    return checked_params(name, params | given)
