"""A memory of bounded size that keeps what is asked for."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")


class Remembered(Generic[KeyT, ValueT]):
    """Remembers up to ``most`` values by their keys; those that nobody asked for are forgotten first.

    There are two generations of up to ``most`` / 2 values. A value that is added, or asked for, is in the
    young one. When that is full it becomes the old one, and what was the old one until then is forgotten. So
    a search of many rounds keeps the parts that its trees still have, and a look-up costs little more than
    that of a dictionary.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._young: dict[KeyT, ValueT] = {}
        self._old: dict[KeyT, ValueT] = {}

    def get(self, key: KeyT) -> ValueT | None:
        """The value, or None where it is not remembered."""
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.add(key, found)
        return found

    def add(self, key: KeyT, value: ValueT) -> ValueT:
        """Remember a value, which is returned."""
        if len(self._young) >= self._most // 2:
            self._old, self._young = self._young, {}
        self._young[key] = value
        return value
