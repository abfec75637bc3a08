"""Deployment files: the built-in ones, and what is wrong with one before anything is started from it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from clusters.deployment.findings import Finding


def deployment_names() -> list[str]:
    """Names of the built-in deployment files, sorted."""
    folder = files("clusters.deployment").joinpath("files")
    return sorted(Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def deployment_text(name: str) -> str:
    """A built-in file, comments and all. KeyError for a name that is none."""
    if name not in deployment_names():
        raise KeyError(name)
    return files("clusters.deployment").joinpath("files", f"{name}.yaml").read_text(encoding="utf-8")


def check_deployment(document: Any) -> list[Finding]:
    """What is wrong with a parsed deployment file: one for `ray up`, or a KubeRay RayCluster or RayJob.

    Looks at the document only: nothing is connected to, no file is read.
    """
    from clusters.deployment.kuberay import check_manifest
    from clusters.deployment.launcher import check_launcher

    if not isinstance(document, dict):
        return [Finding("", "a mapping of keys to values", type(document).__name__)]
    if "apiVersion" in document or "kind" in document:
        return check_manifest(document)
    if "provider" in document or "cluster_name" in document:
        return check_launcher(document)
    expected = "a file for `ray up` (with the key provider) or a KubeRay manifest (with apiVersion and kind)"
    found = ", ".join(map(str, document)) or "no key"
    return [Finding("", expected, found, "`archsweep cluster show NAME` prints one to start from")]
