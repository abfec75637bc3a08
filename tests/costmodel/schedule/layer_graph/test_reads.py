"""Layers read what their nodes read: random graphs, run as ONNX has them and as layer graphs."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from costmodel.errors import InputError
from costmodel.formats.json.graph_json import network_of_graph
from costmodel.formats.onnx.reader import read_onnx
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.schedule.layer_graph.reading.reader import layer_graph
from tests.costmodel.schedule.layer_graph.layer_graph_runs import Made, number, run


def divisors(n: int) -> list[int]:
    return [i for i in range(1, n + 1) if n % i == 0]


def slice_(made: Made, x: str, random: Random) -> str:
    shape = made.numbers[x].shape
    axes = random.sample(range(1, len(shape)), random.choice([1, 1, 1, 2]) if len(shape) > 2 else 1)
    starts, ends, steps, index = [], [], [], [slice(None)] * len(shape)
    for axis in axes:
        n = shape[axis]
        step = random.choice([1, 1, 1, 2, -1])
        low = random.randrange(n)
        high = random.randrange(low + 1, n + 1)
        start, end = (low, high) if step > 0 else (high - 1, low - 1 if low else -n - 1)
        index[axis] = slice(start, None if end < -n else end, step)
        if random.random() < 0.4 and step > 0:
            start, end = start - n, random.choice([end, 2**40]) if end == n else end - n
        starts.append(start)
        ends.append(end)
        steps.append(step)
    axes = [random.choice([axis, axis - len(shape)]) for axis in axes]
    operands = [x, *(made.integers(*one) for one in (starts, ends, axes, steps))]
    return made.operator("Slice", operands, made.numbers[x][tuple(index)])


def gather(made: Made, x: str, random: Random) -> str:
    axis = random.randrange(1, made.numbers[x].ndim)
    n = made.numbers[x].shape[axis]
    chosen = [random.randrange(-n, n) for _ in range(random.choice([1, 2, n]))]
    taken = np.take(made.numbers[x], chosen, axis)
    return made.operator("Gather", [x, made.integers(*chosen)], taken, axis=axis)


def split(made: Made, x: str, random: Random) -> str:
    shape = made.numbers[x].shape
    axis = random.randrange(1, len(shape))
    first = random.randrange(1, shape[axis]) if shape[axis] > 1 else 1
    if shape[axis] == 1:
        return x
    name = made.new()
    sizes = made.integers(first, shape[axis] - first)
    halves = np.split(made.numbers[x], [first], axis)
    made.operator("Split", [x, sizes], halves[0], axis=axis)
    made.nodes[-1].output.append(f"{name}.second")
    made.numbers[f"{name}.second"] = halves[1]
    return random.choice([name, f"{name}.second"])


def transpose(made: Made, x: str, random: Random) -> str:
    order = [0, *random.sample(range(1, made.numbers[x].ndim), made.numbers[x].ndim - 1)]
    return made.operator("Transpose", [x], made.numbers[x].transpose(order), perm=order)


def reshape(made: Made, x: str, random: Random) -> str:
    shape = list(made.numbers[x].shape)
    if len(shape) > 2 and random.random() < 0.5:
        at = random.randrange(1, len(shape) - 1)
        shape[at : at + 2] = [shape[at] * shape[at + 1]]
    else:
        at = random.randrange(1, len(shape))
        major = random.choice(divisors(shape[at]))
        shape[at : at + 1] = [major, shape[at] // major]
    return made.operator("Reshape", [x, made.integers(*shape)], made.numbers[x].reshape(shape))


def shuffle(made: Made, x: str, random: Random) -> str:
    """A channel shuffle: reshape, transpose, reshape back."""
    shape = made.numbers[x].shape
    groups = random.choice(divisors(shape[1]))
    apart = (1, groups, shape[1] // groups, *shape[2:])
    y = made.operator("Reshape", [x, made.integers(*apart)], made.numbers[x].reshape(apart))
    order = [0, 2, 1, *range(3, len(apart))]
    z = made.operator("Transpose", [y], made.numbers[y].transpose(order), perm=order)
    return made.operator("Reshape", [z, made.integers(*shape)], made.numbers[z].reshape(shape))


def concat(made: Made, x: str, random: Random) -> str:
    shape = made.numbers[x].shape
    axis = random.randrange(1, len(shape))
    rest = (*shape[:axis], *shape[axis + 1 :])
    others = [
        name
        for name, one in made.numbers.items()
        if one.ndim == len(shape) and (*one.shape[:axis], *one.shape[axis + 1 :]) == rest
    ]
    both = [x, random.choice(others)]
    random.shuffle(both)
    result = np.concatenate([made.numbers[one] for one in both], axis)
    return made.operator("Concat", both, result, axis=random.choice([axis, axis - len(shape)]))


def add(made: Made, x: str, random: Random) -> str:
    """Of values without a common element: a layer graph does x + f(x) as one function of x."""
    own = set(made.numbers[x].ravel().tolist())
    others = [
        name
        for name, one in made.numbers.items()
        if one.shape == made.numbers[x].shape and not own & set(one.ravel().tolist())
    ]
    if not others:
        return x
    other = random.choice(others)
    return made.operator("Add", [x, other], made.numbers[x] + made.numbers[other])


def relu(made: Made, x: str, random: Random) -> str:
    return made.operator("Relu", [x], made.numbers[x])


def pad(made: Made, x: str, random: Random) -> str:
    padded = min(2, made.numbers[x].ndim - 1)
    widths = [(0, 0)] * (made.numbers[x].ndim - padded)
    widths += [(random.randrange(3), random.randrange(3)) for _ in range(padded)]
    pads = made.integers(*(first for first, _ in widths), *(last for _, last in widths))
    return made.operator("Pad", [x, pads], np.pad(made.numbers[x], widths))


def window(random: Random, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, int]]:
    r, s = (random.choice([1, 2, 3]) for _ in "hw")
    above, left, *behind = (random.randrange(size) for size in (r, s, r, s))
    strides = [random.choice([1, 1, 2]) for _ in "hw"]
    r, s = min(r, shape[2]), min(s, shape[3])
    above, left = min(above, r - 1), min(left, s - 1)
    return (r, s, *strides, above, left), (min(behind[0], r - 1), min(behind[1], s - 1))


def convolve(made: Made, x: str, random: Random) -> str:
    shape = made.numbers[x].shape
    if len(shape) != 4:
        return made.multiplied(x, random.choice([2, 3]))
    groups = random.choice([1, 1, shape[1], random.choice(divisors(shape[1]))])
    k = groups * random.choice([1, 2, 4 if groups == 1 else 1])
    return made.convolved(x, k, groups, *window(random, shape))


def pool(made: Made, x: str, random: Random) -> str:
    shape = made.numbers[x].shape
    return made.pooled(x, *window(random, shape)) if len(shape) == 4 else x


def multiply(made: Made, x: str, random: Random) -> str:
    others = [
        name
        for name, one in made.numbers.items()
        if one.ndim == made.numbers[x].ndim
        and one.shape[-2] == made.numbers[x].shape[-1]
        and one.shape[:-2] == made.numbers[x].shape[:-2]
    ]
    return made.product(x, random.choice(others)) if others else convolve(made, x, random)


def flatten(made: Made, x: str, random: Random) -> str:
    """Everything in one row, and a product of it."""
    y = made.operator("Reshape", [x, made.integers(1, -1)], made.numbers[x].reshape(1, -1))
    return made.multiplied(y, random.choice([2, 4]))


def reduce_(made: Made, x: str, random: Random) -> str:
    if made.numbers[x].ndim != 4:
        return x
    axes, keep = random.choice([(2, 3), (-2,), (3,)]), random.choice([0, 1])
    result = made.numbers[x].sum(axis=axes, keepdims=bool(keep), dtype=np.uint64)
    name = made.operator("ReduceSum", [x, made.integers(*axes)], result, keepdims=keep)
    made.computed[name] = result
    return name


def tile(made: Made, x: str, random: Random) -> str:
    repeats = [1] * made.numbers[x].ndim
    repeats[random.randrange(1, len(repeats))] = 2
    return made.operator("Tile", [x, made.integers(*repeats)], np.tile(made.numbers[x], repeats))


STEPS = [slice_, slice_, gather, split, split, transpose, reshape, shuffle, concat, concat, add, relu, pad]
STEPS += [convolve, convolve, pool, multiply, flatten, reduce_, tile]


def model(random: Random) -> Made:
    made = Made()
    for _ in range(random.choice([1, 2])):
        k = random.choice([4, 6, 8])
        if random.random() < 0.6:
            made.image(k, *random.choice([(4, 4), (6, 4), (5, 3)]))
        else:
            made.tokens(random.choice([4, 6]), k)
    for _ in range(random.randrange(2, 8)):
        x = random.choice(list(made.numbers)[-3:])
        small = 0 < made.numbers[x].size <= 600
        (random.choice(STEPS) if small else convolve)(made, x, random)
    for x in [name for name in made.numbers if not any(name in node.input for node in made.nodes)]:
        convolve(made, x, random)
    return made


def compared(made: Made) -> str:
    """Why the layer graph is refused; the empty text where every layer reads what its node reads."""
    with TemporaryDirectory() as folder:
        network = read_onnx(made.saved(Path(folder)))
    try:
        graph = layer_graph(network)
    except InputError as error:
        named = re.search(r"\bt\d+\b", f"{error.where} {error.key}")
        return error.expected if named else pytest.fail(f"no node is named: {error}")
    numbers = run(graph, made.depthwise)
    # layers may compute channels and positions in another order, which who reads them knows
    wrong = [
        name
        for name, expected in made.computed.items()
        if name in numbers and sorted(numbers[name].ravel()) != sorted(expected.ravel())
    ]
    assert not wrong
    read = {name for node in made.nodes for name in node.input}
    assert numbers.keys() >= {name for name in made.computed if name not in read}
    return ""


@pytest.mark.slow
@given(random=st.randoms(use_true_random=False))
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
def test_every_layer_reads_what_its_node_reads(random: Random) -> None:
    compared(model(random))


@pytest.mark.slow
def test_a_third_of_such_graphs_at_least_are_read_not_refused() -> None:
    assert sum(not compared(model(Random(seed))) for seed in range(100)) >= 33


# ---- one by one


def read(made: Made) -> dict[str, NetworkLayer]:
    """The layers by name, after both runs were seen to agree."""
    assert compared(made) == ""
    with TemporaryDirectory() as folder:
        return {layer.name: layer for layer in layer_graph(read_onnx(made.saved(Path(folder)))).layers}


def sliced(made: Made, x: str, axis: int, start: int, end: int, step: int = 1) -> str:
    index = [slice(None)] * made.numbers[x].ndim
    index[axis] = slice(start, end, step)
    operands = [x, *(made.integers(one) for one in (start, end, axis, step))]
    return made.operator("Slice", operands, made.numbers[x][tuple(index)])


def joined(made: Made, *reads: str, axis: int = 1) -> str:
    return made.operator(
        "Concat", list(reads), np.concatenate([made.numbers[one] for one in reads], axis), axis=axis
    )


def filtered(made: Made, x: str, k: int = 2) -> str:
    return made.convolved(x, k, 1, (1, 1, 1, 1, 0, 0), (0, 0))


@pytest.mark.parametrize(("start", "end", "source"), [(0, 4, 0), (4, 8, 1), (-4, 2**31, 1), (-8, -4, 0)])
def test_a_part_of_a_concatenation_reads_the_operand_that_it_is(start: int, end: int, source: int) -> None:
    made = Made()
    a, b = made.image(4, 4, 4), made.image(4, 4, 4)
    last = filtered(made, sliced(made, joined(made, a, b), 1, start, end))
    layers = read(made)
    assert list(layers) == [(a, b)[source], last]
    assert layers[last].producers == (0,)


def test_parts_are_what_they_say_in_whatever_order_they_are_taken() -> None:
    made = Made()
    x = made.image(8, 4, 4)
    second, first = (filtered(made, sliced(made, x, 1, start, start + 4)) for start in (4, 0))
    layers = read(made)
    assert (layers[first].producers, layers[second].producers) == ((0,), (1,))


def test_rows_other_than_the_first_and_every_second_row() -> None:
    made = Made()
    x = made.image(4, 6, 4)
    below = filtered(made, sliced(made, x, 2, 2, 6))
    right = filtered(made, sliced(made, x, 3, -1, 4))
    even = sliced(made, x, 2, 1, 6, 2)
    filtered(made, even)
    layers = read(made)
    assert (layers[below].pad_h, layers[below].input_h) == (-2, 6)
    assert (layers[right].pad_w, layers[right].input_w) == (-3, 4)
    assert layers[below].input_elements(1) == 4 * 4 * 4
    assert (layers[even].kind, layers[even].pad_h, layers[even].stride_h) == ("pool", -1, 2)


def test_the_last_token() -> None:
    made = Made()
    x = made.tokens(6, 8)
    last = made.operator("Gather", [x, made.integers(-1)], made.numbers[x][:, -1:], axis=1)
    made.multiplied(last, 3)
    assert (read(made)[last].pad_h, read(made)[last].h) == (-5, 1)


def test_concatenations_go_along_the_axis_that_is_stated() -> None:
    made = Made()
    a, b = made.image(4, 4, 4), made.image(4, 4, 4)
    channels, rows, columns = (joined(made, a, b, axis=axis) for axis in (1, 2, 3))
    for x in (channels, rows, columns):
        filtered(made, x)
    layers = read(made)
    assert channels not in layers
    assert [(layers[x].kind, layers[x].k, layers[x].h, layers[x].w) for x in (rows, columns)] == [
        ("eltwise", 4, 8, 4),
        ("eltwise", 4, 4, 8),
    ]


def test_a_concatenation_of_several_operands_whose_views_were_folded_away_is_refused() -> None:
    shapes = {"x": (1, 3, 6, 4), "w": (4, 3, 1, 1), "image": (1, 4, 6, 4), "y": (1, 4, 1, 6, 8)}
    kinds = {"x": "input", "w": "parameter", "image": "activation", "y": "output"}
    graph = {
        "name": "folded",
        "tensors": [{"name": name, "shape": shape, "kind": kinds[name]} for name, shape in shapes.items()],
        "ops": [
            {"name": "conv", "type": "conv2d", "inputs": ["x", "w"], "outputs": ["image"]},
            {
                "name": "cat",
                "type": "cat",
                "inputs": ["image", "image"],
                "outputs": ["y"],
                "attrs": {"dim": 4},
            },
        ],
    }
    with pytest.raises(InputError, match=r"node cat \(cat\): expected operands of 5 axes"):
        layer_graph(network_of_graph(graph))


@pytest.mark.parametrize(
    ("kind", "reads", "shape", "attrs", "message"),
    [
        ("addmm", ["x", "w"], (1, 4, 8), {}, "expected factors at positions 1 and 2"),
        ("cat", ["rows", "turned"], (1, 4, 1, 12), {"dim": 3}, "expected operands of 4 axes"),
        ("pad", ["rows"], (9,), {"pad": [1, 0]}, "expected a result of 3 axes"),
        ("adaptive_avg_pool2d", ["rows"], (1, 8, 2, 2), {}, "expected an input of 4 axes"),
    ],
)
def test_shapes_and_operands_that_contradict_a_node_are_refused_by_its_name(
    kind: str, reads: list[str], shape: tuple[int, ...], attrs: dict[str, Any], message: str
) -> None:
    shapes = {"x": (1, 4, 5), "w": (8, 5), "rows": (1, 4, 8), "turned": (1, 4, 1, 4), "y": shape}
    kinds = {"x": "input", "w": "parameter", "y": "output"}
    graph = {
        "name": "contradictory",
        "tensors": [
            {"name": name, "shape": one, "kind": kinds.get(name, "activation")}
            for name, one in shapes.items()
        ],
        "ops": [
            {"name": "linear", "type": "linear", "inputs": ["x", "w"], "outputs": ["rows"]},
            {"name": "scores", "type": "matmul", "inputs": ["rows"], "outputs": ["turned"]},
            {"name": "last", "type": kind, "inputs": reads, "outputs": ["y"], "attrs": attrs},
        ],
    }
    with pytest.raises(InputError, match=rf"node last \({kind}\): (pads: )?{message}"):
        layer_graph(network_of_graph(graph))


def test_weights_of_a_linear_layer_may_be_held_in_another_shape() -> None:
    shapes = {"x": (1, 4, 5), "w": (8, 5, 1), "y": (1, 4, 8)}
    kinds = {"x": "input", "w": "parameter", "y": "output"}
    node = {"name": "linear", "type": "linear", "inputs": ["x", "w"], "outputs": ["y"]}
    graph = {
        "name": "held",
        "tensors": [{"name": name, "shape": shape, "kind": kinds[name]} for name, shape in shapes.items()],
        "ops": [{**node, "attrs": {"weight_shape": [8, 5]}}],
    }
    (layer,) = layer_graph(network_of_graph(graph)).layers
    assert (layer.kind, layer.c, layer.k, layer.h) == ("conv", 5, 8, 4)


def test_a_channel_shuffle_decides_what_groups_read() -> None:
    made = Made()
    shuffled = shuffle(made, made.image(8, 4, 4), FirstChoice(2))
    last = made.convolved(shuffled, 8, 2, (1, 1, 1, 1, 0, 0), (0, 0))
    layers = read(made)
    # groups of channels 0 4 1 5 and 2 6 3 7
    assert [layers[f"t0[{i}]"].k for i in range(4)] == [2, 2, 2, 2]
    assert layers[last].producers == (0, 2, 1, 3)


class FirstChoice(Random):
    """Chooses what it is told to."""

    def __init__(self, chosen: int) -> None:
        super().__init__()
        self._chosen = chosen

    def choice(self, seq: Any) -> Any:
        assert self._chosen in seq
        return self._chosen


def test_padding_is_where_the_file_has_it() -> None:
    made = Made()
    x = made.image(4, 5, 5)
    uneven = made.convolved(x, 2, 1, (3, 3, 2, 2, 2, 0), (0, 1))
    widths = [(0, 0), (0, 0), (1, 2), (0, 3)]
    pads = made.integers(0, 0, 1, 0, 0, 0, 2, 3)
    padded = made.operator("Pad", [x, pads], np.pad(made.numbers[x], widths))
    behind = made.convolved(padded, 2, 1, (3, 3, 1, 1, 1, 0), (0, 0))
    layers = read(made)
    assert (layers[uneven].pad_h, layers[uneven].pad_w) == (2, 0)
    assert (layers[behind].pad_h, layers[behind].pad_w, layers[behind].input_h) == (2, 0, 5)
    assert list(layers) == [x, uneven, behind]


@pytest.mark.parametrize(("policy", "above"), [("SAME_UPPER", 0), ("SAME_LOWER", 1)])
def test_automatic_padding(tmp_path: Path, policy: str, above: int) -> None:
    made = Made()
    x = made.image(4, 6, 6)
    node = helper.make_node("Conv", [x, made.weights(2, 4, 3, 3)], ["y"], strides=[2, 2], auto_pad=policy)
    made.nodes.append(node)
    made.numbers["y"] = np.zeros((1, 2, 3, 3))
    assert layer_graph(read_onnx(made.saved(tmp_path))).layers[-1].pad_h == above


def test_what_is_known_only_when_the_network_runs_is_refused(tmp_path: Path) -> None:
    made = Made()
    x = made.image(8, 4, 4)
    made.inputs.append(helper.make_tensor_value_info("from", TensorProto.INT64, (1,)))
    operands = [x, "from", made.integers(8), made.integers(1)]
    made.nodes.append(helper.make_node("Slice", operands, ["part"], name="cut"))
    made.nodes.append(helper.make_node("Conv", ["part", made.weights(2, 4, 1, 1)], ["y"], name="conv"))
    made.numbers["y"] = np.zeros((1, 2, 4, 4))
    graph = helper.make_graph(
        made.nodes,
        "made",
        made.inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2, 4, 4))],
        made.parameters,
        value_info=[helper.make_tensor_value_info("part", TensorProto.FLOAT, (1, 4, 4, 4))],
    )
    path = tmp_path / "made.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()
    )
    # the file's own note of the length is that of one example, so it is not taken for the shape
    with pytest.raises(InputError, match=r"node cut \(Slice\): part: expected an output of known shape"):
        layer_graph(read_onnx(path))


def viewed(made: Made, x: str, shape: tuple[int, ...], order: tuple[int, ...]) -> str:
    """Reshaped, then transposed."""
    y = made.operator("Reshape", [x, made.integers(*shape)], made.numbers[x].reshape(shape))
    return made.operator("Transpose", [y], made.numbers[y].transpose(order), perm=order)


@pytest.mark.parametrize("shared", [1, 2, 4])
def test_heads_and_what_they_share(shared: int) -> None:
    """Four heads of width 2, of which so many share keys and values."""
    made, kept = Made(), 4 // shared
    q = viewed(made, made.tokens(6, 8), (1, 6, 4, 2), (0, 2, 1, 3))
    k = viewed(made, made.tokens(6, 2 * kept), (1, 6, kept, 2), (0, 2, 3, 1))
    v = viewed(made, made.tokens(6, 2 * kept), (1, 6, kept, 2), (0, 2, 1, 3))
    k, v = (repeated(made, x, shared) for x in (k, v))
    x = viewed(made, made.product(made.product(q, k), v), (1, 4, 6, 2), (0, 2, 1, 3))
    x = made.operator("Reshape", [x, made.integers(1, 6, 8)], made.numbers[x].reshape(1, 6, 8))
    made.multiplied(x, 3)
    layers = read(made)
    assert sum(layer.kind == "transpose" for layer in layers.values()) == kept
    scores, values = (layer for layer in layers.values() if layer.weight_producers)
    assert len(scores.weight_producers) == 4
    assert len(set(scores.weight_producers)) == kept
    assert values.groups == 4


@pytest.mark.parametrize(("heads", "shared"), [(4, 1), (4, 2), (4, 4), (1, 1)])
@pytest.mark.parametrize("behind", [False, True], ids=["alone", "multiplied"])
def test_sums_over_rows_of_both_operands(heads: int, shared: int, behind: bool) -> None:
    """K^T V of linear attention and state spaces; so many heads share values, whose rows are turned."""
    made, kept = Made(), heads // shared
    k = viewed(made, made.tokens(6, 2 * heads), (1, 6, heads, 2), (0, 2, 3, 1))
    v = repeated(made, viewed(made, made.tokens(6, 3 * kept), (1, 6, kept, 3), (0, 2, 1, 3)), shared)
    state = made.product(k, v)
    if behind:
        q = viewed(made, made.tokens(5, 2 * heads), (1, 5, heads, 2), (0, 2, 1, 3))
        made.product(q, state)
    layers = read(made)
    parts = [layer for name, layer in layers.items() if name.split("[")[0] == state]
    assert sum(layer.groups for layer in parts) == heads
    assert sum(layer.c for layer in parts) == 6 * heads
    turned = sum(layer.kind == "transpose" and layer.h == 3 for layer in layers.values())
    assert turned == (kept if shared > 1 else 0)


@pytest.mark.parametrize("first", [False, True], ids=["behind", "in front"])
def test_a_part_of_keys_that_all_heads_share(first: bool) -> None:
    """Latent attention: three channels of a key are a head's own, two are the same for all four heads."""
    made = Made()
    q = viewed(made, made.tokens(6, 20), (1, 6, 4, 5), (0, 2, 1, 3))
    own = viewed(made, made.tokens(7, 12), (1, 7, 4, 3), (0, 2, 1, 3))
    shared = viewed(made, made.tokens(7, 2), (1, 7, 1, 2), (0, 2, 1, 3))
    shape = (1, 4, 7, 2)
    shared = made.operator(
        "Expand", [shared, made.integers(*shape)], np.broadcast_to(made.numbers[shared], shape).copy()
    )
    key = joined(made, *((shared, own) if first else (own, shared)), axis=3)
    key = made.operator("Transpose", [key], made.numbers[key].transpose(0, 1, 3, 2), perm=(0, 1, 3, 2))
    made.product(q, key)
    assert sum(layer.kind == "transpose" for layer in read(made).values()) == 4


