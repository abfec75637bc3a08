"""Our deployment files hold against Ray's and KubeRay's own schemas; a wrong one is told what is wrong."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from clusters.deployment.deployment import check_deployment, deployment_names, deployment_text
from clusters.deployment.findings import Finding, at
from clusters.deployment.surroundings import check_surroundings

CRDS = Path(__file__).parents[2] / "data" / "kuberay"
LAUNCHED = ["onprem", "aws", "gcp"]
MANIFESTS = ["kuberay-cluster", "kuberay-job"]
IMAGE = "template.spec.containers.0.image"
GROUPS = ("headGroupSpec", "workerGroupSpecs.0")
HEAD = "head_start_ray_commands.1"
WORKER = "worker_start_ray_commands.1"

PLACEHOLDERS = {
    "onprem": {
        "provider.head_ip": "10.0.0.1",
        "provider.worker_ips.0": "10.0.0.2",
        "provider.worker_ips.1": "worker-2.lab",
    },
    "aws": {},
    "gcp": {"provider.project_id": "acme-accelerators-1234"},
    "kuberay-cluster": {f"spec.{group}.{IMAGE}": "ghcr.io/acme/archsweep:1" for group in GROUPS},
    "kuberay-job": {f"spec.rayClusterSpec.{group}.{IMAGE}": "ghcr.io/acme/archsweep:1" for group in GROUPS},
}
"""What a user has to fill in, and something that could be filled in."""

GONE = object()


def put(document: Any, key: str, value: Any) -> None:
    """Set, or with GONE remove, what is at a dotted key."""
    *parents, last = key.split(".")
    for part in parents:
        document = document[int(part) if isinstance(document, list) else part]
    place: Any = int(last) if isinstance(document, list) else last
    if value is GONE:
        del document[place]
    else:
        document[place] = value


def shipped(name: str) -> Any:
    return yaml.safe_load(deployment_text(name))


def filled(name: str) -> Any:
    document = shipped(name)
    for key, value in PLACEHOLDERS[name].items():
        put(document, key, value)
    return document


def test_every_file_is_tested_here() -> None:
    assert deployment_names() == sorted([*LAUNCHED, *MANIFESTS])
    with pytest.raises(KeyError):
        deployment_text("../deployment")


@pytest.mark.parametrize("name", [*LAUNCHED, *MANIFESTS])
def test_only_placeholders_are_to_be_filled_in(name: str) -> None:
    assert [finding.key for finding in check_deployment(shipped(name))] == list(PLACEHOLDERS[name])
    assert check_deployment(filled(name)) == []


@pytest.mark.parametrize("name", LAUNCHED)
def test_ray_accepts_the_file(name: str) -> None:
    import ray.autoscaler
    from ray.autoscaler._private.util import prepare_config, validate_config

    schema = json.loads(Path(ray.autoscaler.__file__).with_name("ray-schema.json").read_text())
    jsonschema.validate(filled(name), schema)
    prepared = prepare_config(filled(name))
    validate_config(prepared)
    assert prepared["max_workers"] == {"onprem": 2, "aws": 16, "gcp": 16}[name]


def strict(schema: Any) -> Any:
    """The schema without its tolerance for keys it does not name."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        inner.setdefault("additionalProperties", False)
    return inner


@cache
def definition(kind: str) -> Any:
    text = gzip.decompress((CRDS / f"crd_{kind.lower()}s.yaml.gz").read_bytes())
    content = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    version = next(v for v in content["spec"]["versions"] if v["name"] == "v1")
    return strict(version["schema"]["openAPIV3Schema"])


@pytest.mark.slow
@pytest.mark.parametrize("name", MANIFESTS)
def test_kubernetes_accepts_the_manifest(name: str) -> None:
    document = filled(name)
    validator = jsonschema.Draft7Validator(definition(document["kind"]))
    assert [error.message for error in validator.iter_errors(document)] == []
    put(document, "spec.surprise", 1)
    assert [list(error.path) for error in validator.iter_errors(document)] == [["spec"]]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spec.authOption", {}),
        ("spec.headGroupSpec", GONE),
        ("spec.headGroupSpec.rayStartParams.num-cpus", 0),
        ("spec.workerGroupSpecs.0.groupName", GONE),
        ("spec.workerGroupSpecs.0.maxReplicas", "many"),
        ("spec.workerGroupSpecs.0.template", GONE),
    ],
)
def test_kubernetes_refuses_what_the_check_leaves_to_it(key: str, value: Any) -> None:
    document = filled("kuberay-cluster")
    put(document, key, value)
    assert list(jsonschema.Draft7Validator(definition("RayCluster")).iter_errors(document))


