"""Hosts for tests: each a network namespace with its own address, processes, home, /tmp and sshd.

Nothing of the machine's own network is touched: the switch that joins the hosts is a namespace as well. A
host's processes are a process-id namespace, so that its `ray stop` sees its own Ray only, and ending its
first process ends all of them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.clusters.processes import PATIENCE, until

REPOSITORY = Path(__file__).parents[2]
PROGRAMS = ("ip", "unshare", "nsenter", "setpriv", "sshd", "ssh", "ssh-keygen", "rsync", "hostname", "ps")
NAMESPACES = ("--pid", "--mount", "--uts", "--ipc")
PREFIX_LENGTH = 24

SSHD = """
Port 22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
"""

BOOT = """
set -e
mount --make-rprivate /
mkdir -p /run/sshd {host}/tmp
mount -t tmpfs host-tmp {host}/tmp
for kept in {kept}; do
    mkdir -p "{host}/tmp$kept"
    mount --rbind "/tmp$kept" "{host}/tmp$kept"
done
mount --rbind {host}/tmp /tmp
chmod 1777 /tmp
mount -t tmpfs host-shm /dev/shm
mount --bind {host}/passwd /etc/passwd
mount --bind {host}/hosts /etc/hosts
hostname {name}
exec $(command -v sshd) -D -e -f {folder}/sshd_config
"""


def why_not() -> str:
    """Why hosts cannot be made here; empty where they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [program for program in PROGRAMS if shutil.which(program, path=_path()) is None]
    if missing:
        return (
            f"not installed: {', '.join(missing)} (Debian: iproute2 openssh-server rsync util-linux procps)"
        )
    probe = ["unshare", "--net", "--fork", *NAMESPACES, "true"]
    tried = subprocess.run(probe, capture_output=True, text=True, check=False)
    return f"namespaces cannot be made: {tried.stderr.strip()}" if tried.returncode else ""


def _path() -> str:
    return os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/sbin"))


def _command(*arguments: str) -> None:
    environment = os.environ | {"PATH": _path()}
    subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=PATIENCE, env=environment)


@dataclass
class Host:
    """One machine: `run` is what its owner types there."""

    name: str
    address: str
    folder: Path
    boot: subprocess.Popen[bytes]
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def _entered(self, command: Sequence[str], variables: dict[str, str], cwd: str = "") -> list[str]:
        environment = {
            "HOME": str(self.home),
            "USER": "root",
            "PATH": os.pathsep.join((f"{sys.prefix}/bin", _path())),
            "LANG": "C.UTF-8",
            **variables,
        }
        first = self._first_process()
        inside = [
            "nsenter",
            "-t",
            str(first),
            "--net",
            "--pid",
            "--mount",
            "--uts",
            "--ipc",
            f"--wd={self.home / cwd}",
        ]
        return [*inside, "env", "-i", *(f"{k}={v}" for k, v in environment.items()), *command]

    def _first_process(self) -> int:
        pid = self.boot.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()[0])

    def run(self, *command: str, check: bool = True, cwd: str = "", **variables: str) -> str:
        """Standard output and error of a command, run below home; AssertionError with them if it fails."""
        done = subprocess.run(
            self._entered(command, variables, cwd),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert not check or done.returncode == 0, f"{shlex.join(command)} ({done.returncode}):\n{done.stdout}"
        return done.stdout

    def start(self, *command: str, cwd: str = "", **variables: str) -> subprocess.Popen[str]:
        """A command left running until the host ends."""
        with open(self.folder / f"{Path(command[0]).name}.log", "w") as log:
            process = subprocess.Popen(
                self._entered(command, variables, cwd),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self.started.append(process)
        return process

    def listens(self, port: int, address: str = "127.0.0.1") -> bool:
        code = f"import socket; socket.create_connection(({address!r}, {port}), 2)"
        return (
            subprocess.run(
                self._entered([sys.executable, "-c", code], {}), capture_output=True, check=False
            ).returncode
            == 0
        )


@contextmanager
def hosts(folder: Path, *names: str) -> Iterator[list[Host]]:
    """Hosts of these names on one switch, which trust ``folder/key``; all of it ends with the block."""
    mark = f"arch{uuid.uuid4().hex[:6]}"
    switch = f"{mark}-switch"
    spaces = [f"{mark}-{name}" for name in names]
    made: list[Host] = []
    _keys(folder)
    try:
        for space in (switch, *spaces):
            _command("ip", "netns", "add", space)
        _command("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        _command("ip", "-n", switch, "link", "set", "br0", "up")
        table = "127.0.0.1 localhost\n" + "".join(f"10.99.0.{n} {name}\n" for n, name in enumerate(names, 1))
        for number, (name, space) in enumerate(zip(names, spaces, strict=True), 1):
            _plug_in(space, switch, number)
            made.append(_boot(folder, name, space, f"10.99.0.{number}", table))
        _wait_for_sshd(made)
        yield made
    finally:
        for host in made:
            host.boot.kill()
            host.boot.wait()
            for process in host.started:
                process.wait()
        for space in (switch, *spaces):
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)


def _keys(folder: Path) -> None:
    for name in ("key", "host_key"):
        _command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
    (folder / "sshd_config").write_text(SSHD.format(folder=folder))


def _plug_in(space: str, switch: str, number: int) -> None:
    port = f"port{number}"
    _command("ip", "-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", switch)
    _command("ip", "-n", switch, "link", "set", port, "master", "br0", "up")
    _command("ip", "-n", space, "addr", "add", f"10.99.0.{number}/{PREFIX_LENGTH}", "dev", "eth0")
    _command("ip", "-n", space, "link", "set", "eth0", "up")
    _command("ip", "-n", space, "link", "set", "lo", "up")


def _boot(folder: Path, name: str, space: str, address: str, table: str) -> Host:
    host = folder / name
    (host / "home").mkdir(parents=True)
    (host / "hosts").write_text(table)
    users = Path("/etc/passwd").read_text(encoding="utf-8").splitlines()
    root = f"root:x:0:0:root:{host / 'home'}:/bin/bash"
    (host / "passwd").write_text(
        "\n".join([root, *(user for user in users if not user.startswith("root:"))]) + "\n"
    )
    needed = {str(path.resolve()) for path in (folder, REPOSITORY, Path(sys.prefix), Path(sys.base_prefix))}
    kept = " ".join(
        shlex.quote(path.removeprefix("/tmp")) for path in sorted(needed) if path.startswith("/tmp/")
    )
    script = BOOT.format(host=host, folder=folder, name=name, kept=kept)
    # the hosts end with this process even when it is killed
    command = ["setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", space, "unshare", "--fork"]
    command += [*NAMESPACES, "--kill-child", "--mount-proc", "sh", "-c", script]
    with open(host / "sshd.log", "wb") as log:
        boot = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PATH": _path()},
        )
    return Host(name, address, host, boot)


def _listens(log: Path) -> bool:
    return "Server listening" in log.read_text()


def _wait_for_sshd(made: list[Host]) -> None:
    for host in made:
        log = host.folder / "sshd.log"
        try:
            until(partial(_listens, log), f"sshd of {host.name}", host.boot)
        except AssertionError as error:
            raise AssertionError(f"{error}: {log.read_text()}") from None
