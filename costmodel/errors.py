"""The errors that a user sees when something they wrote cannot be used."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Wrong input: the message says where, what was expected, what was found and what to do about it.

    Raised before any work starts; the command line prints the message and exits with status 2.
    """

    def __init__(self, where: str, expected: str, found: object, remedy: str = "", *, key: str = "") -> None:
        self.where, self.key, self.expected, self.found, self.remedy = where, key, expected, found, remedy
        at = f"{where}: {key}" if key else where
        message = f"{at}: expected {expected}, found {_shown(found)}"
        super().__init__(f"{message}. {remedy}" if remedy else message)

    def at(self, where: str, key: str = "") -> InputError:
        """The same error with the file, and a key to put before its own, that only a caller knows."""
        inner = ".".join(part for part in (key, self.key) if part).replace(".[", "[")
        return InputError(where, self.expected, self.found, self.remedy, key=inner)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self.where, self.expected, self.found, self.remedy, self.key)


class OverrideError(InputError):
    """A value that should replace one of a file is wrong, or its ``key`` is none of the file's.

    The file is not at fault: a caller that knows where the value is written, such as in a study's axes, says
    so with :meth:`at`.
    """


class NotFoundError(InputError):
    """A name that is neither in a library nor a file that can be read; ``found`` is the name."""


def did_you_mean(found: object, known: Iterable[str], cutoff: float = 0.6, most: int = 1) -> str:
    """A remedy that names up to ``most`` of the ``known`` names like ``found``; empty if there is none.

    Upper and lower case do not matter; ``cutoff`` is the least similarity, from 0 to 1.
    """
    by_folded = {name.casefold(): name for name in known}
    near = get_close_matches(str(found).casefold(), by_folded, most, cutoff)
    return f"Did you mean {' or '.join(by_folded[name] for name in near)}?" if near else ""


def _rebuilt(
    kind: type[InputError], where: str, expected: str, found: object, remedy: str, key: str
) -> InputError:
    return kind(where, expected, found, remedy, key=key)


def _shown(found: object, longest: int = 120) -> str:
    text = found if isinstance(found, str) and found.strip() else repr(found)
    return text if len(text) <= longest else text[: longest - 3] + "..."
