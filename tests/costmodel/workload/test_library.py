"""The built-in networks have the layers of independently exported graphs, and of CoSA's published lists."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from math import prod
from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.formats.json.graph_json import read_graph
from costmodel.formats.networks import load_layer, load_network
from costmodel.formats.operator_networks import exported_names, network_names
from costmodel.workload.library.builder import SCALES
from costmodel.workload.library.inception import googlenet
from costmodel.workload.library.transformer import bert_base
from costmodel.workload.network import Network, convolution, distinct_layers, gemm

DATA = Path(__file__).parents[2] / "data"
EXPORTED = {
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "resnext50": "resnext50_32x4d",
    "mobilenet_v2": "mobilenet_v2",
    "googlenet": "googlenet",
    "bert_base": "bert_base",
    "gpt2": "gpt2_small",
    "vit_b_16": "vit_b_16",
}
PROBLEM = {
    "shape": "cnn_layer",
    "dims": {"R": 3, "S": 3, "P": 7, "Q": 7, "C": 4, "K": 6, "N": 1},
    "coeffs": {"Wstride": 2, "Hstride": 2, "Wdilation": 1, "Hdilation": 1},
}


def activations(network: Network) -> Counter[int]:
    return Counter(value.elements for value in network.values if value.kind in ("activation", "output"))


def refusal(name: str, batch: int | None = None) -> str:
    with pytest.raises(InputError) as caught:
        load_network(name, batch)
    return str(caught.value)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("name", EXPORTED)
def test_same_layers_in_the_same_order_as_the_exported_graph(name: str, batch: int) -> None:
    ours, theirs = load_network(name, batch), read_graph(DATA / "graphs" / f"{EXPORTED[name]}.json.gz", batch)
    assert [layer.shape for layer in ours.layers] == [layer.shape for layer in theirs.layers]


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnext50", "mobilenet_v2", "googlenet", "gpt2"])
def test_same_tensors_as_the_exported_graph(name: str) -> None:
    ours, theirs = load_network(name), read_graph(DATA / "graphs" / f"{EXPORTED[name]}.json.gz")
    assert activations(ours) == activations(theirs)
    operators = [Counter(node.operator.split("+")[0] for node in network.nodes) for network in (ours, theirs)]
    assert operators[0] == operators[1]


@pytest.mark.parametrize(
    ("name", "macs", "layers"),
    [
        # published: 15.47 and 0.71 GMACs
        ("vgg16", 15_470_264_320, 16),
        ("alexnet", 714_188_480, 8),
    ],
)
def test_published_mac_counts(name: str, macs: int, layers: int) -> None:
    network = load_network(name)
    assert network.macs == macs
    assert len(network.layers) == layers


def test_vgg16_has_138_million_weights() -> None:
    network = load_network("vgg16")
    weights = sum(value.elements for value in network.values if value.kind == "parameter")
    biases = sum(layer.sizes["N" if "M" in layer.sizes else "K"] for layer in network.layers)
    assert weights + biases == 138_357_544


def parameters(network: Network) -> int:
    """The numbers that training learns; behind a convolution without a bias is a batch normalisation."""
    shapes = {
        value.name: value.shape
        for value in network.values
        if value.kind == "parameter" and not value.name.endswith(SCALES)
    }
    # the means of YOLOv8's three resolutions have the same sixteen numbers
    shared = [value for value in shapes if value.endswith(".mean.weight")]
    own = {value: shape for value, shape in shapes.items() if value not in shared[1:]}
    folded = [
        value
        for value, shape in own.items()
        if len(shape) == 4 and f"{value.removesuffix('weight')}bias" not in own and value not in shared
    ]
    return sum(prod(shape) for shape in own.values()) + sum(2 * own[value][0] for value in folded)


@pytest.mark.slow
def test_published_totals() -> None:
    """Every total that others published is ours to its last digit, but for what the source says it counts."""
    rows = json.loads((DATA / "published_totals/totals.json").read_text())
    networks = {row["network"]: load_network(row["network"]) for row in rows}
    for row in rows:
        network, stated = networks[row["network"]], row["stated"]
        counted = network.macs if row["quantity"] == "macs" else parameters(network)
        assert ("why" in row) == ("beyond" in row)
        decimals = len(stated.partition(".")[2])
        assert f"{(counted + row.get('beyond', 0)) / row['scale']:.{decimals}f}" == stated, row


@pytest.mark.parametrize(
    ("name", "macs"),
    [
        # as PyTorch's FlopCounterMode counts the models of timm and of the authors of DiT
        ("efficientnet_b0", 385_814_752),
        ("mobilenet_v4_conv_small", 186_005_568),
        ("convnext_t", 4_455_531_264),
        ("vit_l_16", 61_554_712_576),
        ("dit_xl_2", 118_621_421_568),
    ],
)
def test_macs_as_pytorch_counts_them(name: str, macs: int) -> None:
    assert load_network(name).macs == macs


@pytest.mark.slow
def test_macs_of_diffusion_by_a_closed_form() -> None:
    width, tokens = 1152, 256
    block = tokens * 12 * width**2 + 2 * tokens**2 * width + 6 * width**2
    ends = tokens * (16 + 32) * width + (256 + width) * width + 2 * width**2
    assert load_network("dit_xl_2", 2).macs == 2 * (28 * block + ends)

    def residual(side: int, read: int, made: int) -> int:
        shortcut = read * made if read != made else 0
        return side**2 * (9 * (read + made) * made + shortcut) + 1280 * made

    def attended(side: int, c: int) -> int:
        positions, words = side**2, 77
        products = 2 * positions**2 * c + 2 * positions * words * c
        return positions * (2 + 4 + 2 + 12) * c**2 + 2 * words * 768 * c + products

    a, b, c = 320, 640, 1280
    down = ((64, a, a), (64, a, a), (32, a, b), (32, b, b), (16, b, c), (16, c, c), (8, c, c), (8, c, c))
    up = (
        *((8, 2 * c, c),) * 3,
        *((16, 2 * c, c),) * 2,
        (16, c + b, c),
        (32, c + b, b),
        (32, b + b, b),
        (32, b + a, b),
        (64, b + a, a),
        *((64, a + a, a),) * 2,
    )
    macs = (320 + 1280) * 1280 + 2 * 64**2 * 9 * 4 * a  # the time, and the first and last convolution
    macs += sum(residual(*one) + (attended(one[0], one[2]) if one[0] > 8 else 0) for one in down + up)
    macs += 2 * residual(8, c, c) + attended(8, c)
    macs += 9 * (32**2 * a**2 + 16**2 * b**2 + 8**2 * c**2)
    macs += 9 * (16**2 * c**2 + 32**2 * c**2 + 64**2 * b**2)
    assert load_network("sd_unet").macs == macs


def test_googlenet_of_the_paper_has_5x5_filters() -> None:
    filters = Counter(layer.sizes["R"] for layer in googlenet(third_branch=5).layers if "R" in layer.sizes)
    assert filters == {7: 1, 3: 10, 5: 9, 1: 37}


@pytest.mark.parametrize("sequence", [64, 384])
def test_attention_grows_with_the_square_of_the_sequence(sequence: int) -> None:
    products = 2 * 12 * 12 * sequence * sequence * 64
    rest = 12 * 12 * sequence * 768 * 768 + 768 * 768
    assert bert_base(sequence=sequence).macs == products + rest


@pytest.mark.parametrize(
    ("name", "unique"),
    [("cosa_resnet50", 24), ("cosa_resnext50", 25), ("cosa_alexnet", 8), ("deepbench", 9)],
)
def test_cosa_lists(name: str, unique: int) -> None:
    file = DATA / "cosa_layers" / f"layers_{name.removeprefix('cosa_')}.json"
    published: Counter[object] = Counter()
    for row in json.loads(file.read_text())["layers"]:
        stride = row["Wstride"], row["Hstride"]
        shape = convolution("", **{dim: row[dim] for dim in "NKCPQRS"}, stride=stride).shape
        published[shape] += row["count_in_network"]
    ours = distinct_layers(load_network(name).layers)
    assert {layer.shape: count for layer, count in ours} == published
    assert len(ours) == unique


def thistle_shapes(column: str) -> list[object]:
    """The layers of Thistle's Table II: padding keeps the image, and a star halves it."""
    shapes: list[object] = []
    for _, k, c, image, kernel in json.loads((DATA / "thistle" / "table_2.json").read_text())[column]:
        x, r = (2 if kernel.endswith("*") else 1), int(kernel.rstrip("*"))
        shapes.append(convolution("", K=k, C=c, P=image // x, Q=image // x, R=r, S=r, stride=(x, x)).shape)
    return shapes


def test_yolo9000_has_the_layers_of_thistles_table() -> None:
    network = load_network("yolo9000")
    distinct = distinct_layers(network.layers)
    assert len(network.layers) == 19  # Darknet-19
    assert [layer.shape for layer, _ in distinct] == thistle_shapes("yolo")
    assert [count for _, count in distinct] == [1, 1, 2, 1, 2, 1, 3, 2, 3, 2, 1]
    detection = network.nodes[-1].outputs[0]
    assert network.value(detection).shape == (1, 28_269, 17, 17)


def test_thistles_resnet18() -> None:
    listed = [layer.shape for layer in load_network("thistle_resnet18").layers]
    assert listed == thistle_shapes("resnet")
    convolutions = {layer.shape for layer in load_network("resnet18").layers if layer.name != "fc"}
    assert [n for n, shape in enumerate(listed, 1) if shape not in convolutions] == [3, 8]
    assert len(convolutions - set(listed)) == 1  # the strided shortcut that layer 8 stands for


def test_grouped_and_depthwise_layers_are_proper() -> None:
    grouped = [layer for layer in load_network("resnext50").layers if "G" in layer.sizes]
    assert len(grouped) == 16
    assert {layer.sizes["G"] for layer in grouped} == {32}
    depthwise = [layer for layer in load_network("mobilenet_v2").layers if "depthwise" in layer.name]
    assert len(depthwise) == 17
    assert all("K" not in layer.sizes for layer in depthwise)


@pytest.mark.slow
@pytest.mark.parametrize("name", network_names())
def test_every_built_in_network(name: str) -> None:
    one, three = load_network(name), load_network(name, 3)
    assert one.name == name
    assert three.macs == 3 * one.macs
    names = [layer.name for layer in one.layers]
    assert len(set(names)) == len(names)
    assert all(load_layer(f"{name}/{layer.name}") == layer for layer in one.layers[:3])


@pytest.mark.slow
def test_exported_networks_by_name() -> None:
    """COSMA's fourteen, fused and raw: what they compute is the same, in fewer operators."""
    names = exported_names()
    assert len(names) == 28
    for name in names[::2]:
        fused, raw = load_network(name), load_network(f"{name.removesuffix('.fused')}.raw")
        assert fused.name == name
        assert raw.macs == fused.macs > 1e8
        assert len(fused.nodes) < len(raw.nodes)
    # exported from the same torchvision as the file, whose views are folded away by another program
    assert load_network("resnet50.fused").macs == load_network(DATA / "graphs" / "resnet50.json.gz").macs
    assert load_network("resnet50.raw", 2).macs == 2 * load_network("resnet50.raw").macs
    with pytest.raises(InputError, match=r"network transformer\.raw: batch"):
        load_network("transformer.raw", 2)
    assert "densenet121.fused" in refusal("densenet121")


def test_readable_names() -> None:
    wanted = (
        "resnet18 resnet50 resnext50 mobilenet_v2 vgg16 alexnet googlenet bert_base gpt2 vit_b_16 deepbench"
    )
    assert set(wanted.split()) < set(network_names())
    assert "layer1.0.conv2" in [layer.name for layer in load_network("resnet18").layers]


@pytest.mark.parametrize(
    ("written", "name"),
    [("ResNet-50", "resnet50"), ("ViT-B/16", "vit_b_16"), ("BERT-base", "bert_base"), ("GPT-2", "gpt2")],
)
def test_names_as_papers_write_them(written: str, name: str) -> None:
    assert load_network(written) == load_network(name)


# ---- files


def test_files_of_every_format(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("problem: {shape: gemm-ABZ, instance: {M: 5, N: 9, K: 7}}")
    problem = load_network(tmp_path / "p.yaml")
    assert [node.name for node in problem.nodes] == ["p"]
    assert [value.elements for value in problem.values] == [35, 63, 45]
    onnx = load_network(str(DATA / "onnx" / "tiny_resnet.onnx"), batch=2)
    assert onnx.layers[0].sizes["N"] == 2
    assert load_network(DATA / "graphs" / "resnet18.json.gz").macs == load_network("resnet18").macs


def test_unknown_names() -> None:
    message = refusal("resnet51")
    assert "Did you mean resnet50" in message
    assert all(name in message for name in network_names())
    assert "no such file" in refusal("missing.onnx")
    assert "Did you mean" not in refusal("zzzz")


def test_other_kinds_of_file(tmp_path: Path) -> None:
    (tmp_path / "net.pt").write_bytes(b"")
    assert ".onnx" in refusal(str(tmp_path / "net.pt"))
    assert "a folder" in refusal(str(shutil.copytree(DATA / "cosa_layers", tmp_path / "folder.onnx")))


@pytest.mark.parametrize("batch", [0, -1, 1.5, True, "2"])
def test_wrong_batches(batch: int) -> None:
    assert "batch" in refusal("resnet18", batch)


def test_batch_of_a_timeloop_problem(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("problem: {shape: gemm-ABZ, instance: {M: 5, N: 9, K: 7}}")
    assert "set the problem's N" in refusal(str(tmp_path / "p.yaml"), 2)


# ---- single layers


def test_layer_of_a_file_of_one(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("problem: {shape: gemm-ABZ, instance: {M: 5, N: 9, K: 7}}")
    assert load_layer(str(tmp_path / "p.yaml")).shape == gemm("", M=5, N=9, K=7).shape


def test_layer_of_a_file_of_many() -> None:
    path = DATA / "graphs" / "resnet18.json.gz"
    assert load_layer(f"{path}/conv2d_3").macs == load_network("resnet18").layers[3].macs
    onnx = DATA / "onnx" / "tiny_resnet.onnx"
    names = [layer.name for layer in load_network(onnx).layers]
    assert load_layer(f"{onnx}/{names[2]}").name == names[2]
    with pytest.raises(InputError, match="one of its 21 layers"):
        load_layer(str(path))


def test_layers_in_the_reference_form(tmp_path: Path) -> None:
    expected = convolution("", K=6, C=4, P=7, Q=7, R=3, S=3, stride=(2, 2)).shape
    (tmp_path / "p.json").write_text(json.dumps(PROBLEM))
    (tmp_path / "case.json").write_text(json.dumps({"problem": PROBLEM}))
    assert load_layer(json.dumps(PROBLEM)).shape == expected
    assert load_layer(str(tmp_path / "p.json")).shape == expected
    assert load_layer(str(tmp_path / "case.json")).shape == expected


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("resnet18/conv11", "Did you mean conv1"),
        ("resnet18/", "It has conv1, layer1"),
        ("resnet18", "NETWORK/LAYER"),
        ("resnet/conv1", "Did you mean resnet"),
        ("", "NETWORK/LAYER"),
        ('{"shape": ', "valid JSON"),
    ],
)
def test_wrong_layers(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_layer(spec)
