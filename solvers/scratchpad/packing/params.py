"""What the packing solver can be told."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.errors import InputError


@dataclass(frozen=True)
class Params:
    """Switches of the packing solver."""

    greedy: bool = True
    """First place buffers one by one in a few orders, each as low as it fits."""
    restarts: bool = True
    """Cut searches short and start again with ranks of another kind; off: one search to its end."""

    def __post_init__(self) -> None:
        for name in ("greedy", "restarts"):
            if not isinstance(getattr(self, name), bool):
                raise InputError("packing", "true or false", getattr(self, name), key=name)
