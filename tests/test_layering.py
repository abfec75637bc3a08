"""The house's arrows and walls, read from the imports (lazy ones too): who may import whom, and what."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ARROWS: dict[str, set[str]] = {
    "costmodel": set(),
    "clusters": set(),
    "results": set(),
    "solvers": {"costmodel"},
    "sweep": {"costmodel", "clusters", "results", "solvers"},
}
WALLS = {
    "ray|click|jsonschema": r"clusters/.*",
    "optuna": r"sweep/search/[^/]*",
    "ortools|highspy|cvxpy|clarabel|scipy": r"solvers/.+/.*",
    "sklearn": r"solvers/mapping/learned_annealing/.*",
    "onnx|google": r"costmodel/formats/(onnx/.*|torch_export/onnx_export\.py)",
    "timm|torch|torchvision|transformers": r"costmodel/formats/torch_export/.*",
    "networkx": r"costmodel/schedule/layer_graph/.*",
    "llvmlite|numba": r"costmodel/(compiled|machine_code|references|.*_kernel)\.py",
    "pandas": r"results/.*|archsweep\.py",  # the face names the type of a table
    "pyarrow|plotly|moocore": r"results/.*",
    "pydantic": r"(costmodel/(formats|published)|sweep)/.*",
    "typer|rich": r"sweep/cli/.*",
    "yaml": r"(costmodel/formats/(timeloop|yaml)|results|sweep)/.*",
}
EVERYWHERE = {"numpy", "_typeshed"}  # the latter is of type checkers alone
ROOMS = {
    "costmodel": (
        "workload",
        "hardware",
        "mapping",
        "scratchpad",
        "schedule",
        "replay",
        "formats",
        "published",
    ),
    "sweep": (
        "study",
        "tasks",
        "design",
        "blocks",
        "search",
        "forecast",
        "run",
        "solve",
        "silicon",
        "papers",
        "cli",
    ),
    "results": ("store", "front", "report", "explain"),
    "results.report.sections": ("which_design", "how_sure", "why_this_one", "what_next"),
    "costmodel.mapping": ("counts", "timing", "batch", "bounds", "fused"),
    "costmodel.schedule": (
        "boxes",
        "layer_graph",
        "tree",
        "mesh",
        "tile_counts",
        "whole_chip",
        "fused_groups",
        "leaf",
        "segment",
        "bounds",
        "program",
        "pe_mesh",
    ),
    "costmodel.schedule.layer_graph": ("reading",),
    "costmodel.formats": ("yaml", "json", "onnx", "cases", "timeloop", "machines", "directives"),
    "sweep.run": ("ledgers", "progress"),
    "sweep.cli": ("arguments", "evaluate", "solve", "measured", "jobs"),
    "solvers.mapping.thistle": ("convex", "nest", "search"),
}
"""The folders of a package in an order: each may import itself and those before it."""
DOOR_TO_PUBLISHED = "sweep/cli/evaluate/files.py", "costmodel.published.registration"
"""Who outside ``published`` imports from it, and the one module that it may."""
FACE = "archsweep.py"
"""What users import and the command starts with: it imports ours when asked, and no room imports it."""
FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in (FACE, *(f"{package}/**/*.py" for package in ARROWS))
    for path in ROOT.glob(pattern)
)
MODULES = {file.removesuffix(".py").removesuffix("/__init__").replace("/", "."): file for file in FILES}


def imports(tree: ast.AST, *, lazy: bool = True) -> Iterator[str]:
    """Dotted names that ``tree`` imports; without ``lazy`` only what runs when the module is imported."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif lazy or not _is_lazy(node):
            yield from _imported_by_call(node)
            yield from imports(node, lazy=lazy)


def _imported_by_call(node: ast.AST) -> Iterator[str]:
    """``import_module("ray")``: the wall holds for names in quotes as well."""
    if not isinstance(node, ast.Call):
        return
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called in ("import_module", "__import__"):
        for argument in node.args[:1]:
            if isinstance(argument, ast.Constant):
                yield str(argument.value)


def _is_lazy(node: ast.AST) -> bool:
    checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    return checking or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))


