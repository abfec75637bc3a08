"""What is wrong with a `ray up` file, Ray's own checks first and then what they miss."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import Any

from clusters.deployment.findings import LOOPBACK, Finding, at, nearest
from clusters.deployment.schema import PROVIDERS, prepared, schema_findings

PLACEHOLDERS = ip_network("192.0.2.0/24")
"""Addresses for documentation (RFC 5737): nobody's, and what our onprem file has until it is filled in."""

TOKEN_FILE = "~/.ray/auth_token"
CLUSTER_PORTS = (6379, 8265, 10001)
"""GCS, dashboard with jobs, Ray client: whoever reaches one of these needs nothing but the token to
run code."""


def check_launcher(document: dict[str, Any]) -> list[Finding]:
    """Findings for a parsed `ray up` file. The shape is checked first: the rest needs a sound one."""
    shape = [*_provider(document), *schema_findings(document), *_mounts(document.get("file_mounts"))]
    if shape:
        return shape
    local = document["provider"]["type"] == "local"
    findings = list(_hosts(document["provider"])) if local else []
    findings += _login(document) if local else _cloud(document)
    # Ray stops at the first thing that it refuses and names no key, so it is asked last
    config, refused = prepared(document) if not findings else (document, [])
    return [
        *findings,
        *refused,
        *_head_command(config, local),
        *_worker_command(config),
        *_token(config),
        *_package(config),
    ]


def _provider(document: dict[str, Any]) -> Iterator[Finding]:
    kind = at(document, "provider.type")
    if isinstance(kind, str) and kind not in PROVIDERS:
        yield Finding("provider.type", f"one of {', '.join(PROVIDERS)}", kind, nearest(kind, PROVIDERS))


def _mounts(mounts: object) -> Iterator[Finding]:
    """Ray's schema lets any value through and `ray up` breaks over it."""
    for there, here in mounts.items() if isinstance(mounts, dict) else ():
        if not isinstance(here, str):
            yield Finding(f"file_mounts.{there}", "a path here", "nothing" if here is None else here)


def _hosts(provider: dict[str, Any]) -> Iterator[Finding]:
    # a coordinator server hands out the hosts; such a file lists none
    if "coordinator_address" in provider:
        return
    head, workers = provider.get("head_ip"), provider.get("worker_ips")
    yield from _address("provider.head_ip", head)
    if not isinstance(workers, list):
        expected = "a list of the workers' addresses, [] for a head without workers"
        yield Finding("provider.worker_ips", expected, "no such key" if workers is None else workers)
        return
    for number, worker in enumerate(workers):
        key = f"provider.worker_ips.{number}"
        yield from _address(key, worker)
        if worker == head:
            yield Finding(key, "a host other than the head", worker, "Remove it: the head solves as well")
        elif worker in workers[:number]:
            yield Finding(key, "every host once", f"{worker} again")


def _address(key: str, address: object) -> Iterator[Finding]:
    expected = "the address of a host, as the laptop and the other hosts reach it"
    if not isinstance(address, str) or not address.strip():
        yield Finding(key, expected, "no such key" if address is None else address)
        return
    try:
        number = ip_address(address)
    except ValueError:
        # no number: a host name, or text with a user or a port, which Ray would hand to ssh as it is
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", address):
            yield Finding(key, expected, address, "Write only the address, without user or port")
        elif address in LOOPBACK:
            yield Finding(key, expected, address, "No other host reaches it: write the network's address")
        return
    if number in PLACEHOLDERS:
        yield Finding(key, expected, f"{address}, a placeholder", "Fill in your own")
    elif number.is_loopback or number.is_unspecified:
        yield Finding(key, expected, address, "No other host reaches it: write the network's address")


def _login(document: dict[str, Any]) -> Iterator[Finding]:
    auth = document.get("auth", {})
    if not auth.get("ssh_user"):
        yield Finding("auth.ssh_user", "the user to log in as, the same on every host", "no such key")
    if not auth.get("ssh_private_key"):
        remedy = "ssh-keygen makes one; its .pub belongs in every host's ~/.ssh/authorized_keys"
        yield Finding("auth.ssh_private_key", "the key to log in with", "no such key", remedy)


def _cloud(document: dict[str, Any]) -> Iterator[Finding]:
    if document["provider"]["type"] == "gcp" and not at(document, "provider.project_id"):
        remedy = "Write the id of your project (not its name or number)"
        yield Finding("provider.project_id", "a Google Cloud project", "none", remedy)
    if not document.get("auth", {}).get("ssh_user"):
        yield Finding("auth.ssh_user", "the user that the image lets in", "no such key")
    for number, rule in enumerate(at(document, "provider.security_group.IpPermissions") or ()):
        key = f"provider.security_group.IpPermissions.{number}"
        ports = _open_to_all(rule) if isinstance(rule, dict) else []
        if ports:
            expected = "Ray's ports open to the cluster's own nodes only"
            found = f"{', '.join(map(str, ports))} open to the whole internet"
            yield Finding(key, expected, found, "Remove it: `ray dashboard` tunnels through ssh")


