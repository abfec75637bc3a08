"""The frozen answers: where they stand, and what is wrong when they are not what the code answers now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from costmodel import MODEL_VERSION
from solvers.catalogue import solver
from tests.solvers.golden import cases, counts

ANSWERS = Path(__file__).parent / "answers.json"
COST_MODEL = "cost model"
NAMES = (COST_MODEL, *cases.SOLVERS)


def now(name: str, every: int = 1) -> dict[str, Any]:
    """The version and the answers of a solver, or the counts of the cost model, as they are now.

    Of a solver it may be each ``every``-th of its cases, which takes a part of the time.
    """
    if name == COST_MODEL:
        return {"version": MODEL_VERSION, "answers": counts.counted()}
    return {"version": solver(name).load().VERSION, "answers": cases.answers(name, every)}


def frozen() -> dict[str, dict[str, Any]]:
    """All that is frozen, by :data:`NAMES`; empty where nothing is."""
    found: dict[str, dict[str, Any]] = (
        json.loads(ANSWERS.read_text(encoding="utf-8")) if ANSWERS.exists() else {}
    )
    return found


def freeze(found: dict[str, dict[str, Any]]) -> None:
    """Write all down, a line a case, so that a change shows as what it is."""
    names = ",\n".join(_written(name, known) for name, known in sorted(found.items()))
    ANSWERS.write_text(f"{{\n{names}\n}}\n", encoding="utf-8")


def _written(name: str, known: dict[str, Any]) -> str:
    cases = sorted(known["answers"].items())
    lines = ",\n".join(f"  {json.dumps(case)}: {json.dumps(answer)}" for case, answer in cases)
    version = json.dumps(known["version"])
    return f'{json.dumps(name)}: {{\n "version": {version},\n "answers": {{\n{lines}\n }}\n}}'


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The cases that both know and that are answered differently."""
    known = before["answers"].keys() & after["answers"].keys()
    return sorted(case for case in known if before["answers"][case] != after["answers"][case])


def complaint(name: str, before: dict[str, Any] | None, after: dict[str, Any]) -> str:
    """What has to be done about a difference; empty if nothing differs."""
    refreeze = f"run `python tests/solvers/golden/freeze.py '{name}'`"
    if before is None:
        return f"{name} has no golden answers: {refreeze}"
    different = changed(before, after)
    if different and before["version"] == after["version"]:
        case = different[0]
        was, is_now = before["answers"][case], after["answers"][case]
        return (
            f"answers of {name} changed and its version did not: raise {_where(name)} and {refreeze}. "
            f"{len(different)} of {len(after['answers'])} cases, the first: {case}: was {was}, is {is_now}"
        )
    if (known := before["version"]) != after["version"]:
        return f"{name} has version {after['version']}, its golden answers are of {known}: {refreeze}"
    if before["answers"].keys() != after["answers"].keys():
        return f"the cases of {name} are other ones than those frozen: {refreeze}"
    return ""


def _where(name: str) -> str:
    if name == COST_MODEL:
        return "MODEL_VERSION in costmodel/__init__.py"
    return f"VERSION of {solver(name).module}"
