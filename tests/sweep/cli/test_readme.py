"""What the README shows is what works: its study, its commands, its Python."""

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sweep.cli.main import main
from sweep.forecast.plan import plan
from sweep.study.study import load_study

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def study_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "pocket.yaml"
    path.write_text(blocks("yaml")[0], encoding="utf-8")
    return path


def test_the_study_plans(study_file: Path) -> None:
    planned = plan(load_study(str(study_file)))
    assert len(planned.designs) == 12
    assert 0 < planned.open < sum(planned.asked.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        line
        for block in blocks("sh")[2:]
        for line in block.splitlines()
        if re.match(r"archsweep (solve|list)", line)
    ],
)
def test_single_commands(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", shlex.split(line, comments=True))
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code in (0, None)
    assert capsys.readouterr().out


def test_python_of_one_solve(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(blocks("python")[1], "README.md", "exec"), {})
    assert "optimal" in capsys.readouterr().out


@pytest.mark.slow
def test_python_of_a_study(
    write_study: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a smaller study in the place of the quickstart, which .ci/run runs from the wheel."""
    assert plan(load_study("quickstart")).open
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    text = blocks("python")[0]
    assert 'load_study("quickstart")' in text
    exec(compile(text.replace('"quickstart"', f'"{write_study()}"'), "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "energy_pj" in printed
    assert printed.rstrip().endswith("report.html")
