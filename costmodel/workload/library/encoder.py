"""Encoders of images and of speech: ViT, and Whisper with the decoder that reads it."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.workload.convolutions import Window, convolution_of
from costmodel.workload.library.builder import NetworkBuilder
from costmodel.workload.library.decoder import DecoderPhase
from costmodel.workload.network import Network


@dataclass(frozen=True)
class EncoderStack:
    """Blocks of attention and a layer of ``hidden`` elements, with normalisation in front of each.

    ``biases`` are which of query, key and value have one.
    """

    width: int
    blocks: int
    heads: int
    hidden: int
    activation: str = "gelu"
    biases: tuple[bool, bool, bool] = (True, True, True)


@dataclass(frozen=True)
class Vision:
    """The facts of a ViT: square images of ``image`` rows in square patches, and a class token."""

    stack: EncoderStack
    image: int
    patch: int
    channels: int
    labels: int
    bits: int | None = None


@dataclass(frozen=True)
class Speech:
    """The facts of a Whisper: ``bins`` of a spectrum at 2 * ``positions`` times, up to ``longest`` tokens."""

    encoder: EncoderStack
    decoder: EncoderStack
    bins: int
    positions: int
    vocabulary: int
    longest: int
    bits: int | None = None


def vit(name: str, facts: Vision, batch: int) -> Network:
    """A ViT that classifies ``batch`` images."""
    build, stack = NetworkBuilder(name, facts.bits, views_folded=False), facts.stack
    image = build.input("image", (batch, facts.channels, facts.image, facts.image))
    side = facts.image // facts.patch
    weights = (stack.width, facts.channels, facts.patch, facts.patch)
    made = (batch, stack.width, side, side)
    # A patch is cut out and projected at once: a convolution whose stride is its window.
    x = _convolution(build, "patches", image, (weights, made), facts.patch, 0)
    x = build.reshape("patches.flat", x, (batch, stack.width, side * side))
    x = build.permute("patches.by_token", x, (0, 2, 1))
    token = build.parameter("class_token", (1, 1, stack.width))
    tokens = side * side + 1
    x = build.operator("tokens", "cat", (token, x), (batch, tokens, stack.width), dim=1)
    x = build.add("embedding", x, build.parameter("position", (1, tokens, stack.width)))
    for i in range(stack.blocks):
        x = _self_block(build, f"block{i}", x, stack)
    x = build.normalised("norm", "layer_norm", x, bias=True)
    first = build.operator("first_token", "select", (x,), (batch, stack.width), dim=1, index=0)
    build.linear("head", first, facts.labels, bias=True)
    return build.network()


def whisper(name: str, facts: Speech, phase: DecoderPhase) -> Network:
    """A Whisper in a phase: with its encoder where no token is cached.

    Behind cached tokens the keys and values of the encoder's result are cached, too: they are inputs.
    """
    build = NetworkBuilder(name, facts.bits, views_folded=False)
    # Speech is encoded once; later tokens read its keys and values from the cache.
    encoded = None if phase.past else _encoded(build, facts, phase.batch)
    stack = facts.decoder
    ids = build.input("ids", (phase.batch, phase.new))
    table = build.parameter("embedding.table", (facts.vocabulary, stack.width))
    x = build.operator("embedding", "embedding", (table, ids), (phase.batch, phase.new, stack.width))
    positions = build.parameter("position.table", (facts.longest, stack.width))
    own = build.operator(
        "position", "slice", (positions,), (phase.new, stack.width), dim=0, start=phase.past,
        end=phase.past + phase.new,
    )  # fmt: skip
    x = build.add("embedding.position", x, own)
    for i in range(stack.blocks):
        block = f"block{i}"
        y = build.normalised(f"{block}.attention.norm", "layer_norm", x, bias=True)
        y = _attention(build, f"{block}.attention", (y, y), stack, phase.past)
        x = build.add(f"{block}.attention.add", x, y)
        y = build.normalised(f"{block}.cross.norm", "layer_norm", x, bias=True)
        cached = facts.positions if encoded is None else 0
        y = _attention(build, f"{block}.cross", (y, encoded), stack, cached)
        x = build.add(f"{block}.cross.add", x, y)
        x = _feed_forward(build, block, x, stack)
    x = build.normalised("norm", "layer_norm", x, bias=True)
    build.linear_with("lm_head", build.last_tokens("last_tokens", x, phase.logits), (table,))
    return build.network()


def _encoded(build: NetworkBuilder, facts: Speech, batch: int) -> str:
    """The encoder's result (batch, positions, width)."""
    stack, times = facts.encoder, 2 * facts.positions
    x = build.input("spectrum", (batch, facts.bins, times))
    for name, channels, made, stride in (
        ("encoder.filter1", facts.bins, times, 1),
        ("encoder.filter2", stack.width, facts.positions, 2),
    ):
        shapes = (stack.width, channels, 3), (batch, stack.width, made)
        x = _convolution(build, name, x, shapes, stride, 1, "gelu")
    x = build.permute("encoder.by_token", x, (0, 2, 1))
    x = build.add("encoder.embedding", x, build.parameter("encoder.position", (facts.positions, stack.width)))
    for i in range(stack.blocks):
        x = _self_block(build, f"encoder.block{i}", x, stack)
    return build.normalised("encoder.norm", "layer_norm", x, bias=True)


