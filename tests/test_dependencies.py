"""pyproject.toml declares what our code imports, for each way to install: plain, ``[learned]``, ``[test]``.

What another library happens to bring along today is no declaration: it may leave it out tomorrow.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGES = ("costmodel", "solvers", "sweep", "clusters", "results")
LEARNED = "solvers/mapping/learned_annealing"
EXPORT = "costmodel/formats/torch_export"
"""The exporter of library networks, which is run once by hand, in an environment that has PyTorch."""
STATEMENT = "solvers/mapping/thistle/convex/disciplined.py"
"""A program to read, which only tests and benchmarks run: it needs CVXPY."""
NOWHERE = {"no_such_package_at_all"}
"""What a test imports because nobody has it."""
PRIVATE = {
    "clusters/deployment/schema.py: ray.autoscaler._private.util",
    "costmodel/machine_code.py: numba.core.caching",
}
"""The checks that ``ray up`` begins with, and how numba keeps machine code: neither has a public way."""


def declared(*extras: str) -> set[str]:
    """Names of the distributions that an installation with these extras asks for itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"]]
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    found = [Requirement(line) for line in lines]
    inner = {extra for one in found if one.name == project["name"] for extra in one.extras}
    names = {canonicalize_name(one.name) for one in found if one.name != project["name"]}
    return names | (declared(*inner) if inner else set())


def python_of(file: Path) -> str:
    """The file's Python: of Markdown its blocks."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return text
    return "\n".join(map(textwrap.dedent, re.findall(r"```python\n(.*?)```", text, re.DOTALL)))


@cache
def import_statements(file: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """All of a file, also those within functions."""
    nodes = ast.walk(ast.parse(python_of(file)))
    return tuple(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))


def imported(files: Iterable[Path]) -> dict[str, str]:
    """Top-level names that the files import from others than themselves and Python, each with one file."""
    found: dict[str, str] = {}
    for file in files:
        for node in import_statements(file):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names = [node.module]
            found |= {name.partition(".")[0]: file.relative_to(ROOT).as_posix() for name in names}
    ours = {path.stem for path in (*ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/**/*.py"))}
    ours |= {path.name for path in ROOT.glob("benchmarks/*/")} | {*PACKAGES, "archsweep"}
    ours |= {"tests", "benchmarks"}
    return {name: file for name, file in found.items() if name not in ours | set(sys.stdlib_module_names)}


def product(extra: str | None) -> list[Path]:
    """Modules that need this extra; those that need none for None."""
    files = [ROOT / "archsweep.py"]
    files += [path for package in PACKAGES for path in ROOT.glob(f"{package}/**/*.py")]
    files.remove(ROOT / STATEMENT)
    folders = {"learned": LEARNED, "export": EXPORT}
    if extra is not None:
        return [path for path in files if path.is_relative_to(ROOT / folders[extra])]
    return [path for path in files if not any(path.is_relative_to(ROOT / one) for one in folders.values())]


def users_of_the_test_variant() -> list[Path]:
    folders = [path for folder in ("tests", "benchmarks", "docs") for path in ROOT.glob(f"{folder}/**/*.py")]
    return [*folders, ROOT / STATEMENT, *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]


VARIANTS = {
    "plain": (product(None), ()),
    "learned": (product("learned"), ("learned",)),
    "export": (product("export"), ("export",)),
    "test": (users_of_the_test_variant(), ("test",)),
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_imported_is_declared(variant: str) -> None:
    files, extras = VARIANTS[variant]
    names, providers = imported(files), packages_distributions()
    known = declared(*extras)
    missing = {
        name: file
        for name, file in names.items()
        if name not in NOWHERE
        # what is not installed here, as PyTorch, is provided by the distribution of its own name
        and not known & {canonicalize_name(one) for one in providers.get(name, (name,))}
    }
    assert len(files) > 1
    assert names
    assert missing == {}


@pytest.mark.slow
def test_what_is_declared_for_users_is_imported() -> None:
    providers = packages_distributions()
    names = imported([*product(None), *product("learned")])
    used = {canonicalize_name(one) for name in names for one in providers.get(name, ())}
    assert declared("learned") - used == set()


@pytest.mark.slow
def test_no_private_module_of_a_library_is_imported() -> None:
    """Private attributes are ruff's (SLF)."""
    found = {
        f"{path.relative_to(ROOT).as_posix()}: {node.module}"
        for path in (*product(None), *product("learned"), *product("export"))
        for node in import_statements(path)
        if isinstance(node, ast.ImportFrom)
        and node.module
        and any(part.startswith("_") for part in (*node.module.split("."), *(n.name for n in node.names)))
        and node.module != "__future__"
    }
    assert found == PRIVATE


def test_extras_are_followed() -> None:
    assert declared() < declared("learned") < declared("test")
    assert declared() < declared("export")
