"""The batch of a phase as an axis: each design is what a study with that batch finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from results.front.pareto import design_frame, front_of, network_labels
from results.store.folder import RunFolder
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import load_study
from tests.sweep.run.studies.test_phases import DECODE, PREFILL, TIMES, written

HERE = RuntimeChoice(in_process=True)
SIZES = {"choices": ["64 words", "256 words"]}
AXES = {"Buffer.size": SIZES, "phases.decode.batch": {"choices": [1, 4]}}
COLUMNS = ["energy_pj", "cycles", *TIMES, "seconds_per_token", "joules_per_token", "watts"]


def run(folder: Path, name: str, **keys: Any) -> RunFolder:
    study = load_study(written(folder, PREFILL, DECODE | keys.pop("decode", {}), **keys))
    return run_study(study, folder / name, HERE)


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run(tmp_path_factory.mktemp("varied"), "run", axes=AXES)


@pytest.mark.slow
def test_each_design_is_that_of_a_study_with_its_batch(varied: RunFolder, tmp_path: Path) -> None:
    frame = design_frame(varied)
    assert len(frame) == frame["design_id"].nunique() == 4
    for batch in (1, 4):
        stated = design_frame(run(tmp_path, f"batch-{batch}", decode={"batch": batch}))
        mine = frame[frame["axis.phases.decode.batch"] == batch]
        found = [one.sort_values("axis.Buffer.size")[COLUMNS].to_numpy().tolist() for one in (mine, stated)]
        assert found[0] == found[1]
    for row in varied.read_rows("designs"):
        assert row["networks"]["decode"]["weight"] == 5 / row["axes"]["phases.decode.batch"]
    assert network_labels(varied) == ["prefill", "decode \N{MULTIPLICATION SIGN}5"]
    # a batch of 4 loads weights once for four requests
    energy = frame.groupby("axis.phases.decode.batch")["joules_per_token"].max()
    assert energy[4] < energy[1]


@pytest.mark.slow
def test_bounds_discard_no_design_of_the_front(varied: RunFolder, tmp_path: Path) -> None:
    names = ["seconds_per_token", "joules_per_token"]
    search = {"method": "grid", "prune_by_bounds": True}
    pruned = run(tmp_path, "pruned", axes=AXES, objectives=names, search=search)
    fronts = [front_of(design_frame(one), names)[names].to_numpy().tolist() for one in (varied, pruned)]
    assert fronts[0] == fronts[1]


@pytest.mark.slow
def test_a_cheaper_solver_may_look_first(varied: RunFolder, tmp_path: Path) -> None:
    names = ["seconds_per_token", "joules_per_token"]
    search = {"method": "grid", "fidelity": {"solver": "random_search", "iterations": 10}}
    looked = run(tmp_path, "looked", axes=AXES, objectives=names, search=search)
    fronts = [front_of(design_frame(one), names)[names].to_numpy().tolist() for one in (varied, looked)]
    assert fronts[0] == fronts[1]


@pytest.mark.slow
def test_a_limit_leaves_batches_out(varied: RunFolder, tmp_path: Path) -> None:
    frame = design_frame(varied)
    limit = float(frame["time_per_output_token_seconds"].mean())
    limits = [f"time_per_output_token_seconds <= {limit!r}"]
    limited = design_frame(run(tmp_path, "limited", axes=AXES, constraints=limits))
    assert limited["feasible"].tolist() == (frame["time_per_output_token_seconds"] <= limit).tolist()
    assert not limited["feasible"].all()


@pytest.mark.slow
def test_the_baseline_is_one_batch(varied: RunFolder, tmp_path: Path) -> None:
    baseline = {"Buffer.size": "64 words", "phases.decode.batch": 4}
    frame = design_frame(run(tmp_path, "based", axes=AXES, baseline=baseline))
    assert len(frame) == 4
    (mine,) = frame[frame["baseline"].fillna(False)]["axes"]
    assert mine == baseline
    assert set(frame["design_id"]) == set(design_frame(varied)["design_id"])


@pytest.mark.slow
def test_a_sampler_proposes_batches(varied: RunFolder, tmp_path: Path) -> None:
    search = {"method": "optuna", "trials": 4, "sampler": "random"}
    frame = design_frame(run(tmp_path, "drawn", axes=AXES, search=search))
    known = design_frame(varied).set_index("design_id")
    assert len(frame) == 4
    for _, row in frame.iterrows():
        assert row[COLUMNS].tolist() == known.loc[row["design_id"], COLUMNS].tolist()


@pytest.mark.parametrize(
    ("key", "choices", "more", "said"),
    [
        (
            "phases.dcode.batch",
            [1],
            {},
            r"axes\.phases\.dcode\.batch: expected the batch of a phase: .* Did you",
        ),
        ("phases.decode.batch", ["1 KiB"], {}, r"expected whole batches of at least 1, found 1 KiB"),
        (
            "phases.decode.batch",
            [1, 2],
            {"baseline": {"phases.decode.batch": 3}},
            r"baseline\.phases\.decode\.batch: expected a batch of the axis: 1, 2, found 3",
        ),
        (
            "phases.decode.batch",
            [1, 2],
            {"scratchpad": {"level": "Buffer"}},
            r"expected no axis of phases in a study with a scratchpad",
        ),
        ("phases.decode.batch", list(range(1, 66)), {}, r"expected at most 64 batches.*found 65"),
    ],
)
def test_what_is_wrong_with_a_batch_axis_is_said(
    key: str, choices: list[Any], more: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said):
        load_study(written(tmp_path, PREFILL, DECODE, axes={key: {"choices": choices}}, **more))
