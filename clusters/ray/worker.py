"""What runs in a worker process: it runs the items of the calls it gets. With a memory limit it prepares
first."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clusters.execution import ItemReport, execute, load_preparation, load_work, worker_name
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


HEADROOM_BYTES = 192 << 20
"""What the memory limit must leave for items once the worker is prepared.

A library that starts one thread reserves 136 MiB of address space on Linux, however little it computes: 8 for
the thread's stack, and 128 to find an aligned heap of 64 in. The other 56 are for the smallest problems.
"""


class Identity(NamedTuple):
    """A worker's name for people, Ray's id of its node, and what it took before its first item.

    ``taken_bytes`` is address space beyond that of an idle worker; 0 where no memory limit was set.
    """

    name: str
    node: str
    taken_bytes: int


class Worker:
    """Runs items one after the other. Loads the work first, so that imports are no item's time."""

    def __init__(self, work: bytes, memory_limit_bytes: int | None, prepare: bytes) -> None:
        """``prepare`` is a pickled function without arguments, which runs before the memory is limited.

        Without a limit it does not run, and the first solve compiles what it needs.

        A library that is first imported below the limit fails to map its code, however little a solve takes.
        A limit that leaves less than HEADROOM_BYTES is not set; the caller refuses it by :meth:`identity`.
        """
        os.environ.update(ONE_THREAD)
        idle = _mapped_bytes()
        self._work = load_work(work)
        self._taken = 0
        if memory_limit_bytes is not None:
            if not isinstance(self._work, Failure):
                load_preparation(prepare)()
            self._taken = max(0, _mapped_bytes() - idle)
            if self._taken + HEADROOM_BYTES <= memory_limit_bytes:
                _limit_address_space(idle + memory_limit_bytes)

    def identity(self) -> Identity:
        """Who this is, once it is prepared."""
        import ray

        return Identity(worker_name(), ray.get_runtime_context().get_node_id(), self._taken)

    def run(self, payloads: Sequence[bytes]) -> Iterator[ItemReport]:
        """A report for each payload, in order, each as soon as it is there."""
        for payload in payloads:
            yield execute(self._work, payload)


def _mapped_bytes() -> int:
    """Address space of this process; of an idle worker it is gigabytes, most of them Ray's shared memory."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


def _limit_address_space(most: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
