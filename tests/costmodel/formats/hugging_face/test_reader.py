"""Models by their configurations: published parameter counts, MACs by a closed form, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.hugging_face.reader import architecture_names
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.formats.networks import load_layer, load_network
from costmodel.formats.operator_networks import configured_names
from costmodel.workload.library.builder import SCALES
from costmodel.workload.library.decoder import Experts, expert_loads
from costmodel.workload.network import Network

DATA = Path(__file__).parents[3] / "data/hugging_face"
LIBRARY = Path(__file__).parents[4] / "costmodel/workload/library/configurations"
SMALL: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}
EXPERTS = SMALL | {
    "architectures": ["MixtralForCausalLM"],
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
OTHERS = ("mamba2_7b", "whisper_large_v3", "vit_l_16", "convnext_t")
DECODERS = [name for name in configured_names() if name not in OTHERS]
PREFILL, DECODE = {"seq": 7}, {"seq": 1, "past": 37}


def entry(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((LIBRARY / f"{name}.json").read_text())
    return found


def written(folder: Path, content: Mapping[str, Any]) -> str:
    file = folder / "config.json"
    file.write_text(json.dumps(content))
    return str(file)


def parameters(network: Network) -> int:
    return sum(
        value.elements
        for value in network.values
        if value.kind == "parameter" and not value.name.endswith(SCALES)
    )


def refusal(file: str, dims: Mapping[str, int] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        load_network(file, None, dims)
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", configured_names())
def test_parameters_are_the_published_ones(name: str) -> None:
    assert parameters(load_network(name)) == entry(name)["parameters"]


@pytest.mark.parametrize(
    ("architecture", "published"),
    [
        ("LlamaForCausalLM", 6_738_415_616),
        ("MistralForCausalLM", 7_241_732_096),
        ("MixtralForCausalLM", 46_702_792_704),
        ("DeepseekV3ForCausalLM", 671_026_419_200),
        ("GptOssForCausalLM", 116_829_156_672),
        ("GemmaForCausalLM", 8_537_680_896),
        ("Gemma2ForCausalLM", 2_614_341_888),
        ("Mamba2ForCausalLM", 7_285_403_648),
        ("WhisperForConditionalGeneration", 37_760_640),
        ("Qwen2ForCausalLM", None),
        ("Qwen3ForCausalLM", None),
        ("Qwen3MoeForCausalLM", None),
        ("Gemma3ForCausalLM", None),
        ("ViTForImageClassification", None),
        ("ConvNextForImageClassification", None),
    ],
)
def test_every_key_that_transformers_writes_is_known(architecture: str, published: int | None) -> None:
    lengths = (
        {} if architecture in ("ViTForImageClassification", "ConvNextForImageClassification") else {"seq": 1}
    )
    network = load_network(DATA / f"{architecture}.json", None, lengths)
    assert published in (None, parameters(network))
    assert architecture in architecture_names()


# ---- multiply-accumulates, by formulas that share nothing with the builder


def attention_macs(keys: Mapping[str, Any], layer: int, new: int, past: int) -> int:
    width, heads = keys["hidden_size"], keys["num_attention_heads"]
    if "kv_lora_rank" in keys:
        latent, rotary, plain = (keys[k] for k in ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim"))
        value, down = keys["v_head_dim"], keys["q_lora_rank"]
        projections = (
            width * (down + latent + rotary) + down * heads * (plain + rotary) + heads * value * width
        )
        if not past:
            pairs = new * new * heads * (plain + rotary + value)
            return int(new * (projections + latent * heads * (plain + value)) + pairs)
        pairs = new * (past + new) * heads * (2 * latent + rotary)
        return int(new * (projections + latent * heads * (plain + value)) + pairs)
    of_head = keys.get("head_dim", width // heads)
    window = keys.get("sliding_window")
    if keys["architectures"][0].startswith(("GptOss", "Gemma2")):
        window = window if layer % 2 == 0 else None
    elif keys["architectures"][0].startswith("Gemma3"):
        window = None if layer % 6 == 5 else window
    kept = past if window is None else min(past, window - 1)
    projections = width * of_head * 2 * (heads + keys["num_key_value_heads"])
    return int(new * projections + 2 * heads * of_head * new * (kept + new))


def feed_forward_macs(keys: Mapping[str, Any], layer: int) -> int:
    """Those of one token."""
    width: int = keys["hidden_size"]
    plain: int = 3 * width * keys["intermediate_size"]
    top = keys.get("num_experts_per_tok")
    if top is None or layer < keys.get("first_k_dense_replace", 0):
        return plain
    count = next(keys[k] for k in ("num_experts", "num_local_experts", "n_routed_experts") if k in keys)
    hidden = keys.get("moe_intermediate_size", keys["intermediate_size"])
    return int(width * count + 3 * width * hidden * (top + keys.get("n_shared_experts", 0)))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dims", [PREFILL, DECODE, {"seq": 150, "past": 600}])
@pytest.mark.parametrize("name", DECODERS)
def test_macs_by_a_closed_form(name: str, dims: dict[str, int], batch: int, tmp_path: Path) -> None:
    keys = dict(entry(name)["configuration"])
    keys["num_hidden_layers"] = 7  # every kind of layer is among them
    network = load_network(written(tmp_path, keys), batch, dims | {"logits": 1})
    new, past = dims["seq"], dims.get("past", 0)
    each = keys["vocab_size"] * keys["hidden_size"] + sum(
        attention_macs(keys, layer, new, past) + new * feed_forward_macs(keys, layer) for layer in range(7)
    )
    assert network.macs == batch * each


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("new", "past"), [(1, 0), (1, 37), (90, 0), (256, 5), (600, 0)])
def test_macs_of_state_spaces(new: int, past: int, batch: int) -> None:
    """Inner products of 64 channels of 128 heads with 128 numbers of state, in chunks of 256 tokens."""
    inner, state, groups = 8192, 128, 8
    projections = 4096 * (2 * inner + 2 * groups * state + 128) + inner * 4096
    block = new * (projections + 4 * (inner + 2 * groups * state))
    if new == 1:
        block += inner * state
    else:
        chunk = min(new, 256)
        chunks = -(-new // chunk)
        block += chunks * (groups * chunk**2 * state + inner * chunk**2 + inner * state * chunk)
        if chunks > 1 or past:
            block += chunks * inner * state * chunk
    network = load_network("mamba2_7b", batch, {"seq": new, "past": past, "logits": 1})
    assert network.macs == batch * (64 * block + 4096 * 32768)
    cached = sum(value.elements for value in network.values if value.name.endswith(".cache"))
    assert cached == (batch * 64 * (inner * state + 3 * (inner + 2 * groups * state)) if past else 0)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("new", "past"), [(4, 0), (1, 100)])
def test_macs_of_speech(new: int, past: int, batch: int) -> None:
    width, hidden, frames = 1280, 5120, 1500
    encoder = 3 * width * (128 * 2 * frames + width * frames)
    encoder += 32 * (frames * (4 * width**2 + 2 * width * hidden) + 2 * frames**2 * width)
    tokens = new * (6 * width**2 + 2 * width * hidden) + 2 * new * width * (past + new + frames)
    first = encoder + 32 * 2 * frames * width**2
    expected = 32 * tokens + new * width * 51866 + (0 if past else first)
    network = load_network("whisper-large-v3", batch, {"seq": new, "past": past})
    assert network.macs == batch * expected


def test_macs_of_images() -> None:
    width, tokens = 1024, 197
    blocks = 24 * (tokens * (4 * width**2 + 8 * width**2) + 2 * tokens**2 * width)
    assert load_network("vit-l/16", 2).macs == 2 * (196 * 768 * width + blocks + width * 1000)
    sides, widths, depths = (56, 28, 14, 7), (96, 192, 384, 768), (3, 3, 9, 3)
    macs = 56 * 56 * 48 * 96 + 768 * 1000
    for side, before, after in zip(sides[1:], widths, widths[1:], strict=False):
        macs += side**2 * 4 * before * after
    for side, channels, depth in zip(sides, widths, depths, strict=True):
        macs += depth * side**2 * (49 * channels + 8 * channels**2)
    assert load_network("convnext_t").macs == macs


def test_llama_reads_each_cached_element_once_for_the_heads_that_share_it() -> None:
    network = load_network("llama3-8b", 2, DECODE)
    caches = [value for value in network.values if value.name.endswith(".cache")]
    assert {value.kind for value in caches} == {"input"}
    assert {value.bits for value in caches} == {16}
    # keys and values of 8 heads of 128 elements, in 32 layers
    assert sum(value.elements for value in caches) == 2 * 32 * 2 * 37 * 8 * 128
    scores = load_layer("llama3-8b/block0.attention.scores", {"seq": 1, "past": 8191})
    assert dict(scores.dims) == {"B": 8, "M": 4, "N": 8192, "K": 128}


def test_latent_attention_caches_few_numbers_a_token() -> None:
    network = load_network("deepseek_v3", None, DECODE)
    caches = [value.shape for value in network.values if value.name.endswith(".cache")]
    assert caches == [(1, 37, 512 + 64)] * 61


def test_windows_bound_what_is_cached() -> None:
    network = load_network("gpt-oss-20b", None, {"seq": 1, "past": 1000})
    caches = [value.shape[1] for value in network.values if value.name.endswith(".key.cache")]
    assert caches == [127, 1000] * 12


def test_logits_of_all_new_tokens_unless_fewer_are_asked_for(tmp_path: Path) -> None:
    file = written(tmp_path, SMALL)
    every, last = load_network(file, None, PREFILL), load_network(file, None, PREFILL | {"logits": 1})
    assert every.macs - last.macs == 6 * 64 * 100
    assert every.value("lm_head").shape == (1, 7, 100)


# ---- experts


@pytest.mark.parametrize(
    ("tokens", "reached", "loads"),
    [
        (1, None, [(2, 1)]),
        (3, None, [(6, 1)]),
        (5, None, [(2, 2), (6, 1)]),
        (16, None, [(8, 4)]),
        (5, 2, [(2, 5)]),
    ],
)
def test_tokens_are_spread_evenly(tokens: int, reached: int | None, loads: list[tuple[int, int]]) -> None:
    experts = Experts(8, 2, 16)
    assert expert_loads(experts, tokens, reached) == loads
    assert sum(number * load for number, load in loads) == 2 * tokens


def test_experts_are_read_as_often_as_tokens_reach_them(tmp_path: Path) -> None:
    file = written(tmp_path, EXPERTS)

    def words(dims: dict[str, int]) -> int:
        layers = [layer for layer in load_network(file, None, dims).layers if "experts.gate" in layer.name]
        return sum(layer.tensor("B").words(layer.sizes) for layer in layers) // (2 * 64 * 160)

    assert [words({"seq": n}) for n in (1, 3, 5, 16)] == [2, 6, 8, 8]
    assert words({"seq": 5, "experts": 3}) == 3
    spread, crowded = load_network(file, None, {"seq": 5}), load_network(file, None, {"seq": 5, "experts": 2})
    assert spread.macs == crowded.macs


# ---- widths


@pytest.mark.slow
def test_widths_of_quantised_weights() -> None:
    network = load_network("gpt-oss-20b", None, {"seq": 1})
    experts = network.value("block0.mlp.experts.gate.weight")
    scales = network.value("block0.mlp.experts.gate.scales")
    assert (experts.bits, scales.bits) == (4, 8)
    assert prod(experts.shape) == 32 * prod(scales.shape)
    assert network.value("block0.attention.query.weight").bits == 16
    deepseek = load_network("deepseek_v3", None, {"seq": 1})
    assert deepseek.value("block3.attention.query_down.weight").bits == 8
    assert deepseek.value("block3.mlp.router.weight").bits == 16


# ---- files


@pytest.mark.parametrize("content", [SMALL, EXPERTS, entry("mamba2_7b")["configuration"]])
def test_the_first_blocks_are_the_model_with_fewer_layers(content: Any, tmp_path: Path) -> None:
    """The same operators as of a configuration that has so many layers itself."""
    whole, short = tmp_path / "whole", tmp_path / "short"
    whole.mkdir()
    short.mkdir()
    first = load_network(written(whole, content), dims={"seq": 5, "blocks": 1})
    own = load_network(written(short, content | {"num_hidden_layers": 1}), dims={"seq": 5})
    assert [(node.name, node.layers) for node in first.nodes] == [
        (node.name, node.layers) for node in own.nodes
    ]


def test_a_model_is_called_as_its_folder(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    file = written(tmp_path / "tiny", SMALL)
    assert load_network(file, None, PREFILL).name == "tiny"
    assert load_layer(f"{file}/lm_head", PREFILL).macs == 7 * 64 * 100


@pytest.mark.parametrize("dims", [PREFILL, DECODE])
def test_decoders_are_layer_graphs(dims: dict[str, int], tmp_path: Path) -> None:
    file = written(tmp_path, SMALL)
    graph = load_layer_graph(file, dims)
    assert (
        sum(layer.operations for layer in graph.layers if layer.has_weights)
        == load_network(file, None, dims).macs
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architectures": ["LlamaForCausalLm"]}, "architectures: expected one of Llama"),
        ({"architectures": ["RwkvForCausalLM"]}, "Export the model as ONNX"),
        ({"architectures": []}, "architectures: expected a list of one architecture"),
        ({"hidden_size": None}, "hidden_size: expected a whole number of at least 1, found None"),
        ({"num_key_value_heads": 3}, "num_key_value_heads: expected a divisor"),
        ({"num_attention_heads": 6, "num_key_value_heads": 2}, "head_dim: expected a width of heads"),
        ({"hidden_act": "relu6"}, "hidden_act: expected one of"),
        ({"mlp_bias": "yes"}, "mlp_bias: expected true or false"),
        ({"num_experts": 4}, "num_experts: expected keys among"),
        ({"num_hidden_layer": 3}, "Did you mean num_hidden_layers"),
        ({"torch_dtype": "int4"}, "torch_dtype: expected one of float64"),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4}},
            "quant_method: expected one of fp8, mxfp4",
        ),
        (EXPERTS | {"num_experts_per_tok": 9}, "num_experts_per_tok: expected at most the 8 experts"),
    ],
)
def test_what_is_refused(change: Mapping[str, Any], message: str, tmp_path: Path) -> None:
    file = written(tmp_path, SMALL | dict(change))
    found = refusal(file, PREFILL)
    assert found.startswith(file)
    assert message in found


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("mamba2_7b", {"num_heads": 120}, "num_heads: expected expand * hidden_size = 8192 channels"),
        ("mamba2_7b", {"n_groups": 7}, "n_groups: expected a divisor of num_heads"),
        ("mamba2_7b", {"rms_norm": False}, "rms_norm: expected true"),
        ("whisper_large_v3", {"decoder_attention_heads": 3}, "decoder_attention_heads: expected a divisor"),
        ("vit_l_16", {"patch_size": 15}, "patch_size: expected a divisor of image_size 224"),
        ("vit_l_16", {"num_labels": None}, "num_labels: expected a whole number"),
        ("vit_l_16", {"window_size": 7}, "window_size: expected keys among"),
        ("convnext_t", {"depths": [3, 3]}, "depths: expected as many stages"),
        ("convnext_t", {"hidden_sizes": [96, 0]}, "hidden_sizes: expected a list of whole numbers"),
        ("convnext_t", {"image_size": 200}, "image_size: expected a multiple of 32"),
        ("deepseek_v3", {"moe_layer_freq": 2}, "moe_layer_freq: expected 1"),
        ("deepseek_v3", {"num_key_value_heads": 8}, "num_key_value_heads: expected 128"),
        ("gpt_oss_20b", {"layer_types": ["full_attention"]}, "layer_types: expected a list of 24"),
        ("qwen3_8b", {"use_sliding_window": True}, "use_sliding_window: expected false"),
        ("qwen3_30b_a3b", {"mlp_only_layers": [48]}, "mlp_only_layers: expected numbers of layers below 48"),
    ],
)
def test_what_other_architectures_refuse(
    name: str, change: Mapping[str, Any], message: str, tmp_path: Path
) -> None:
    content = dict(entry(name)["configuration"]) | dict(change)
    dims = {} if name in ("vit_l_16", "convnext_t") else {"seq": 3}
    assert message in refusal(written(tmp_path, content), dims)


@pytest.mark.parametrize(
    ("content", "dims", "message"),
    [
        (SMALL, {"seq": 0}, "dims.seq: expected a whole number of at least 1"),
        (SMALL, {"sequence": 3}, "expected lengths among seq (new tokens)"),
        (SMALL, {"seq": 3, "logits": 4}, "dims.logits: expected at most the 3 tokens"),
        (SMALL, {"seq": 3, "experts": 4}, "dims: expected lengths among"),
        (EXPERTS, {"seq": 3, "experts": 7}, "dims.experts: expected 2 to 6 experts for 3 tokens"),
        (EXPERTS, {"seq": 3, "experts": 1}, "dims.experts: expected 2 to 6 experts"),
        (SMALL, {"seq": 3, "blocks": 3}, "dims.blocks: expected at most the model's 2 blocks"),
        (SMALL, {"seq": 3, "blocks": 0}, "dims.blocks: expected a whole number of at least 1"),
        (entry("mamba2_7b")["configuration"], {"seq": 3, "blocks": 65}, "at most the model's 64 blocks"),
        (entry("whisper_large_v3")["configuration"], {"seq": 9, "blocks": 1}, "expected lengths among"),
        (entry("whisper_large_v3")["configuration"], {"seq": 9, "past": 440}, "at most max_target_positions"),
        (entry("vit_l_16")["configuration"], {"seq": 9}, "expected lengths among none"),
    ],
)
def test_lengths_that_cannot_be(
    content: Mapping[str, Any], dims: Mapping[str, int], message: str, tmp_path: Path
) -> None:
    assert message in refusal(written(tmp_path, content), dims)
