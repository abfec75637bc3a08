"""Answers of KAPLA's layer solver as files of directives: read back, they are counted alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.directives.mapping_file import mapping_directives, read_mapping_directives
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer, batched_matmul, convolution, gemm
from solvers.budget import Budget
from solvers.mapping import kapla
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.rules import SpaceRules

LAYERS = (
    convolution("strided", K=32, C=16, P=14, Q=14, R=3, S=3, stride=(2, 2)),
    convolution("dilated", K=8, C=8, P=12, Q=6, R=3, S=3, dilation=(2, 1)),
    convolution("grouped", K=16, C=32, P=8, Q=8, R=3, S=3, groups=4),
    convolution("depthwise", N=2, K=24, C=24, P=10, Q=10, R=5, S=5, groups=24),
    gemm("odd", M=35, N=77, K=121),
    batched_matmul("heads: 0", B=4, M=16, N=16, K=32),
)
CHIPS = ("eyeriss", "kapla-16x16-paper", "kapla-edge-released")


def solved(architecture: Architecture, layer: Layer) -> Mapping:
    problem = MappingProblem(architecture, layer, "edp", SpaceRules("all"))
    found = kapla.solve(problem, Budget(), kapla.Params(polish=False)).solution
    assert found is not None
    return found


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_an_answer_written_and_read_is_counted_alike(name: str, layer: Layer, tmp_path: Path) -> None:
    architecture = load_architecture(name)
    mapping = solved(architecture, layer)
    file = tmp_path / "answer.directives"
    file.write_text(mapping_directives(architecture, layer, mapping))
    again = read_mapping_directives(file, architecture, layer)
    assert evaluate(architecture, layer, again) == evaluate(architecture, layer, mapping)


@pytest.fixture
def text() -> str:
    architecture = load_architecture("eyeriss")
    return mapping_directives(architecture, LAYERS[0], solved(architecture, LAYERS[0]))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("RegFile:", "Registers:", "levels"),
        ("{Weights}", "{Filters}", "a tensor among"),
        ("strided:", "strided:\n  DRAM:\n    tensor{O}(N=1)\nsecond:", "one layer"),
        ("tensor{Weights}(", "tensor{Weights}(shr=2, ", "what loops can express"),
    ],
)
def test_what_is_no_mapping_of_this_layer_is_refused(
    old: str, new: str, expected: str, text: str, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.directives"
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=expected) as refused:
        read_mapping_directives(file, load_architecture("eyeriss"), LAYERS[0])
    assert str(file) in str(refused.value)


def test_a_bypass_cannot_be_said(tmp_path: Path) -> None:
    architecture, layer = load_architecture("simba"), LAYERS[4]
    found = kapla.solve(MappingProblem(architecture, layer, "edp"), Budget()).solution
    assert found is not None
    with pytest.raises(InputError, match="levels that keep every tensor"):
        mapping_directives(architecture, layer, found)
