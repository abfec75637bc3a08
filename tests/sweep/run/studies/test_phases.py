"""The phases of a request: prefill and decode with lengths and batches, as networks with weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from costmodel.errors import InputError
from results.front.certainty import objective_bounds
from results.front.pareto import design_frame
from results.store.folder import LOCK_FILE, RunFolder
from sweep.cli.jobs.submit_job import stage_study
from sweep.study.lock import study_id
from sweep.study.study import load_study, study_of
from tests.sweep.ended import Command
from tests.sweep.run.studies.test_tokens import MODEL

PREFILL = {
    "name": "prefill",
    "role": "prefill",
    "network": "config.json",
    "dims": {"logits": 1},
    "lengths": [{"dims": {"seq": 4}, "weight": 3}, {"dims": {"seq": 8}}],
}
DECODE = {
    "name": "decode",
    "role": "decode",
    "network": "config.json",
    "batch": 2,
    "dims": {"seq": 1, "past": 8},
    "per_request": 5,
}
TIMES = ("time_to_first_token_seconds", "time_per_output_token_seconds")


def written(folder: Path, *phases: dict[str, Any], **keys: Any) -> str:
    (folder / "config.json").write_text(json.dumps(MODEL))
    study = {
        "name": "x",
        "phases": list(phases),
        "architecture": "C_two_level",
        "axes": {"Buffer.size": {"choices": ["64 words", "256 words"]}},
        "objectives": [*TIMES, "seconds_per_token", "joules_per_token"],
        "mapping": {"solver": "random_search", "iterations": 100},
    }
    file = folder / "study.yaml"
    file.write_text(yaml.safe_dump(study | keys, sort_keys=False))
    return str(file)


def ran(command_line: Command, file: str, folder: Path) -> RunFolder:
    ended = command_line("run", file, "--in-process", "-o", str(folder))
    assert ended.status == 0, ended.err
    return RunFolder(folder)


@pytest.mark.slow
def test_a_request_waits_for_its_phases(command_line: Command, tmp_path: Path) -> None:
    run = ran(command_line, written(tmp_path, PREFILL, DECODE), tmp_path / "run")
    frame = design_frame(run)
    assert len(frame) == 2
    for row in run.read_rows("designs"):
        networks = row["networks"]
        assert list(networks) == ["prefill seq=4", "prefill seq=8", "decode"]
        short, long, step = networks.values()
        # one prefill a request, three of four at the shorter length; two requests share a step
        assert [one["weight"] for one in (short, long, step)] == [0.75, 0.25, 2.5]
        clock = row["cycles"] / row["latency_seconds"]
        mean = (3 * short["cycles"] + long["cycles"]) / 4
        assert row[TIMES[0]] == pytest.approx(mean / clock)
        assert row[TIMES[1]] == pytest.approx(step["cycles"] / clock)
        energy = (3 * short["energy_pj"] + long["energy_pj"]) / 4 + 2.5 * step["energy_pj"]
        assert row["energy_pj"] == pytest.approx(energy)
        # five steps, in each of which a request gets one token
        assert row["joules_per_token"] == pytest.approx(energy * 1e-12 / 5)
        assert row["tokens_per_second"] == pytest.approx(5 / row["latency_seconds"])
        assert row["watts"] == pytest.approx(row["energy_pj"] * 1e-12 / row["latency_seconds"])
    for bound, (_, row) in zip(objective_bounds(frame, TIMES), frame.iterrows(), strict=True):
        assert all(0 < least <= row[name] for least, name in zip(bound, TIMES, strict=True))


@pytest.mark.slow
def test_phases_are_the_networks_that_they_become(command_line: Command, tmp_path: Path) -> None:
    one_length = PREFILL | {"lengths": [], "dims": {"seq": 8, "logits": 1}}
    asked = {"objectives": ["seconds_per_token", "joules_per_token"]}
    phases = ran(command_line, written(tmp_path, one_length, DECODE, **asked), tmp_path / "phases")
    networks = [
        {"network": "config.json", "dims": {"seq": 8, "logits": 1}},
        {"network": "config.json", "batch": 2, "dims": {"seq": 1, "past": 8}, "weight": 2.5, "tokens": 2},
    ]
    stated = yaml.safe_load((tmp_path / "study.yaml").read_text())
    del stated["phases"]
    (tmp_path / "plain.yaml").write_text(yaml.safe_dump(stated | {"networks": networks}))
    plain = ran(command_line, str(tmp_path / "plain.yaml"), tmp_path / "plain")
    columns = ["cycles", "energy_pj", "seconds_per_token", "joules_per_token", "watts"]
    found = [design_frame(run)[columns].sort_values(columns).to_numpy().tolist() for run in (phases, plain)]
    assert found[0] == found[1]
    # the answers are the same tasks, so that one study finds those of the other
    ids = [{row["task_id"] for row in run.read_rows("layers")} for run in (phases, plain)]
    assert ids[0] == ids[1]


@pytest.mark.slow
def test_a_study_of_phases_runs_again_from_its_lock_file(command_line: Command, tmp_path: Path) -> None:
    file = written(tmp_path, PREFILL, DECODE)
    ran(command_line, file, tmp_path / "run")
    lock = yaml.safe_load((tmp_path / "run" / LOCK_FILE).read_text())
    assert "networks" not in lock["study"]
    again = study_of(lock["study"])
    assert again.networks == load_study(file).networks
    assert study_id(again) == lock["study_id"]


@pytest.mark.parametrize(
    ("phases", "keys", "said"),
    [
        ([DECODE], {}, r"phases: expected a prefill phase, for the objective time_to_first_token_seconds"),
        ([PREFILL], {}, r"phases: expected a decode phase, for the objective time_per_output"),
        ([PREFILL], {"objectives": ["seconds_per_token"]}, r"phases: expected 'tokens' of a network"),
        ([DECODE, DECODE], {}, r"phases\[1\]\.name: expected phases of different names, found decode again"),
        ([DECODE | {"role": "write"}], {}, r"phases\.decode\.role: expected 'prefill' or 'decode'"),
        (
            [PREFILL, DECODE | {"lengths": [{"dims": {"past": 4}}]}],
            {},
            r"phases\.decode\.lengths\[0\]\.dims\.past: expected past either in the dims",
        ),
        (
            [PREFILL | {"lengths": [{"dims": {"seq": 4}}, {"dims": {"seq": 4}, "weight": 2}]}],
            {},
            r"phases\.prefill\.lengths\[1\]: expected every length once, found seq=4 again",
        ),
        (
            [DECODE],
            {"objectives": ["cycles", "tokens_per_second"]},
            r"objectives\[1\]: expected objectives that a design minimises, found tokens_per_second\. "
            "Write seconds_per_token",
        ),
        ([PREFILL, DECODE], {"networks": ["alexnet"]}, r"networks: expected either 'networks' or 'phases'"),
        ([DECODE | {"bach": 2}], {}, r"phases\.decode\.bach: expected one of the keys .* Did you mean batch"),
    ],
)
def test_what_is_wrong_with_phases_is_said(
    phases: list[dict[str, Any]], keys: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said):
        load_study(written(tmp_path, *phases, **keys))


def test_a_length_that_a_network_lacks_is_named_where_it_stands(
    command_line: Command, tmp_path: Path
) -> None:
    file = written(tmp_path, PREFILL, DECODE | {"dims": {"seq": 1}, "lengths": [{"dims": {"pasd": 4}}]})
    ended = command_line("plan", file)
    assert ended.status == 2
    assert f"{file}: phases.decode.lengths[0].dims: expected" in ended.err


def test_a_study_runs_networks_or_phases(tmp_path: Path) -> None:
    file = Path(written(tmp_path, DECODE))
    stated = yaml.safe_load(file.read_text())
    del stated["phases"]
    file.write_text(yaml.safe_dump(stated))
    with pytest.raises(InputError, match=r"networks: expected 'networks' or 'phases', found neither"):
        load_study(str(file))


def test_a_job_takes_the_files_of_phases_along(tmp_path: Path) -> None:
    file = written(tmp_path, PREFILL, DECODE)
    staged = load_study(str(stage_study(file, tmp_path / "stage")))
    assert all(one.network.startswith(str(tmp_path / "stage")) for one in staged.networks)
    assert study_id(staged) == study_id(load_study(file))
