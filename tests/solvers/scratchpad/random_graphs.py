"""Small operator graphs at random, and the least off-chip bytes of one by looking at everything."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from random import Random

from costmodel.scratchpad.graph import GraphTensor, Operator, OperatorGraph, ScratchpadSettings

LITERAL = ScratchpadSettings()


def random_graph(seed: int, operators: int = 7, settings: ScratchpadSettings = LITERAL) -> OperatorGraph:
    """Operators of one to three inputs and one or two outputs; with ``in_place`` some may overwrite."""
    random = Random(seed)
    sizes = [random.randint(1, 5) for _ in range(random.choice((1, 1, 2)))]
    given = len(sizes)
    nodes = []
    for index in range(operators):
        inputs = {max(0, len(sizes) - 1 - random.randint(0, 4)) for _ in range(random.choice((1, 2, 3)))}
        outputs = tuple(len(sizes) + k for k in range(random.choice((1, 1, 1, 2))))
        sizes += [random.randint(1, 5) for _ in outputs]
        overwrites: tuple[tuple[int, int], ...] = ()
        if settings.in_place and len(outputs) == 1 and random.random() < 0.6:
            source = min(inputs)
            sizes[outputs[0]] = sizes[source]
            overwrites = ((source, outputs[0]),)
        held = settings.padded(random.choice((0, 0, 2))) if settings.parameters else 0
        nodes.append(Operator(f"operator{index}", tuple(sorted(inputs)), outputs, held, overwrites))
    return without_unused(f"random{seed}", nodes, sizes, given, settings)


def forked_graph(seed: int, settings: ScratchpadSettings = LITERAL) -> OperatorGraph:
    """Two to four branches of one to three operators off one tensor, joined two by two."""
    random = Random(seed)
    sizes = [random.randint(3, 6)]
    nodes: list[Operator] = []

    def made(*inputs: int) -> int:
        held = settings.padded(random.choice((0, 2))) if settings.parameters else 0
        nodes.append(Operator(f"operator{len(nodes)}", tuple(sorted(set(inputs))), (len(sizes),), held))
        sizes.append(random.randint(1, 7))
        return len(sizes) - 1

    hub = made(0)
    ends = []
    for _ in range(random.randint(2, 4)):
        end = hub
        for _ in range(random.randint(1, 3)):
            end = made(end)
        ends.append(end)
    while len(ends) > 1:
        ends.append(made(ends.pop(0), ends.pop(0)))
    return without_unused(f"forked{seed}", nodes, sizes, 1, settings)


def unfused_graph(seed: int, settings: ScratchpadSettings = LITERAL, branches: int = 3) -> OperatorGraph:
    """Branches off one tensor that copy, pad and shrink it, as in networks of single ATen operations.

    They are joined at the end, some with the end of another branch before.
    """
    random = Random(seed)
    sizes = [random.randint(2, 5)]
    nodes: list[Operator] = []

    def made(size: int, *inputs: int) -> int:
        held = settings.padded(random.choice((0, 0, 1))) if settings.parameters else 0
        nodes.append(Operator(f"operator{len(nodes)}", tuple(sorted(set(inputs))), (len(sizes),), held))
        sizes.append(size)
        return len(sizes) - 1

    hub = made(random.randint(3, 6), 0) if random.random() < 0.7 else 0
    ends: list[int] = []
    for _ in range(branches):
        end = hub
        if random.random() < 0.6:
            end = made(sizes[end], end)
        if random.random() < 0.7:
            end = made(sizes[end] + random.randint(0, 2), end)
        also = [random.choice(ends)] if ends and random.random() < 0.3 else []
        end = made(random.randint(1, 3), end, *also)
        if random.random() < 0.4:
            end = made(sizes[end] - random.randint(0, sizes[end] - 1), end)
        ends.append(end)
    made(sum(sizes[end] for end in ends), *ends)
    return without_unused(f"unfused{seed}", nodes, sizes, 1, settings)


def grouped_heads(
    seed: int, groups: int = 2, heads: int = 2, settings: ScratchpadSettings = LITERAL
) -> OperatorGraph:
    """Attention heads of three operators off one tensor, in groups that share keys and values.

    All groups are alike and all heads are, in any order. They are joined at the end.
    """
    random = Random(seed)
    keys, queries, scores, outcome = (random.randint(1, 3) for _ in range(4))
    scores += random.randint(1, 3)
    held = settings.padded(random.choice((0, 1))) if settings.parameters else 0
    sizes = [random.randint(2, 5)]
    nodes: list[Operator] = []

    def made(size: int, *inputs: int) -> int:
        nodes.append(Operator(f"operator{len(nodes)}", tuple(sorted(set(inputs))), (len(sizes),), held))
        sizes.append(size)
        return len(sizes) - 1

    hub = made(random.randint(2, 5), 0)
    shared = [(made(keys, hub), made(keys, hub)) for _ in range(groups)]
    all_heads = [group for group in range(groups) for _ in range(heads)]
    random.shuffle(all_heads)
    ends = []
    for group in all_heads:
        query = made(queries, hub)
        ends.append(made(outcome, made(scores, query, shared[group][0]), shared[group][1]))
    made(outcome * len(ends), *ends)
    return without_unused(f"heads{seed}", nodes, sizes, 1, settings)


def spilling_graph() -> OperatorGraph:
    """The first random graph that cannot do without off-chip access at MR."""
    graphs = map(random_graph, range(100))
    return next(graph for graph in graphs if least_bytes(graph, graph.required_bytes))


def without_unused(
    name: str, nodes: list[Operator], sizes: list[int], given: int, settings: ScratchpadSettings
) -> OperatorGraph:
    used = sorted({tensor for node in nodes for tensor in (*node.inputs, *node.outputs)})
    new = {tensor: index for index, tensor in enumerate(used)}
    return OperatorGraph(
        name,
        tuple(
            Operator(
                node.name,
                tuple(new[t] for t in node.inputs),
                tuple(new[t] for t in node.outputs),
                node.parameter_bytes,
                tuple((new[one], new[two]) for one, two in node.overwrites),
            )
            for node in nodes
        ),
        tuple(GraphTensor(f"t{t}", sizes[t], settings.padded(sizes[t]), t < given) for t in used),
        settings,
    )


def orders(graph: OperatorGraph, done: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Every topological order."""
    if len(done) == len(graph.operators):
        yield done
    made = {t for v in done for t in graph.operators[v].outputs} | {
        t for t, tensor in enumerate(graph.tensors) if tensor.given
    }
    for operator, node in enumerate(graph.operators):
        if operator not in done and made.issuperset(node.inputs):
            yield from orders(graph, (*done, operator))


