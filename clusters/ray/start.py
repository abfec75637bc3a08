"""What a worker's process runs first. It travels by value, so it needs nothing but Python until it has run.

Ray puts the driver's current folder, or a job's working directory, at the head of the workers' ``sys.path``.
A user's ``results.py`` there, or a folder ``results``, would be imported instead of the package.
A sub-driver is an actor, too.
"""

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any


class Start:
    """An actor that is a :class:`clusters.ray.worker.Worker`, once the work's ``packages`` are imported."""

    def __init__(
        self, packages: Sequence[str], work: bytes, memory_limit_bytes: int | None, prepare: bytes
    ) -> None:
        import_own(packages)
        from clusters.ray.worker import Worker

        self._worker = Worker(work, memory_limit_bytes, prepare)

    def identity(self) -> tuple[str, str, int]:
        return self._worker.identity()

    def run(self, payloads: Sequence[bytes]) -> Iterator[Any]:
        yield from self._worker.run(payloads)


class StartSubDriver:
    """An actor that is a :class:`clusters.ray.sub_driver.SubDriver`, once ``packages`` are imported."""

    def __init__(self, packages: Sequence[str], work: bytes, settings: bytes) -> None:
        import_own(packages)
        from clusters.ray.sub_driver import SubDriver

        self._sub_driver = SubDriver(work, settings)

    def identity(self) -> tuple[str, str, int]:
        return self._sub_driver.identity()

    def feed(self, workers: int) -> None:
        self._sub_driver.feed(workers)

    def run(self, payloads: Sequence[bytes]) -> Iterator[Any]:
        yield from self._sub_driver.run(payloads)


def import_own(packages: Sequence[str]) -> None:
    """Import the packages from where all of them are; folders that hold something else of a name come last.

    Raises ImportError that names the file in the way: where one of them is nowhere else, and where something
    else of a name was imported before this ran.
    """
    foreign = [folder for folder in sys.path if _in_the_way(folder, packages)]
    kept = [folder for folder in sys.path if folder not in foreign]
    sys.path[:] = kept
    importlib.invalidate_caches()
    try:
        imported = {name: importlib.import_module(name) for name in packages}
    except ModuleNotFoundError as error:
        ways = [way for folder in foreign if (way := _in_the_way(folder, packages))]
        if not ways:
            raise
        raise ModuleNotFoundError(
            f"{ways[0]} has the name of one of archsweep's packages, which are not installed here: rename it"
        ) from error
    finally:
        sys.path[:] = [*kept, *foreign]
    for name, module in imported.items():
        file = getattr(module, "__file__", None) or "a module without a file"
        home = os.path.dirname(os.path.dirname(file))
        if os.path.basename(file) != "__init__.py" or _in_the_way(home, packages):
            raise ImportError(
                f"{file} is imported already as {name}, the name of one of archsweep's packages: rename it"
            )


def _in_the_way(folder: str, packages: Sequence[str]) -> str:
    """The file or folder in ``folder`` that has a package's name, where not all packages are there; or ""."""
    candidates = [os.path.join(folder or os.getcwd(), name) for name in packages]
    if all(os.path.isfile(os.path.join(candidate, "__init__.py")) for candidate in candidates):
        return ""
    for candidate in candidates:
        for path in (f"{candidate}.py", candidate):
            if os.path.exists(path):
                return path
    return ""
