"""A study from a stranger: plain data only, bounded, in its own folder, and harmless in the report."""

import ast
import json
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from costmodel.errors import InputError
from results.report.page import write_report
from results.store.folder import RunFolder, RunWriter
from sweep.run.session import RuntimeChoice, run_folder, run_study
from sweep.study.study import load_study

ROOT = Path(__file__).parents[3]
PACKAGES = ("clusters", "costmodel", "results", "solvers", "sweep")
WriteStudy = Callable[..., Path]

COMPILES_NO_TEXT = {"re.compile", "call.function.compile"}
"""A regular expression, and a function of ours by numba."""
RUNS_CODE = {"eval", "exec", "compile", "system", "popen", "unsafe_load", "full_load", "load_all"}
PICKLES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
PICKLES_PAYLOADS = {
    "clusters/execution.py",
    "clusters/in_process.py",
    "clusters/ray/actors.py",
    "clusters/ray/sub_driver.py",
    "clusters/ledger.py",
}
"""Between a driver, its sub-drivers and its own workers; a study is plain data long before."""


def sources() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_nothing_unpickles_or_runs_text() -> None:
    wrong = []
    for file, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names]
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                found = {name.partition(".")[0] for name in names} & PICKLES
                wrong += [(file, name) for name in found if file not in PICKLES_PAYLOADS]
            elif isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                bare = called.rpartition(".")[2]
                shell = any(keyword.arg in ("shell", "allow_pickle") for keyword in node.keywords)
                if shell or called == "yaml.load" or (bare in RUNS_CODE and called not in COMPILES_NO_TEXT):
                    wrong.append((file, ast.unparse(node)))
    assert wrong == []


def mark(path: Path) -> str:
    return f"!!python/object/apply:os.system ['touch {path}']"


@pytest.mark.parametrize("key", ["name", "networks", "architecture", "axes", "mapping", "description"])
def test_a_tag_of_python_runs_nothing(tmp_path: Path, write_study: WriteStudy, key: str) -> None:
    lines = [line for line in write_study().read_text().splitlines() if not line.startswith((f"{key}:", " "))]
    text = "\n".join([*lines, f"{key}: {mark(tmp_path / 'ran')}"]).replace("axes:\n", "")
    with pytest.raises(InputError, match="python/object"):
        load_study(str(write_study(text)))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("which", "instead_of"), [("problem.yaml", "problem.yaml"), ("chip.yaml", "eyeriss")]
)
def test_nor_in_the_files_a_study_names(
    tmp_path: Path, write_study: WriteStudy, which: str, instead_of: str
) -> None:
    path = write_study(write_study().read_text().replace(instead_of, which))
    (tmp_path / which).write_text(f"problem: {mark(tmp_path / 'ran')}\n")
    with pytest.raises(InputError, match="python/object"):
        run_study(load_study(str(path)), tmp_path / "run", RuntimeChoice(in_process=True))
    assert not (tmp_path / "ran").exists()


def test_a_laughing_file_is_refused_at_once(write_study: WriteStudy) -> None:
    """Each line stands for ten of the one before: 10^12 values in a kilobyte."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(InputError, match="10,000 values"):
        load_study(str(write_study(write_study().read_text() + "\n".join(lines))))


@pytest.mark.parametrize(
    ("more", "limit"),
    [("description: " + "x" * (3 << 20), "2,097,152 bytes"), ("deep: " + "[" * 200 + "]" * 200, "64 levels")],
)
def test_a_huge_or_deep_file_is_refused(write_study: WriteStudy, more: str, limit: str) -> None:
    with pytest.raises(InputError, match=limit):
        load_study(str(write_study(write_study().read_text() + more + "\n")))


@pytest.mark.parametrize(
    "name",
    [
        "../up",
        "/tmp/abs",
        "a/b",
        "..",
        ".hidden",
        "a\\\\b",
        "~",
        "~root",
        "",
        "a\\nb",
        "-o",
        "s3://bucket",
        "x" * 65,
    ],
)
def test_a_study_s_name_leads_out_of_no_folder(write_study: WriteStudy, name: str) -> None:
    text = write_study().read_text().replace("name: tiny", f'name: "{name}"')
    with pytest.raises(InputError, match="name"):
        load_study(str(write_study(text)))


def test_a_run_writes_below_its_own_folder_only(
    write_study: WriteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = load_study(str(write_study()))
    monkeypatch.chdir(tmp_path)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    run_study(study, None, RuntimeChoice(in_process=True))
    written = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert written
    assert all(path.is_relative_to(tmp_path / "runs" / "tiny") for path in written)
    assert run_folder(study) == Path("runs/tiny")


ATTACK = "<img src=x onerror=alert(1)>"
ATTACKS = (ATTACK, "</script><script>alert(2)</script>", "\"'><svg onload=alert(3)>", "<b>${title} {{x}}")


class Elements(HTMLParser):
    """Counts what a browser would take for elements, and collects their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes |= {name for name, _ in attrs}


def elements(page: Path) -> Elements:
    seen = Elements()
    seen.feed(page.read_text(encoding="utf-8"))
    return seen


def run_with_names(write_study: WriteStudy, place: Path, attack: str) -> Path:
    """A run whose description, network, layer, architecture, notes, errors, and worker are ``attack``."""
    path = write_study()
    network = attack.replace("/", "_") + ".yaml"
    problem = (path.parent / "problem.yaml").read_text()
    name = json.dumps(attack).replace("{", "\\x7b")  # braces as they are would be a Jinja template
    (path.parent / network).write_text(problem.replace("name: gemm", f"name: {name}"))
    text = path.read_text().replace("[problem.yaml]", f"[{json.dumps(network)}]")
    path.write_text(f"{text}description: {json.dumps(attack)}\n")
    folder = run_study(load_study(str(path)), place, RuntimeChoice(in_process=True))
    rows = {table: RunFolder(folder.path).read_rows(table) for table in ("layers", "designs")}
    for row in (row for table in rows.values() for row in table):
        del row["schema_version"]
    with RunWriter(folder.path) as writer:
        for row in rows["layers"][:2]:
            said = {"layer_name": attack, "note": attack, "worker": attack, "solver": attack}
            writer.append("layers", {**row, **said})
        failed = {"status": "failed", "error": f"{attack}: {attack}", "objective": None}
        writer.append("layers", {**rows["layers"][2], **failed})
        writer.append("designs", {**rows["designs"][0], "note": attack, "architecture_name": attack})
        lock = RunFolder(folder.path).read_lock_file()
        writer.write_lock_file({**lock, "commit": attack, attack: attack})
    return write_report(folder.path)


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_name_becomes_markup_in_the_report(write_study: WriteStudy, tmp_path: Path, attack: str) -> None:
    """The page has the elements of the same page with harmless names, and its attributes."""
    (tmp_path / "a").mkdir()
    harmless = elements(run_with_names(write_study, tmp_path / "a" / "run", "harmless"))
    hostile = elements(run_with_names(write_study, tmp_path / "b" / "run", attack))
    assert hostile.tags == harmless.tags
    assert hostile.attributes == harmless.attributes
    assert "img" not in hostile.tags
