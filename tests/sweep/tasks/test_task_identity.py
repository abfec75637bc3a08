"""The identity of a mapping task is the hash of all that its answer depends on, however it is made."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_layer
from costmodel.workload.network import Layer, gemm
from solvers.budget import Budget
from solvers.mapping.space.rules import SpaceRules
from sweep.study.identity import content_hash
from sweep.tasks.mapping import MappingTask, SolveSettings, architecture_id, layer_content

LAYERS: list[Callable[[], Layer]] = [
    lambda: gemm("product", M=4, N=6, K=4),
    lambda: load_layer("alexnet/conv3"),
]


@pytest.mark.parametrize("rules", [SpaceRules(), SpaceRules("free", padding=0.25)], ids=["default", "padded"])
@pytest.mark.parametrize("architecture", ["eyeriss", "simba"])
def test_an_id_is_the_hash_of_architecture_layer_settings_and_rules(
    architecture: str, rules: SpaceRules
) -> None:
    hardware = load_architecture(architecture)
    settings = SolveSettings("random_search", "edp", "{}", Budget(1.0), rules)
    for layer in (make() for make in LAYERS):
        parts = [architecture_id(hardware), content_hash(layer_content(layer)), settings.content]
        whole = content_hash(["mapping", *parts, rules.for_layer(layer).to_json()])
        assert MappingTask(hardware, layer, settings).id == whole
        # a second time the text of what is asked is there already
        assert MappingTask(hardware, layer, settings).id == whole
