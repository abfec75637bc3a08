"""What is wrong with a KubeRay manifest: a check of our own, beside what Kubernetes itself refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from clusters.deployment.findings import LOOPBACK, Finding, at, nearest

KINDS = ["RayCluster", "RayJob"]
CLUSTER_KEYS = [
    "authOptions",
    "autoscalerOptions",
    "enableInTreeAutoscaling",
    "gcsFaultToleranceOptions",
    "headGroupSpec",
    "headServiceAnnotations",
    "historyServerOptions",
    "managedBy",
    "networkPolicy",
    "rayVersion",
    "suspend",
    "tlsOptions",
    "upgradeStrategy",
    "workerGroupSpecs",
]
JOB_KEYS = [
    "activeDeadlineSeconds",
    "backoffLimit",
    "clusterSelector",
    "deletionStrategy",
    "entrypoint",
    "entrypointNumCpus",
    "entrypointNumGpus",
    "entrypointResources",
    "jobId",
    "managedBy",
    "metadata",
    "preRunningDeadlineSeconds",
    "rayClusterSpec",
    "runtimeEnvYAML",
    "shutdownAfterJobFinishes",
    "submissionMode",
    "submitterConfig",
    "submitterPodTemplate",
    "suspend",
    "ttlSecondsAfterFinished",
]
PLACEHOLDER = "registry.example.com/"
OLDEST_WITH_TOKEN = (2, 52)


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
    findings = list(_name(document))
    if kind == "RayCluster":
        return [*findings, *_cluster(spec, "spec", served=False)]
    return [*findings, *_job(spec)]


def _name(document: dict[str, Any]) -> Iterator[Finding]:
    name = at(document, "metadata.name")
    if not isinstance(name, str) or not re.fullmatch(r"[a-z]([-a-z0-9]{0,48}[a-z0-9])?", name):
        expected = "at most 50 small letters, digits and hyphens, a letter first"
        yield Finding("metadata.name", expected, "no such key" if name is None else name)


def _unknown(value: dict[str, Any], known: list[str], place: str) -> Iterator[Finding]:
    for key in value:
        if key not in known:
            yield Finding(f"{place}.{key}", "a key that KubeRay knows", key, nearest(key, known))


def _job(spec: dict[str, Any]) -> Iterator[Finding]:
    yield from _unknown(spec, JOB_KEYS, "spec")
    if not str(spec.get("entrypoint") or "").strip():
        yield Finding("spec.entrypoint", "the command to run, as `archsweep run STUDY ...`", "none")
    cluster = spec.get("rayClusterSpec")
    if isinstance(cluster, dict):
        yield from _cluster(cluster, "spec.rayClusterSpec", served=True)
    elif not spec.get("clusterSelector"):
        yield Finding("spec.rayClusterSpec", "the cluster to make for the job", "none")
    if isinstance(cluster, dict) and not spec.get("shutdownAfterJobFinishes"):
        remedy = "Otherwise the cluster stays, and is paid for, when the study is done"
        yield Finding("spec.shutdownAfterJobFinishes", "true", "false", remedy)


def _cluster(spec: dict[str, Any], place: str, *, served: bool) -> Iterator[Finding]:
    """``served``: KubeRay itself uses the dashboard through the service, so it cannot be on loopback."""
    yield from _unknown(spec, CLUSTER_KEYS, place)
    yield from _version(spec.get("rayVersion"), f"{place}.rayVersion")
    if at(spec, "authOptions.mode") != "token":
        remedy = "Without it whoever reaches the cluster's service runs code in its pods"
        found = at(spec, "authOptions.mode") or "none"
        yield Finding(f"{place}.authOptions.mode", "token", found, remedy)
    head = spec.get("headGroupSpec")
    if not isinstance(head, dict):
        yield Finding(f"{place}.headGroupSpec", "the head's pod", "none")
    else:
        yield from _head(head, f"{place}.headGroupSpec", served)
        yield from _pod(head, f"{place}.headGroupSpec", "ray-head")
    groups = spec.get("workerGroupSpecs")
    if not isinstance(groups, list) or not groups:
        yield Finding(f"{place}.workerGroupSpecs", "at least one group of workers", groups or "none")
        return
    for number, group in enumerate(groups):
        yield from _group(group, f"{place}.workerGroupSpecs.{number}")
    if not spec.get("enableInTreeAutoscaling") and any(_idle(group) for group in groups):
        remedy = "These workers start only when Ray's autoscaler asks for them"
        yield Finding(f"{place}.enableInTreeAutoscaling", "true, as a group has no replicas", "false", remedy)


def _version(version: object, key: str) -> Iterator[Finding]:
    match = re.fullmatch(r"(\d+)\.(\d+)\.\d+", str(version))
    if not match:
        yield Finding(key, "the Ray version of the image, as 2.60.0", "none" if version is None else version)
    elif (int(match[1]), int(match[2])) < OLDEST_WITH_TOKEN:
        yield Finding(key, "2.52.0 or newer, which knows token authentication", version)


def _head(head: dict[str, Any], place: str, served: bool) -> Iterator[Finding]:
    service = head.get("serviceType", "ClusterIP")
    if service != "ClusterIP":
        remedy = "Use kubectl port-forward: the dashboard runs what it is told to"
        yield Finding(f"{place}.serviceType", "ClusterIP", service, remedy)
    if head.get("enableIngress"):
        yield Finding(f"{place}.enableIngress", "false", "true", "Use kubectl port-forward instead")
    key, address = f"{place}.rayStartParams.dashboard-host", at(head, "rayStartParams.dashboard-host")
    if served and address in LOOPBACK:
        yield Finding(key, "0.0.0.0", address, "The operator follows the job through the head's service")
    elif not served and address not in LOOPBACK:
        remedy = "kubectl port-forward reaches it, the other pods of the Kubernetes cluster do not"
        yield Finding(key, "127.0.0.1", address or "none, which KubeRay makes 0.0.0.0", remedy)
    parameters = head.get("rayStartParams") or {}
    if not isinstance(parameters, dict):
        yield Finding(f"{place}.rayStartParams", "options of `ray start` and their values", parameters)
        return
    for name, value in parameters.items():
        if not isinstance(value, str):
            yield Finding(f"{place}.rayStartParams.{name}", "a text, in quotes", value)


def _group(group: Any, place: str) -> Iterator[Finding]:
    if not isinstance(group, dict):
        yield Finding(place, "a group of workers", group)
        return
    if not group.get("groupName"):
        yield Finding(f"{place}.groupName", "a name", "none")
    fewest, most = group.get("minReplicas", 0), group.get("maxReplicas")
    if not isinstance(most, int) or not isinstance(fewest, int) or not 0 <= fewest <= most or most == 0:
        found = f"minReplicas {fewest}, maxReplicas {most}"
        yield Finding(f"{place}.maxReplicas", "a number above 0 and not below minReplicas", found)
    yield from _pod(group, place, "ray-worker")


def _idle(group: Any) -> bool:
    return isinstance(group, dict) and not group.get("replicas")


def _pod(group: dict[str, Any], place: str, name: str) -> Iterator[Finding]:
    containers = at(group, "template.spec.containers")
    if not isinstance(containers, list) or not containers or not isinstance(containers[0], dict):
        yield Finding(f"{place}.template.spec.containers", f"a container {name}, the first one", "none")
        return
    key, container = f"{place}.template.spec.containers.0", containers[0]
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
