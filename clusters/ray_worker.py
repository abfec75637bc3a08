"""The process at the other end: what an actor does with the calls it gets."""

from __future__ import annotations

import os
import pickle
import resource
import socket
from collections.abc import Iterator, Sequence

from clusters.execution import ItemReport, execute, load_work
from clusters.runtime import Failure

ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
)
"""A worker is one CPU: a library that starts a thread per core would take the other workers' time."""


class Worker:
    """Runs items one after the other. Loads the work first, so that imports are no item's time."""

    def __init__(self, work: bytes, memory_limit_bytes: int | None, prepare: bytes) -> None:
        """``prepare`` is a pickled function without arguments, which runs before the memory is limited.

        A library that is first imported below the limit fails to map its code, however little a solve takes.
        """
        os.environ.update(ONE_THREAD)
        self._work = load_work(work)
        if memory_limit_bytes is not None:
            if not isinstance(self._work, Failure):
                pickle.loads(prepare)()
            _limit_address_space(memory_limit_bytes)

    def identity(self) -> tuple[str, str]:
        """Name of this process for people, and Ray's id of the node it is on."""
        import ray

        return f"{socket.gethostname()}:{os.getpid()}", ray.get_runtime_context().get_node_id()

    def run(self, payloads: Sequence[bytes]) -> Iterator[ItemReport]:
        """A report for each payload, in order, each as soon as it is there."""
        for payload in payloads:
            yield execute(self._work, payload)


def _limit_address_space(additional: int) -> None:
    """Limit what may still be mapped: Ray's own shared memory is already gigabytes of address space."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + additional, hard))
