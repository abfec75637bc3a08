"""What is wrong with a KubeRay manifest that Kubernetes takes without a word.

``kubectl apply --dry-run=server`` checks the shape: unknown and missing keys, types, names. The rules here
are about manifests of sound shape that still fail, cost money or let strangers in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from clusters.deployment.findings import LOOPBACK, Finding, at, nearest

KINDS = ["RayCluster", "RayJob"]
PLACEHOLDER = "registry.example.com/"
"""Where the images of our files are until somebody names a real one."""
OLDEST_WITH_TOKEN = (2, 52)
"""The first release of Ray that knows token authentication."""


def check_manifest(document: dict[str, Any]) -> list[Finding]:
    """Findings for a parsed RayCluster or RayJob."""
    kind = document.get("kind")
    if document.get("apiVersion") != "ray.io/v1":
        return [Finding("apiVersion", "ray.io/v1", document.get("apiVersion") or "no such key")]
    if kind not in KINDS:
        return [Finding("kind", "RayCluster or RayJob", kind or "no such key", nearest(kind, KINDS))]
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return [Finding("spec", f"the {kind}'s specification", "none" if spec is None else spec)]
    return list(_cluster(spec, "spec", follows_job=False) if kind == "RayCluster" else _job(spec))


def _job(spec: dict[str, Any]) -> Iterator[Finding]:
    if not str(spec.get("entrypoint") or "").strip():
        yield Finding("spec.entrypoint", "the command to run, as `archsweep run STUDY ...`", "none")
    cluster = spec.get("rayClusterSpec")
    if not isinstance(cluster, dict):
        return  # with a clusterSelector the job runs on a cluster of another manifest
    yield from _cluster(cluster, "spec.rayClusterSpec", follows_job=True)
    if not spec.get("shutdownAfterJobFinishes"):
        remedy = "Otherwise the cluster stays, and is paid for, when the study is done"
        yield Finding("spec.shutdownAfterJobFinishes", "true", "false", remedy)


def _cluster(spec: dict[str, Any], key: str, *, follows_job: bool) -> Iterator[Finding]:
    """Findings for a cluster's specification, which the manifest has at ``key``.

    ``follows_job``: KubeRay follows the job over the dashboard's service, so the dashboard cannot be on
    loopback.
    """
    yield from _version(spec.get("rayVersion"), f"{key}.rayVersion")
    if at(spec, "authOptions.mode") != "token":
        remedy = "Without it whoever reaches the cluster's service runs code in its pods"
        found = at(spec, "authOptions.mode") or "none"
        yield Finding(f"{key}.authOptions.mode", "token", found, remedy)
    if isinstance(head := spec.get("headGroupSpec"), dict):
        yield from _head(head, f"{key}.headGroupSpec", follows_job)
        yield from _pod(head, f"{key}.headGroupSpec", "ray-head")
    groups = [group if isinstance(group, dict) else {} for group in _list(spec.get("workerGroupSpecs"))]
    for number, group in enumerate(groups):
        yield from _replicas(group, f"{key}.workerGroupSpecs.{number}")
        yield from _pod(group, f"{key}.workerGroupSpecs.{number}", "ray-worker")
    if not spec.get("enableInTreeAutoscaling") and not all(group.get("replicas") for group in groups):
        remedy = "These workers start only when Ray's autoscaler asks for them"
        yield Finding(f"{key}.enableInTreeAutoscaling", "true, as a group has no replicas", "false", remedy)


def _version(version: object, key: str) -> Iterator[Finding]:
    match = re.fullmatch(r"(\d+)\.(\d+)\.\d+", str(version))
    if not match:
        yield Finding(key, "the Ray version of the image, as 2.60.0", "none" if version is None else version)
    elif (int(match[1]), int(match[2])) < OLDEST_WITH_TOKEN:
        yield Finding(key, "2.52.0 or newer, which knows token authentication", version)


def _head(head: dict[str, Any], key: str, follows_job: bool) -> Iterator[Finding]:
    service = head.get("serviceType", "ClusterIP")
    if service != "ClusterIP":
        remedy = "Use kubectl port-forward: the dashboard runs what it is told to"
        yield Finding(f"{key}.serviceType", "ClusterIP", service, remedy)
    if head.get("enableIngress"):
        yield Finding(f"{key}.enableIngress", "false", "true", "Use kubectl port-forward instead")
    host, address = f"{key}.rayStartParams.dashboard-host", at(head, "rayStartParams.dashboard-host")
    if follows_job and address in LOOPBACK:
        yield Finding(host, "0.0.0.0", address, "The operator follows the job through the head's service")
    elif not follows_job and address not in LOOPBACK:
        remedy = "kubectl port-forward reaches it, the other pods of the Kubernetes cluster do not"
        yield Finding(host, "127.0.0.1", address or "none, which KubeRay makes 0.0.0.0", remedy)


def _replicas(group: dict[str, Any], key: str) -> Iterator[Finding]:
    fewest, most = group.get("minReplicas", 0), group.get("maxReplicas")
    if isinstance(fewest, int) and isinstance(most, int) and most < max(1, fewest):
        found = f"minReplicas {fewest}, maxReplicas {most}"
        yield Finding(f"{key}.maxReplicas", "a number above 0 and not below minReplicas", found)


def _pod(group: dict[str, Any], key: str, name: str) -> Iterator[Finding]:
    """Findings for the pod of the head or of a group of workers, whose container is called ``name``."""
    container = next(iter(_list(at(group, "template.spec.containers"))), None)
    if not isinstance(container, dict):
        yield Finding(f"{key}.template.spec.containers", f"a container {name}, the first one", "none")
        return
    key = f"{key}.template.spec.containers.0"
    image = str(container.get("image") or "")
    if not image or image.startswith(PLACEHOLDER):
        expected = "an image with Ray and archsweep that the cluster can pull"
        found = f"{image}, a placeholder" if image else "none"
        yield Finding(f"{key}.image", expected, found, "docs/clusters.md has a Dockerfile")
    elif re.match(r"(docker\.io/)?rayproject/", image):
        remedy = "Build an image from it that installs archsweep: docs/clusters.md has a Dockerfile"
        yield Finding(f"{key}.image", "an image with archsweep, which every worker needs", image, remedy)
    for resource in ("cpu", "memory"):
        if at(container, f"resources.limits.{resource}") is None:
            remedy = "KubeRay tells Ray how much a pod has from its limits"
            yield Finding(f"{key}.resources.limits.{resource}", "a quantity, as 8 or 16Gi", "none", remedy)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
