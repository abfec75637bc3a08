"""``--solver`` and ``--params`` of the commands that solve one problem."""

from __future__ import annotations

import json
from typing import Any

from costmodel.errors import InputError
from solvers.catalogue import solver


def stated_params(name: str, family: str, text: str) -> dict[str, Any]:
    """What ``--params`` says for a solver of ``family``, a JSON object; its keys are not looked at yet.

    Raises InputError for a solver of another family and for what is no JSON object.
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
    return params
