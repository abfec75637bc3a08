"""The convention of the released SET program, against what it counted and against slow, plain counting."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.errors import InputError
from costmodel.formats.json.layer_graph_json import LIBRARY, graph_from_json, load_graph
from costmodel.formats.json.safe_json import load_json
from costmodel.published.set_isca2023 import tile_tables as tables_module
from costmodel.published.set_isca2023.allocation import allocate
from costmodel.published.set_isca2023.cases import TreeCase, evaluated_line, is_tree_file, read_trees
from costmodel.published.set_isca2023.evaluator import (
    ENERGY_PARTS,
    ReleasedNodeCost,
    TreeEvaluator,
    spatial_temporal,
)
from costmodel.published.set_isca2023.hardware import PLATFORMS, Platform
from costmodel.published.set_isca2023.leaf.partitions import admitted
from costmodel.published.set_isca2023.leaf.search import ReleasedLeafCost, ReleasedLeafSearch
from costmodel.published.set_isca2023.nvdla_tile.hardware import NvdlaTile
from costmodel.published.set_isca2023.nvdla_tile.mapper import NvdlaMapper, OutputPart
from costmodel.published.set_isca2023.tile_tables import TileTables
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.training import training_graph
from costmodel.schedule.leaf.partitions import factorizations
from costmodel.schedule.leaf.streams import Placement
from costmodel.schedule.tree.text import format_tree, parse_tree
from costmodel.schedule.tree.tree import Cut, Leaf
from costmodel.schedule.tree.validity import NotPossibleError

DATA = Path(__file__).parents[2] / "data/set"
CASES = list(read_trees(DATA / "trees.json.gz"))
EDGE = PLATFORMS["edge"]
NETWORKS = sorted(path.name.removesuffix(".json.gz") for path in LIBRARY.glob("*.json.gz"))


def name_of(case: TreeCase) -> str:
    return "-".join(str(case.content[key]) for key in ("net", "platform", "batch", "beta", "search"))


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_trees_as_the_released_program_counts_them(case: TreeCase) -> None:
    counted = case.content["eval"]["tree"]
    line = evaluated_line(case)
    assert line["latency_cycles"] == counted["time"]
    assert line["dram_bytes"] == counted["dram"]
    assert line["noc_hop_bytes"] == counted["hops"]
    assert line["energy_pj"] == pytest.approx(counted["energy"], rel=1e-9)
    assert format_tree(case.tree) == case.content["text"]


WHOLE = [case for case in CASES if "children" in case.content["eval"]["tree"]]


@pytest.mark.parametrize("case", WHOLE, ids=name_of)
def test_every_node_as_the_released_program_counts_it(case: TreeCase) -> None:
    compare_node(case.evaluate(), case.content["eval"]["tree"])


def compare_node(cost: ReleasedNodeCost, counted: dict[str, Any]) -> None:
    exact = ("time", "hops", "dram", "tile_first", "tile_end", "max_link", "buf_max", "wgt_max", "ifm_max")
    held = cost.held
    found = (
        cost.cycles,
        cost.hop_bytes,
        cost.dram_bytes,
        cost.first_tile,
        cost.first_tile + cost.tiles,
        cost.links.max(),
        *(array.max() for array in (held.busy, held.weights, held.inputs)),
    )
    assert dict(zip(exact, found, strict=True)) == {key: counted[key] for key in exact}
    assert cost.energy_pj == pytest.approx(counted["energy"], rel=1e-9)
    parts = [counted[f"E_{key}"] for key in ("ubuf", "buf", "bus", "mac", "noc", "dram")]
    assert len(parts) == len(ENERGY_PARTS)
    assert cost.parts_pj == pytest.approx(parts, rel=1e-9)
    if cost.leaf is not None:
        placement = cost.leaf.placement
        assert dict(zip("KBHW", placement.parts, strict=True)) == counted["part"]
        assert "".join("KBHW"[axis] for axis in placement.order) == counted["order"]
        assert cost.leaf.tile.cycles == counted["core_time"]
    for child, expected in zip(cost.children, counted.get("children", []), strict=True):
        compare_node(child, expected)


def test_allocations_as_the_released_program_makes_them() -> None:
    cases = load_json(DATA / "allocations.json.gz")
    assert len(cases) > 100
    for case in cases:
        found = allocate(case["tiles"], case["npt"], case["min_util"])
        assert (None if found is None else list(found)) == case["alloc"], case


def test_an_allocation_that_the_released_program_aborts_on() -> None:
    # its remaining work never reaches zero in floating point
    given = allocate(82, [43200, 14570.25, 5637.8333, 27115.3333])
    assert given is not None
    assert sum(given) == 82


def test_intra_tile_mappings_as_the_released_program_finds_them() -> None:
    mapper = NvdlaMapper(NvdlaTile(), 1)
    cases = load_json(DATA / "intra_tile.json.gz")
    assert len(cases) > 200
    assert any(not case["valid"] for case in cases)
    for case in cases:
        layer = load_graph(case["net"]).layers[case["layer"]]
        cost = mapper.cost(layer, OutputPart.of(layer, tuple(case["part"]), case["B"]))
        if not case["valid"]:
            assert cost is None
            continue
        assert cost is not None
        assert cost.cycles == case["time"]
        parts = (cost.energy_pj, cost.shared_pj, cost.buffers_pj, cost.bus_pj, cost.mac_pj)
        expected = [case[key] for key in ("energy", "ubuf", "buf", "bus", "mac")]
        assert parts == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", NETWORKS)
def test_normalized_times_and_operations_are_those_of_the_networks(name: str) -> None:
    graph, content = load_graph(name), load_json(LIBRARY / f"{name}.json.gz")
    for layer, item in zip(graph.layers, content["layers"], strict=True):
        assert layer.operations == item["ops_per_sample"]
        assert layer.normalized_cycles(8, 8, 1024, 64) == item["npt_cycles"]
        assert layer.input_elements(1) == np.prod(item["ifmap_real"])


def test_factorizations_are_all_and_different() -> None:
    for number in (1, 7, 12, 16, 36):
        found = factorizations(number)
        divisors = [divisor for divisor in range(1, number + 1) if number % divisor == 0]
        every = {four for four in product(divisors, repeat=4) if np.prod(four) == number}
        assert len(found) == len(set(found))
        assert set(found) == every


# plain counting: every message a set of links, every range a list of positions


def bounds(length: int, parts: int, part: int) -> range:
    first, end = (length - length * (parts - i) // parts for i in (part, part + 1))
    return range(first, end)


def xy_links(
    source: tuple[int, int], target: tuple[int, int]
) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    links, (x, y) = set(), source
    while (x, y) != target:
        step = (
            (x + (1 if target[0] > x else -1), y) if x != target[0] else (x, y + (1 if target[1] > y else -1))
        )
        links.add(((x, y), step))
        x, y = step
    return links


class PlainCount:
    """Counts a conv layer's messages one by one."""

    def __init__(self, platform: Platform) -> None:
        self.platform, self.loads = platform, Counter()  # type: ignore[var-annotated]
        self.dram_bytes = 0

    def send(self, source: tuple[int, int], tiles: list[int], size: int) -> None:
        tree = set().union(*(xy_links(source, self.platform.position(tile)) for tile in tiles))
        self.loads.update(dict.fromkeys(tree, size))

    def through_ports(self, tiles: list[int], size: int, *, out: bool) -> None:
        self.dram_bytes += size
        ports = self.platform.ports
        for index, port in enumerate(ports):
            share = size * (index + 1) // len(ports) - size * index // len(ports)
            if out:
                links = xy_links(self.platform.position(tiles[0]), port)
                self.loads.update(dict.fromkeys(links, share))
            else:
                self.send(port, tiles, share)


