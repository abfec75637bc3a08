"""Compiled code of the chip models is renewed when the functions change that become part of it."""

from __future__ import annotations

import hashlib
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

IMPORTED = re.compile(r"from (costmodel\.(?:chip|conventions\.set_isca2023)\.\w+(?:_kernel|_values)) import")


def inlined(module: ModuleType) -> set[str]:
    """The modules that a kernel has functions, constants or tuples of, directly or not."""
    found = set(IMPORTED.findall(source(module).decode()))
    return found.union(*(inlined(import_module(name)) for name in found))


def source(module: ModuleType) -> bytes:
    return Path(str(module.__file__)).read_bytes()


@pytest.mark.parametrize(
    "name",
    [
        "costmodel.chip.leaf_kernel",
        "costmodel.chip.volumes_kernel",
        "costmodel.conventions.set_isca2023.leaf_kernel",
        "costmodel.conventions.set_isca2023.intra_tile_kernel",
    ],
)
def test_kernels_change_with_what_they_inline(name: str) -> None:
    """numba keeps compiled code as long as the module's own file stays the same: put the new digest there."""
    module = import_module(name)
    sources = [source(import_module(other)) for other in sorted(inlined(module))]
    assert hashlib.sha256(b"".join(sources)).hexdigest()[:16] == module.INLINES


def test_the_conventions_kernels_are_found_through_those_that_they_call() -> None:
    found = inlined(import_module("costmodel.conventions.set_isca2023.leaf_kernel"))
    assert {"costmodel.chip.mesh_kernel", "costmodel.chip.ranges_kernel"} < found
