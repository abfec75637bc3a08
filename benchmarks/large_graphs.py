"""Made-up graphs: cells wired at random and a transformer, of 5,000 operators each; a block of Llama."""

from __future__ import annotations

from random import Random

from costmodel.workload.network import Network, Node, Value


class _Builder:
    """Collects operators of one output each; sizes in elements."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.values = [Value("input", (size,), "input")]

    def operator(self, kind: str, inputs: list[str], size: int) -> str:
        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(Node(name, kind, tuple(inputs), (f"{name}.out",)))
        self.values.append(Value(f"{name}.out", (size,), "activation"))
        return f"{name}.out"

    def head(self, queries: str, keys: str, values: str, tokens: int, size: int) -> str:
        """A head of an attention, whose outputs have ``size`` elements."""
        scores = self.operator("matmul", [queries, keys], tokens * tokens)
        weights = self.operator("softmax", [scores], tokens * tokens)
        return self.operator("matmul", [weights, values], size)

    def projected(self, stream: str, heads: list[str], size: int) -> str:
        """The stream with what comes of all heads added to it."""
        joined = self.operator("cat", heads, size)
        return self.operator("add", [stream, self.operator("linear", [joined], size)], size)

    def network(self) -> Network:
        return Network(self.name, tuple(self.nodes), tuple(self.values))


def stacked_cells(cells: int = 170, blocks: int = 9, seed: int = 1) -> Network:
    """Cells like those of architecture search: each reads the outputs of the two cells before it.

    A block adds two convolved tensors of the cell; what no block reads is concatenated.
    """
    random, size = Random(seed), 56 * 56 * 32
    graph = _Builder(f"cells_{cells}x{blocks}", size)
    previous, last = "input", graph.operator("conv2d", ["input"], size)
    for cell in range(cells):
        if cell and cell % (cells // 3) == 0:
            size //= 2
        tensors = [graph.operator("conv2d", [previous], size), graph.operator("conv2d", [last], size)]
        unread = set(tensors)
        for _ in range(blocks):
            sources = random.sample(tensors, 2) if len(tensors) > 2 else tensors[:2]
            unread -= set(sources)
            convolved = [graph.operator("conv2d", [source], size) for source in sources]
            tensors.append(graph.operator("add", convolved, size))
            unread.add(tensors[-1])
        joined = graph.operator("cat", sorted(unread), size * len(unread))
        previous, last = last, joined
    return graph.network()


def transformer(layers: int = 48, heads: int = 16, tokens: int = 512, width: int = 1024) -> Network:
    """An encoder with every attention head's products as operators of their own."""
    graph = _Builder(f"transformer_{layers}", tokens * width)
    stream, slim = "input", tokens * width // heads
    for _ in range(layers):
        normed = graph.operator("layer_norm", [stream], tokens * width)
        outputs = []
        for _ in range(heads):
            queries, keys, values = (graph.operator("linear", [normed], slim) for _ in range(3))
            outputs.append(graph.head(queries, keys, values, tokens, slim))
        stream = graph.projected(stream, outputs, tokens * width)
        normed = graph.operator("layer_norm", [stream], tokens * width)
        hidden = graph.operator("linear", [normed], 4 * tokens * width)
        active = graph.operator("gelu", [hidden], 4 * tokens * width)
        stream = graph.operator(
            "add", [stream, graph.operator("linear", [active], tokens * width)], tokens * width
        )
    return graph.network()


def llama_block(
    heads: int = 32, groups: int = 8, tokens: int = 2048, width: int = 4096, hidden: int = 1376
) -> Network:
    """A block of Llama with heads as operators of their own, each group of which shares keys and values."""
    graph = _Builder(f"llama_block_{heads}x{groups}", tokens * width)
    stream, slim = "input", tokens * width // heads
    normed = graph.operator("rms_norm", [stream], tokens * width)
    outputs = []
    for _ in range(groups):
        keys, values = (graph.operator("linear", [normed], slim) for _ in range(2))
        for _ in range(heads // groups):
            queries = graph.operator("linear", [normed], slim)
            outputs.append(graph.head(queries, keys, values, tokens, slim))
    stream = graph.projected(stream, outputs, tokens * width)
    normed = graph.operator("rms_norm", [stream], tokens * width)
    gate, up = (graph.operator("linear", [normed], tokens * hidden) for _ in range(2))
    gated = graph.operator("mul", [graph.operator("silu", [gate], tokens * hidden), up], tokens * hidden)
    graph.operator("add", [stream, graph.operator("linear", [gated], tokens * width)], tokens * width)
    return graph.network()
