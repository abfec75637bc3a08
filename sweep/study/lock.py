"""Writes ``study.lock.yaml``: everything that another run needs to be the same."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from costmodel import MODEL_VERSION
from solvers.catalogue import solver
from sweep.study.identity import content_hash
from sweep.study.plug_ins import plug_ins_of
from sweep.study.study import Study

PACKAGES = (
    "archsweep",
    "clarabel",
    "highspy",
    "moocore",
    "numba",
    "numpy",
    "onnx",
    "optuna",
    "ortools",
    "pyarrow",
    "ray",
    "scikit-learn",
)


def study_id(study: Study) -> str:
    """The identity of the resolved study; equal files have the same one, wherever they lie."""
    return content_hash(study.identity)


def lock_content(study: Study, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """The resolved study with its identity, the versions of everything that computes, seeds and commit.

    ``warnings``: for readers of the results, such as which operators are not counted.
    """
    stated = study.model_dump(mode="json", by_alias=True, exclude_none=True)
    stated["mapping"]["objective"] = study.mapping_objective
    if study.phases is not None:
        stated.pop("networks")  # they follow from the phases, and a study states one of the two
    return {
        "study": stated,
        "study_id": study_id(study),
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in PACKAGES},
            "cost model": MODEL_VERSION,
            **_solver_versions(study),
            **{f"plug-ins of {one.distribution}": one.version for one in plug_ins_of(study)},
        },
        "warnings": list(warnings),
        "platform": platform.platform(),
        "commit": _commit(),
        "seeds": {
            "mapping": study.mapping.seed,
            "search": getattr(study.search, "seed", None),
            "scratchpad": study.scratchpad and study.scratchpad.seed,
            "schedule": study.schedule and study.schedule.seed,
        },
    }


def _solver_versions(study: Study) -> dict[str, str]:
    """The versions of the study's solvers; for chips also of the mapping solver, which gives tile costs."""
    names = (study.mapping.solver, *study.solvers)
    return {f"solver {name}": solver(name).version for name in names}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed as a package"


def _commit() -> str | None:
    """The commit of the checkout that the code runs from, '+changes' added if it is not clean."""
    here = Path(__file__).resolve().parents[2]
    if not (here / ".git").exists():
        return None
    try:
        commit = _git(here, "rev-parse", "HEAD")
        return commit + ("+changes" if _git(here, "status", "--porcelain") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()
