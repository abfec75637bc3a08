"""Keeps machine code on disk under a digest of the source it was made of: equal checkouts compile once.

By itself numba keeps it beside the source, by the content of the function's own file. Then every fresh
checkout, job folder and environment compiles anew, and a changed helper in another module goes unnoticed.
Here the folder is named by a digest of that file and of all modules of ours that it imports, directly or not.
numba's index tells processors and its own versions apart.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

from costmodel import compilation

APPLICATION = "archsweep"
KEPT = "machine_code"
UNUSED_DAYS = 60
"""Machine code of sources that no process has imported for so long is removed when new code comes."""


class SourceLocator(_CacheLocator):
    """Where numba keeps the machine code of a function, and what it is made of."""

    def __init__(self, function: Callable[..., Any], path: Path, folder: Path) -> None:
        self._folder = folder
        self._stamp = source_digest(function.__module__, path)
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> SourceLocator | None:
        """A locator for a function in a file; None where no folder can be written."""
        path = Path(py_file)
        if not path.is_file():
            return None
        for folder in _folders(path):
            locator = cls(py_func, path, folder)
            try:
                locator.ensure_cache_path()
            except OSError:
                continue
            return locator
        return None

    def ensure_cache_path(self) -> None:
        """Make the folder, and say that it is in use. Errors: ``OSError``."""
        folder = Path(self.get_cache_path())
        if self._folder.name == KEPT and not folder.is_dir():
            _remove_unused(self._folder)
        super().ensure_cache_path()  # type: ignore[no-untyped-call]
        os.utime(folder)

    def get_cache_path(self) -> str:
        return str(self._folder / self._stamp[:16])

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._line)


class SourceCacheImpl(CompileResultCacheImpl):
    """numba's own form of compiled functions, located by their source."""

    _locator_classes = [SourceLocator]  # type: ignore[list-item]  # noqa: RUF012 - as numba has it


class SourceCache(FunctionCache):
    """The machine code of one function. Errors: ``RuntimeError`` where no folder can be written."""

    _impl_class = SourceCacheImpl


@cache
def source_digest(module: str, path: Path) -> str:
    """A digest of all files of ours whose functions and constants may be in a module's machine code."""
    sources = [source.read_bytes() for _, source in sorted(_closure(module, path).items())]
    return hashlib.sha256(b"\0".join(sources)).hexdigest()


def _closure(module: str, path: Path) -> dict[str, Path]:
    """The module and all that it imports, directly or not, out of its own top-level package or of this one.

    What is imported only for annotations is part of it, for the fields of argument types, but not what that
    imports.
    """
    tops = _top_folders(module, path)
    found: dict[str, Path] = {module: path}
    annotating: dict[str, Path] = {}
    open_modules = [module]
    while open_modules:
        running, annotations = _imports(found[open_modules.pop()])
        annotating |= _ours(annotations, tops)
        for name, imported in _ours(running, tops).items():
            if name not in found:
                found[name] = imported
                open_modules.append(name)
    everything = annotating | found
    for apart in (__name__, compilation.__name__):  # where code is kept, and who is told, does not change it
        everything.pop(apart, None)
    return everything


@cache
def _imports(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a module imports to run, and only for annotations: below ``if TYPE_CHECKING``."""
    body = ast.parse(path.read_bytes()).body
    blocks = (node for node in body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    return tuple(_names(body)), tuple(_names(line for block in blocks for line in block.body))


def _names(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Names after ``import`` and ``from``; of ``from a import b`` also a.b, which may be a module."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _ours(names: Iterable[str], tops: dict[str, Path]) -> dict[str, Path]:
    """The files of those names that are modules of the top-level packages, whose folders are given."""
    found = {}
    for name in names:
        folder = tops.get(name.partition(".")[0])
        module = folder and folder.joinpath(*name.split(".")[1:])
        for source in (module.with_suffix(".py"), module / "__init__.py") if module else ():
            if source.is_file():
                found[name] = source
    return found


def _top_folders(module: str, path: Path) -> dict[str, Path]:
    """The folders of this top-level package and of the module's own."""
    tops = {__name__.partition(".")[0]: Path(__file__).parent}
    if "." in module:
        tops.setdefault(module.partition(".")[0], path.parents[module.count(".") - 1])
    return tops


def kept_in() -> Path | None:
    """The folder whose folders hold the machine code; None where none can be written beyond the source's."""
    for folder in _folders(Path(__file__)):
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if folder.name == KEPT and os.access(folder, os.W_OK):
                return folder
    return None


def _remove_unused(folder: Path) -> None:
    """Remove the code of sources that nobody has used lately."""
    oldest = time.time() - UNUSED_DAYS * 24 * 3600
    for kept in folder.glob("*"):
        with suppress(FileNotFoundError):  # another process does the same
            if kept.stat().st_mtime < oldest:
                shutil.rmtree(kept, ignore_errors=True)


def _folders(path: Path) -> Iterator[Path]:
    """Where machine code may be kept, best first: as asked for, the user's cache, beside the source."""
    if asked := config.CACHE_DIR:  # type: ignore[attr-defined]
        yield Path(asked) / APPLICATION / KEPT
        return
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(home):
        yield Path(home) / APPLICATION / KEPT
    yield path.parent / "__pycache__"