def _convolution(
    build: NetworkBuilder,
    name: str,
    x: str,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    stride: int,
    padding: int,
    activation: str = "",
) -> str:
    """A convolution with a bias; ``shapes`` are those of the weights and of the result."""
    weights, made = shapes
    axes = len(made) - 2
    window = Window.of(axes, (stride,), (1,), 1)
    layer = convolution_of(name, build.shape(x), weights, made, window)
    read = (x, build.parameter(f"{name}.weight", weights), build.parameter(f"{name}.bias", weights[:1]))
    operator = f"conv{axes}d" + (f"+{activation}" if activation else "")
    return build.operator(name, operator, read, made, layer, stride=stride, padding=padding, groups=1)


def _self_block(build: NetworkBuilder, name: str, x: str, stack: EncoderStack) -> str:
    y = build.normalised(f"{name}.attention.norm", "layer_norm", x, bias=True)
    x = build.add(f"{name}.attention.add", x, _attention(build, f"{name}.attention", (y, y), stack, 0))
    return _feed_forward(build, name, x, stack)


def _feed_forward(build: NetworkBuilder, name: str, x: str, stack: EncoderStack) -> str:
    y = build.normalised(f"{name}.mlp.norm", "layer_norm", x, bias=True)
    y = build.linear(f"{name}.mlp.expand", y, stack.hidden, stack.activation, bias=True)
    return build.add(f"{name}.mlp.add", x, build.linear(f"{name}.mlp.contract", y, stack.width, bias=True))


def _attention(
    build: NetworkBuilder, name: str, reads: tuple[str, str | None], stack: EncoderStack, cached: int
) -> str:
    """Attention of the first value's tokens to the second's, behind ``cached`` tokens of an input.

    ``reads`` are what queries are made of, and what keys and values are; None: all of these are cached.
    """
    parts = {}
    of_query, of_keys = reads
    for part, bias in zip(("query", "key", "value"), stack.biases, strict=True):
        read = of_query if part == "query" else of_keys
        if read is None:
            batch = build.shape(of_query)[0]
            made = build.input(f"{name}.{part}.cache", (batch, cached, stack.width))
        else:
            made = build.linear(f"{name}.{part}", read, stack.width, bias=bias)
            if part != "query":
                made = build.after_past(f"{name}.{part}", made, cached)
        parts[part] = build.heads_apart(f"{name}.{part}", made, stack.heads)
    keys = build.permute(f"{name}.key.turned", parts["key"], (0, 1, 3, 2))
    scores = build.matmul(f"{name}.scores", parts["query"], keys, "matmul+mul")
    weights = build.operator(f"{name}.softmax", "softmax", (scores,), build.shape(scores), dim=-1)
    y = build.heads_together(name, build.matmul(f"{name}.values", weights, parts["value"]))
    return build.linear(f"{name}.output", y, stack.width, bias=True)
