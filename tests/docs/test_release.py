"""What a release says of itself is one version, and its image has every package of the wheel."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

from sweep import PACKAGES, VERSION

ROOT = Path(__file__).parents[2]


def test_one_version_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    (newest, *_) = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    images = {
        image
        for path in (ROOT / "clusters" / "deployment" / "files").glob("kuberay-*.yaml")
        for image in re.findall(r"/archsweep:(\S+)", path.read_text(encoding="utf-8"))
    }
    assert {project["version"], citation["version"], newest, *images} == {VERSION}
    assert project["license"] == citation["license"]


def test_the_image_is_built_of_what_the_wheel_has() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    copied = {
        word for line in re.findall(r"^COPY (?!--)(.+)$", text, re.MULTILINE) for word in line.split()[:-1]
    }
    assert copied == {*PACKAGES, "archsweep.py", "pyproject.toml", "README.md", "LICENSE"}
