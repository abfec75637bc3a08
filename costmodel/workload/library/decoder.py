"""Decoders of text: grouped or latent attention over a cache, gated layers or experts, for one phase.

A phase is a number of new tokens behind a number of cached ones: a prefill has many and none, a decoding step
has one and many. Attention is counted over every pair of a new token and a token that some new token can see,
as software computes it that masks afterwards; so half of a prefill's scores are of masked pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from costmodel.workload.library.builder import Blocks, NetworkBuilder
from costmodel.workload.network import Network, batched_matmul


@dataclass(frozen=True)
class Attention:
    """Attention whose ``key_value_heads`` are each shared by as many of the ``heads``.

    ``bias`` is that of the projections to queries, keys and values, ``output_bias`` of the one behind.
    ``head_norms``: queries and keys are normalised head by head. ``sinks``: a learned score for each head
    joins the softmax. ``capped``: scores go through a scaled tanh.
    """

    heads: int
    key_value_heads: int
    head_width: int
    bias: bool = False
    output_bias: bool = False
    head_norms: bool = False
    sinks: bool = False
    capped: bool = False


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, section 2.1), which caches ``latent`` + ``rotary`` numbers
    for a token.

    ``queries`` is the width to which queries are compressed; None: they are not. A head's query and key have
    ``plain`` + ``rotary`` elements, of which the latter turn with the position, its value has ``value``.
    """

    heads: int
    queries: int | None
    latent: int
    plain: int
    rotary: int
    value: int
    bias: bool = False


@dataclass(frozen=True)
class Experts:
    """A layer of ``count`` experts of ``width`` hidden elements, of which each token takes ``top``.

    ``shared`` is the hidden width of the expert that every token takes; 0: there is none. ``score`` is the
    function of the router's results; ``correction``: a number for each expert is added before the choice.
    """

    count: int
    top: int
    width: int
    shared: int = 0
    bias: bool = False
    score: Literal["softmax", "sigmoid"] = "softmax"
    correction: bool = False


@dataclass(frozen=True)
class DecoderBlock:
    """One block: its attention, the tokens that it looks back at (``window``, itself included; None: all),
    and the hidden width of its gated layer, or its experts."""

    attention: Attention | LatentAttention
    feed_forward: int | Experts
    window: int | None = None


@dataclass(frozen=True)
class Decoder:
    """The facts of a decoder. ``activation`` is that of gated layers.

    ``normalised_twice``: the results of attention and of the gated layer are normalised as their inputs are.
    ``tied``: the table of tokens is also the last layer's weights. ``capped``: the last results go through a
    scaled tanh. ``bits`` are those of elements in general, ``linear`` how the blocks' weights are stored
    where they are stored otherwise, but for routers, and ``experts`` how those of experts are.
    """

    vocabulary: int
    width: int
    blocks: tuple[DecoderBlock, ...]
    activation: str = "silu"
    mlp_bias: bool = False
    tied: bool = False
    normalised_twice: bool = False
    capped: bool = False
    bits: int | None = None
    linear: Blocks | None = None
    experts: Blocks | None = None


@dataclass(frozen=True)
class DecoderPhase:
    """``batch`` sequences, each with ``new`` tokens behind ``past`` cached ones.

    ``logits`` are the tokens of each sequence for which the next one is predicted, the last ones. ``reached``
    is how many different experts the tokens of the batch reach; None: as many as there are, or as the tokens
    can reach where these are fewer. The tokens are spread over them as evenly as can be.
    """

    batch: int
    new: int
    past: int = 0
    logits: int = 1
    reached: int | None = None


def decoder(name: str, facts: Decoder, phase: DecoderPhase) -> Network:
    """The network of a decoder in a phase: every block's operators, the cached keys and values as inputs."""
    return _DecoderBuilder(name, facts, phase).network()


def expert_loads(experts: Experts, tokens: int, reached: int | None) -> list[tuple[int, int]]:
    """How many experts get how many tokens each, as (experts, tokens), when ``tokens`` are spread evenly.

    Every token goes to ``experts.top`` different ones of the ``reached`` experts.
    """
    routed = tokens * experts.top
    used = min(experts.count, routed) if reached is None else reached
    each, more = divmod(routed, used)
    return [(number, load) for number, load in ((more, each + 1), (used - more, each)) if number]


