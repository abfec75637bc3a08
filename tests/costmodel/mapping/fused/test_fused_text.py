"""The tree of a fused mapping as text."""

from __future__ import annotations

from costmodel.formats.json.fusion_json import fused_mapping_from_json, problem_from_json
from costmodel.mapping.fused.text import fused_text
from tests.costmodel.mapping.fused.test_fused_counts import lines


def test_nested_sharing_with_hoisted_tiles() -> None:
    line = next(line for line in lines("tiny_optima.jsonl.gz") if line["id"] == "g3-L3-0-energy")
    problem = problem_from_json(line["problem"], "text")
    text = fused_text(problem, fused_mapping_from_json(line["witness"], "text"))
    assert text.splitlines() == [
        "L1 keeps T0: 8 words",
        "L1 keeps W0: 8 words",
        "L1 keeps W1: 8 words",
        "L1 keeps W2: 4 words",
        "for m by 2",
        "  L0 keeps T2: 4 words, e0 to e2",
        "  for n1 by 1",
        "    L0 keeps T1: 2 words, e0 to e1",
        "    e0: T1 from T0, W0",
        "      for n0 by 1",
        "        for m by 1",
        "          L0: T0 1, W0 1",
        "          one operation",
        "    e1: T2 from T1, W1",
        "      L0: W1 2",
        "      for m by 1",
        "        for n2 by 1",
        "          one operation",
        "  e2: T3 from T2, W2",
        "    L1: T3 4",
        "    for n3 by 1",
        "      L0: W2 2, T3 2",
        "      for m by 1",
        "        for n2 by 1",
        "          one operation",
    ]