def test_keys_of_fewer_heads_whose_expansion_was_folded_away() -> None:
    """Square products, where shapes do not tell keys from values but the file's transposes do."""
    made = Made()
    q = viewed(made, made.tokens(4, 16), (1, 4, 4, 4), (0, 2, 1, 3))
    keys = viewed(made, made.tokens(4, 8), (1, 4, 2, 4), (0, 2, 3, 1))
    values = viewed(made, made.tokens(4, 8), (1, 4, 2, 4), (0, 2, 1, 3))
    for x in (keys, values):
        result = made.numbers[q] @ np.repeat(made.numbers[x], 2, axis=1)
        made.computed[made.new()] = result
        made.operator("MatMul", [q, x], result)
    kinds = [layer.kind for layer in read(made).values()]
    assert kinds.count("transpose") == 2
    assert kinds.count("groupconv") == 2


def test_rotary_embeddings() -> None:
    """Halves of every head change places; negating and scaling change nothing in these runs."""
    made = Made()
    x = viewed(made, made.tokens(4, 8), (1, 4, 2, 4), (0, 2, 1, 3))
    first, second = sliced(made, x, 3, 0, 2), sliced(made, x, 3, 2, 2**31)
    turned = made.operator("Neg", [second], made.numbers[second])
    turned = joined(made, turned, first, axis=3)
    parts = [made.operator("Mul", [one, made.weights(4)], made.numbers[one]) for one in (x, turned)]
    result = made.operator("Add", parts, made.numbers[parts[0]] + made.numbers[parts[1]])
    made.product(result, viewed(made, made.tokens(4, 8), (1, 4, 2, 4), (0, 2, 3, 1)))
    layers = read(made)
    # channels 0-1, 2-3, 4-5, 6-7: a half of a head each
    assert [layers[f"t0[{i}]"].k for i in range(4)] == [2, 2, 2, 2]


