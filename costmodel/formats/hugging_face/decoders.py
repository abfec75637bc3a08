"""Decoders of text by their configurations' keys: what each key means, and what it is where it is missing."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.errors import InputError
from costmodel.formats.hugging_face.configuration import Configuration
from costmodel.formats.hugging_face.stored import stored_of
from costmodel.workload.library.decoder import Attention, Decoder, DecoderBlock, Experts, LatentAttention

_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "relu": "relu",
}
"""By a configuration's name of an activation, that of the table of operators."""


def activation_of(keys: Configuration, key: str = "hidden_act", default: str | None = None) -> str:
    """The activation that the key names, as the table of operators calls it."""
    return _ACTIVATIONS[keys.one_of(key, _ACTIVATIONS, default)]


def grouped_attention(keys: Configuration, **more: bool) -> Attention:
    """Attention with shared heads; ``more`` are fields of :class:`Attention` that an architecture fixes."""
    heads = keys.whole("num_attention_heads")
    shared = keys.whole("num_key_value_heads", heads)
    width = keys.whole("hidden_size")
    if heads % shared:
        found = f"{shared} for {heads} heads"
        raise InputError(keys.where, "a divisor of num_attention_heads", found, key="num_key_value_heads")
    if "head_dim" not in keys and width % heads:
        expected = f"a width of heads, which hidden_size {width} and {heads} heads do not give"
        raise InputError(keys.where, expected, "nothing", "State head_dim", key="head_dim")
    return Attention(heads, shared, keys.whole("head_dim", width // heads), **more)


def llama(keys: Configuration) -> Decoder:
    """``LlamaForCausalLM``, ``MistralForCausalLM``."""
    bias = keys.flag("attention_bias", False)
    attention = grouped_attention(keys, bias=bias, output_bias=bias)
    return _dense(keys, attention, tied=False, windows=_windows(keys))


def qwen2(keys: Configuration) -> Decoder:
    """``Qwen2ForCausalLM``: biases of queries, keys and values."""
    return _dense(keys, grouped_attention(keys, bias=True), tied=False, windows=_qwen_windows(keys))


def qwen3(keys: Configuration) -> Decoder:
    """``Qwen3ForCausalLM``: queries and keys are normalised head by head."""
    bias = keys.flag("attention_bias", False)
    attention = grouped_attention(keys, bias=bias, output_bias=bias, head_norms=True)
    return _dense(keys, attention, tied=False, windows=_qwen_windows(keys))


def qwen3_experts(keys: Configuration) -> Decoder:
    """``Qwen3MoeForCausalLM``."""
    bias = keys.flag("attention_bias", False)
    attention = grouped_attention(keys, bias=bias, output_bias=bias, head_norms=True)
    # newer configurations call the number as Mixtral's do
    key = "num_experts" if "num_experts" in keys else "num_local_experts"
    experts = Experts(keys.whole(key), keys.whole("num_experts_per_tok"), keys.whole("moe_intermediate_size"))
    _check_top(keys, experts)
    width, every = keys.whole("intermediate_size"), keys.whole("decoder_sparse_step", 1)
    plain = keys.values("mlp_only_layers")
    layers = range(keys.whole("num_hidden_layers"))
    windows = _qwen_windows(keys)
    if wrong := [layer for layer in plain if layer not in layers]:
        raise InputError(keys.where, f"numbers of layers below {len(layers)}", wrong, key="mlp_only_layers")
    return _decoder(
        keys,
        tuple(
            DecoderBlock(attention, width if i in plain or (i + 1) % every else experts, windows[i])
            for i in layers
        ),
        tied=False,
    )


def mixtral(keys: Configuration) -> Decoder:
    """``MixtralForCausalLM``."""
    experts = Experts(
        keys.whole("num_local_experts"), keys.whole("num_experts_per_tok"), keys.whole("intermediate_size")
    )
    _check_top(keys, experts)
    attention = grouped_attention(keys)
    return _decoder(
        keys, tuple(DecoderBlock(attention, experts, window) for window in _windows(keys)), tied=False
    )


def gpt_oss(keys: Configuration) -> Decoder:
    """``GptOssForCausalLM``: sinks in the softmax, biases everywhere, every second layer with a window."""
    bias = keys.flag("attention_bias", True)
    attention = grouped_attention(keys, bias=bias, output_bias=bias, sinks=True)
    top = keys.whole("num_experts_per_tok", keys.whole("experts_per_token", 4))
    experts = Experts(keys.whole("num_local_experts"), top, keys.whole("intermediate_size"), bias=True)
    _check_top(keys, experts)
    count, window = keys.whole("num_hidden_layers"), keys.whole("sliding_window")
    kinds = keys.words("layer_types", _LAYER_TYPES, count) or [_LAYER_TYPES[i % 2] for i in range(count)]
    return _decoder(
        keys,
        tuple(
            DecoderBlock(attention, experts, window if kind == _LAYER_TYPES[0] else None) for kind in kinds
        ),
        tied=False,
    )


def deepseek_v3(keys: Configuration) -> Decoder:
    """``DeepseekV3ForCausalLM`` without its layers for the prediction of several tokens."""
    heads = keys.whole("num_attention_heads")
    keys.must_be("num_key_value_heads", heads, "every head has keys of its own")
    keys.unread("num_nextn_predict_layers ep_size head_dim qk_head_dim")
    attention = LatentAttention(
        heads,
        keys.maybe("q_lora_rank"),
        keys.whole("kv_lora_rank"),
        keys.whole("qk_nope_head_dim"),
        keys.whole("qk_rope_head_dim"),
        keys.whole("v_head_dim"),
        keys.flag("attention_bias", False),
    )
    width = keys.whole("moe_intermediate_size")
    experts = Experts(
        keys.whole("n_routed_experts"),
        keys.whole("num_experts_per_tok"),
        width,
        shared=keys.whole("n_shared_experts", 0, least=0) * width,
        score="sigmoid",
        correction=True,
    )
    keys.must_be("scoring_func", "sigmoid", "the score of DeepSeek-V3")
    keys.must_be("topk_method", "noaux_tc", "the choice of DeepSeek-V3")
    keys.must_be("moe_layer_freq", 1, "experts in every layer behind the first ones")
    _check_top(keys, experts)
    first, plain = keys.whole("first_k_dense_replace", 0, least=0), keys.whole("intermediate_size")
    layers = range(keys.whole("num_hidden_layers"))
    return _decoder(
        keys, tuple(DecoderBlock(attention, plain if i < first else experts) for i in layers), tied=False
    )


def gemma(keys: Configuration) -> Decoder:
    """``GemmaForCausalLM``: the gated layer's activation is GELU, the table of tokens is used twice."""
    bias = keys.flag("attention_bias", False)
    attention = grouped_attention(keys, bias=bias, output_bias=bias)
    count = keys.whole("num_hidden_layers")
    return _dense(keys, attention, tied=True, windows=(None,) * count, activation=_gemma_activation(keys))


def gemma2(keys: Configuration) -> Decoder:
    """``Gemma2ForCausalLM``: capped scores, and a window in every second layer, from the first on."""
    bias = keys.flag("attention_bias", False)
    attention = grouped_attention(
        keys, bias=bias, output_bias=bias, capped=_caps(keys, "attn_logit_softcapping")
    )
    count = keys.whole("num_hidden_layers")
    keys.must_be("sliding_window_size", keys.whole("sliding_window"), "the same as sliding_window")
    kinds = keys.words("layer_types", _LAYER_TYPES, count) or [_LAYER_TYPES[i % 2] for i in range(count)]
    return _windowed_gemma(keys, attention, kinds)


def gemma3(keys: Configuration) -> Decoder:
    """``Gemma3ForCausalLM``: normalised queries and keys, windows in all layers but each sixth."""
    bias = keys.flag("attention_bias", False)
    attention = grouped_attention(
        keys,
        bias=bias,
        output_bias=bias,
        head_norms=True,
        capped=_caps(keys, "attn_logit_softcapping"),
    )
    count = keys.whole("num_hidden_layers")
    every = keys.whole("sliding_window_pattern", 6)
    keys.must_be("_sliding_window_pattern", every, "the same as sliding_window_pattern")
    kinds = keys.words("layer_types", _LAYER_TYPES, count) or [
        _LAYER_TYPES[(i + 1) % every == 0] for i in range(count)
    ]
    return _windowed_gemma(keys, attention, kinds)


def _windowed_gemma(keys: Configuration, attention: Attention, kinds: Sequence[str]) -> Decoder:
    """Gemma from its second version on: a kind of attention for each layer, norms before and after."""
    window = keys.whole("sliding_window")
    return _dense(
        keys,
        attention,
        tied=True,
        windows=tuple(window if kind == _LAYER_TYPES[0] else None for kind in kinds),
        activation=_gemma_activation(keys),
        normalised_twice=True,
    )


_LAYER_TYPES = ("sliding_attention", "full_attention")


def _dense(
    keys: Configuration,
    attention: Attention,
    *,
    tied: bool,
    windows: tuple[int | None, ...],
    activation: str | None = None,
    normalised_twice: bool = False,
) -> Decoder:
    width = keys.whole("intermediate_size")
    blocks = tuple(DecoderBlock(attention, width, window) for window in windows)
    return _decoder(keys, blocks, tied=tied, activation=activation, normalised_twice=normalised_twice)


def _decoder(
    keys: Configuration,
    blocks: tuple[DecoderBlock, ...],
    *,
    tied: bool,
    activation: str | None = None,
    normalised_twice: bool = False,
) -> Decoder:
    """What all decoders say alike; ``tied`` is what a missing ``tie_word_embeddings`` means."""
    stored = stored_of(keys)
    return Decoder(
        keys.whole("vocab_size"),
        keys.whole("hidden_size"),
        blocks,
        activation or activation_of(keys, default="silu"),
        keys.flag("mlp_bias", False),
        keys.flag("tie_word_embeddings", tied),
        normalised_twice,
        _caps(keys, "final_logit_softcapping"),
        stored.bits,
        stored.linear,
        stored.experts,
    )


def _gemma_activation(keys: Configuration) -> str:
    """The activation; Gemma's own key comes before ``hidden_act``, wrong in its first configurations."""
    keys.must_be("use_bidirectional_attention", False, "each token sees those before it")
    plain = activation_of(keys, default="gelu_pytorch_tanh")
    return activation_of(keys, "hidden_activation") if "hidden_activation" in keys else plain


def _caps(keys: Configuration, key: str) -> bool:
    """Whether the key states a number other than null: a scaled tanh keeps results below it."""
    stated = key in keys
    keys.unread(key)
    return stated


def _windows(keys: Configuration) -> tuple[int | None, ...]:
    """The same window for all layers, or none."""
    return (keys.maybe("sliding_window"),) * keys.whole("num_hidden_layers")


def _qwen_windows(keys: Configuration) -> tuple[None, ...]:
    keys.must_be("use_sliding_window", False, "which layers have windows is not read for Qwen")
    keys.unread("sliding_window max_window_layers")
    count = keys.whole("num_hidden_layers")
    keys.words("layer_types", _LAYER_TYPES[1:], count)
    return (None,) * count


def _check_top(keys: Configuration, experts: Experts) -> None:
    if experts.top > experts.count:
        expected = f"at most the {experts.count} experts that there are"
        raise InputError(keys.where, expected, experts.top, key="num_experts_per_tok")