def _open_to_all(rule: dict[str, Any]) -> list[int]:
    """Those of CLUSTER_PORTS that a rule of an AWS security group opens to every address."""
    ranges = [*(rule.get("IpRanges") or ()), *(rule.get("Ipv6Ranges") or ())]
    wide = any(entry.get("CidrIp") == "0.0.0.0/0" or entry.get("CidrIpv6") == "::/0" for entry in ranges)
    if not wide:
        return []
    first, last = rule.get("FromPort", 0), rule.get("ToPort", 65535)
    # protocol -1 is every protocol; AWS then ignores the ports of the rule
    return [port for port in CLUSTER_PORTS if first <= port <= last or str(rule.get("IpProtocol")) == "-1"]


def _start(config: dict[str, Any], key: str) -> tuple[str, str]:
    """Key and text of the command that starts Ray; the text is empty if none does."""
    for number, command in enumerate(config.get(key) or ()):
        if "ray start" in command:
            return f"{key}.{number}", command
    return key, ""


def option(command: str, name: str) -> str | None:
    """The value of ``--name=value`` or ``--name value`` in a shell command; None if it is not given."""
    match = re.search(rf"--{name}(?:=|\s+)(\S+)", command)
    return match[1].strip("'\"") if match else None


def _head_command(config: dict[str, Any], local: bool) -> Iterator[Finding]:
    key, command = _start(config, "head_start_ray_commands")
    if not command:
        yield Finding(key, "a command with `ray start --head`", config.get(key) or "none")
        return
    if not re.search(r"--head(\s|$)", command):
        yield Finding(key, "`ray start --head`", command)
    if not option(command, "autoscaling-config"):
        remedy = "Without it no worker is ever started"
        yield Finding(key, "--autoscaling-config=~/ray_bootstrap_config.yaml", "none", remedy)
    dashboard = option(command, "dashboard-host") or "127.0.0.1"
    if dashboard not in LOOPBACK:
        remedy = "It runs what it is told to: keep it on loopback and tunnel with `ray dashboard`"
        yield Finding(key, "--dashboard-host=127.0.0.1", dashboard, remedy)
    if local:
        yield from _local_head(key, command)


def _local_head(key: str, command: str) -> Iterator[Finding]:
    address = option(command, "node-ip-address")
    if address is None or address in LOOPBACK:
        expected = '--node-ip-address=$(echo $SSH_CONNECTION | cut -d" " -f3), or the head\'s address'
        remedy = "On a machine without a default route the head announces 127.0.0.1 and no worker finds it"
        yield Finding(key, expected, address or "none", remedy)
    if "RAY_enable_autoscaler_v2=0" not in command:
        remedy = (
            "`ray up` asks for autoscaler v2 in this command's environment; that counts the head as one "
            "of the local provider's workers and starts one too few"
        )
        yield Finding(key, "export RAY_enable_autoscaler_v2=0 before `ray start`", "none", remedy)


def _worker_command(config: dict[str, Any]) -> Iterator[Finding]:
    key, command = _start(config, "worker_start_ray_commands")
    if not command:
        yield Finding(
            key, "a command with `ray start --address=$RAY_HEAD_IP:6379`", config.get(key) or "none"
        )
        return
    # 6379 is where `ray start --head` listens unless it is told a port
    port = option(_start(config, "head_start_ray_commands")[1], "port") or "6379"
    address = option(command, "address")
    if address is None or not address.endswith(f":{port}"):
        yield Finding(key, f"--address=$RAY_HEAD_IP:{port}, the head's port", address or "none")


def _token(config: dict[str, Any]) -> Iterator[Finding]:
    for part in ("head_start_ray_commands", "worker_start_ray_commands"):
        key, command = _start(config, part)
        if command and "RAY_AUTH_MODE=token" not in command:
            remedy = "Without it whoever reaches a port of the cluster runs code on it"
            yield Finding(key, "export RAY_AUTH_MODE=token before `ray start`", "no authentication", remedy)
    mounts = config.get("file_mounts") or {}
    if TOKEN_FILE not in mounts and "RAY_AUTH_TOKEN_PATH=" not in str(config.get("head_start_ray_commands")):
        remedy = "`ray get-auth-token --generate` makes it; without it the nodes refuse each other"
        yield Finding("file_mounts", f"{TOKEN_FILE}: {TOKEN_FILE}, the token for every node", "none", remedy)


def _package(config: dict[str, Any]) -> Iterator[Finding]:
    # Commands are free text, so any that names archsweep is taken to install it.
    of_all, docker = str(config.get("setup_commands")), config.get("docker") or {}
    if "archsweep" in of_all or "archsweep" in str(docker.get("image")):
        return
    everywhere = "archsweep" in str(config.get("head_setup_commands")) and "archsweep" in str(
        config.get("worker_setup_commands")
    )
    # `docker` may name other images for head and workers, under head_image and worker_image
    if not everywhere and not re.search(r"image'?: '[^']*archsweep", str(config.get("docker"))):
        remedy = "Every node solves: pip install ~/archsweep (the checkout, in file_mounts) or a release"
        yield Finding("setup_commands", "a command that installs archsweep on every node", "none", remedy)
