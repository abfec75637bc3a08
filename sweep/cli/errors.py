"""What ends a command beside wrong input."""

from __future__ import annotations


class WorkFailedError(Exception):
    """A command went to its end without an answer."""