def test_patches_become_rows_behind_a_constant_one() -> None:
    made = Made()
    patches = viewed(made, made.image(4, 2, 3), (1, 4, 6), (0, 2, 1))
    token = made.weights(1, 1, 4)
    rows = np.concatenate([np.zeros((1, 1, 4), dtype=np.uint64), made.numbers[patches]], 1)
    x = made.operator("Concat", [token, patches], rows, axis=1)
    made.multiplied(x, 3)
    first = made.operator("Gather", [x, made.integers(0)], made.numbers[x][:, :1], axis=1)
    made.multiplied(first, 3)
    layers = read(made)
    assert (layers["t0"].h, layers["t0"].w, layers[f"{x}.1"].pad_h) == (6, 1, 1)


def repeated(made: Made, x: str, times: int) -> str:
    """Every head so many times in a row, as exporters write it."""
    one, heads, *rest = made.numbers[x].shape
    y = made.operator(
        "Reshape", [x, made.integers(one, heads, 1, *rest)], made.numbers[x].reshape(one, heads, 1, *rest)
    )
    shape = (one, heads, times, *rest)
    z = made.operator("Expand", [y, made.integers(*shape)], np.broadcast_to(made.numbers[y], shape).copy())
    shape = (one, heads * times, *rest)
    return made.operator("Reshape", [z, made.integers(*shape)], made.numbers[z].reshape(shape))