def least_bytes(graph: OperatorGraph, capacity: int) -> int | None:
    """The least off-chip bytes over every order and every choice of gaps to be away in, by sum of sizes.

    None where nothing fits.
    """
    costs = (least_bytes_of_order(graph, order, capacity) for order in orders(graph))
    found = [cost for cost in costs if cost is not None]
    return min(found, default=None)


def peak(graph: OperatorGraph, order: tuple[int, ...]) -> int:
    """The peak footprint of an order without spills."""
    return max(_footprints(graph, order, frozenset()))


def _uses(graph: OperatorGraph, order: tuple[int, ...]) -> list[list[int]]:
    touched = [(*graph.operators[v].inputs, *graph.operators[v].outputs) for v in order]
    return [[step for step, own in enumerate(touched) if t in own] for t in range(len(graph.tensors))]


def _footprints(
    graph: OperatorGraph, order: tuple[int, ...], away: frozenset[tuple[int, int, int]]
) -> list[int]:
    uses = _uses(graph, order)
    footprints = []
    for step, operator in enumerate(order):
        node = graph.operators[operator]
        used = node.parameter_bytes
        for tensor, own in enumerate(uses):
            gone = any(t == tensor and first < step < last for t, first, last in away)
            if own[0] <= step <= own[-1] and not gone:
                used += graph.tensors[tensor].block_bytes
        if any(uses[source][-1] == step for source, _ in node.overwrites):
            used -= graph.tensors[node.overwrites[0][1]].block_bytes
        footprints.append(used)
    return footprints


def least_bytes_of_order(graph: OperatorGraph, order: tuple[int, ...], capacity: int) -> int | None:
    gaps = [
        (tensor, first, last)
        for tensor, own in enumerate(_uses(graph, order))
        for first, last in pairwise(own)
        if last > first + 1
    ]
    best = None
    for count in range(len(gaps) + 1):
        for chosen in combinations(gaps, count):
            cost = sum(graph.tensors[tensor].traffic_bytes for tensor, _, _ in chosen)
            for tensor in {tensor for tensor, _, _ in chosen}:
                if not (graph.tensors[tensor].given and graph.settings.inputs_on_host):
                    cost += graph.tensors[tensor].traffic_bytes
            if best is not None and cost >= best:
                continue
            if max(_footprints(graph, order, frozenset(chosen))) <= capacity:
                best = cost
    return best
