"""Connecting to Ray quietly and quickly, and ending only what was started here."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from clusters.runtime import WorkersUnavailableError

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # the death of a worker is a completion or a retry here; Ray would print it on stdout, where results go
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".*",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_enable_metrics_collection": "0",
}

LOGGING: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}

KNOCK_SECONDS = 10.0
"""How long a cluster's port may take to answer."""

OBJECT_STORE_BYTES = 256 << 20
"""Shared memory of a local cluster: results are small and travel inside the replies."""


class RaySession:
    """A connection to Ray: the process's own if there is one, a cluster by address, else a new local one.

    Without an address that of RAY_ADDRESS counts. ValueError for an address where the process is connected
    already.
    """

    def __init__(self, address: str, workers: int | None) -> None:
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        if not (address or os.environ.get("RAY_ADDRESS")):
            _require_token()
        import ray

        self.ray: ModuleType = ray
        self._connected_here = not ray.is_initialized()
        if address and not self._connected_here:
            raise ValueError(f"this process is connected to Ray already; it cannot connect to {address} too")
        self._previous_sigterm = signal.getsignal(signal.SIGTERM)
        if self._connected_here:
            self._connect(address or os.environ.get("RAY_ADDRESS", ""), workers)

    def _connect(self, address: str, workers: int | None) -> None:
        try:
            if address:
                _knock(address)
            self.ray.init(**({"address": address} if address else _local(workers)), **LOGGING)
        except ConnectionError as error:
            raise WorkersUnavailableError(
                f"no Ray cluster can be used at {address or 'this machine'}: check the address (host:port, "
                f"as `ray start --head` prints it) and RAY_AUTH_TOKEN, if it wants one; {error}"
            ) from error
        except RuntimeError as error:
            if "version mismatch" not in str(error).lower():
                raise
            raise WorkersUnavailableError(
                f"the cluster at {address} has another Ray or Python than this process: {error}"
            ) from error
        finally:
            self._restore_sigterm()

    def _restore_sigterm(self) -> None:
        """ray.init takes SIGTERM over; a handler of the caller's comes first, the bare default does not."""
        if self._previous_sigterm is not signal.SIG_DFL and _in_main_thread():
            signal.signal(signal.SIGTERM, self._previous_sigterm)

    def close(self) -> None:
        if self._connected_here:
            self._connected_here = False
            self.ray.shutdown()
            if _in_main_thread():
                signal.signal(signal.SIGTERM, self._previous_sigterm)


@contextmanager
def signals_pass() -> Iterator[None]:
    """What a signal handler raises during a call to Ray arrives as the cause of a SystemError: unwrap it."""
    try:
        yield
    except SystemError as error:
        if error.__cause__ is not None:
            raise error.__cause__ from None
        raise


def _knock(address: str) -> None:
    """Raise ConnectionError if nothing listens at host:port: Ray would try for a quarter of an hour.

    Also for ``ray://`` and for a port that is no number. An address without a port, "auto", is not asked.
    """
    if "://" in address:
        raise ConnectionError("a client address (ray://) cannot be used: run on the cluster, or submit a job")
    host, colon, port = address.rpartition(":")
    if not colon:
        return
    if not port.isdecimal():
        raise ConnectionError(f"the port is {port!r}, no number")
    try:
        socket.create_connection((host.strip("[]"), int(port)), KNOCK_SECONDS).close()
    except OSError as error:
        raise ConnectionError(str(error)) from error


def _local(workers: int | None) -> dict[str, Any]:
    return {
        # never join a cluster that happens to run on this machine
        "address": "local",
        "num_cpus": workers,
        "include_dashboard": False,
        "object_store_memory": OBJECT_STORE_BYTES,
    }


def _require_token() -> None:
    """Ray listens on every interface and whoever reaches it runs code here: ask for a secret of this process.

    Ray reads this once, when it is imported, so it stays for the life of the process and a Ray that was
    imported before keeps its own mode. Settings of the user's come first.
    """
    if "RAY_AUTH_MODE" not in os.environ and "ray" not in sys.modules:
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
