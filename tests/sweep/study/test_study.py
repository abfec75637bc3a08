"""Study files: what is accepted, and what every kind of mistake is answered with."""

from pathlib import Path

import pytest

from costmodel.errors import InputError
from sweep.study.study import load_study, study_names, study_path

GOOD = """
name: small
networks: [alexnet]
architecture: eyeriss
axes:
  SRAM.size: {choices: [32 KiB, 64 KiB]}
"""


OPTUNA = "search: {method: optuna, trials: 3, "


def write(folder: Path, text: str) -> str:
    path = folder / "study.yaml"
    path.write_text(text)
    return str(path)


def test_defaults(tmp_path: Path) -> None:
    study = load_study(write(tmp_path, GOOD))
    assert study.networks[0].network == "alexnet"
    assert study.networks[0].weight == 1.0
    assert study.objectives == ("energy_pj", "cycles", "area_um2")
    assert study.mapping.solver == "exact"
    assert study.search.method == "grid"


@pytest.mark.parametrize("name", study_names())
def test_built_in_studies_load(name: str) -> None:
    assert load_study(name).name == name


def test_ranges(tmp_path: Path) -> None:
    text = GOOD + "  RegFile.size: {from: 64, to: 300, powers_of_two: true}\n"
    text += (
        "  SRAM.word_bits: {from: 8, to: 16, step: 4}\n  DRAM.energy: {from: 1, to: 2, step: 1, unit: pJ}\n"
    )
    axes = {axis.key: tuple(axis.choices) for axis in load_study(write(tmp_path, text)).axis_values()}
    assert axes["RegFile.size"] == (64, 128, 256)
    assert axes["SRAM.word_bits"] == (8, 12, 16)
    assert axes["DRAM.energy"] == ("1 pJ", "2 pJ")


def test_files_beside_the_study_are_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine\n")
    (tmp_path / "mine.json").write_text("{}")
    networks = "[mine.json.training, alexnet.training]"
    path = write(tmp_path, GOOD.replace("eyeriss", "mine.yaml").replace("[alexnet]", networks))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    study = load_study(path)
    assert study.architecture == str(tmp_path / "mine.yaml")
    named = [choice.network for choice in study.networks]
    assert named == [str(tmp_path / "mine.json.training"), "alexnet.training"]


WRONG = {
    "unknown key": (GOOD + "serach: {method: grid}\n", ["serach", "Did you mean search?"]),
    "unknown axis key": (GOOD + "  A.size: {choises: [1]}\n", ["axes.A.size", "choises", "choices"]),
    "axis without values": (GOOD + "  A.size: {choices: []}\n", ["axes.A.size", "at least one value"]),
    "empty range": (GOOD + "  A.size: {from: 8, to: 4, step: 1}\n", ["axes.A.size", "at least one value"]),
    "range without step": (GOOD + "  A.size: {from: 4, to: 8}\n", ["axes.A.size", "step"]),
    "both forms": (GOOD + "  A.size: {choices: [1], from: 4}\n", ["axes.A.size", "either"]),
    "no networks": (GOOD.replace("[alexnet]", "[]"), ["networks", "at least 1"]),
    "wrong type": (GOOD.replace("eyeriss", "12"), ["architecture", "a text", "12"]),
    "zero batch": (GOOD.replace("[alexnet]", "[{network: alexnet, batch: 0}]"), ["batch", "0"]),
    "no name": (GOOD.replace("name: small", ""), ["name"]),
    "a name that leaves the folder": (GOOD.replace("small", "../up"), ["name", "../up"]),
    "bad constraint": (GOOD + "constraints: ['area < big']\n", ["constraints", "area_um2", "area < big"]),
    "constraint number": (GOOD + "constraints: ['area_um2 < 1e']\n", ["constraints", "1e"]),
    "objective": (GOOD + "objectives: [beauty]\n", ["objectives", "energy_pj", "beauty"]),
    "objective twice": (GOOD + "objectives: [cycles, cycles]\n", ["objectives", "once"]),
    "search": (GOOD + "search: {method: magic}\n", ["search", "magic", "grid"]),
    "sampler as method": (
        GOOD + "search: {method: tpe}\n",
        ["search.method", "sampler: tpe, trials"],
    ),
    "no method": (GOOD + "search: {trials: 3}\n", ["search:", "the key 'method'"]),
    "sampler": (GOOD + OPTUNA + "sampler: nsga-ii}\n", ["search.sampler", "'nsga2'", "nsga-ii"]),
    "trials": (GOOD + "search: {method: optuna, trials: -3}\n", ["search.trials", "at least 1", "-3"]),
    "plateau": (GOOD + OPTUNA + "plateau: 20}\n", ["search.plateau", "trials, tolerance", "20"]),
    "key of another method": (
        GOOD + OPTUNA + "samples: 2}\n",
        ["search.samples", "keys prune_by_bounds, me"],
    ),
    "time": (GOOD + "mapping: {wall_seconds: -1}\n", ["mapping.wall_seconds", "more than 0", "-1"]),
    "not YAML": ("name: [", ["study.yaml"]),
    "a list": ("- name", ["the keys name, description"]),
    "a bomb": (
        "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
        "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
        "e: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n",
        ["study.yaml"],
    ),
    "python objects": ("name: !!python/object/apply:os.system ['true']\n", ["study.yaml"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_name_file_key_and_expectation(case: str, tmp_path: Path) -> None:
    text, fragments = WRONG[case]
    with pytest.raises(InputError) as caught:
        load_study(write(tmp_path, text))
    message = str(caught.value)
    assert "study.yaml" in message
    for fragment in fragments:
        assert fragment in message


def test_unknown_study_suggests() -> None:
    with pytest.raises(InputError, match="Did you mean quickstart"):
        study_path("quickstrt")
