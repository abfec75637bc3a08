"""The documentation as a site: what it has from code is fresh, and it builds without a warning."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest

import archsweep
from costmodel.errors import InputError
from costmodel.formats.networks import load_network
from costmodel.formats.yaml.file_keys import check_keys
from costmodel.formats.yaml.safe_yaml import load_yaml
from sweep.cli.schemas import FILES, file_schema
from sweep.study.study import load_study
from tests.docs.generated_pages import ROOT, pages
from tests.docs.guide_blocks import blocks_of

DOCS = ROOT / "docs"
LIBRARY = {
    "study": [
        *ROOT.glob("sweep/**/studies/*.yaml"),
        *DOCS.glob("guides/*/*.yaml"),
        *DOCS.glob("*/*.study.yaml"),
    ],
    "architecture": [
        *ROOT.glob("costmodel/**/architectures/*.yaml"),
        *ROOT.glob("costmodel/**/tiles/*.yaml"),
    ],
    "chip": [*ROOT.glob("costmodel/**/chips/*.yaml")],
    "technology": [*ROOT.glob("costmodel/**/technologies/*.yaml")],
    "constraints": [*DOCS.glob("guides/*/rules.yaml")],
    "program": [*ROOT.glob("tests/data/programs/*.json")],
}
"""Files of each kind; a guide's folder has files of other kinds as well."""
KNOWN_BY = {"study": "networks", "architecture": "levels", "chip": "mesh"} | {
    "technology": "sram_energy",
    "constraints": "constraints",
    "program": "tiles",
}
"""A key that only files of the kind have at their top."""


def files(kind: str) -> list[Path]:
    return [path for path in LIBRARY[kind] if KNOWN_BY[kind] in as_yaml(path)]


def as_yaml(path: Path) -> Any:
    """What is in a file, as our reader has it; nothing of Timeloop's own files, whose tags no other has."""
    return {} if "!Container" in path.read_text(encoding="utf-8") else load_yaml(path)


def check(kind: str, document: Any) -> None:
    jsonschema.Draft202012Validator(file_schema(kind)).validate(document)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(pages()), ids=lambda path: path.name)