def without(name: str, key: str, words: str) -> str:
    text = at(shipped(name), key)
    assert words in text
    return str(text.replace(words, ""))


OPEN_PORT = {"IpPermissions": [{"FromPort": 8000, "ToPort": 9000, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]}
WRONG = [
    ("onprem", "provider.head_ip", GONE, ["provider.head_ip"], "no such key"),
    ("onprem", "provider.head_ip", "127.0.0.1", ["provider.head_ip"], "No other host reaches it"),
    ("onprem", "provider.head_ip", "me@head:22", ["provider.head_ip"], "without user or port"),
    ("onprem", "provider.worker_ips", GONE, ["provider.worker_ips"], "no such key"),
    ("onprem", "provider.worker_ips.1", "10.0.0.1", ["provider.worker_ips.1"], "other than the head"),
    ("onprem", "provider.worker_ips.1", "10.0.0.2", ["provider.worker_ips.1"], "every host once"),
    ("onprem", "provider.type", "onprem", ["provider.type"], "local, aws, gcp"),
    ("onprem", "max_workers", 1, [""], "`max_workers` is smaller"),
    ("onprem", "max_worker", 2, ["max_worker"], "Did you mean max_workers?"),
    ("onprem", "max_workers", "two", ["max_workers"], "integer"),
    ("onprem", "cluster_name", GONE, ["cluster_name"], "no such key"),
    ("onprem", "auth.ssh_private_key", GONE, ["auth.ssh_private_key"], "authorized_keys"),
    ("onprem", "auth.ssh_user", GONE, ["auth.ssh_user"], "log in as"),
    ("onprem", "available_node_types", {"a": {"resources": {}, "node_config": {}}}, [""], "not supported"),
    ("onprem", HEAD, without("onprem", HEAD, "RAY_AUTH_MODE=token"), [HEAD], "runs code"),
    ("onprem", WORKER, without("onprem", WORKER, "export RAY_AUTH_MODE=token;"), [WORKER], "runs code"),
    ("onprem", HEAD, without("onprem", HEAD, "RAY_enable_autoscaler_v2=0"), [HEAD], "one too few"),
    ("onprem", HEAD, without("onprem", HEAD, "--node-ip-address="), [HEAD], "default route"),
    ("onprem", HEAD, without("onprem", HEAD, "--autoscaling-config="), [HEAD], "no worker is ever started"),
    ("onprem", "head_start_ray_commands", ["ray stop"], ["head_start_ray_commands"], "--head"),
    (
        "onprem",
        WORKER,
        without("onprem", WORKER, "--address=$RAY_HEAD_IP:6379"),
        [WORKER],
        "RAY_HEAD_IP:6379",
    ),
    ("onprem", "setup_commands", [], ["setup_commands"], "every node"),
    ("onprem", "file_mounts", {"~/archsweep": "."}, ["file_mounts"], "get-auth-token"),
    ("aws", "docker.image", GONE, [""], "image"),
    ("aws", "file_mounts.~/archsweep", None, ["file_mounts.~/archsweep"], "a path here"),
    ("aws", "setup_commands", ["pip install torch"], ["setup_commands"], "archsweep on every node"),
    (
        "aws",
        HEAD,
        shipped("aws")["head_start_ray_commands"][1].replace("127.0.0.1", "0.0.0.0"),
        [HEAD],
        "tunnel",
    ),
    ("aws", "head_start_ray_commands", GONE, ["head_start_ray_commands.1"] * 2, "0.0.0.0"),
    ("aws", "head_node_type", "boss", [""], "head_node_type"),
    ("aws", "available_node_types.solver.min_workers", 99, [""], "max_workers"),
    ("aws", "available_node_types.solver.gpu", 1, ["available_node_types.solver.gpu"], "Ray knows"),
    ("aws", "provider.security_group", OPEN_PORT, ["provider.security_group.IpPermissions.0"], "8265"),
    ("gcp", "provider.project_id", None, ["provider.project_id"], "id of your project"),
    ("kuberay-cluster", "apiVersion", "ray.io/v1alpha1", ["apiVersion"], "ray.io/v1"),
    ("kuberay-cluster", "kind", "RayClutser", ["kind"], "Did you mean RayCluster?"),
    ("kuberay-cluster", "spec.authOptions", GONE, ["spec.authOptions.mode"], "runs code"),
    ("kuberay-cluster", "spec.rayVersion", "2.40.0", ["spec.rayVersion"], "2.52.0 or newer"),
    ("kuberay-cluster", "spec.rayVersion", 2.6, ["spec.rayVersion"], "as 2.60.0"),
    (
        "kuberay-cluster",
        "spec.enableInTreeAutoscaling",
        False,
        ["spec.enableInTreeAutoscaling"],
        "autoscaler",
    ),
    (
        "kuberay-cluster",
        "spec.workerGroupSpecs.0.maxReplicas",
        0,
        ["spec.workerGroupSpecs.0.maxReplicas"],
        "minReplicas",
    ),
    (
        "kuberay-cluster",
        "spec.headGroupSpec.serviceType",
        "LoadBalancer",
        ["spec.headGroupSpec.serviceType"],
        "port-forward",
    ),
    (
        "kuberay-cluster",
        "spec.headGroupSpec.rayStartParams.dashboard-host",
        GONE,
        ["spec.headGroupSpec.rayStartParams.dashboard-host"],
        "KubeRay makes 0.0.0.0",
    ),
    (
        "kuberay-cluster",
        f"spec.workerGroupSpecs.0.{IMAGE}",
        "rayproject/ray:2.60.0",
        [f"spec.workerGroupSpecs.0.{IMAGE}"],
        "Dockerfile",
    ),
    (
        "kuberay-job",
        "spec.rayClusterSpec.headGroupSpec.rayStartParams.dashboard-host",
        "127.0.0.1",
        ["spec.rayClusterSpec.headGroupSpec.rayStartParams.dashboard-host"],
        "operator",
    ),
    ("kuberay-job", "spec.entrypoint", " ", ["spec.entrypoint"], "archsweep run"),
    ("kuberay-job", "spec.shutdownAfterJobFinishes", GONE, ["spec.shutdownAfterJobFinishes"], "paid for"),
]


@pytest.mark.parametrize(("name", "key", "value", "keys", "words"), WRONG)
def test_what_is_wrong_is_said(name: str, key: str, value: Any, keys: list[str], words: str) -> None:
    document = filled(name)
    put(document, key, value)
    findings = check_deployment(document)
    assert [finding.key for finding in findings] == keys
    assert any(words in f"{f.expected} {f.found} {f.remedy}" for f in findings), findings


@pytest.mark.parametrize(
    "document", [None, [], "ray", {}, {"provider": 3}, {"kind": []}, {"cluster_name": "a"}]
)
def test_what_is_no_deployment_file(document: Any) -> None:
    assert check_deployment(document)


def keys_of(document: Any, place: str = "") -> Iterator[str]:
    """Every dotted key; names with dots in them cannot be written so and are left out."""
    parts = document.items() if isinstance(document, dict) else enumerate(document)
    for name, value in parts:
        if "." in str(name):
            continue
        yield f"{place}{name}"
        if isinstance(value, (dict, list)):
            yield from keys_of(value, f"{place}{name}.")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*LAUNCHED, *MANIFESTS])