class _DecoderBuilder:
    def __init__(self, name: str, facts: Decoder, phase: DecoderPhase) -> None:
        self._facts, self._phase = facts, phase
        self._build = NetworkBuilder(name, facts.bits, views_folded=False)
        self._tokens = (phase.batch, phase.new)

    def network(self) -> Network:
        build, facts, phase = self._build, self._facts, self._phase
        ids = build.input("ids", self._tokens)
        table = build.parameter("embedding.table", (facts.vocabulary, facts.width))
        x = build.operator("embedding", "embedding", (table, ids), (*self._tokens, facts.width))
        for i, block in enumerate(facts.blocks):
            x = self._block(f"block{i}", x, block)
        x = self._norm("norm", x)
        x = build.last_tokens("last_tokens", x, phase.logits)
        x = self._predicted(x, table)
        if facts.capped:
            build.pointwise("cap", "mul+tanh+mul", x)
        return build.network()

    def _predicted(self, x: str, table: str) -> str:
        build, facts = self._build, self._facts
        if not facts.tied:
            return build.linear("lm_head", x, facts.vocabulary)
        return build.linear_with("lm_head", x, (table,))

    def _block(self, name: str, x: str, block: DecoderBlock) -> str:
        build, twice = self._build, self._facts.normalised_twice
        y = self._norm(f"{name}.attention.norm", x)
        if isinstance(block.attention, Attention):
            y = self._attention(f"{name}.attention", y, block.attention, block.window)
        else:
            y = self._latent_attention(f"{name}.attention", y, block.attention)
        if twice:
            y = self._norm(f"{name}.attention.norm_behind", y)
        x = build.add(f"{name}.attention.add", x, y)
        y = self._norm(f"{name}.mlp.norm", x)
        if isinstance(block.feed_forward, Experts):
            y = self._routed(f"{name}.mlp", y, block.feed_forward)
        else:
            y = self._gated(f"{name}.mlp", y, block.feed_forward)
        if twice:
            y = self._norm(f"{name}.mlp.norm_behind", y)
        return build.add(f"{name}.mlp.add", x, y)

    def _norm(self, name: str, x: str) -> str:
        return self._build.normalised(name, "rms_norm", x)

    def _linear(self, name: str, x: str, outputs: int, bias: bool = False) -> str:
        return self._build.linear(name, x, outputs, bias=bias, stored=self._facts.linear)

    # ---- attention

    def _turned(self, name: str, x: str, heads: int, normalised: bool) -> str:
        """Queries or keys (batch, tokens, heads * width), normalised by head, turned by their position."""
        build, (batch, tokens, width) = self._build, self._build.shape(x)
        if normalised:
            apart = build.reshape(f"{name}.each_head", x, (batch, tokens, heads, width // heads))
            x = build.reshape(f"{name}.normalised", self._norm(f"{name}.norm", apart), (batch, tokens, width))
        return build.pointwise(f"{name}.rotary", "rotary_embedding", x)

    def _attention(self, name: str, x: str, facts: Attention, window: int | None) -> str:
        """Attention of the new tokens to themselves and to those of the cache, and the projection behind it.

        ``window``: how many tokens each sees, itself included; None: all before it.
        """
        build, past = self._build, self._phase.past
        # the first new token sees window - 1 tokens before it, the others fewer cached ones
        kept = past if window is None else min(past, window - 1)
        parts = {}
        for part, heads in (
            ("query", facts.heads),
            ("key", facts.key_value_heads),
            ("value", facts.key_value_heads),
        ):
            made = self._linear(f"{name}.{part}", x, heads * facts.head_width, facts.bias)
            if part != "value":
                made = self._turned(f"{name}.{part}", made, heads, facts.head_norms)
            if part != "query":
                made = self._build.after_past(f"{name}.{part}", made, kept)
            parts[part] = self._build.heads_apart(f"{name}.{part}", made, heads)
        keys = build.permute(f"{name}.key.turned", parts["key"], (0, 1, 3, 2))
        capped = "+tanh+mul" if facts.capped else ""
        scores = build.matmul(f"{name}.scores", parts["query"], keys, f"matmul+mul{capped}")
        operands: tuple[str, ...] = (scores,)
        if facts.sinks:
            operands += (build.parameter(f"{name}.sinks", (facts.heads,)),)
        weights = build.operator(f"{name}.softmax", "softmax", operands, build.shape(scores), dim=-1)
        y = build.matmul(f"{name}.values", weights, parts["value"])
        return self._linear(
            f"{name}.output", self._build.heads_together(name, y), self._facts.width, facts.output_bias
        )

    def _latent_attention(self, name: str, x: str, facts: LatentAttention) -> str:
        """Latent attention: over keys and values made of the latent numbers where all tokens are new.

        Behind cached tokens the matrices that would make them are multiplied into queries and results
        instead (DeepSeek-V2, section 2.1.2), so that scores are products with the cache itself.
        """
        build = self._build
        queries = x
        if facts.queries is not None:
            queries = self._linear(f"{name}.query_down", x, facts.queries, facts.bias)
            queries = self._norm(f"{name}.query_norm", queries)
        width = facts.plain + facts.rotary
        queries = self._linear(f"{name}.query", queries, facts.heads * width)
        queries = self._build.heads_apart(f"{name}.query", queries, facts.heads)
        plain = self._build.part(f"{name}.query.plain", queries, 0, facts.plain)
        turning = self._build.part(f"{name}.query.turning", queries, facts.plain, width)
        turning = build.pointwise(f"{name}.query.rotary", "rotary_embedding", turning)
        packed = self._linear(f"{name}.latent_down", x, facts.latent + facts.rotary, facts.bias)
        latent = self._build.part(f"{name}.latent", packed, 0, facts.latent)
        latent = self._norm(f"{name}.latent_norm", latent)
        key_turning = self._build.part(
            f"{name}.key.turning", packed, facts.latent, facts.latent + facts.rotary
        )
        key_turning = build.pointwise(f"{name}.key.rotary", "rotary_embedding", key_turning)
        parts = plain, turning, latent, key_turning
        y = (self._absorbed if self._phase.past else self._expanded)(name, facts, parts)
        return self._linear(
            f"{name}.output", self._build.heads_together(name, y), self._facts.width, facts.bias
        )

    def _expanded(self, name: str, facts: LatentAttention, parts: tuple[str, str, str, str]) -> str:
        """Latent attention without a cache: keys and values of every head are made from each token's latent.

        ``parts``: the queries' part without positions and the one with, the latents, the keys' part with
        positions. The latter is one for all heads. The result has the values of each head.
        """
        build = self._build
        plain, turning, latent, key_turning = parts
        made = self._linear(f"{name}.key_value", latent, facts.heads * (facts.plain + facts.value))
        made = self._build.heads_apart(f"{name}.key_value", made, facts.heads)
        keys = self._build.part(f"{name}.key.plain", made, 0, facts.plain)
        values = self._build.part(f"{name}.value", made, facts.plain, facts.plain + facts.value)
        batch, heads, tokens, _ = build.shape(keys)
        one_head = build.reshape(f"{name}.key.one_head", key_turning, (batch, 1, tokens, facts.rotary))
        shape = (batch, heads, tokens, facts.rotary)
        every_head = build.operator(f"{name}.key.every_head", "expand", (one_head,), shape, size=shape)
        width = facts.plain + facts.rotary
        keys, queries = (
            build.operator(f"{name}.{what}.whole", "cat", pair, (batch, heads, tokens, width), dim=3)
            for what, pair in (("key", (keys, every_head)), ("query", (plain, turning)))
        )
        keys = build.permute(f"{name}.key.turned", keys, (0, 1, 3, 2))
        scores = build.matmul(f"{name}.scores", queries, keys, "matmul+mul")
        weights = build.operator(f"{name}.softmax", "softmax", (scores,), build.shape(scores), dim=-1)
        return build.matmul(f"{name}.values", weights, values)

    def _absorbed(self, name: str, facts: LatentAttention, parts: tuple[str, str, str, str]) -> str:
        """Latent attention behind a cache, which reads latents of the past and expands none of them.

        The product that would make keys of latents is applied to the queries instead, and the one that would
        make values to the weighted sum of latents: the same numbers, with far fewer products for a single new
        token. ``parts`` and the result are as in :meth:`_expanded`.
        """
        build, past = self._build, self._phase.past
        plain, turning, latent, key_turning = parts
        shape = (facts.heads * (facts.plain + facts.value), facts.latent)
        weights = build.weights(f"{name}.key_value", shape, self._facts.linear)[0]
        by_head = build.reshape(
            f"{name}.key_value.heads", weights, (1, facts.heads, facts.plain + facts.value, facts.latent)
        )
        to_latent, to_value = (
            build.operator(
                f"{name}.key_value.{part}",
                "slice",
                (by_head,),
                (1, facts.heads, end - start, facts.latent),
                dim=2,
                start=start,
                end=end,
            )
            for part, start, end in (
                ("of_keys", 0, facts.plain),
                ("of_values", facts.plain, facts.plain + facts.value),
            )
        )
        moved = build.matmul(f"{name}.query.latent", plain, to_latent)
        batch, heads, tokens, _ = build.shape(moved)
        shape4 = (batch, heads, tokens, facts.latent + facts.rotary)
        queries = build.operator(f"{name}.query.whole", "cat", (moved, turning), shape4, dim=3)
        shape3 = (batch, tokens, facts.latent + facts.rotary)
        made = build.operator(f"{name}.key.whole", "cat", (latent, key_turning), shape3, dim=2)
        every = self._build.after_past(f"{name}.key", made, past)
        keys = build.reshape(f"{name}.key.one_head", every, (batch, 1, past + tokens, shape3[2]))
        turned = build.permute(f"{name}.key.turned", keys, (0, 1, 3, 2))
        scores = build.matmul(f"{name}.scores", queries, turned, "matmul+mul")
        softmax = build.operator(f"{name}.softmax", "softmax", (scores,), build.shape(scores), dim=-1)
        values = self._build.part(f"{name}.value", keys, 0, facts.latent)
        weighted = build.matmul(f"{name}.values", softmax, values)
        back = build.permute(f"{name}.key_value.of_values.turned", to_value, (0, 1, 3, 2))
        return build.matmul(f"{name}.values.own", weighted, back)

    # ---- gated layers and experts

    def _gated(self, name: str, x: str, width: int) -> str:
        build, bias = self._build, self._facts.mlp_bias
        gate = self._linear(f"{name}.gate", x, width, bias)
        gate = build.pointwise(f"{name}.activation", self._facts.activation, gate)
        up = self._linear(f"{name}.up", x, width, bias)
        hidden = build.operator(f"{name}.gated", "mul", (gate, up), build.shape(up))
        return self._linear(f"{name}.down", hidden, self._facts.width, bias)

    def _routed(self, name: str, x: str, experts: Experts) -> str:
        """Each token through its experts, whose results are summed with the router's weights."""
        build, (batch, new), width = self._build, self._tokens, self._facts.width
        router = build.linear(f"{name}.router", x, experts.count, bias=experts.bias)
        scores = build.pointwise(f"{name}.router.score", experts.score, router)
        chosen: tuple[str, ...] = (scores,)
        if experts.correction:
            chosen += (build.parameter(f"{name}.router.correction", (experts.count,)),)
        top = build.operator(
            f"{name}.router.top", "topk", chosen, (batch, new, experts.top), k=experts.top, dim=-1
        )
        weights = self._expert_weights(name, experts)
        done = list[str]()
        for number, load in expert_loads(experts, batch * new, self._phase.reached):
            of = f"{name}.experts" if not done else f"{name}.other_experts"
            tokens = build.operator(f"{of}.tokens", "index_select", (x, top), (number, load, width))
            gate = self._expert_product(f"{of}.gate", tokens, experts.width, weights["gate"])
            gate = build.pointwise(f"{of}.activation", self._facts.activation, gate)
            up = self._expert_product(f"{of}.up", tokens, experts.width, weights["up"])
            hidden = build.operator(f"{of}.gated", "mul", (gate, up), build.shape(up))
            down = self._expert_product(f"{of}.down", hidden, width, weights["down"])
            done.append(build.reshape(f"{of}.rows", down, (number * load, width)))
        routed = (batch * new * experts.top, width)
        rows = build.operator(f"{name}.rows", "cat", tuple(done), routed, dim=0) if len(done) > 1 else done[0]
        shape = (batch, new, experts.top, width)
        by_token = build.operator(f"{name}.by_token", "index_select", (rows, top), shape)
        weighted = build.operator(f"{name}.weighted", "mul", (by_token, top), shape)
        y = build.operator(f"{name}.sum", "sum", (weighted,), (batch, new, width), dim=2)
        if experts.shared:
            y = build.add(f"{name}.with_shared", y, self._gated(f"{name}.shared", x, experts.shared))
        return y

    def _expert_weights(self, name: str, experts: Experts) -> dict[str, tuple[str, ...]]:
        """The weights of all experts by part, with scales and biases where they have some."""
        build, found = self._build, {}
        stored = self._facts.experts or self._facts.linear
        for part, outputs, inputs in (
            ("gate", experts.width, self._facts.width),
            ("up", experts.width, self._facts.width),
            ("down", self._facts.width, experts.width),
        ):
            of = f"{name}.experts.{part}"
            found[part] = build.weights(of, (experts.count, outputs, inputs), stored)
            if experts.bias:
                found[part] += (build.parameter(f"{of}.bias", (experts.count, outputs)),)
        return found

    def _expert_product(self, name: str, x: str, outputs: int, weights: tuple[str, ...]) -> str:
        """The product of each expert's tokens with its weights: one nest, as if the experts were heads."""
        number, load, inputs = self._build.shape(x)
        layer = batched_matmul(name, B=number, M=load, N=outputs, K=inputs)
        return self._build.operator(name, "matmul", (x, *weights), (number, load, outputs), layer)
