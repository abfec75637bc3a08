"""What can go wrong with stored results, each with what to do about it."""

from __future__ import annotations

from pathlib import Path


class ResultsError(Exception):
    """Base of this package's errors: ``where`` it happened, the ``problem`` and its ``remedy``."""

    def __init__(self, where: str | Path, problem: str, remedy: str) -> None:
        super().__init__(where, problem, remedy)
        self.where, self.problem, self.remedy = str(where), problem, remedy

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}. {self.remedy}"


class WrongRowError(ResultsError, ValueError):
    """A row does not fit its table: an unknown column, a missing one, or a value of the wrong type."""


class DamagedFileError(ResultsError):
    """A file of a run folder cannot be read: cut short, changed, or not one of ours."""


class CannotWriteError(ResultsError):
    """A run folder cannot be made or written to."""


class NotSentError(CannotWriteError):
    """Results are on this machine only: the URI that they are for has not taken them."""


class FolderInUseError(ResultsError):
    """Another live process is writing to the run folder."""


class UnsafeNameError(ResultsError, ValueError):
    """A store, a cluster or a file names a file that lies outside its folder, or that no folder can hold."""


class NotARunError(ResultsError):
    """A folder that was named as a run holds no results."""
