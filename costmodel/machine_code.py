"""Keeps machine code on disk under a digest of the source it was made of: equal checkouts compile once.

By itself numba keeps machine code beside the source, and renews it when the function's own file changes.
Then every fresh checkout, job folder and environment compiles anew, and a changed helper in another module
goes unnoticed. Here the folder is named by a digest of that file and of all modules of ours that it imports,
directly or not. Processors and versions of numba are told apart by numba's index in the folder.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numba.np.linalg
from numba import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

from costmodel import compilation

APPLICATION = "archsweep"
KEPT = "machine_code"
_DEFINITION = re.compile(r"^(?:@|class |def |async )", re.MULTILINE)
_IMPORT = re.compile(r"^(?:import|from|if)\b|;\s*(?:import|from)\b", re.MULTILINE)
UNUSED_DAYS = 60
"""Days without use after which machine code is removed; looked at when a new folder is made."""


def _leave_linear_algebra_for_later() -> None:
    """Import what numba needs before it loads any function, without scipy's BLAS and LAPACK.

    numba imports these on the way only to see that they are there, which takes longer than all of numba. They
    are: archsweep requires scipy. A function that uses them asks for them once more when it is compiled.
    """
    asked: Any = numba.np.linalg
    ensure, asked.ensure_blas = asked.ensure_blas, lambda: None
    try:
        asking: Any = import_module("numba.np.arraymath")
    finally:
        asked.ensure_blas = ensure
    asking.ensure_blas = ensure


_leave_linear_algebra_for_later()


class SourceLocator(_CacheLocator):
    """Tells numba in which folder to keep the machine code of a function, and when it is out of date."""

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
        """Make the folder, and set its time to now, by which unused ones are known. Errors: ``OSError``."""
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
    """numba's cache of one function, in the folder of :class:`SourceLocator`.

    Errors: ``RuntimeError`` where no folder can be written.
    """

    _impl_class = SourceCacheImpl

    @property
    def index(self) -> Path:
        """The file that says for which types of arguments, processors and numbas there is machine code."""
        return Path(self._file._index_path)  # noqa: SLF001 - numba has no other name for it

    def has(self, types: tuple[Any, ...], target: Any) -> bool:
        """Whether there is machine code for these types of arguments, on the processor of ``target``."""
        own: Any = self
        return own._index_key(types, target.codegen()) in self._file._load_index()  # noqa: SLF001

    @property
    def _file(self) -> Any:
        """Numba's own reader and writer of the index."""
        return self._cache_file


@cache
def source_digest(module: str, path: Path) -> str:
    """A digest (SHA-256) of all files of ours whose functions and constants a module's machine code may have.

    ``path`` is the module's own file. Names of modules count, too: machine code imports the types of its
    arguments by them.
    """
    found = sorted(_closure(module, path).items())
    sources = [part for name, source in found for part in (name.encode(), source.read_bytes())]
    return hashlib.sha256(b"\0".join(sources)).hexdigest()


def _closure(module: str, path: Path) -> dict[str, Path]:
    """The files, by module, of a module and of all that it imports, directly or not.

    Only modules of its own top-level package and of this one count. A module that is imported only for
    annotations counts too, because machine code depends on the fields of its arguments' types; what that
    module imports does not.
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
    """Names that a module imports to run, and names for annotations only: below ``if TYPE_CHECKING``."""
    body = _beginning(path.read_text(encoding="utf-8")).body
    blocks = (node for node in body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    return tuple(_names(body)), tuple(_names(line for block in blocks for line in block.body))


def _beginning(source: str) -> ast.Module:
    """The statements of a module before its first function or class; all, if anything is imported after it.

    Functions are most of a module, and every process that loads machine code reads a hundred modules.
    """
    first = _DEFINITION.search(source)
    if first is not None and not _IMPORT.search(source, first.start()):
        with suppress(SyntaxError):  # those words begin a line of the module's docstring
            return ast.parse(source[: first.start()])
    return ast.parse(source)


def _names(body: Iterable[ast.stmt]) -> Iterator[str]:
    """The imported names; of ``from a import b`` both a and a.b, which may be a module."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _ours(names: Iterable[str], tops: dict[str, Path]) -> dict[str, Path]:
    """The files of the ``names`` that are modules of the top-level packages ``tops``, name -> folder."""
    found = {}
    for name in names:
        folder = tops.get(name.partition(".")[0])
        module = folder and folder.joinpath(*name.split(".")[1:])
        for source in (module.with_suffix(".py"), module / "__init__.py") if module else ():
            if source.is_file():
                found[name] = source
    return found


def _top_folders(module: str, path: Path) -> dict[str, Path]:
    """Two folders by name: of this top-level package and of the module's own."""
    tops = {__name__.partition(".")[0]: Path(__file__).parent}
    if "." in module:
        tops.setdefault(module.partition(".")[0], path.parents[module.count(".") - 1])
    return tops


def kept_in() -> Path | None:
    """The folder that holds the folders of machine code; None where only the source's own can be written."""
    for folder in _folders(Path(__file__)):
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if folder.name == KEPT and os.access(folder, os.W_OK):
                return folder
    return None


def _remove_unused(folder: Path) -> None:
    """Remove the folders in ``folder`` that no process has used for UNUSED_DAYS."""
    oldest = time.time() - UNUSED_DAYS * 24 * 3600
    for kept in folder.glob("*"):
        with suppress(FileNotFoundError):  # another process does the same
            if kept.stat().st_mtime < oldest:
                shutil.rmtree(kept, ignore_errors=True)


def _folders(path: Path) -> Iterator[Path]:
    """Folders for machine code, best first: the one set for numba, the user's cache, beside the source.

    Where one is set for numba, no other is tried.
    """
    if asked := config.CACHE_DIR:  # type: ignore[attr-defined]
        yield Path(asked) / APPLICATION / KEPT
        return
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(home):
        yield Path(home) / APPLICATION / KEPT
    yield path.parent / "__pycache__"
