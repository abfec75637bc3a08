"""Studies on hosts of tests whose solves wait for something; see held_draws/sitecustomize.py.

The rules: ``workers:N``: until N workers of the same Ray job have begun a solve; ``seed:N``: after N solves
with a seed, from `hold` to `let_go`.
"""

from __future__ import annotations

from pathlib import Path

from tests.clusters.processes import NO_LESS_URGENT, machine_code

_FOLDER = Path(__file__).parent / "held_draws"


def variables(rule: str, folder: Path) -> dict[str, str]:
    """What a host's environment needs for a rule; ``folder`` is empty and the same on all hosts.

    The host finds machine code that is compiled already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    held = {"ARCHSWEEP_TEST_HOLD": rule, "ARCHSWEEP_TEST_HELD": str(folder)}
    return {"PYTHONPATH": str(_FOLDER), **machine_code(), **NO_LESS_URGENT, **held}


def exports(rule: str, folder: Path) -> str:
    """The same as lines of a ``.bashrc``."""
    return "".join(f"export {name}={value}\n" for name, value in variables(rule, folder).items())


def hold(folder: Path, seed: int) -> None:
    """Solves with this seed wait from now on, after the first ones."""
    (folder / f"{seed}.held").touch()


def let_go(folder: Path, seed: int) -> None:
    (folder / f"{seed}.held").unlink()
