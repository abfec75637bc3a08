"""Objectives a token: a request of two phases, of which one makes tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from costmodel.errors import InputError
from results.front.certainty import objective_bounds
from results.front.pareto import design_frame, front_of
from results.store.folder import RunFolder
from sweep.study.study import load_study
from tests.sweep.ended import Command

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 16,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 32,
}


def written(folder: Path, tokens: str = ", tokens: 2", more: str = "") -> str:
    (folder / "config.json").write_text(json.dumps(MODEL))
    file = folder / "study.yaml"
    file.write_text(
        "name: x\n"
        "networks:\n"
        "  - {network: config.json, dims: {seq: 8, logits: 1}}\n"
        f"  - {{network: config.json, batch: 2, dims: {{seq: 1, past: 8}}, weight: 5{tokens}}}\n"
        "architecture: C_two_level\n"
        "axes: {Buffer.size: {choices: [64 words, 256 words]}}\n"
        "objectives: [seconds_per_token, joules_per_token]\n"
        f"mapping: {{solver: random_search, iterations: 100}}\n{more}"
    )
    return str(file)


@pytest.mark.slow
def test_a_request_is_judged_by_its_tokens(command_line: Command, tmp_path: Path) -> None:
    file = written(tmp_path)
    ended = command_line("run", file, "--in-process", "-o", str(tmp_path / "run"))
    assert ended.status == 0, ended.err
    run = RunFolder(tmp_path / "run")
    rows = run.read_rows("designs")
    assert len(rows) == 2
    for row in rows:
        prefill, decode = row["networks"].values()
        assert row["energy_pj"] == pytest.approx(prefill["energy_pj"] + 5 * decode["energy_pj"])
        # five decoding steps of two sequences each
        assert row["joules_per_token"] == pytest.approx(row["energy_pj"] * 1e-12 / 10)
        assert row["seconds_per_token"] == pytest.approx(row["latency_seconds"] / 10)
    frame = design_frame(run)
    bounds = objective_bounds(frame, ("seconds_per_token", "joules_per_token"))
    for bound, (_, row) in zip(bounds, frame.iterrows(), strict=True):
        assert 0 < bound[0] <= row["seconds_per_token"]
        assert 0 < bound[1] <= row["joules_per_token"]
    pruned = written(tmp_path, more="search: {method: grid, prune_by_bounds: true}\n")
    assert command_line("run", pruned, "--in-process", "-o", str(tmp_path / "pruned")).status == 0
    names = ["seconds_per_token", "joules_per_token"]
    fronts = [front_of(design_frame(RunFolder(tmp_path / name)), names) for name in ("run", "pruned")]
    assert set(fronts[0][names[0]]) == set(fronts[1][names[0]])


def test_objectives_a_token_need_tokens(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"networks: expected 'tokens' of a network.*found none.*tokens: 1"):
        load_study(written(tmp_path, tokens=""))


def test_tokens_are_part_of_what_a_study_asks(tmp_path: Path) -> None:
    study = load_study(written(tmp_path))
    assert study.tokens == 10
    assert "tokens" not in study.identity["networks"][0]
    assert study.identity["networks"][1]["tokens"] == 2
