"""The attributes of a network's node: what it states besides its tensors, as axes, bounds and windows."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as ReadOnlyDict
from types import MappingProxyType
from typing import Any

from costmodel.errors import InputError

Plain = int | float | str | tuple["Plain", ...] | None
"""The value of an attribute: numbers, text and tuples of them; see :class:`Attributes` for None."""


class Attributes(ReadOnlyDict[str, Plain]):
    """The attributes of a node by their names in the file, frozen; lists become tuples.

    A name that is missing was not stated: the operator's default holds. A name with the value None was
    stated, but by a tensor whose values are known only when the network runs; the methods below refuse it.
    Operands that say where or in which shape (the starts of a slice, the shape of a reshape) are attributes
    too where they are constant.
    """

    __slots__ = ("_values",)

    def __init__(self, values: ReadOnlyDict[str, Any] = MappingProxyType({})) -> None:
        self._values = {key: _plain(value, key) for key, value in values.items()}

    def __getitem__(self, key: str) -> Plain:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"Attributes({self._values})"

    def number(self, key: str, default: int | None = None) -> int:
        """The whole number that is stated, else ``default``; InputError without either, or for None."""
        numbers = self.numbers(key, None if default is None else (default,))
        if len(numbers) != 1:
            raise InputError("", "one whole number", self.get(key), key=key)
        return numbers[0]

    def numbers(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """The whole numbers that are stated (one is a list of one), else ``default``.

        InputError where nothing is stated and there is no default, and for None.
        """
        if key not in self._values and default is not None:
            return default
        value = self._values.get(key)
        if value is None:
            found = "values known only when the network runs" if key in self._values else "nothing"
            remedy = f"State {key} as a constant in the file"
            raise InputError("", "whole numbers", found, remedy, key=key)
        numbers = value if isinstance(value, tuple) else (value,)
        whole = tuple(number for number in numbers if type(number) is int)
        if len(whole) != len(numbers):
            raise InputError("", "whole numbers", value, key=key)
        return whole

    def flat(self, key: str) -> list[int]:
        """The whole numbers of an array that is stated, row by row, whatever its axes; one is an array, too.

        InputError for anything else.
        """
        return list(_flat(self.get(key), key))

    def flag(self, key: str) -> bool:
        """Whether the attribute is stated as true or 1; InputError for what is neither true nor false."""
        value = self._values.get(key, False)
        if value not in (0, 1):
            raise InputError("", "true or false", value, key=key)
        return bool(value)

    def text(self, key: str, default: str) -> str:
        """The text that is stated, else ``default``; InputError for anything else."""
        value = self._values.get(key, default)
        if not isinstance(value, str):
            raise InputError("", "text", value, key=key)
        return value


def _flat(value: Plain, key: str) -> Iterator[int]:
    if isinstance(value, tuple):
        for item in value:
            yield from _flat(item, key)
    elif isinstance(value, int):
        yield value
    else:
        raise InputError("", "whole numbers", value, key=key)


def _plain(value: Any, key: str) -> Plain:
    if isinstance(value, list | tuple):
        return tuple(_plain(item, key) for item in value)
    if value is None or isinstance(value, int | float | str):
        return value
    raise InputError("", "numbers, text or lists of them", value, key=f"attrs.{key}")


NO_ATTRIBUTES = Attributes()
