"""Finding the override that is to blame where a file is sound but makes no hardware with its overrides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from costmodel.errors import InputError, OverrideError

Hardware = TypeVar("Hardware")


def built_with(
    build: Callable[[Mapping[str, Any]], Hardware], overrides: Mapping[str, Any], where: str
) -> Hardware:
    """The hardware that ``build`` makes with ``overrides``; an InputError caused by one of them names it."""
    try:
        return build(overrides)
    except OverrideError:
        raise
    except InputError as error:
        raise _because_of(error, overrides, where, build) from None


def _because_of(
    error: InputError, overrides: Mapping[str, Any], where: str, build: Callable[[Mapping[str, Any]], object]
) -> InputError:
    """``error`` as an error of the override that causes it.

    Without this, an override of a size would raise an error about an area, which the user never wrote. The
    override to blame is the first without which ``build`` succeeds with all others. The error stays as it is
    where there is none: the file alone is wrong, or two overrides are wrong independently of each other.
    """
    for key in overrides:
        rest = {other: value for other, value in overrides.items() if other != key}
        try:
            build(rest)
        except InputError:
            continue
        expected = f"{error.expected} for {error.key}" if error.key else error.expected
        return OverrideError(f"override of {where}", expected, error.found, error.remedy, key=key)
    return error
