"""Where benchmarks find their reference data: the part that is among the tests, or a folder with all of
it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter

ROOT = Path(__file__).resolve().parents[2]
TESTS_DATA = ROOT / "tests" / "data"


def input_paths(references: Path | None, scratch: Path) -> dict[str, Path]:
    """The folders and files that arguments name.

    ``references`` has the whole sets: ``timeloop/``, ``set/``, ``kapla/`` and ``graphs/`` (operator graphs).
    """
    data, whole = references or TESTS_DATA, references is not None
    return {
        "timeloop": data / "timeloop",
        "set": data / "set",
        "kapla": data / "kapla" / ("layer_optima.jsonl.gz" if whole else "layer_schemes.jsonl.gz"),
        "graphs": data / ("graphs" if whole else "scratchpad"),
        "packing": TESTS_DATA / "packing",
        "scratch": scratch,
    }


def shown(arguments: str, where: Mapping[str, Path]) -> str:
    """Arguments as a reader of the checkout would write them: files outside of it by their name."""
    written = {name: _relative(path) or name.upper() for name, path in where.items()}
    return arguments.format(**written)


def taken(arguments: str, words: Sequence[str] | None, where: Mapping[str, Path]) -> str:
    """The words of a run as a reader would write them: those of ``arguments`` if it took these.

    Else they are written one by one, paths by their last part; None: it was not run.
    """
    asked = shlex.split(arguments)
    if words is None or (len(asked) == len(words) and all(map(_is, asked, words))):
        return shown(arguments, where)
    return shlex.join(Path(word).name if word.startswith("/") else word for word in words)


def _is(asked: str, word: str) -> bool:
    """Whether a run's word is the one asked for; a file may be anywhere."""
    return asked == word or "{" in asked


def named(arguments: str) -> list[str]:
    """The names in braces that arguments have."""
    return [name for _, name, _, _ in Formatter().parse(arguments) if name]


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