def test_what_comes_from_code_is_as_the_code_is(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == pages()[path], "run python -m tests.docs.generated_pages"


@pytest.mark.parametrize("kind", FILES)
def test_schemas_are_schemas_that_describe_every_key(kind: str) -> None:
    schema = file_schema(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    for section in (schema, *schema["$defs"].values()):
        assert section["description"]
        assert [key for key, value in section["properties"].items() if not value.get("description")] == []


@pytest.mark.parametrize("kind", FILES)
def test_schemas_accept_every_file_of_the_library_and_the_guides(kind: str) -> None:
    found = files(kind)
    assert found
    for path in found:
        check(kind, as_yaml(path))


MISTAKES: dict[str, dict[str, tuple[str, Any]]] = {
    "study": {
        "a key that is not there": ("netwrks", ["alexnet"]),
        "a text for a list": ("networks", "alexnet"),
        "no network": ("networks", []),
        "a network that is a number": ("networks", [3]),
        "a weight of nothing": ("networks", [{"network": "alexnet", "weight": 0}]),
        "an objective that nobody counts": ("objectives", ["energy"]),
        "a sampler of Optuna as a method": ("search", {"method": "tpe"}),
        "a search without its number": ("search", {"method": "random"}),
        "half a draw": ("search", {"method": "random", "samples": 0.5}),
        "a range that begins below 1": ("axes", {"SRAM.size": {"from": 0, "to": 4, "step": 1}}),
        "a solver that is a number": ("mapping", {"solver": 1}),
        "a tolerance of everything": ("mapping", {"tolerance": 1}),
        "a factor of nothing": ("mapping", {"constraints": [{"level": "SRAM", "temporal": {"K": 0}}]}),
        "a scratchpad nowhere": ("scratchpad", {}),
        "a name with a space": ("name", "a b"),
    },
    "architecture": {
        "no level": ("levels", []),
        "a kind of memory that there is not": ("levels", [{"name": "DRAM", "kind": "flash"}]),
        "a size without a number": ("levels", [{"name": "DRAM", "kind": "dram", "size": "KiB"}]),
        "a size with a wrong unit": ("levels", [{"name": "DRAM", "kind": "dram", "size": "3 KiX"}]),
        "a size of nothing": ("levels", [{"name": "DRAM", "kind": "dram", "size": 0}]),
        "a fan-out along one side": ("levels", [{"name": "DRAM", "kind": "dram", "fanout": [2]}]),
        "energies of two accesses": (
            "levels",
            [{"name": "D", "kind": "dram", "energy": {"read": 1, "write": 1}}],
        ),
        "a frequency in seconds": ("frequency", "1 s"),
        "words of no bits": ("word_bits", 0),
        "an area below nothing": ("compute", {"area": -1}),
    },
    "chip": {
        "a mesh of three sides": ("mesh", [4, 4, 4]),
        "a mesh in words": ("mesh", "4 by 4"),
        "no links": ("noc", None),
        "a link without a bandwidth": ("noc", {"hop_energy": 1}),
        "an energy of a word": ("noc", {"hop_energy": "1 pJ/word", "link_bandwidth": 1}),
        "a stripe of nothing": ("stripe", 0),
    },
    "technology": {
        "an energy in words": ("dram_energy", "128 pJ"),
        "an energy without a source": ("dram_energy", {"value": "128 pJ"}),
        "an area in pJ": ("mac_area", {"value": "3 pJ", "source": "s"}),
        "no description": ("description", ""),
    },
    "constraints": {
        "a rule that there is not": ("keep", "some"),
        "padding of more than all": ("padding", 1.5),
        "a constraint on nothing": ("constraints", [{"temporal": {"K": 1}}]),
    },
    "program": {
        "another version": ("format", "archsweep program 0"),
        "an instruction that there is not": ("tiles", [[{"jump": 0}]]),
        "a load without an address": ("tiles", [[{"load": 0}]]),
        "a repetition of nothing": ("tiles", [[{"repeat": 0, "body": []}]]),
        "an interval without an end": (
            "works",
            [{"layer": "a", "box": [[0]], "cycles": 1, "operations": 1}],
        ),
        "a dim of no size": ("layers", {"a": {"N": 0}}),
    },
}
"""Of each kind of file, what stands at which key instead of what a right file has."""


@pytest.mark.parametrize(("kind", "mistake"), [(kind, each) for kind in FILES for each in MISTAKES[kind]])
def test_schemas_and_readers_refuse_what_is_wrong(kind: str, mistake: str) -> None:
    right = as_yaml(sorted(files(kind))[0])
    key, value = MISTAKES[kind][mistake]
    wrong = {**deepcopy(right), key: value}
    with pytest.raises(jsonschema.ValidationError):
        check(kind, wrong)
    with pytest.raises(InputError):
        check_keys(FILES[kind][0], wrong, "the file")


WRITTEN = (
    *("128 KiB", "128KiB", "128", 128, 1.5, "1_000 words", " 4 B ", ".5 MiB", "1e3 bits", "+4 words", "5. B"),
    *("KiB", "", "12 KiX", "1 2 B", "-4 B", -4, "1e B", "0x10", "4 B B", True, [4], {"value": 4}, "4 b"),
)


@pytest.mark.parametrize("written", WRITTEN, ids=repr)
def test_schemas_and_readers_agree_on_sizes(written: Any) -> None:
    document = {"name": "x", "word_bits": 16, "levels": [{"name": "D", "kind": "dram", "size": written}]}
    accepted = {"reader": True, "schema": True}
    try:
        check_keys(FILES["architecture"][0], document, "the file")
    except InputError:
        accepted["reader"] = False
    try:
        check("architecture", document)
    except jsonschema.ValidationError:
        accepted["schema"] = False
    assert accepted["reader"] == accepted["schema"]


@pytest.mark.slow
def test_the_command_prints_the_schemas() -> None:
    command = [sys.executable, "-m", "archsweep", "list"]
    printed = subprocess.run(
        [*command, "json-schema/chip"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert json.loads(printed.stdout) == file_schema("chip")
    wrong = subprocess.run(
        [*command, "json-schema/chp"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert wrong.returncode == 2
    assert "Did you mean chip?" in wrong.stderr


def test_the_files_that_the_reference_shows_are_read(tmp_path: Path) -> None:
    shown = blocks_of((DOCS / "reference" / "files.md").read_text(encoding="utf-8"))
    study, phases = (block.text for block in shown if block.language == "yaml")
    (graph,) = (block.text for block in shown if block.language == "json")
    (tmp_path / "study.yaml").write_text(study, encoding="utf-8")
    (tmp_path / "graph.json").write_text(graph, encoding="utf-8")
    assert len(load_study(str(tmp_path / "study.yaml")).axes) == 3
    check("study", as_yaml(tmp_path / "study.yaml"))
    (tmp_path / "phases.yaml").write_text(f"name: served\narchitecture: tpu-like\n{phases}", encoding="utf-8")
    served = load_study(str(tmp_path / "phases.yaml")).networks
    assert [one.shown for one in served] == ["prefill", "decode past=640", "decode past=4096"]
    assert [one.weight for one in served] == [1, 24, 8]
    check("study", as_yaml(tmp_path / "phases.yaml"))
    assert [layer.macs for layer in load_network(tmp_path / "graph.json").layers] == [4 * 3 * 3 * 3 * 6 * 6]


def test_the_python_reference_has_the_names_of_the_public_face() -> None:
    text = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: archsweep\.(\w+)$", text, re.MULTILINE)) == sorted(archsweep.__all__)


def test_every_page_is_in_the_navigation() -> None:
    shown = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert shown == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


@pytest.mark.slow
@pytest.mark.skipif(find_spec("zensical") is None, reason="pip install 'archsweep[docs]'")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    packages = ("clusters", "costmodel", "results", "solvers", "sweep")
    for name in ("archsweep.py", "BENCHMARKS.md", "tests", *packages):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    built = build(tmp_path)
    assert built.returncode == 0, built.stdout[-5000:]
    # mkdocstrings says in its log what it could not find, and the build goes on
    assert not re.search("error|warning", built.stdout, re.IGNORECASE), built.stdout[-5000:]
    for page in DOCS.glob("reference/*.md"):
        html = (tmp_path / "site" / "reference" / page.stem / "index.html").read_text(encoding="utf-8")
        names = re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        # a module's docstring is there by its headings
        assert [name for name in names if not re.search(f'id="{re.escape(name)}("|--)', html)] == []
    pages_built = {path.parent.name for path in (tmp_path / "site").rglob("index.html")}
    assert {path.stem for path in DOCS.rglob("*.md")} - pages_built <= {"index"}
    assert list(dead_anchors(tmp_path / "site")) == []
    benchmarks = (tmp_path / "site" / "benchmarks" / "index.html").read_text(encoding="utf-8")
    assert "Timeloop" in benchmarks
    wrong = "[no page](nowhere.md) and [no heading](benchmarks.md#nowhere)\n"
    (tmp_path / "docs" / "index.md").write_text(wrong, encoding="utf-8")
    assert build(tmp_path).returncode != 0
    assert list(dead_anchors(tmp_path / "site")) == ["index.html: benchmarks/#nowhere"]


def dead_anchors(site: Path) -> Iterator[str]:
    """Links of the pages to a heading that there is not, also in pages that are included."""
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    there = {path.resolve(): set(re.findall(r'id="([^"]+)"', text)) for path, text in pages.items()}
    for path, text in pages.items():
        for link, anchor in re.findall(r'href="([^":#]*)#([^"]+)"', text):
            target = (path.parent / link).resolve() if link else path.resolve()
            target = target / "index.html" if target.is_dir() else target
            if unquote(anchor) not in there.get(target, ()):
                yield f"{path.relative_to(site)}: {link}#{anchor}"


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
