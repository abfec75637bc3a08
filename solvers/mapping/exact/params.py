"""What can be set about the exact mapper: the switches of its tricks, so that their worth can be measured."""

from __future__ import annotations

from dataclasses import dataclass, fields

from costmodel.errors import InputError


@dataclass(frozen=True)
class Params:
    """``dominance``: leave out loop orders that another order beats whatever the factors."""

    dominance: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, bool):
                raise InputError("exact", "true or false", value, key=field.name)