@cache
def parsed(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


@cache
def imported(file: str, *, lazy: bool = True) -> tuple[str, ...]:
    """The names that a file imports, as :func:`imports` finds them."""
    return tuple(imports(parsed(file), lazy=lazy))


def test_the_house_has_five_rooms_and_no_cupboard() -> None:
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == {*ARROWS, "tests"}
    assert [file for file in FILES if re.search(r"\b(utils?|common|helpers|misc)\b", file)] == []


@pytest.mark.slow
@pytest.mark.parametrize("package", ARROWS)
def test_arrows(package: str) -> None:
    barred = ARROWS.keys() - ARROWS[package] - {package}
    files = [file for file in FILES if file.startswith(f"{package}/")]
    wrong = [(file, name) for file in files for name in imported(file) if name.split(".")[0] in barred]
    assert files
    assert wrong == []


@pytest.mark.slow
def test_the_face_imports_nothing_of_ours_before_it_is_asked() -> None:
    first = {name.split(".")[0] for name in imported(FACE, lazy=False)}
    assert first <= sys.stdlib_module_names
    importing = [file for file in FILES if any(name.split(".")[0] == "archsweep" for name in imported(file))]
    assert importing == ["sweep/__main__.py"]


@pytest.mark.parametrize("libraries", WALLS)
def test_walls(libraries: str) -> None:
    inside = [
        file for file in FILES if any(re.fullmatch(libraries, name.split(".")[0]) for name in imported(file))
    ]
    assert [file for file in inside if not re.fullmatch(WALLS[libraries], file)] == []
    assert libraries != "optuna" or len(inside) <= 1


def test_every_library_has_a_wall() -> None:
    names = {name.split(".")[0] for file in FILES for name in imported(file)}
    libraries = names - ARROWS.keys() - {"archsweep"} - sys.stdlib_module_names - EVERYWHERE
    assert {name for name in libraries if not any(re.fullmatch(walled, name) for walled in WALLS)} == set()


@pytest.mark.parametrize("package", ROOMS)
def test_rooms_import_only_rooms_before_them(package: str) -> None:
    order = [f"{package}.{room}" for room in ROOMS[package]]
    assert all((ROOT / room.replace(".", "/") / "__init__.py").is_file() for room in order)
    wrong = [
        (file, name)
        for number, room in enumerate(order)
        for file in FILES
        if file.startswith(f"{room.replace('.', '/')}/")
        for name in imported(file)
        if name.startswith(tuple(f"{later}." for later in order[number + 1 :]))
    ]
    assert wrong == []


def test_what_published_tools_count_makes_no_number_of_ours() -> None:
    users = {
        (file, name)
        for file in FILES
        if not file.startswith("costmodel/published/")
        for name in imported(file)
        if name.startswith("costmodel.published")
    }
    file, module = DOOR_TO_PUBLISHED
    assert users == {(file, f"{module}.PUBLISHED_FILES")}


@pytest.mark.slow
def test_a_public_class_name_stands_once() -> None:
    names = Counter(
        node.name
        for file in FILES
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in names.items() if count > 1} == {"Params"}  # every solver has its own


def test_every_room_says_what_lives_there() -> None:
    silent = [
        file
        for file in FILES
        if file.endswith("/__init__.py") and len((ast.get_docstring(parsed(file)) or "").split()) < 8
    ]
    assert silent == []


def test_no_import_circles_lazy_and_type_checking_imports_included() -> None:
    graph = {
        module: {name if name in MODULES else name.rpartition(".")[0] for name in imported(file)}
        & MODULES.keys() - {module}
        for module, file in MODULES.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_lazy_imports_are_seen_and_told_apart() -> None:
    source = """
import numpy.linalg
from costmodel import errors
if TYPE_CHECKING:
    import plotly
try:
    import ray
except ImportError:
    pass
class A:
    import rich
    def f(self):
        from pandas import DataFrame
        return importlib.import_module("onnx").load("ray")
"""
    now = ["numpy.linalg", "costmodel.errors", "ray", "rich"]
    later = ["plotly", "pandas.DataFrame", "onnx"]
    assert list(imports(ast.parse(source), lazy=False)) == now
    assert sorted(imports(ast.parse(source))) == sorted(now + later)
