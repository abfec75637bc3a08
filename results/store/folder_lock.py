"""The lock that lets one process at a time write to a run folder."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

from results.errors import CannotWriteError, FolderInUseError


class FolderLock:
    """Holds ``FOLDER/.lock`` from construction to ``release``; the file names the holder's pid and host.

    The kernel's advisory lock decides, so a lock whose process died, however it died, is free again;
    the text only serves the message. Raises FolderInUseError when another process holds it.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / ".lock"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise CannotWriteError(
                folder, f"cannot write: {error.strerror}", "Choose another folder"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip()
            os.close(descriptor)
            raise FolderInUseError(
                folder,
                f"another run is writing here ({holder or error.strerror})",
                "Wait for it, end it, or give this run another folder",
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Free the lock; the file stays, because deleting it would race with the next holder."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None
