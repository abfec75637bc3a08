"""Compiled code is renewed when the functions change that become part of it."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from costmodel import machine_code

IMPORTED = re.compile(r"from (costmodel\.[\w.]+(?:_kernel|_values)) import")


def inlined(module: ModuleType) -> set[str]:
    """The modules that a kernel has functions, constants or tuples of, directly or not."""
    found = set(IMPORTED.findall(source(module).decode()))
    return found.union(*(inlined(import_module(name)) for name in found))


def source(module: ModuleType) -> bytes:
    return Path(str(module.__file__)).read_bytes()


@pytest.mark.parametrize(
    "name",
    [
        "costmodel.schedule.leaf.kernels.leaf_kernel",
        "costmodel.schedule.leaf.kernels.volumes_kernel",
        "costmodel.published.set_isca2023.leaf.search_kernel",
        "costmodel.published.set_isca2023.nvdla_tile.mapper_kernel",
    ],
)
def test_machine_code_is_renewed_with_what_kernels_inline(name: str) -> None:
    """The digest of a kernel's source has the modules that its functions and constants come from."""
    module = import_module(name)
    assert inlined(module)
    assert inlined(module) <= machine_code._closure(name, Path(str(module.__file__))).keys()


def test_the_conventions_kernels_are_found_through_those_that_they_call() -> None:
    found = inlined(import_module("costmodel.published.set_isca2023.leaf.search_kernel"))
    assert {"costmodel.schedule.mesh.mesh_kernel", "costmodel.schedule.leaf.kernels.ranges_kernel"} < found


def test_machine_code_of_a_module_that_was_moved_is_renewed(tmp_path: Path) -> None:
    """Kept machine code names the modules of the types that it takes, which are not there any more then."""
    digests = set()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kernel.py").write_text("SIZE = 3\n", encoding="utf-8")
        digests.add(machine_code.source_digest(f"{name}.kernel", tmp_path / name / "kernel.py"))
    assert len(digests) == 2
