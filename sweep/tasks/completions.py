"""From a runtime's completion to the columns of a results row that it decides."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

from clusters.runtime import Completion, Failure, WorkersUnavailableError
from results.store.schema.rows import AnswerRow
from sweep.tasks.mapping import VersionMismatchError


def check_environment(completion: Completion) -> None:
    """Raises WorkersUnavailableError for an error that any task would have on this worker."""
    error = completion.error
    if error is not None and is_of_environment(completion):
        raise WorkersUnavailableError(
            f"driver and workers differ: {error.message} (worker {completion.worker}). Install the same "
            "archsweep on every node, or send the code along with `archsweep submit`"
        )


def is_of_environment(completion: Completion) -> bool:
    """Whether it ended in an error that any task would have on this worker."""
    error = completion.error
    return error is not None and error.type in (VersionMismatchError.__name__, ModuleNotFoundError.__name__)


def answer_row(completion: Completion) -> AnswerRow:
    """The columns of a row that the solve decides; those of a failed row where it ended in an error."""
    row: AnswerRow = {"worker": completion.worker, "attempts": completion.attempts}
    if completion.error is None:
        # a worker sends one of AnswerColumns, as plain data
        return row | _made_now() | cast(AnswerRow, completion.value)
    error = completion.error
    spent: AnswerRow = {"wall_seconds": completion.wall_seconds, "cpu_seconds": completion.cpu_seconds}
    return row | failed_row(said(error)) | spent


def said(error: Failure) -> str:
    """The column ``error`` of a row whose solve ended in it."""
    return f"{error.type}: {error.message}"


def failed_row(error: str) -> AnswerRow:
    """The columns of a row whose solve failed, or could not begin, for this reason."""
    return {"status": "failed", "error": error, **_made_now()}


def _made_now() -> AnswerRow:
    return {"cached": False, "finished_at": datetime.now(UTC)}
