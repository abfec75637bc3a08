"""How long modules and functions are, against the design's guidance; run as a program it prints that."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

HOUSE = Path(__file__).parents[1]
PACKAGES = ("costmodel", "solvers", "sweep", "clusters", "results")
COMMANDS = "sweep/command_line"
"""Where a parameter is an option of a command: typer wants them side by side."""


def modules() -> dict[str, str]:
    """The text of every module, by its path in the house."""
    paths = (path for package in PACKAGES for path in sorted((HOUSE / package).rglob("*.py")))
    return {str(path.relative_to(HOUSE)): path.read_text(encoding="utf-8") for path in paths}


def functions(text: str) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))


def lines(function: ast.FunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters(function: ast.FunctionDef) -> int:
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return sum(one.arg not in ("self", "cls") for one in every)


def test_modules_and_functions_are_as_long_as_the_design_says() -> None:
    found = modules()
    sizes = [len(text.splitlines()) for text in found.values()]
    every = [(path, function) for path, text in found.items() for function in functions(text)]
    lengths = [lines(function) for _, function in every]
    assert 80 <= median(sizes) <= 150
    assert sum(size > 350 for size in sizes) <= len(sizes) // 100
    assert 5 <= median(lengths) <= 8
    assert quantiles(lengths, n=10)[-1] < 30
    assert max(lengths) <= 80
    many = [f"{path}: {one.name}" for path, one in every if parameters(one) > 6 and COMMANDS not in path]
    assert len(many) <= 3, many


def main() -> None:
    found = modules()
    sizes = sorted(len(text.splitlines()) for text in found.values())
    lengths = sorted(lines(function) for text in found.values() for function in functions(text))
    under = sum(length < 30 for length in lengths) / len(lengths)
    print(f"modules: {len(sizes)}, median {median(sizes):g} lines, longest {sizes[-1]}")
    print(f"functions: {len(lengths)}, median {median(lengths):g}, longest {lengths[-1]}")
    print(f"functions under 30 lines: {under:.1%}")


if __name__ == "__main__":
    main()
