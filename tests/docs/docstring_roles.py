"""A Griffe extension: Sphinx's roles in docstrings (``:func:`run```) as plain code in the documentation."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([^`]*)`")


class PlainRoles(griffe.Extension):
    """Rewrites each docstring when it is collected; what a role names stays, in backticks."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = _ROLE.sub(r"`\1`", obj.docstring.value)
