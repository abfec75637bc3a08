"""What the programs count is what the cost model counts, and their optima are the least of a fine grid."""

from __future__ import annotations

import random
from itertools import product
from math import log, prod

import numpy as np
import pytest

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import Evaluation, evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping, loops
from costmodel.workload.network import Layer, batched_matmul, convolution, gemm
from solvers.codesign.family import ArchitectureFamily
from solvers.codesign.problem import CodesignProblem
from solvers.codesign.thistle.hardware import FANOUT, SIZE, HardwareVariables
from solvers.codesign.thistle.layer_costs import LayerCosts
from solvers.codesign.thistle.loops import ClassLoops, LoopChoices
from solvers.codesign.thistle.program import CodesignProgram
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.thistle.nest.costs import TilingCosts
from solvers.mapping.thistle.nest.expressions import TilingBlock
from solvers.mapping.thistle.nest.tiling import Tiling
from solvers.mapping.thistle.nest.volumes import Volumes

SIZES, PES = {"RegFile": 4096, "SRAM": 2**22}, 4096
POINT = {f"{SIZE}RegFile": 4096.0, f"{SIZE}SRAM": 2.0**22, f"{FANOUT}SRAM": 4096.0}


@pytest.fixture(scope="module")
def hardware(eyeriss: ArchitectureFamily) -> HardwareVariables:
    return HardwareVariables(eyeriss, ("RegFile", "SRAM"), ("SRAM",))


def mapping_at(layer: Layer, chosen: ClassLoops, trips: dict[str, int]) -> Mapping:
    """The mapping with these trip counts, all tensors kept everywhere, spatial loops in X."""
    keep = frozenset(tensor.name for tensor in layer.tensors)
    counts = {name: round(value) for name, value in chosen.fixed} | trips
    levels = []
    for level, order in enumerate(chosen.orders):
        temporal = loops((dim, counts[TilingBlock(level, False).trips(dim)]) for dim in order)
        spatial = loops((dim, counts.get(TilingBlock(level, True).trips(dim), 1)) for dim, _ in layer.dims)
        levels.append(LevelMapping(temporal, spatial, (), keep))
    return Mapping(tuple(levels))


def counted(costs: LayerCosts, trips: dict[str, int]) -> tuple[float, float]:
    """Energy in pJ and cycles that the expressions give."""
    point = {name: float(value) for name, value in trips.items()} | POINT
    cycles = max(
        limit.expression.at(point) / limit.at_most.at({"cycles": 1.0}) for limit in costs.cycle_limits
    )
    return costs.energy.at(point | {"cycles": cycles}), cycles


def exact(hardware: HardwareVariables, layer: Layer, mapping: Mapping) -> Evaluation:
    member = hardware.family.member(SIZES, {"SRAM": (PES, 1)})
    return evaluate(member, layer, mapping)


@pytest.mark.parametrize("seed", range(6))
def test_products_are_counted_exactly(hardware: HardwareVariables, seed: int) -> None:
    """Every class of orders, trip counts above 1 everywhere so that no copy hoists further."""
    draw = random.Random(seed)
    dims = ("B", "M", "N", "K") if seed % 2 else ("M", "N", "K")
    blocks = (TilingBlock(0, False), TilingBlock(1, True), TilingBlock(1, False), TilingBlock(2, False))
    trips = {block.trips(dim): draw.choice((2, 3)) for block in blocks for dim in dims}
    sizes = {dim: prod(trips[block.trips(dim)] for block in blocks) for dim in dims}
    layer = batched_matmul("product", **sizes) if "B" in sizes else gemm("product", **sizes)
    for chosen in LoopChoices(hardware, layer, split_windows=True).all():
        energy, cycles = counted(LayerCosts(hardware, layer, chosen), trips)
        found = exact(hardware, layer, mapping_at(layer, chosen, trips))
        assert energy == pytest.approx(found.energy_pj, rel=1e-9)
        assert cycles == pytest.approx(found.cycles, abs=1)