def plain_conv(
    graph: LayerGraph, number: int, cost: ReleasedLeafCost, producer: Placement | None, batch: int
) -> PlainCount:
    """A conv layer without padding or stride whose input is the previous layer's output."""
    layer, placement, count = graph.layers[number], cost.placement, PlainCount(EDGE)
    parts, steps = placement.parts, placement.steps
    tile_of = {
        index: placement.tile + sum(i * step for i, step in zip(index, steps, strict=True))
        for index in product(*map(range, parts))
    }
    for k in range(parts[0]):
        tiles = [tile for index, tile in tile_of.items() if index[0] == k]
        count.through_ports(tiles, len(bounds(layer.k, parts[0], k)) * layer.c, out=False)
    for index, tile in tile_of.items():
        sizes = [
            len(bounds(size, part, i)) for size, part, i in zip(layer.sizes(batch), parts, index, strict=True)
        ]
        count.through_ports([tile], int(np.prod(sizes)), out=True)
    for b, h, w in product(*map(range, parts[1:])):
        tiles = [tile for index, tile in tile_of.items() if index[1:] == (b, h, w)]
        needed = [
            bounds(size, part, i)
            for size, part, i in zip((batch, layer.h, layer.w), parts[1:], (b, h, w), strict=True)
        ]
        volume = int(np.prod([len(rows) for rows in needed]))
        if producer is None:
            count.through_ports(tiles, volume * layer.c, out=False)
            continue
        for index in product(*map(range, producer.parts)):
            source = producer.tile + sum(i * step for i, step in zip(index, producer.steps, strict=True))
            made = graph.layers[number - 1].sizes(producer.batch)
            has = [bounds(size, part, i) for size, part, i in zip(made, producer.parts, index, strict=True)]
            common = [len(set(mine) & set(theirs)) for mine, theirs in zip(needed, has[1:], strict=True)]
            size = len(has[0]) * int(np.prod(common))
            count.send(EDGE.position(source), tiles, size)
    return count


