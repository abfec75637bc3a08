"""Compiled code of the chip model is renewed when the functions change that become part of it."""

from __future__ import annotations

import hashlib
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import costmodel.chip

FOLDER = Path(costmodel.chip.__file__).parent


def inlined(module: ModuleType) -> set[str]:
    """The modules of the chip model that a kernel has functions or tuples of, directly or not."""
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    found = set(re.findall(r"from costmodel\.chip\.(\w+(?:_kernel|_values)) import", source))
    return found.union(*(inlined(import_module(f"costmodel.chip.{name}")) for name in found))


@pytest.mark.parametrize("name", ["leaf_kernel", "volumes_kernel"])
def test_kernels_change_with_what_they_inline(name: str) -> None:
    """numba keeps compiled code as long as the module's own file stays the same: put the new digest there."""
    module = import_module(f"costmodel.chip.{name}")
    sources = [(FOLDER / f"{other}.py").read_bytes() for other in sorted(inlined(module))]
    assert hashlib.sha256(b"".join(sources)).hexdigest()[:16] == module.INLINES