@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_are_counted_exactly_without_halos(hardware: HardwareVariables, stride: int) -> None:
    """Windows whole at either level; rows and columns only tiled inside, so that no tiles overlap."""
    layer = convolution("conv", K=16, C=16, P=4, Q=4, R=3, S=3, stride=(stride, stride))
    trips = {"P.temporal.0": 4, "Q.temporal.0": 2, "Q.temporal.1": 2}
    for dim in "PQ":
        for name in ("temporal.0", "spatial.1", "temporal.1", "temporal.2"):
            trips.setdefault(f"{dim}.{name}", 1)
    trips |= {
        f"{dim}.{name}": 2 for dim in "KC" for name in ("temporal.0", "spatial.1", "temporal.1", "temporal.2")
    }
    for chosen in LoopChoices(hardware, layer, split_windows=False).all():
        if any("Q" in order[:1] for order in chosen.orders[1:]):
            continue  # a halo along Q is reused, and counted in one direction only
        if any("P" in order[:1] for order in chosen.orders[1:]):
            continue  # a first loop of 1 is hoisted through by the cost model
        energy, _ = counted(LayerCosts(hardware, layer, chosen), trips)
        found = exact(hardware, layer, mapping_at(layer, chosen, trips))
        assert energy == pytest.approx(found.energy_pj, rel=0.02)


def equation_3(trips: dict[str, int], member: Architecture) -> float:
    """Eq. 3 with the volumes of Eq. 1 and 2, written out for the loops of the paper's Figure 1 (P_k is 1)."""
    r, p, s, d = (
        [trips[block.trips(dim)] for dim in "MNK"]
        for block in (
            TilingBlock(0, False),
            TilingBlock(1, True),
            TilingBlock(1, False),
            TilingBlock(2, False),
        )
    )
    n = [prod(one) for one in zip(r, p, s, d, strict=True)]
    tile = [prod(one) for one in zip(r, p, s, strict=True)]
    macs = prod(n)
    into_registers = {"A": macs / (r[1] * p[1]), "B": macs / (r[0] * p[0]), "C": macs / tile[2]}
    into_sram = {"A": n[0] * n[2], "B": macs / tile[0], "C": macs / tile[2]}
    registers, sram, dram = member.levels
    from_registers, from_sram = into_registers["C"], into_sram["C"]
    return (
        (4 * registers.read_energy_pj + member.compute.energy_pj) * macs
        + registers.read_energy_pj * (sum(into_registers.values()) + from_registers)
        + sram.read_energy_pj
        * (sum(into_registers.values()) + from_registers + sum(into_sram.values()) + from_sram)
        + dram.read_energy_pj * (sum(into_sram.values()) + from_sram)
    )


@pytest.mark.parametrize("seed", range(4))
def test_literal_is_the_papers_equation_3(hardware: HardwareVariables, seed: int) -> None:
    """In both programs: that of an architecture with open sizes, and that of a fixed one."""
    draw = random.Random(seed)
    blocks = (TilingBlock(0, False), TilingBlock(1, True), TilingBlock(1, False), TilingBlock(2, False))
    trips = {block.trips(dim): draw.choice((2, 3, 4)) for block in blocks for dim in "MNK"}
    trips["K.spatial.1"] = 1
    sizes = {dim: prod(trips[block.trips(dim)] for block in blocks) for dim in "MNK"}
    layer = gemm("product", **sizes)
    # innermost first: the paper's <ir, jr, kr> around the registers' tiles and <is, ks, js> around the SRAM's
    orders = (("M", "N", "K"), ("K", "N", "M"), ("N", "K", "M"))
    member = hardware.family.member(SIZES, {"SRAM": (PES, 1)})
    assert all(
        level.read_energy_pj == level.write_energy_pj == level.update_energy_pj for level in member.levels
    )
    wanted = equation_3(trips, member)
    point = {name: float(value) for name, value in trips.items()} | POINT
    assert LayerCosts(hardware, layer, ClassLoops(orders, ()), literal=True).energy.at(
        point
    ) == pytest.approx(wanted)
    space = MappingSpace(member, layer)
    keep = tuple(frozenset(tensor.name for tensor in layer.tensors) for _ in member.levels)
    costs = TilingCosts(Volumes(Tiling(space, keep, ())), "energy", literal=True)
    x = np.array([log(trips[name]) for name in costs.volumes.names])
    program = costs.program(orders)
    assert program.energy_at(x) == pytest.approx(wanted)
    assert costs.estimate(program, x) == pytest.approx(wanted)
    ours = TilingCosts(costs.volumes, "energy")
    assert ours.program(orders).energy_at(x) != pytest.approx(wanted)


