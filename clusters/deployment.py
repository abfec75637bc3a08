"""Deployment files: the built-in ones, and what is wrong with one before anything is started from it."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""A machine's own addresses, which no other one reaches."""


@dataclass(frozen=True)
class Finding:
    """One thing to correct; ``key`` is dotted, or empty for the whole file."""

    key: str
    expected: str
    found: object
    remedy: str = ""


def deployment_names() -> list[str]:
    """Names of the built-in deployment files, sorted."""
    folder = files("clusters").joinpath("deployments")
    return sorted(Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def deployment_text(name: str) -> str:
    """A built-in file, comments and all. KeyError for a name that is none."""
    if name not in deployment_names():
        raise KeyError(name)
    return files("clusters").joinpath("deployments", f"{name}.yaml").read_text(encoding="utf-8")


def check_deployment(document: Any) -> list[Finding]:
    """What is wrong with a parsed deployment file: one for `ray up`, or a KubeRay RayCluster or RayJob.

    Looks at the document only: nothing is connected to, no file is read.
    """
    from clusters.deployment_kuberay import check_manifest
    from clusters.deployment_launcher import check_launcher

    if not isinstance(document, dict):
        return [Finding("", "a mapping of keys to values", type(document).__name__)]
    if "apiVersion" in document or "kind" in document:
        return check_manifest(document)
    if "provider" in document or "cluster_name" in document:
        return check_launcher(document)
    expected = "a file for `ray up` (with the key provider) or a KubeRay manifest (with apiVersion and kind)"
    found = ", ".join(map(str, document)) or "no key"
    return [Finding("", expected, found, "`archsweep cluster show NAME` prints one to start from")]


def nearest(found: object, known: list[str]) -> str:
    """A remedy: the known name that looks most like what was found; empty when none does."""
    near = get_close_matches(str(found), known, 1)
    return f"Did you mean {near[0]}?" if near else ""


def at(document: Any, key: str) -> Any:
    """The value at a dotted key, None where there is none."""
    for part in key.split("."):
        if isinstance(document, list) and part.isdecimal() and int(part) < len(document):
            document = document[int(part)]
        elif isinstance(document, dict):
            document = document.get(part)
        else:
            return None
    return document
