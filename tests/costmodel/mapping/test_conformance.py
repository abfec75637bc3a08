"""The frozen Timeloop cases: every number the cost model counts is theirs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costmodel.formats.cases.folder import Case, read_cases
from costmodel.formats.cases.results import differences, expected_results, oracle_kind
from costmodel.mapping.evaluate import evaluate

ARCHITECTURES = ["A_eyeriss_like", "B_simba_like", "C_two_level", "D_tpu_like", "E_four_level"]
HIDDEN_LINK_TRANSFERS = {"D_tpu_like/resnet18_L9_b1/100.0", "D_tpu_like/resnet18_L9_b4/100.1"}


def cases(folder: Path, architecture: str) -> list[Case]:
    return list(read_cases(folder / f"{architecture}.jsonl.gz"))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_number_is_timeloops(cases_folder: Path, architecture: str) -> None:
    found = cases(cases_folder, architecture)
    assert len(found) >= 35
    assert {oracle_kind(case) for case in found} >= {"exact", "not_run"}
    for case in found:
        if case.id not in HIDDEN_LINK_TRANSFERS:
            evaluation = evaluate(case.architecture, case.layer, case.mapping)
            assert differences(evaluation, expected_results(case)) == [], case.id


def test_the_two_exceptions_differ_in_inputs_that_bypass_the_registers(cases_folder: Path) -> None:
    """Item 13: only the reads of the level above the bypassed one, and what follows from them."""
    listed = [case for case in cases(cases_folder, "D_tpu_like") if oracle_kind(case) == "differs"]
    assert {case.id for case in listed} == HIDDEN_LINK_TRANSFERS
    for case in listed:
        assert "Inputs" not in case.mapping.levels[0].keep
        evaluation = evaluate(case.architecture, case.layer, case.mapping)
        counts = [
            d for d in differences(evaluation, expected_results(case)) if d.count(".") and "energy" not in d
        ]
        assert {text.split(":")[0] for text in counts if not text.startswith("utilization")} == {
            "UnifiedBuffer.cycles",
            "UnifiedBuffer.Inputs.reads",
        }


def test_results_without_link_transfers_come_first(cases_folder: Path) -> None:
    with_both = [c for c in cases(cases_folder, "C_two_level") if "results_no_link_transfers" in c.record]
    assert len(with_both) >= 10
    for case in with_both:
        assert expected_results(case) == case.record["results_no_link_transfers"]
        assert expected_results(case) != case.record["results"]


@pytest.mark.parametrize("key", ["reads", "fills", "updates", "utilized_capacity", "partition_size"])
def test_one_word_more_is_a_difference(cases_folder: Path, key: str) -> None:
    case = cases(cases_folder, "A_eyeriss_like")[0]
    results = expected_results(case)
    tensor: dict[str, Any] = results["levels"][1]["tensors"]["Outputs"]
    tensor[key] += 1
    evaluation = evaluate(case.architecture, case.layer, case.mapping)
    assert [text.split(":")[0] for text in differences(evaluation, results)] == [f"SRAM.Outputs.{key}"]


def test_other_cycles_energies_and_levels_are_differences(cases_folder: Path) -> None:
    case = cases(cases_folder, "E_four_level")[0]
    evaluation = evaluate(case.architecture, case.layer, case.mapping)
    results = expected_results(case)
    more = replace(evaluation, cycles=evaluation.cycles + 1, energy_pj=evaluation.energy_pj * (1 + 2e-9))
    assert [text.split(":")[0] for text in differences(more, results)] == ["cycles", "energy_pJ"]
    fewer = replace(evaluation, levels=evaluation.levels[1:])
    assert differences(fewer, results)[0].startswith("levels")