def test_no_value_of_any_key_breaks_the_check(name: str) -> None:
    original = filled(name)
    for key in keys_of(original):
        for value in (None, 7, "text", ["text"], {"text": 7}, GONE):
            document = copy.deepcopy(original)
            put(document, key, value)
            assert all(isinstance(finding, Finding) for finding in check_deployment(document))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home with a key and a token, the cloud libraries installed."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for file in (".ray/auth_token", ".ssh/id_ed25519"):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).touch(0o600)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setattr("shutil.which", lambda program: program)
    return tmp_path


@pytest.mark.parametrize("name", [*LAUNCHED, *MANIFESTS])
def test_surroundings_that_are_there(name: str, here: Path) -> None:
    assert check_surroundings(filled(name)) == []


@pytest.mark.parametrize(
    ("spoil", "key", "remedy"),
    [
        (
            lambda home, _: (home / ".ray/auth_token").unlink(),
            "file_mounts.~/.ray/auth_token",
            "ray get-auth",
        ),
        (lambda _, patch: patch.setattr("shutil.which", lambda program: None), "", "Install ssh"),
        (
            lambda _, patch: patch.setattr("importlib.util.find_spec", lambda n: None),
            "provider.type",
            "boto3",
        ),
    ],
)
def test_surroundings_of_the_cloud_that_are_missing(
    spoil: Callable[[Path, pytest.MonkeyPatch], None],
    key: str,
    remedy: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spoil(here, monkeypatch)
    first, *_ = check_surroundings(filled("aws"))
    assert first.key == key
    assert remedy in first.remedy


def test_private_keys_that_ssh_would_refuse(here: Path) -> None:
    key = here / ".ssh" / "id_ed25519"
    key.chmod(0o644)
    (readable,) = check_surroundings(filled("onprem"))
    key.unlink()
    (missing,) = check_surroundings(filled("onprem"))
    assert (readable.key, missing.key) == ("auth.ssh_private_key",) * 2
    assert readable.remedy == f"chmod 600 {key}"
    assert "ssh-keygen" in missing.remedy
