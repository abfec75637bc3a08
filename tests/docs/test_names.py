"""What the documentation calls by a name of the code is there: modules, files, classes, columns."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from results.store.schema.tables import TABLES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGES = ("clusters", "costmodel", "results", "solvers", "sweep")
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.parent.name != "reference")
_DOTTED = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`")
_FILE = re.compile(rf"`((?:{'|'.join((*PACKAGES, 'tests', 'benchmarks'))})/[\w./-]*)`")


_NAME = re.compile(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`")
ELSEWHERE = {
    "docs/kapla.md": {"spatial_layer_pipe", "temporal_layer_pipe"},
    "docs/thistle.md": {"conv6_2"},
    "docs/timeloop.md": {"C4", "factors_only", "maximize_dims", "no_reuse", "read_", "write_"},
}
"""Names of papers and of Timeloop, which no code of ours has."""


def classes() -> set[str]:
    """The names of all classes of the product."""
    files = [path for package in PACKAGES for path in ROOT.glob(f"{package}/**/*.py")]
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in files)
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def resolves(dotted: str) -> bool:
    """Whether a dotted name is that of a module, or of something in one."""
    module = dotted
    rest: list[str] = []
    while not is_module(module):
        module, _, last = module.rpartition(".")
        rest.insert(0, last)
    thing = import_module(module)
    for name in rest:
        known = {**getattr(thing, "__annotations__", {}), **getattr(thing, "__dataclass_fields__", {})}
        if not hasattr(thing, name):
            return name in known and name == rest[-1]
        thing = getattr(thing, name)
    return True


def is_module(name: str) -> bool:
    parent = name.rpartition(".")[0]
    if parent and not (is_module(parent) and hasattr(import_module(parent), "__path__")):
        return False
    return find_spec(name) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_names_of_the_code_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [name for name in _DOTTED.findall(text) if not (name.endswith(".py") or resolves(name))] == []
    assert [name for name in _FILE.findall(text) if not (ROOT / name).exists()] == []


@cache
def written() -> frozenset[str]:
    """All words of the product, of its files and of benchmarks."""
    patterns = [
        f"{package}/**/*.{ending}" for package in (*PACKAGES, "benchmarks") for ending in ("py", "yaml")
    ]
    paths = [ROOT / "archsweep.py", *(path for pattern in patterns for path in ROOT.glob(pattern))]
    paths += [*DOCS.glob("guides/*/*"), *ROOT.glob("tests/data/**/README.md")]
    return frozenset(word for path in paths for word in re.findall(r"\w+", path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_single_words_in_code_are_of_the_code(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    names = {name.rpartition(".")[2] for name in _NAME.findall(text)}
    assert names - written() == ELSEWHERE.get(page.relative_to(ROOT).as_posix(), set())


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_examples_import_what_is_there(page: Path) -> None:
    text = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    imported = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    names = [f"{node.module}.{name.name}" for node in imported for name in node.names]
    assert [name for name in names if name.startswith(PACKAGES) and not resolves(name)] == []


def test_names_that_are_not_there_are_found() -> None:
    assert resolves("costmodel")
    assert not resolves("costmodel.no_such_module")
    assert not resolves("results.store.schema.tables.no_such_name")
    assert not resolves("results.store.schema.tables.TABLES.no_such_name")


@pytest.mark.slow
def test_the_glossary_names_classes_and_columns_that_are_there() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]*)\| ([^|]*)\|$", text, re.MULTILINE)
    words = [word for word, _, _ in rows if word not in ("word", "---")]
    columns = {column.name for table in TABLES.values() for column in table.columns}
    assert len(words) == len(set(words))
    assert len(words) > 50
    assert {name for _, named, _ in rows for name in re.findall("`(\\w+)`", named)} <= classes()
    assert {name for _, _, named in rows for name in re.findall("`(\\w+)`", named)} <= columns
