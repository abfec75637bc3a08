"""Mamba-2: state spaces whose scan is products of blocks over many tokens, and a step of state over one.

A head keeps a state of ``head_width x state`` numbers. Token t changes it to ``decay * state + step * x B^T``
and reads ``state C`` from it; x, B, C, decay and step are made of the token. Over many tokens that is cut
into chunks: within one, outputs are a masked product of C and B times x, like attention; between chunks only
states are handed on (section 6 of Dao and Gu 2024).
"""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.workload.convolutions import Window, convolution_of
from costmodel.workload.library.builder import NetworkBuilder
from costmodel.workload.library.decoder import DecoderPhase
from costmodel.workload.network import Network


@dataclass(frozen=True)
class StateSpaces:
    """The facts of a Mamba-2 (Dao and Gu 2024).

    ``heads`` of ``head_width`` channels each have a state of ``state`` numbers a channel; ``groups`` of heads
    share what writes it and reads it (B and C). ``filter`` is the length of the convolution over tokens,
    ``chunk`` that of the blocks of the scan.
    """

    vocabulary: int
    width: int
    blocks: int
    heads: int
    head_width: int
    state: int
    groups: int
    filter: int
    chunk: int
    bias: bool = False
    filter_bias: bool = True
    tied: bool = False
    bits: int | None = None

    @property
    def inner(self) -> int:
        """The channels of all heads."""
        return self.heads * self.head_width

    @property
    def filtered(self) -> int:
        """The channels that the convolution filters: those of the heads, and of B and C."""
        return self.inner + 2 * self.groups * self.state


def mamba2(name: str, facts: StateSpaces, phase: DecoderPhase) -> Network:
    """The network of a Mamba-2 in a phase, whose states behind ``past`` tokens are inputs.

    One new token is a step of the recurrence; several are computed in the block form (section 6), padded to
    whole chunks.
    """
    return _Builder(name, facts, phase).network()


