"""The machine code of solvers, which two processes compile sooner than one."""

from __future__ import annotations

import signal

from costmodel.divided_compiling import Part, compile_divided
from costmodel.hardware.architecture import Architecture
from solvers.catalogue import solver


def code_of(name: str, architecture: Architecture) -> tuple[Part, ...]:
    """What the solver ``name`` compiles in parts for a machine like ``architecture``: its module's ``code``.

    A solver without ``code`` compiles while it solves.
    """
    module = solver(name).load()
    return tuple(module.code(architecture)) if hasattr(module, "code") else ()


def help_to_compile(name: str, architecture: Architecture) -> None:
    """What a process of its own does: compile the parts that nobody compiles yet.

    Ctrl-C is left to the process that it helps, which ends this one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    compile_divided(code_of(name, architecture))
