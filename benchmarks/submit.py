"""How long from `archsweep submit` until the study is sent, first solved, and home; starts a Ray head here.

    python benchmarks/submit.py [--designs 4]

The head's dashboard answers before the clock starts; the copy of the code is cold, so it compiles at first.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import record

ROOT = Path(__file__).resolve().parents[1]
PYTHON = Path(sys.executable).parent
STUDY = """
name: bench
networks: [resnet18]
architecture: eyeriss
axes:
  SRAM.size: {{from: 64, to: {last}, step: 1, unit: KiB}}
mapping: {{solver: cosa, objective: edp, wall_seconds: 20}}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def head(home: Path) -> Iterator[str]:
    """A head of two CPUs whose home folder is ``home``; yields its dashboard's address."""
    port = free_port()
    words = ["ray", "start", "--head", "--block", "--port", "0", "--dashboard-port", str(port)]
    words += ["--dashboard-host", "127.0.0.1", "--ray-client-server-port", str(free_port())]
    words += ["--dashboard-agent-listen-port", str(free_port())]
    words += ["--min-worker-port", "0", "--max-worker-port", "0", "--num-cpus", "2"]
    words += ["--temp-dir", str(home / "ray")]
    path = os.pathsep.join((str(PYTHON), os.environ["PATH"]))
    with subprocess.Popen(
        [str(PYTHON / words[0]), *words[1:]],
        env={**os.environ, "HOME": str(home), "PATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_until_open(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def wait_until_open(port: int) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("the head does not answer")


def measure(address: str, home: Path, laptop: Path) -> dict[str, float]:
    """Seconds since the command was given until each step."""
    start = time.monotonic()
    seconds: dict[str, float] = {}
    layers = home / "runs" / "bench" / "layers"
    is_first = not layers.is_dir()
    with subprocess.Popen(
        [sys.executable, "-m", "archsweep", "submit", "bench.yaml", "--address", address],
        cwd=laptop,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=(laptop / "notes").open("w"),
    ) as process:
        while process.poll() is None:
            now = time.monotonic() - start
            if "is submitted" in (laptop / "notes").read_text():
                seconds.setdefault("submitted", now)
            if is_first and layers.is_dir() and any(file.stat().st_size for file in layers.iterdir()):
                seconds.setdefault("first result stored", now)
            time.sleep(0.1)
    if process.returncode:
        raise SystemExit((laptop / "notes").read_text())
    return seconds | {"results home": time.monotonic() - start}


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--designs", type=int, default=4)
    options = parser.parse_args()
    designs, found = options.designs, []
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as laptop:
        (Path(laptop) / "bench.yaml").write_text(STUDY.format(last=63 + designs))
        with head(Path(home)) as address:
            for attempt in ("first submit", "second submit, all in the store"):
                seconds = measure(address, Path(home), Path(laptop))
                for step, value in seconds.items():
                    print(f"{attempt:35} {step:20} {value:6.1f} s")
                found.append({"attempt": attempt, "designs": designs, "seconds": seconds})
    record.finish(found, options)


if __name__ == "__main__":
    main()