class _Builder:
    def __init__(self, name: str, facts: StateSpaces, phase: DecoderPhase) -> None:
        self._facts, self._phase = facts, phase
        self._build = NetworkBuilder(name, facts.bits, views_folded=False)

    def network(self) -> Network:
        build, facts, phase = self._build, self._facts, self._phase
        ids = build.input("ids", (phase.batch, phase.new))
        table = build.parameter("embedding.table", (facts.vocabulary, facts.width))
        x = build.operator("embedding", "embedding", (table, ids), (phase.batch, phase.new, facts.width))
        for i in range(facts.blocks):
            x = self._block(f"block{i}", x)
        x = build.normalised("norm", "rms_norm", x)
        x = build.last_tokens("last_tokens", x, phase.logits)
        if facts.tied:
            build.linear_with("lm_head", x, (table,))
        else:
            build.linear("lm_head", x, facts.vocabulary)
        return build.network()

    def _block(self, name: str, x: str) -> str:
        """One product makes all that a block needs; behind the scan a gate, a norm and a product back."""
        build, facts = self._build, self._facts
        y = build.normalised(f"{name}.norm", "rms_norm", x)
        widths = {"gate": facts.inner, "filtered": facts.filtered, "step": facts.heads}
        y = build.linear(f"{name}.in", y, sum(widths.values()), bias=facts.bias)
        gate, filtered, step = build.parts(name, y, widths)
        filtered = self._filter(f"{name}.filter", filtered)
        of_groups = facts.groups * facts.state
        x_, b, c = build.parts(name, filtered, {"x": facts.inner, "b": of_groups, "c": of_groups})
        step_bias, decay, skip = (
            build.parameter(f"{name}.{vector}", (facts.heads,)) for vector in ("step_bias", "decay", "skip")
        )
        step = build.operator(f"{name}.steps", "add+softplus", (step, step_bias), build.shape(step))
        decay = build.operator(f"{name}.decays", "mul+exp", (step, decay), build.shape(step))
        # the scan itself is of x times its step; the connection past it, by ``skip``, is of x
        scaled = build.operator(f"{name}.scaled", "mul", (x_, step), build.shape(x_), factors="of_row")
        y = (self._step if self._phase.new == 1 else self._scan)(name, scaled, (b, c, decay))
        y = build.operator(f"{name}.skipped", "addcmul", (y, x_, skip), build.shape(y))
        gate = build.pointwise(f"{name}.gate.activation", "silu", gate)
        y = build.operator(f"{name}.gated", "mul", (y, gate), build.shape(y))
        y = build.normalised(f"{name}.gated.norm", "rms_norm", y)
        return build.add(f"{name}.add", x, build.linear(f"{name}.out", y, facts.width, bias=facts.bias))

    def _filter(self, name: str, x: str) -> str:
        """The convolution of each channel over the last tokens, of which the cache has those before."""
        build, facts = self._build, self._facts
        batch, tokens, channels = build.shape(x)
        before = facts.filter - 1
        # each token sees itself and ``before`` tokens before it: those of the cache, or zeros at the
        # beginning
        if self._phase.past:
            x = build.after_past(name, x, before)
        else:
            shape = (batch, before + tokens, channels)
            x = build.operator(f"{name}.padded", "pad", (x,), shape, pad=(0, 0, before, 0))
        x = build.permute(f"{name}.by_channel", x, (0, 2, 1))
        weights = build.parameter(f"{name}.weight", (channels, 1, facts.filter))
        read: tuple[str, ...] = (x, weights)
        if facts.filter_bias:
            read += (build.parameter(f"{name}.bias", (channels,)),)
        made = (batch, channels, tokens)
        window = Window.of(1, (1,), (1,), channels)
        layer = convolution_of(name, build.shape(x), build.shape(weights), made, window)
        x = build.operator(name, "conv1d+silu", read, made, layer, stride=1, padding=0, groups=channels)
        return build.permute(f"{name}.by_token", x, (0, 2, 1))

    def _step(self, name: str, x: str, others: tuple[str, str, str]) -> str:
        """One token: the state decays, takes x times B, and is read with C."""
        build, facts = self._build, self._facts
        b, c, decay = others
        batch = build.shape(x)[0]
        shape = (batch, facts.heads, facts.head_width, facts.state)
        x = build.reshape(f"{name}.x.heads", x, (*shape[:3], 1))
        b = build.reshape(f"{name}.b.groups", b, (batch, facts.groups, 1, facts.state))
        state = build.operator(f"{name}.written", "mul", (x, b), shape, factors="of_column")
        if self._phase.past:
            cache = build.input(f"{name}.state.cache", shape)
            read = (state, cache, decay)
            state = build.operator(f"{name}.state", "addcmul", read, shape, factors="carried")
        c = build.reshape(f"{name}.c.groups", c, (batch, facts.groups, facts.state, 1))
        y = build.matmul(f"{name}.read", state, c)
        return build.reshape(f"{name}.read.together", y, (batch, 1, facts.inner))

    def _scan(self, name: str, x: str, others: tuple[str, str, str]) -> str:
        """Many tokens: products within chunks, the states behind chunks, and what chunks read of them."""
        build, facts, (batch, new) = self._build, self._facts, (self._phase.batch, self._phase.new)
        b, c, decay = others
        chunk = min(facts.chunk, new)
        count = -(-new // chunk)
        x = self._in_chunks(f"{name}.x", x, (count, chunk), facts.heads)
        b = self._in_chunks(f"{name}.b", b, (count, chunk), facts.groups)
        c = self._in_chunks(f"{name}.c", c, (count, chunk), facts.groups)
        # Within chunks: what token s wrote is read at token t, decayed by what lies between (0 where s > t).
        outer = (batch, count, facts.heads)
        turned = build.permute(f"{name}.b.turned", b, (0, 1, 2, 4, 3))
        scores = build.matmul(f"{name}.scores", c, turned)
        masked = self._decayed(f"{name}.decayed", scores, decay, (*outer, chunk, chunk))
        within = build.matmul(f"{name}.within", masked, x)
        # States: what is left at the end of each chunk of all that its tokens wrote.
        lasting = self._decayed(f"{name}.lasting", x, decay, build.shape(x))
        by_channel = build.permute(f"{name}.lasting.turned", lasting, (0, 1, 2, 4, 3))
        states = build.matmul(f"{name}.states", by_channel, b)
        read: tuple[str, ...] = (states, decay)
        if self._phase.past:
            cache = build.input(f"{name}.state.cache", (batch, *build.shape(states)[2:]))
            read = (states, cache, decay)
        # The recurrence over chunks gives the state before each one, which all its tokens read. A single
        # chunk with nothing before it has no such state.
        if count > 1 or self._phase.past:
            made = build.shape(states)
            states = build.operator(f"{name}.carried", "addcmul", read, made, factors="carried", chunk=chunk)
            by_state = build.permute(f"{name}.carried.turned", states, (0, 1, 2, 4, 3))
            across = build.matmul(f"{name}.read", c, by_state)
            across = self._decayed(f"{name}.read.decayed", across, decay, build.shape(across))
            within = build.add(f"{name}.all", within, across)
        by_token = build.permute(f"{name}.all.by_token", within, (0, 1, 3, 2, 4))
        padded = build.reshape(f"{name}.all.together", by_token, (batch, count * chunk, facts.inner))
        return build.rows(f"{name}.all.new", padded, 0, new)

    def _decayed(self, name: str, x: str, decay: str, shape: tuple[int, ...]) -> str:
        """The value times what has decayed between tokens, which follows from the decays of all of them."""
        return self._build.operator(name, "mul", (x, decay), shape, factors="of_all_rows")

    def _in_chunks(self, name: str, x: str, chunks: tuple[int, int], heads: int) -> str:
        """The value (batch, tokens, heads * width) as (batch, chunks, heads, tokens of a chunk, width)."""
        build, (count, chunk) = self._build, chunks
        batch, tokens, width = build.shape(x)
        if count * chunk > tokens:
            missing = count * chunk - tokens
            shape = (batch, count * chunk, width)
            x = build.operator(f"{name}.padded", "pad", (x,), shape, pad=(0, 0, 0, missing))
        apart = build.reshape(f"{name}.chunks", x, (batch, count, chunk, heads, width // heads))
        return build.permute(f"{name}.by_chunk", apart, (0, 1, 3, 2, 4))
