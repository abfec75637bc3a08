"""What a `ray up` file needs on the machine it is started from: files, programs, the cloud's library."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clusters.deployment.findings import Finding, at
from clusters.deployment.launcher import TOKEN_FILE

LIBRARIES = {"aws": ("boto3", "boto3"), "gcp": ("googleapiclient", "google-api-python-client")}
"""Provider: the module that Ray's node provider imports, and the package that has it."""


def check_surroundings(document: Any) -> list[Finding]:
    """Findings on this machine for a sound `ray up` file; none for other documents."""
    if not isinstance(document, dict) or not isinstance(at(document, "provider.type"), str):
        return []
    return [*_files(document), *_programs(), *_library(document["provider"]["type"])]


def _files(document: dict[str, Any]) -> Iterator[Finding]:
    private = at(document, "auth.ssh_private_key")
    if private:
        yield from _private_key(Path(private).expanduser())
    for there, here in (document.get("file_mounts") or {}).items():
        if not Path(str(here)).expanduser().exists():
            remedy = "`ray get-auth-token --generate` makes it" if there == TOKEN_FILE else ""
            yield Finding(f"file_mounts.{there}", "a file or folder here", f"{here}, which is none", remedy)


def _private_key(path: Path) -> Iterator[Finding]:
    key = "auth.ssh_private_key"
    if not path.is_file():
        yield Finding(key, "a file here", f"{path}, which is none", "ssh-keygen makes one")
    elif path.stat().st_mode & 0o077:
        found = f"{path}, which others may read too"
        yield Finding(key, "a file that only its owner reads, or ssh refuses it", found, f"chmod 600 {path}")


def _programs() -> Iterator[Finding]:
    for program in ("ssh", "rsync"):
        if shutil.which(program) is None:
            yield Finding(
                "", f"{program} on this machine, which `ray up` calls", "none", f"Install {program}"
            )


def _library(provider: str) -> Iterator[Finding]:
    module, package = LIBRARIES.get(provider, ("", ""))
    if module and importlib.util.find_spec(module) is None:
        expected = f"{package} on this machine, which `ray up` imports"
        yield Finding("provider.type", expected, "none", f"pip install {package}")
