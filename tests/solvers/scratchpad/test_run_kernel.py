"""The compiled play of runs, against the same cut as a graph of pieces that are played one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

import pytest

from costmodel.scratchpad.cut import CutGraph, cut_graph
from costmodel.scratchpad.divisions import DivisibleGraph, divisible_graph
from costmodel.scratchpad.graph import ScratchpadSettings
from costmodel.workload.network import Network
from solvers.budget import always_in_time
from solvers.scratchpad.cutting import segments
from solvers.scratchpad.cutting.segments import CutRun, RunSearch, Way
from tests.costmodel.scratchpad.cut_networks import graph_of, mixed_network, random_network


class Played:
    """A cut graph in its own order: what is used again the latest leaves where a piece does not fit."""

    def __init__(self, cut: CutGraph, stages: Sequence[int], capacity: int) -> None:
        self.cut, self.graph, self.capacity = cut, cut.graph, capacity
        self.runs = [stages[piece.operator] for piece in cut.pieces]
        self.touched = [(*own.inputs, *own.outputs) for own in self.graph.operators]
        self.stages = stages
        self.resident, self.copied, self.moved = set[int](), set(cut.graph.on_host), 0
        whole = cut.divisible.whole
        self.first_touch = list(dict.fromkeys(t for o in whole.operators for t in (*o.inputs, *o.outputs)))

    def next_use(self, band: int, step: int) -> tuple[int, float]:
        """Uses in the same run come first, by the step, then those of later runs, by the operator."""
        for later in range(step + 1, len(self.touched)):
            if band in self.touched[later]:
                if self.runs[later] == self.runs[step]:
                    return 0, later
                break
        of = self.cut.contents[band].of
        if of < 0 or self.cut.contents[band].summed:
            return 2, 0
        readers = [r for r in self.cut.divisible.whole.consumers[of] if self.stages[r] > self.runs[step]]
        return (1, min(readers)) if readers else (2, 0)

    def preference(self, band: int, step: int) -> tuple[object, ...]:
        """The greatest leaves."""
        tensor, content = self.graph.tensors[band], self.cut.contents[band]
        whole = content.of >= 0 and not content.summed
        number = (0, self.first_touch.index(content.of), band) if whole else (1, 0, band)
        price = tensor.block_bytes if band in self.copied else -1
        return self.next_use(band, step), price, number

    def run(self) -> bool:
        """Whether all pieces fit."""
        tensors = self.graph.tensors
        for step, (operator, touched) in enumerate(zip(self.graph.operators, self.touched, strict=True)):
            missing = [band for band in touched if band not in self.resident]
            wanted = operator.parameter_bytes + sum(tensors[band].block_bytes for band in missing)
            dying = [target for source, target in operator.overwrites if self.next_use(source, step)[0] == 2]
            wanted -= tensors[dying[0]].block_bytes if dying else 0
            while sum(tensors[band].block_bytes for band in self.resident) + wanted > self.capacity:
                free = self.resident - set(touched)
                if not free:
                    return False
                victim = max(free, key=lambda band: self.preference(band, step))
                self.resident.remove(victim)
                self.moved += tensors[victim].traffic_bytes * (1 if victim in self.copied else 2)
                if victim not in self.graph.on_host:
                    self.copied.add(victim)
            self.resident.update(missing)
            self.resident -= {band for band in touched if self.next_use(band, step)[0] == 2}
        return True


def random_runs(divisible: DivisibleGraph, random: Random) -> list[CutRun]:
    """The order in one to four runs, each cut in some way."""
    count = len(divisible.whole.operators)
    edges = sorted({0, count, *(random.randint(0, count) for _ in range(random.randint(0, 3)))})
    sizes = (1, 4, 10, 1000)
    return [
        CutRun(
            first,
            end,
            Way(
                random.choice(("rows", "channels")),
                random.choice(sizes),
                random.choice(sizes),
                random.random() < 0.4,
            ),
        )
        for first, end in pairwise(edges)
    ]


def cases() -> Iterator[tuple[Network, int]]:
    yield from ((mixed_network(), seed) for seed in range(40))
    yield from ((random_network(seed), seed) for seed in range(80))
    dilated = graph_of(
        ("a", "conv2d", ["image", "w3"], [1, 2, 6, 2], {"padding": [2, 2], "dilation": [2, 2]}),
        ("b", "conv2d", ["a", "w1"], [1, 2, 3, 2], {"stride": [2, 1]}),
        ("mean", "adaptive_avg_pool2d", ["b"], [1, 2, 1, 1], {"output_size": [1, 1]}),
        image=[1, 2, 6, 2],
    )
    yield from ((dilated, seed) for seed in range(20))


def test_the_compiled_play_is_that_of_the_cut_graph() -> None:
    """Bytes moved and multiply-accumulates of random runs, and whether they fit, in tight scratchpads."""
    fitted = moving = misfits = 0
    for network, seed in cases():
        random = Random(seed)
        settings = ScratchpadSettings(
            parameters=random.random() < 0.4,
            inputs_on_host=random.random() < 0.3,
            in_place=random.random() < 0.3,
            bits_per_element=random.choice((8, 8, 4, 16)),
            alignment_bytes=random.choice((1, 1, 4)),
        )
        divisible = divisible_graph(network, settings)
        for _ in range(4):
            runs = random_runs(divisible, random)
            roomy = RunSearch(divisible, 1 << 30, always_in_time)
            assert roomy.try_runs(runs)
            cutting = roomy.cutting()
            assert cutting is not None
            assert cutting.moved == 0
            cut = cut_graph(divisible, cutting.cuts, cutting.stages)
            assert cutting.macs == cut.macs
            need = cut.graph.required_bytes
            for size in (need - 1, need, need + random.randint(0, need)):
                search = RunSearch(divisible, size, always_in_time)
                expected = Played(cut, cutting.stages, size)
                fits = expected.run()
                assert search.try_runs(runs) == fits, (network.name, seed, size)
                fitted, misfits = fitted + fits, misfits + (not fits)
                if fits:
                    assert search.cost == (expected.moved, cut.macs, len(cut.pieces)), (
                        network.name,
                        seed,
                        size,
                        runs,
                    )
                    moving += expected.moved > 0
    assert min(fitted, moving, misfits) > 100


def test_a_small_workspace_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    divisible = divisible_graph(mixed_network(), ScratchpadSettings(parameters=True))
    count = len(divisible.whole.operators)
    runs = [CutRun(0, count, Way("rows", 1, 1))]
    costs = []
    for size in (1 << 15, 3):
        monkeypatch.setattr(segments, "LEAST_WORK", size)
        search = RunSearch(divisible, 300, always_in_time)
        assert search.try_runs(runs)
        costs.append(search.cost)
    assert costs[0] == costs[1]
    assert costs[0][0] > 0