@pytest.mark.parametrize(("tiles", "direct"), [(16, False), (16, True), (7, True), (5, False), (12, True)])
def test_a_leaf_against_plain_counting(tiles: int, direct: bool) -> None:
    graph = two_convolutions()
    search = ReleasedLeafSearch(TileTables(graph, EDGE, 4, 2))
    before = search.search(0, (4, 2, 6), {}, False)
    assert before is not None
    producers = {0: before.placement} if direct else {}
    cost = search.search(1, (4, 16 - tiles, tiles), producers, True)
    assert cost is not None
    plain = plain_conv(graph, 1, cost, before.placement if direct else None, 4)
    assert cost.dram_bytes == plain.dram_bytes
    assert cost.hop_bytes == plain.loads.total()
    assert sorted(cost.links[cost.links > 0]) == sorted(size for size in plain.loads.values() if size)


@pytest.mark.parametrize(
    ("number", "direct", "to_dram"), [(1, 0, 1), (1, 1, 0), (2, 0, 1), (3, 1, 1), (4, 1, 1)]
)
@pytest.mark.parametrize("tiles", [5, 12, 16])
def test_the_search_finds_the_first_of_the_cheapest_partitions(
    number: int, direct: int, to_dram: int, tiles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One partition at a time, so that no bound can leave any out."""
    graph = load_graph("resnet")
    before = ReleasedLeafSearch(TileTables(graph, EDGE, 2, 2)).search(number - 1, (2, 0, 4), {}, False)
    assert before is not None
    on, producers = (2, 16 - tiles, tiles), {number - 1: before.placement} if direct else {}
    found = ReleasedLeafSearch(TileTables(graph, EDGE, 2, 2)).search(number, on, producers, bool(to_dram))
    least, best = np.inf, None
    for parts in admitted(graph.layers[number], 2, tiles, EDGE):
        monkeypatch.setattr(tables_module, "admitted", lambda *_, parts=parts: (parts,))
        cost = ReleasedLeafSearch(TileTables(graph, EDGE, 2, 2)).search(number, on, producers, bool(to_dram))
        if cost is not None and cost.energy_pj**2 * cost.cycles < least:
            least, best = cost.energy_pj**2 * cost.cycles, cost
    assert found is not None
    assert best is not None
    assert (found.placement, found.energy_pj, found.hop_bytes) == (
        best.placement,
        best.energy_pj,
        best.hop_bytes,
    )


def two_convolutions() -> LayerGraph:
    layers = load_graph("resnet").layers
    plain = replace(
        next(layer for layer in layers if layer.kind == "conv" and layer.r == 1 and layer.stride_h == 1),
        producers=(),
        external_c=0,
        c=24,
        k=40,
        h=9,
        w=11,
        input_h=9,
        input_w=11,
    )
    first = replace(plain, name="first", external_c=24)
    return LayerGraph("two", (first, replace(plain, name="second", c=40, k=30, producers=(0,))))


def test_no_data_is_lost_between_links_and_hops() -> None:
    """Without a share of weights to round, hops times bytes are the bytes on all links together."""
    case = next(case for case in CASES if case.content["batch"] == 1 and case.content["search"] == "init")
    for leaf in case.evaluate().children:
        assert leaf.links.sum() == leaf.hop_bytes


@pytest.mark.parametrize("case", WHOLE, ids=name_of)
def test_the_chart_of_a_tree_has_every_sample_and_ends_with_its_latency(case: TreeCase) -> None:
    cost = case.evaluate()
    drawn = spatial_temporal(cost, case.graph.producers)
    samples = Counter[str]()
    for rectangle in drawn:
        samples[rectangle.layer] += rectangle.end_sample - rectangle.first_sample
    assert samples == {layer.name: case.batch for layer in case.graph.layers}
    # segments may wait for DRAM or links longer than their leaves compute
    assert max(rectangle.end for rectangle in drawn) <= cost.cycles
    first = {layer: min(r.start for r in drawn if r.layer == layer) for layer in samples}
    for layer, producers in case.graph.producers.items():
        assert all(first[producer] < first[layer] for producer in producers)


def test_leaves_are_remembered_without_changing_anything() -> None:
    case = WHOLE[0]
    evaluator = TreeEvaluator(TileTables(case.graph, case.platform, case.batch, case.exponent))
    other = Cut("T", 8, 8, tuple(Leaf(layer.name, 1) for layer in case.graph.layers))
    evaluator.evaluate(other)
    again, fresh = evaluator.evaluate(case.tree), case.evaluate()
    assert again.energy_pj == fresh.energy_pj
    assert again.cycles == fresh.cycles
    assert (again.links == fresh.links).all()


@pytest.mark.parametrize("batch", [3, 6, 12])
def test_batches_that_the_released_program_aborts_on(batch: int) -> None:
    graph = two_convolutions()
    whole = TreeEvaluator(TileTables(graph, EDGE, batch, 2)).evaluate(
        Cut("T", batch, 1, (Cut("S", batch, 3, (Leaf("first", batch // 3), Leaf("second", batch // 3))),))
    )
    pipeline = whole.children[0]
    slowest = max(child.cycles for child in pipeline.children)
    assert pipeline.cycles >= 4 * slowest
    assert whole.energy_pj == pytest.approx(3 * sum(child.energy_pj for child in pipeline.children))


def test_a_root_that_is_an_s_cut_or_a_leaf() -> None:
    graph = two_convolutions()
    cut = Cut("S", 2, 2, (Leaf("first", 1), Leaf("second", 1)))
    root = TreeEvaluator(TileTables(graph, EDGE, 2, 2)).evaluate(cut)
    # the first's outputs never leave the chip, as below a segment of their own
    below = TreeEvaluator(TileTables(graph, EDGE, 2, 2)).evaluate(Cut("T", 2, 1, (cut,)))
    assert (root.energy_pj, root.cycles) == (below.energy_pj, below.cycles)
    alone = LayerGraph("one", graph.layers[:1])
    assert TreeEvaluator(TileTables(alone, EDGE, 2, 2)).evaluate(Leaf("first", 2)).cycles > 0


@pytest.mark.parametrize(("subbatches", "dram_bytes"), [(8, 324_994_824), (1, 324_087_040)])
def test_weights_are_charged_once_a_run(subbatches: int, dram_bytes: int) -> None:
    """Measured with the released program: all leaves of ResNet-50 below the root, edge platform, E D."""
    graph = load_graph("resnet")
    leaves = tuple(Leaf(layer.name, 8 // subbatches) for layer in graph.layers)
    cost = TreeEvaluator(TileTables(graph, EDGE, 8, 1)).evaluate(Cut("T", 8, subbatches, leaves))
    assert cost.dram_bytes == dram_bytes


def test_why_a_tree_cannot_run() -> None:
    graph = load_graph("resnet")
    many = Cut("T", 1, 1, (Cut("S", 1, 1, tuple(Leaf(layer.name, 1) for layer in graph.layers)),))
    with pytest.raises(NotPossibleError, match=r"S cut 1/1: 16 tiles cannot be shared by its 72 children"):
        TreeEvaluator(TileTables(graph, EDGE, 1, 2)).evaluate(many)
    small = replace(EDGE, tile=replace(NvdlaTile(), shared=replace(NvdlaTile().shared, size_bytes=64 * 1024)))
    leaves = Cut("T", 1, 1, tuple(Leaf(layer.name, 1) for layer in graph.layers))
    with pytest.raises(NotPossibleError, match=r"no partition among 16 tiles fits the buffers"):
        TreeEvaluator(TileTables(graph, small, 1, 2)).evaluate(leaves)
    together = Cut("T", 64, 1, (Cut("T", 64, 64, tuple(Leaf(layer.name, 1) for layer in graph.layers)),))
    with pytest.raises(
        NotPossibleError, match=r"T cut 64/64: a tile has to hold [\d,]+ bytes and has 1,048,576"
    ):
        TreeEvaluator(TileTables(graph, EDGE, 64, 2)).evaluate(together)


def test_training_steps_are_refused() -> None:
    with pytest.raises(InputError, match=r"expected layers of an inference, found error"):
        TileTables(training_graph(load_graph("zfnet")), EDGE, 1, 2)


def test_files_of_trees(tmp_path: Path) -> None:
    graph = load_json(LIBRARY / "vgg.json.gz")
    (tmp_path / "networks").mkdir()
    (tmp_path / "networks/mine.json").write_text(json.dumps(graph))
    text = "T 1/1\n" + "".join(f"\t{layer['name']} 1\n" for layer in graph["layers"])
    described = {"mesh": [8, 4], "stride": 2, "noc_bw": 32, "dram_bw": 20}
    trees = [
        {"net": "mine", "platform": "edge", "batch": 1, "text": text},
        {"net": "vgg", "platform": "8x4", "batch": 1, "objective_param": 1, "text": text, "eval": described},
    ]
    (tmp_path / "trees.json").write_text(json.dumps({"trees": trees}))
    first, second = read_trees(tmp_path / "trees.json")
    assert (first.graph.name, first.platform, first.exponent) == ("vgg", EDGE, 2)
    assert (second.platform.columns, second.platform.rows, second.platform.stripe) == (8, 4, 2)
    assert (second.platform.link_bytes_per_cycle, second.platform.dram_bytes_per_cycle) == (32, 20)
    assert second.exponent == 1
    hardware = {
        "platforms": {"desk": {"x_len": 6, "y_len": 5, "stride": 3, "noc_link_bw": 24, "dram_bw_total": 40}}
    }
    (tmp_path / "hw.json").write_text(json.dumps(hardware))
    same = [
        {"net": "vgg", "platform": name, "text": text}
        for name in ("desk", hardware["platforms"]["desk"], "8x8")
    ]
    (tmp_path / "more.json").write_text(json.dumps({"trees": same}))
    desk, object_, square = (case.platform for case in read_trees(tmp_path / "more.json"))
    assert desk == object_ == Platform(6, 5, dram_bytes_per_cycle=40, stripe=3)
    assert square == Platform(8, 8, dram_bytes_per_cycle=64)
    assert is_tree_file(tmp_path / "trees.json")
    assert not is_tree_file(tmp_path / "networks/mine.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"net": "resnett"}, "Did you mean resnet?"),
        ({"platform": "desk"}, "expected one of edge, cloud, or columns x rows such as 8x8, found desk"),
        ({"batch": 0}, "trees[0]: batch: expected a whole number of at least 1"),
        ({"text": "T 8/2\n\tconv1 3\n"}, "T cut 8/2: layer conv1 has a batch of 3, not 4"),
        ({"text": "Q 8\n\tconv1 8\n"}, "text: line 1: expected a cut such as"),
        ({"mesh": [6, 4]}, "a divisor of the mesh's 6 columns"),
        ({"mesh": 6}, "mesh: expected columns and rows"),
        ({"text": 3}, "text: expected an object with the tree's text"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    record = {"net": "resnet", "platform": "edge", "batch": 8, "text": "T 8/1\n\tconv1 8\n", **change}
    (tmp_path / "trees.json").write_text(json.dumps({"trees": [record]}))
    with pytest.raises(InputError) as caught:
        [case.evaluate() for case in read_trees(tmp_path / "trees.json")]
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("layer", "change", "message"),
    [
        (0, {"type": "convolution"}, "layers[0]: type: expected one of conv"),
        (1, {"padH": 1}, "layers[1]: keys: expected names among name, type"),
        (1, {"K": 0}, "layers[1]: K: expected a whole number of at least 1"),
        (1, {"ifm_prevs": [2]}, "pool1: expected producers before their consumers"),
        (2, {"ifm_prevs": [0, 1]}, "conv_2_0_a: ifm_prevs: expected 64 input channels, found 128"),
        (1, {"ifmap_real": [64, 113, 112]}, "pool1: ifm_prevs: expected producers of at least 113 x 112"),
        (1, {"ifmap_real": [64, 112]}, "layers[1]: ifmap_real: expected the input's channels"),
        (2, {"C": 32}, "layers[2]: C: expected the input's 64 channels"),
        (2, {"order": [0, 0, 2]}, "layers[2]: order: expected 0, 1 and 2 in some order"),
        (2, {"ifm_prevs": "all"}, "layers[2]: ifm_prevs: expected a list of layers' numbers"),
        (2, {"wgt_prevs": [1]}, "conv_2_0_a: wgt_prevs: expected 64 weights of 64 x 1"),
        (1, {"name": "conv1"}, "expected layers whose names are all different"),
    ],
)
def test_what_is_wrong_with_a_network(layer: int, change: dict[str, Any], message: str) -> None:
    content = load_json(LIBRARY / "resnet.json.gz")
    content["layers"][layer] |= change
    with pytest.raises(InputError) as caught:
        graph_from_json(content, "net.json")
    assert message in str(caught.value)


def test_the_text_of_every_reference_tree_is_read_back() -> None:
    for case in CASES:
        assert parse_tree(format_tree(case.tree)) == case.tree