def half_steps(total: int, parts: int) -> list[tuple[float, ...]]:
    """All ways to write 2^(total/2) as a product of ``parts`` powers of the root of 2."""
    steps = [split for split in product(range(total + 1), repeat=parts) if sum(split) == total]
    return [tuple(2 ** (step / 2) for step in split) for split in steps]


@pytest.mark.slow
def test_optimum_against_a_grid(hardware: HardwareVariables) -> None:
    """No real point of a fine grid beats the program, and the grid comes near it."""
    layer, area = gemm("product", M=4, N=4, K=4), 20_000.0
    chosen = next(iter(LoopChoices(hardware, layer, split_windows=True).all()))
    costs = LayerCosts(hardware, layer, chosen)
    found = CodesignProgram(hardware, area, "energy", ((costs, 1),)).solve()
    assert found is not None
    names = [[block.trips(dim) for block in costs.expressions.blocks] for dim in "MNK"]
    energy, best = costs.energy.positive_part, float("inf")
    for split in product(half_steps(4, 4)[::2], repeat=3):
        point = {
            name: v
            for row, values in zip(names, split, strict=True)
            for name, v in zip(row, values, strict=True)
        }
        for index, level in enumerate(("RegFile", "SRAM")):
            point[SIZE + level] = sum(costs.expressions.footprint(t, index).at(point) for t in layer.tensors)
        point[FANOUT + "SRAM"] = prod(point[f"{dim}.spatial.1"] for dim in "MNK")
        if hardware.area.at(point) <= area:
            best = min(best, energy.at(point))
    assert found.objective <= best * (1 + 1e-6)
    assert best <= found.objective * 1.05


def test_area_of_the_program_is_the_architectures(hardware: HardwareVariables) -> None:
    for registers, sram, pes in ((512, 65536, 168), (19, 40_000, 1100)):
        point = {f"{SIZE}RegFile": registers, f"{SIZE}SRAM": sram, f"{FANOUT}SRAM": pes}
        member = hardware.family.member({"RegFile": registers, "SRAM": sram}, {"SRAM": (pes, 1)})
        assert hardware.area.at(point) == pytest.approx(member.area_um2, rel=1e-12)


def test_area_of_a_family_with_several_fanouts() -> None:
    family = ArchitectureFamily("simba")
    problem = CodesignProblem.of(family, [gemm("product", M=4, N=4, K=4)])
    hardware = HardwareVariables(family, problem.free_sizes, problem.free_fanouts)
    sizes = {name: 100 * (place + 1) for place, name in enumerate(problem.free_sizes)}
    fanouts = {name: place + 3 for place, name in enumerate(problem.free_fanouts)}
    point = {SIZE + name: float(n) for name, n in sizes.items()} | {
        FANOUT + n: float(f) for n, f in fanouts.items()
    }
    assert hardware.area.at(point) == pytest.approx(problem.member(sizes, fanouts).area_um2, rel=1e-12)


def test_classes_with_the_paper_s_windows(hardware: HardwareVariables) -> None:
    """8 classes a level (reference: 24 orders fall into 8), of which mirror images count once."""
    layer = convolution("conv", K=64, C=64, P=56, Q=56, R=3, S=3)
    choices = LoopChoices(hardware, layer, split_windows=False)
    assert len(choices.classes) == 8
    assert choices.count == 64
    assert 32 <= len(list(choices.all())) < 64
    split = LoopChoices(hardware, layer, split_windows=True)
    assert split.placements[0] == (("R", 0), ("S", 0))
    assert len(split.placements) == 4
