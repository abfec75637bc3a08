"""Presets: what the settings of a solver are that nobody states, in our way or in its paper's."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from enum import Enum
from typing import Any, Literal

from solvers.checks import check_choices

Preset = Literal["archsweep", "paper"]


class _Unsaid(Enum):
    """A value of no other kind: a setting that a file states as null is refused, not taken as unstated."""

    BY_PRESET = "as the preset says"


BY_PRESET: Any = _Unsaid.BY_PRESET
"""Stands for a setting that nobody states; a Params that has been built has none."""


def fill_in(where: str, params: Any, presets: ReadOnlyDict[str, ReadOnlyDict[str, Any]]) -> None:
    """Give each unstated setting of ``params``, which is being built, what its ``preset`` says.

    InputError of the solver ``where`` for a preset that there is not.
    """
    check_choices(where, params, {"preset": Preset})
    for key, value in presets[params.preset].items():
        if getattr(params, key) is BY_PRESET:
            object.__setattr__(params, key, value)
