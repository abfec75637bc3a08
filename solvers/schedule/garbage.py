"""Python's search for garbage during a search for schedules."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_rarely() -> Iterator[None]:
    """Let Python look for garbage a hundred times less often.

    Searches leave behind no values that refer to one another in circles, and evaluators remember much:
    looking through all of that took a fifth of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(100 * before[0], *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
