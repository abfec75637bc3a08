"""From a laptop: a study and its code packed into a job of a cluster, and its results brought home."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from clusters.jobs.jobs import JobClient, JobRequest, JobState
from costmodel.errors import InputError
from costmodel.formats.timeloop.files import each_file
from costmodel.formats.yaml.chip_document import with_tile_file
from costmodel.formats.yaml.safe_yaml import load_yaml, names_a_file
from results.store.folder import LOCK_FILE
from results.store.remote.run_folder import is_uri
from sweep import PACKAGES, VERSION
from sweep.cli.jobs.home_copy import ORIGIN_FILE, HomeCopy
from sweep.cli.jobs.plug_in_code import stage_plug_ins
from sweep.run.folder_owner import check_lock_file
from sweep.study.plug_ins import plug_ins_of
from sweep.study.study import Study, file_and_rest, load_study, study_path

ROOT = Path(__file__).resolve().parents[3]
CODE = (*PACKAGES, "archsweep.py")
"""What of a checkout a job runs: the packages, and the module that it starts with."""


@dataclass(frozen=True)
class Submission:
    """What to run and with which code: ``auto``, ``cluster``, a wheel file, or a pip requirement.

    The plug-ins that the study names are sent with it; not with ``cluster``, where the installed ones run.

    ``output`` is a folder of the head or a URI; empty: ``~/runs/STUDY`` there. ``workers``, ``resume``
    and ``memory_limit_mib`` as of `archsweep run`.
    """

    study: str
    code: str = "auto"
    output: str = ""
    workers: int | None = None
    resume: bool = True
    memory_limit_mib: int | None = None


def submit(client: JobClient, submission: Submission) -> str:
    """Check the study, send it with its code, start it; returns the job's id."""
    study = load_study(submission.study)
    with tempfile.TemporaryDirectory(prefix="archsweep-") as stage:
        return client.submit(job_request(study, submission, Path(stage)))


def job_request(study: Study, submission: Submission, stage: Path) -> JobRequest:
    """Fill ``stage`` with all the job needs; the request to run it there."""
    file = stage_study(submission.study, stage / "study")
    output = submission.output or f"~/runs/{study.name}"
    words = ["python", "-m", "archsweep", "run", f"study/{file.name}", "--output", output]
    words += [] if submission.workers is None else ["--workers", str(submission.workers)]
    words += [] if submission.resume else ["--fresh"]
    if submission.memory_limit_mib is not None:
        words += ["--memory-limit", str(submission.memory_limit_mib)]
    pip = _stage_code(submission.code, stage)
    if submission.code != "cluster":
        pip += stage_plug_ins(plug_ins_of(study), stage)
    return JobRequest(
        command=shlex.join(words),
        name=f"archsweep-{study.name}",
        working_dir=stage,
        pip=pip,
        metadata={"archsweep": VERSION, "study": study.name, "output": output},
    )


def stage_study(name: str, folder: Path) -> Path:
    """Copy the study's file and the files it names into ``folder``; the copy names the copies."""
    source = study_path(name)
    document: dict[str, Any] = load_yaml(source)
    files = _Files(folder)

    def copied(named: str) -> str:
        return files.copied(named, source.parent)

    folder.mkdir(parents=True)
    if document.get("chip"):
        document["chip"] = files.copied_chip(document["chip"], source.parent)
    else:
        document["architecture"] = each_file(document["architecture"], copied, source.parent)
    for block in ("networks", "phases"):
        if block in document:
            document[block] = [
                copied(entry) if isinstance(entry, str) else {**entry, "network": copied(entry["network"])}
                for entry in document[block]
            ]
    staged = folder / source.name
    _write_yaml(staged, document)
    return staged


@dataclass
class _Files:
    """Copies under ``folder`` of files that a study names, each in a folder of its own."""

    folder: Path
    count: int = 0

    def copied(self, named: str, beside: Path) -> str:
        """The name of the copy as a file in ``folder`` says it; a name that is no file's stays."""
        file, rest = file_and_rest(named)
        path = beside / file
        if not names_a_file(path):
            return named
        copy = self.folder / "files" / str(self.count) / path.name
        self.count += 1
        copy.parent.mkdir(parents=True)
        shutil.copyfile(path, copy)
        return f"{copy.relative_to(self.folder)}{rest}"

    def copied_chip(self, named: str, beside: Path) -> str:
        """The same for a chip, whose copy names that of its tile's architecture."""

        def of_tile(tile: str) -> str:
            staged = self.copied(tile, (beside / named).parent)
            return tile if staged == tile else f"../../{staged}"

        staged = self.copied(named, beside)
        if staged != named:
            document = load_yaml(beside / named)
            changed = with_tile_file(document, lambda tile: each_file(tile, of_tile, (beside / named).parent))
            if changed != document:
                _write_yaml(self.folder / staged, changed)
        return staged


def _write_yaml(path: Path, document: Any) -> None:
    path.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), encoding="utf-8")


def _stage_code(code: str, stage: Path) -> tuple[str, ...]:
    """Put the code into ``stage`` where it travels with the study; the pip requirements otherwise."""
    checkout = (ROOT / "pyproject.toml").is_file()
    if code == "cluster":
        return ()
    if code == "auto" and checkout:
        _copy_checkout(stage)
        return ()
    if code == "auto":
        return (f"archsweep=={VERSION}",)
    if code.endswith(".whl") and "://" not in code:
        if not Path(code).is_file():
            raise InputError("--code", "a wheel file", code)
        shutil.copy(code, stage)
        return (f"${{RAY_RUNTIME_ENV_CREATE_WORKING_DIR}}/{Path(code).name}",)
    return (code,)


def _copy_checkout(stage: Path) -> None:
    """The code of the checkout, without what .gitignore leaves out."""
    for name in _checkout_files():
        target = stage / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)


def _checkout_files() -> Iterable[Path]:
    if (ROOT / ".git").exists() and shutil.which("git"):
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *CODE]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return [Path(name) for name in sorted(set(listed.split("\0")) - {""}) if (ROOT / name).is_file()]
    found = [path for name in CODE for path in (ROOT / name, *(ROOT / name).rglob("*")) if path.is_file()]
    return [path.relative_to(ROOT) for path in sorted(found) if "__pycache__" not in path.parts]


def home_folder(state: JobState, output: Path | None) -> Path:
    """Where a job's results go here: ``output``, or ``runs/STUDY``."""
    study = state.metadata.get("study", "")
    if "output" not in state.metadata or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", study):
        raise InputError("job", "a job that `archsweep submit` started", state.job)
    return output if output is not None else Path("runs") / study


def check_home(folder: Path) -> None:
    """Raises InputError where ``folder`` holds results that were not brought home: they would be lost."""
    if (folder / LOCK_FILE).exists() and not (folder / ORIGIN_FILE).exists():
        raise InputError(
            str(folder),
            "a new folder, or one that was brought home before",
            "the results of a run of this machine",
            "Name another folder with --output",
        )


def bring_home(client: JobClient, state: JobState, folder: Path) -> bool:
    """Make ``folder`` equal to the job's folder on the head; False where the job wrote none, or to a URI."""
    output = state.metadata["output"]
    if is_uri(output):
        return False
    check_home(folder)
    check_lock_file(folder, state.metadata["study"])
    home = HomeCopy(folder, client.address, state.job)
    try:
        names = client.fetch(output, home.here, home.take)
    except BaseException:
        home.record()  # what came before a lost connection or Ctrl-C
        raise
    if names:
        home.keep_only(names)
    return bool(names)