@pytest.mark.parametrize("turned", [0, 1])
def test_gemm_sums_over_rows_where_its_operand_is_transposed(turned: int) -> None:
    made = Made()
    x = made.tokens(6, 8)
    flat = made.operator("Reshape", [x, made.integers(6, 8)], made.numbers[x].reshape(6, 8))
    read_ = made.numbers[flat].T if turned else made.numbers[flat]
    name = made.new()
    weights = np.array([number(name, "k", i) for i in range(3)], dtype=np.uint64)
    result = read_.sum(axis=1, dtype=np.uint64)[:, None] * weights
    made.computed[name] = result.T
    made.operator("Gemm", [flat, made.weights(read_.shape[1], 3)], result, transA=turned)
    assert [layer.kind for layer in read(made).values()] == ["conv", "transpose", "conv"][:: 2 - turned]


def test_einsum_says_what_is_summed() -> None:
    made = Made()
    q, k = made.tokens(6, 8), made.tokens(6, 8)
    q, k = (
        made.operator("Reshape", [x, made.integers(1, 6, 2, 4)], made.numbers[x].reshape(1, 6, 2, 4))
        for x in (q, k)
    )
    result = np.einsum("bqhd,bkhd->bhqk", made.numbers[q], made.numbers[k])
    made.computed[made.new()] = result
    made.operator("Einsum", [q, k], result, equation="bqhd,bkhd->bhqk")
    assert sum(layer.kind == "transpose" for layer in read(made).values()) == 2


def test_reductions_over_stated_axes() -> None:
    made = Made()
    x = made.image(4, 6, 4)
    axes = made.integers(-2)
    mean = made.operator("ReduceSum", [x, axes], made.numbers[x].sum(axis=2, dtype=np.uint64), keepdims=0)
    made.computed[mean] = made.numbers[mean]
    layers = read(made)
    assert (layers[mean].r, layers[mean].s, layers[mean].h, layers[mean].w) == (6, 1, 1, 4)
