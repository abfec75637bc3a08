"""Segments that run in bands of rows: which rows, what moves and when, and where they pay."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random
from statistics import mean
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.replay.replay import replay
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.program.checker import violations
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.row_bands import LeafBands, band_violations, leaf_bands
from costmodel.schedule.tree.data_flow import DataFlow
from costmodel.schedule.tree.text import format_tree, parse_tree
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, has_bands
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.schedule.tree.validity import violations as tree_violations
from tests.costmodel.schedule.band_cases import drawn, windows, written
from tests.costmodel.schedule.chip_cases import FormulaCosts, chip, layer
from tests.costmodel.schedule.chip_counts import inputs
from tests.costmodel.schedule.program.program_counts import check_counts
from tests.costmodel.schedule.program.test_writer import needed, read_by_computes
from tests.thorough import how_many


def pair(**sizes: Any) -> LayerGraph:
    """Two convolutions of windows of three rows, on 16 rows of 16 columns of 8 channels."""
    given = {"c": 8, "k": 8, "h": 16, "w": 16, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1, **sizes}
    two = layer("two", producers=(0,), **given)
    return LayerGraph("pair", (layer("one", external_c=given["c"], **given), two))


def evaluated(tree: str, buffer: int = 1 << 20, graph: LayerGraph | None = None) -> ChipEvaluation:
    graph, on = graph or pair(), chip(2, 2, buffer, link=20, dram=8)
    return ChipEvaluator(graph, on, 1, FormulaCosts(graph)).evaluate(parse_tree(tree))


def bands_of(graph: LayerGraph, segment: TreeNode) -> dict[int, LeafBands]:
    """The bands of each layer of a segment that has all layers of the network."""
    flow = DataFlow(Cut("T", segment.batch, 1, (segment,)), graph.producers)
    sources = {graph.index[name]: {graph.index[one] for one in read} for name, read in flow.sources.items()}
    return leaf_bands(graph, segment, sources)


ONE_BY_ONE = "T 1/1\n\tone 1\n\ttwo 1\n"
AT_ONCE = "T 1/1\n\tT 1/1\n\t\tone 1\n\t\ttwo 1\n"
IN_TURNS = "T 1/1\n\tT 1/1x4\n\t\tone 1\n\t\ttwo 1\n"
PIPELINE = "T 1/1\n\tS 1/1x8\n\t\tone 1\n\t\ttwo 1\n"


def rows_read(it: NetworkLayer, rows: tuple[int, int]) -> set[int]:
    """The rows of inputs that some rows of outputs read, element by element."""
    out = range(it.k), range(1), range(*rows), range(it.w)
    return {row for _, _, row, _ in inputs(it, out)}


@pytest.mark.parametrize("seed", range(40))
def test_bands_have_what_they_read(seed: int) -> None:
    """Every row of every layer is made in one band, and no later than the first band that reads it.

    Bands are no larger than that asks for, and what stays is what an earlier band brought and this one reads.
    """
    random = Random(seed)
    graph, bands = windows(random, random.randint(1, 5)), random.choice([2, 3, 4])
    segment = parse_tree(f"S 1/1x{bands}\n" + "".join(f"\t{one.name} 1\n" for one in graph.layers))
    if band_violations(segment, graph):
        return
    found = bands_of(graph, segment)
    for number, it in enumerate(graph.layers):
        own = found[number]
        every = [own.outputs(band) for band in range(bands)]
        assert [row for first, end in every for row in range(first, end)] == list(range(it.h))
        readers = [one for one, other in enumerate(graph.layers) if number in other.producers]
        for band in range(bands):
            read = [
                max(rows_read(graph.layers[one], found[one].outputs(band)), default=-1) for one in readers
            ]
            if readers:
                assert max(read) < own.made[band]
                assert band == bands - 1 or max(read) + 1 == own.made[band]
            touched = rows_read(it, own.outputs(band))
            assert touched <= set(range(own.first[band], own.end[band]))
            assert {own.first[band], own.end[band] - 1} <= touched
        for source in (None, *dict(own.sent)):
            pieces = [[(band, *one) for one in own.pieces(source, band)] for band in range(bands)]
            come = [rows for group in pieces for _, rows, _, _ in group]
            assert all(one[1] == other[0] for one, other in pairwise(come))
            assert (come[0][0], come[-1][1]) == (own.first[0], own.end[-1])
            stay, coming = own.held(source, True)
            assert coming == max(sum(high - low for _, (low, high), _, _ in group) for group in pieces)
            for band in range(1, bands):
                kept = [rows for group in pieces[:band] for _, rows, _, last in group if last >= band]
                assert sum(high - low for low, high in kept) <= stay


def test_text_of_a_tree_with_bands() -> None:
    tree = parse_tree(IN_TURNS)
    assert format_tree(tree) == IN_TURNS
    assert isinstance(tree, Cut)
    (segment,) = tree.children
    assert isinstance(segment, Cut)
    assert (segment.subbatches, segment.bands, segment.child_runs) == (1, 4, 4)
    with pytest.raises(InputError, match="bands"):
        parse_tree(IN_TURNS.replace("x4", "x0"))


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        (
            "T 1/1x2\n\tone 1\n\ttwo 1\n",
            "T cut 1/1x2: the root T cut runs segments, and only these have bands",
        ),
        (
            "T 1/1\n\tT 1/1x2\n\t\tS 1/1x2\n\t\t\tone 1\n\t\t\ttwo 1\n",
            "below T cut 1/1x2 cuts have one sub-batch",
        ),
        (
            "T 1/1\n\tT 1/1\n\t\tS 1/1x2\n\t\t\tone 1\n\t\t\ttwo 1\n",
            "S cut 1/1x2: only a whole segment has bands",
        ),
    ],
)
def test_bands_belong_to_segments(tree: str, reason: str) -> None:
    (found,) = tree_violations(parse_tree(tree), pair().producers, 1)
    assert reason in found
    with pytest.raises(InputError, match=r"bands|sub-batch"):
        evaluated(tree)


def whole_maps() -> LayerGraph:
    """What reads all rows at once, or may: products of activations, softmax, a flattened map."""
    small: dict[str, Any] = {"c": 4, "k": 4, "h": 4, "w": 1}
    return LayerGraph(
        "whole maps",
        (
            layer("first", external_c=4, **small),
            layer("key", producers=(0,), **small),
            layer("mixed", producers=(0,), weight_producers=(1,), **small),
            layer("softmax", "ptp", producers=(2,), **small),
            layer("last", "fc", c=4, k=2, h=1, w=1, r=4, input_h=4, input_w=1, producers=(3,)),
        ),
    )


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        (("first", "key", "mixed"), "mixed has no bands, its weights are made by another layer"),
        (("mixed", "softmax"), "softmax has no bands, a row of its outputs (ptp) may need all rows"),
        (("softmax", "last"), "last has no bands, a row of its outputs (fc) may need all rows"),
    ],
)
def test_layers_that_need_the_whole_map_are_refused(layers: tuple[str, ...], reason: str) -> None:
    graph = whole_maps()
    names = [one.name for one in graph.layers]
    before = names[: names.index(layers[0])]
    after = names[names.index(layers[-1]) + 1 :]
    tree = "T 1/1\n" + "".join(f"\t{name} 1\n" for name in before)
    tree += "\tS 1/1x2\n" + "".join(f"\t\t{name} 1\n" for name in layers)
    tree += "".join(f"\t{name} 1\n" for name in after)
    assert any(reason in one for one in band_violations(parse_tree(tree), graph))
    with pytest.raises(InputError, match="no bands"):
        evaluated(tree, graph=graph)


def test_empty_bands_are_refused() -> None:
    """Of 16 rows in eight bands the windows of five rows above one another need all but the last at once."""
    sizes: dict[str, Any] = {"c": 2, "k": 2, "h": 16, "w": 2, "r": 5, "pad_h": 2}
    others = (layer(f"layer{number}", producers=(number - 1,), **sizes) for number in range(1, 8))
    graph = LayerGraph("deep", (layer("layer0", external_c=2, **sizes), *others))
    tree = "S 1/1x8\n" + "".join(f"\tlayer{number} 1\n" for number in range(8))
    (*_, reason) = band_violations(parse_tree(tree), graph)
    assert "of the 16 rows of layer0 is empty" in reason


def test_bands_of_two_convolutions_by_hand() -> None:
    """Four bands of ``two`` end at rows 4, 8, 12, 16 and read up to one row more; two rows stay."""
    graph, segment = pair(), parse_tree("T 1/1x4\n\tone 1\n\ttwo 1\n")
    one, two = bands_of(graph, segment).values()
    assert two.heights == (4, 4, 4, 4)
    assert (two.first, two.end) == ((0, 3, 7, 11), (5, 9, 13, 16))
    assert one.made == (5, 9, 13, 16)
    assert (one.first, one.end) == ((0, 4, 8, 12), (6, 10, 14, 16))
    assert two.sent == ((0, (5, 9, 13, 16)),)
    assert two.held(0, False) == (2, 4)
    assert two.pieces(0, 1) == [((5, 7), 1, 1), ((7, 9), 1, 2)]


def test_an_intermediate_that_does_not_fit_stays_on_the_chip_in_bands() -> None:
    """Both maps of 2 KiB leave no room for one another: only bands spare the way through DRAM."""
    size = 1600
    with pytest.raises(NotPossibleError):
        evaluated(AT_ONCE, size)
    apart = evaluated(ONE_BY_ONE, size)
    compulsory = 2048 + 2 * 9 * 64
    for tree in (IN_TURNS, PIPELINE):
        found = evaluated(tree, size)
        program = write_program(pair(), found)
        assert violations(program) == []
        result = replay(program)
        assert (result.dram_read_bytes, result.dram_write_bytes) == (
            found.dram_read_bytes,
            found.dram_write_bytes,
        )
        assert result.hop_bytes == found.noc_hop_bytes
        assert found.dram_write_bytes == 2048
        # halos between columns may be fetched for two tiles; rows are never fetched twice
        assert compulsory <= found.dram_read_bytes <= compulsory + 256
        assert found.dram_bytes < 0.6 * apart.dram_bytes
        assert found.energy_pj < 0.75 * apart.energy_pj
        assert found.cycles == pytest.approx(result.cycles, rel=0.01)


@pytest.mark.parametrize("first", [8, 4], ids=["first and last alike", "first of another shape"])
def test_rows_wait_for_the_band_that_reads_them(first: int) -> None:
    """Rows of ``a`` are made ahead, for the 5 x 5 windows of ``b``; two wait in the buffer of ``c``.

    They also do where ``a`` has the shape of ``c``.
    """
    sizes: dict[str, Any] = {"k": 8, "h": 16, "w": 16}
    layers = (
        layer("a", c=first, external_c=first, **sizes),
        layer("b", c=8, r=5, s=5, pad_h=2, pad_w=2, producers=(0,), **sizes),
        layer("c", c=8, producers=(0,), **sizes),
    )
    tree = "T 1/1\n\tS 1/1x4\n" + "".join(f"\t\t{one.name} 1\n" for one in layers)
    found = evaluated(tree, graph=LayerGraph("branches", layers))
    (last,) = (node.leaf for node in found.nodes() if node.node == Leaf("c", 1))
    assert last is not None
    assert last.kept is not None
    assert int(last.kept.sum()) == 2 * 16 * 8 * 8


def test_bands_do_not_pay_where_the_intermediate_fits() -> None:
    """One by one or at once it is the same traffic; a pipeline fills and drains, and cannot cut rows."""
    whole, turns, pipeline = evaluated(AT_ONCE), evaluated(IN_TURNS), evaluated(PIPELINE)
    assert turns.dram_bytes == whole.dram_bytes
    assert turns.energy_pj >= whole.energy_pj
    assert pipeline.cycles > whole.cycles


def seeds_with_programs(seeds: range) -> Iterator[int]:
    found = [seed for seed in seeds if written(seed) is not None]
    assert len(found) > len(seeds) // 2
    yield from found


def counted(seeds: range) -> list[float]:
    """Check random programs, link by link and byte by byte; the model's cycles over replayed ones.

    Only of schedules of one round: a replay begins the next one while the last one ends.
    """
    ratios = []
    for seed in seeds_with_programs(seeds):
        found = written(seed)
        assert found is not None
        graph, program, evaluation = found
        check_counts(program, evaluation)
        result = replay(program)
        assert result.operations == evaluation.tree.batch * sum(one.operations for one in graph.layers)
        moved = 8 * result.dram_read_bytes, 8 * result.dram_write_bytes
        assert moved == (evaluation.dram_read_bits, evaluation.dram_write_bits)
        assert result.hop_bytes == pytest.approx(evaluation.noc_hop_bytes, rel=1e-12)
        if evaluation.rounds == 1:
            ratios.append(evaluation.cycles / result.cycles)
    return ratios


@pytest.mark.slow
def test_random_segments_with_bands() -> None:
    counted(range(20))


@pytest.mark.slow
def test_many_random_segments_with_bands() -> None:
    ratios = counted(range(20, how_many(90, thorough=220)))
    assert 0.97 < mean(ratios) < 1.08
    assert min(ratios) > 0.75


@pytest.mark.slow
def test_a_compute_reads_what_its_band_needs_and_nothing_else() -> None:
    computes, halos = 0, 0
    for seed in seeds_with_programs(range(30, 50)):
        found = written(seed)
        assert found is not None
        graph, program, _ = found
        # between windows that are further apart than they are long, whole rows are fetched that none reads
        if any(one.stride_h > one.r for one in graph.layers):
            continue
        for code in program.tiles:
            before: set[int] = set()
            for one in read_by_computes(program, code):
                kept = [program.messages[number] for number in one.messages if number in before]
                halos += sum(".weights" not in message.tensor for message in kept)
                before = set(one.messages)
                assert one.elements == needed(graph, one.layer, one.box)
                computes += 1
    assert computes > 50
    assert halos > 10


def test_trees_without_bands_are_as_before() -> None:
    """A cut of one band is the same value, text and cost as one that says nothing of bands."""
    _, tree, _, _ = drawn(0)
    assert parse_tree("S 4/2x1\n\ta 2\n") == parse_tree("S 4/2\n\ta 2\n")
    assert format_tree(parse_tree("S 4/2x1\n\ta 2\n")) == "S 4/2\n\ta 2\n"
    assert has_bands(tree)
