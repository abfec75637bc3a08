"""Timeloop's own files: versions load to the same values, which count what Timeloop counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.formats.architectures import architecture_names, load_architecture
from costmodel.formats.cases.folder import Case, read_cases
from costmodel.formats.technologies import load_technology
from costmodel.formats.timeloop.architecture import FanOut, TimeloopArchitecture, timeloop_architecture
from costmodel.formats.timeloop.case import problem_of, read_timeloop_case
from costmodel.formats.timeloop.constraints import LevelConstraint, read_constraints
from costmodel.formats.timeloop.energy import NotCountedWarning
from costmodel.formats.timeloop.export import VERSIONS, mapping_text
from costmodel.formats.timeloop.files import read_timeloop
from costmodel.formats.timeloop.mapping import read_mapping
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping
from costmodel.workload.network import Layer, batched_matmul, convolution, gemm
from solvers.mapping.problem import MappingProblem, violations
from solvers.mapping.space.rules import LevelRules, SpaceRules

FILES = Path(__file__).parents[3] / "data" / "timeloop_files"
V03 = [FILES / "v03" / f"{name}.yaml" for name in ("arch", "ERT", "problem", "constraints", "mapping")]
V04 = [FILES / "v04" / f"{name}.yaml" for name in ("design", "mapping")]
RandomMappings = Callable[[Architecture, Layer, int, int], Any]

LAYER = convolution("problem", K=12, C=4, P=8, Q=6, R=3, S=1, stride=(2, 1))
EVERYTHING = frozenset({"Weights", "Inputs", "Outputs"})
MAPPING = Mapping(
    (
        LevelMapping((("R", 3),), (("K", 2),), (), EVERYTHING),
        LevelMapping(
            (("K", 2), ("P", 4), ("Q", 2)), (("C", 4),), (("K", 3),), frozenset({"Inputs", "Outputs"})
        ),
        LevelMapping((("Q", 3), ("P", 2)), (), (), EVERYTHING),
    )
)

THISTLE_45NM = load_technology("thistle-45nm")


def described(*paths: Path) -> TimeloopArchitecture:
    return timeloop_architecture(read_timeloop(paths), "arch")


def test_every_number_of_an_architecture_comes_through() -> None:
    chip = described(*V03[:2]).build()
    registers, buffer, dram = chip.levels
    assert (dram.name, dram.size_words, dram.block_size, dram.shared_bandwidth) == ("DRAM", None, 4, 3)
    assert (dram.read_energy_pj, dram.write_energy_pj, dram.update_energy_pj) == (512, 520, 520)
    assert (buffer.size_words, buffer.usable_words, buffer.block_size) == (1024, 512, 2)
    assert (buffer.read_energy_pj, buffer.write_energy_pj, buffer.update_energy_pj) == (6.5, 7.25, 8)
    assert (buffer.leakage_pj_per_cycle, buffer.area_um2) == (0.125, 9000)
    assert (buffer.read_bandwidth, buffer.write_bandwidth) == (6, 2.5)
    assert (buffer.fanout_x, buffer.fanout_y) == (4, 3)
    assert (registers.size_words, registers.fanout_x, registers.fanout_y) == (24, 2, 1)
    assert {registers.read_energy_pj, registers.write_energy_pj, registers.update_energy_pj} == {0.25}
    assert (chip.compute.energy_pj, chip.compute.area_um2, chip.mac_units) == (1.5, 1200, 24)
    assert chip.frequency_hz == 500e6


def test_both_versions_and_the_front_ends_form_are_the_same_chip() -> None:
    chip = described(*V03[:2]).build()
    assert described(V04[0]).build() == chip
    assert described(FILES / "processed.yaml", V03[1]).build() == chip


def test_mappings_of_both_versions_are_the_one_written_out_here() -> None:
    for files in (V03, V04):
        case, _ = read_timeloop_case(files)
        assert case.mapping == MAPPING
        assert case.layer.shape == LAYER.shape


def test_spatial_targets_are_levels_containers_and_the_front_ends_dummies() -> None:
    sides = {"column": "x", "PE": "y", "Buffer": "xy"}
    nodes = described(V04[0]).fan_outs
    assert {name: nodes[name] for name in sides} == {n: FanOut("Buffer", s) for n, s in sides.items()}
    for targets in (nodes, described(FILES / "processed.yaml", V03[1]).fan_outs):
        assert targets["inter_column_spatial"] == FanOut("Buffer", "x")
        assert targets["inter_PE_spatial"] == FanOut("Buffer", "y")
        assert targets["inter_MAC_spatial"] == FanOut("RegFile", "x")


def rules_of(*paths: Path) -> SpaceRules:
    files = read_timeloop(paths)
    chip = timeloop_architecture(files, "arch")
    asked = read_constraints(files, chip, problem_of(files))
    return SpaceRules("free", tuple(LevelRules.from_json(constraint.to_json()) for constraint in asked))


def test_constraints_of_both_versions_allow_the_same_mappings(random_mappings: RandomMappings) -> None:
    chip = described(*V03[:2]).build()
    rules = [rules_of(*V03), rules_of(*V04)]
    assert rules[0] != rules[1]
    fixed = [
        replace(level, temporal=tuple(loop for loop in level.temporal if loop[0] != "R"))
        for level in MAPPING.levels
    ]
    candidates = [MAPPING, Mapping(tuple(fixed)), *random_mappings(chip, LAYER, 300, 7)]
    kept = [replace(level, keep=MAPPING.levels[i].keep) for i, level in enumerate(candidates[5].levels)]
    candidates.append(Mapping(tuple(kept)))
    verdicts = [
        [not violations(MappingProblem(chip, LAYER, "edp", asked), mapping) for asked in rules]
        for mapping in candidates
    ]
    assert verdicts[0] == [True, True]
    assert all(one == other for one, other in verdicts)
    assert [False, False] in verdicts


def test_constraints_say_what_the_files_say() -> None:
    files = read_timeloop(V03)
    asked = {c.level: c for c in read_constraints(files, timeloop_architecture(files, "a"), LAYER)}
    assert asked["DRAM"] == LevelConstraint("DRAM", innermost=("Q", "N"))
    assert asked["RegFile"].temporal == (("R", 3, 3), ("S", 1, 1), ("K", 1, 4))
    assert asked["RegFile"].innermost == ("R", "S", "C")
    assert asked["Buffer"].spatial_x == ("R", "S", "P", "Q", "C")
    assert asked["Buffer"].spatial_y == ("K", "N")
    assert (asked["Buffer"].keep, asked["Buffer"].bypass) == (("Inputs", "Outputs"), ("Weights",))


def test_constraints_hold_for_each_layer_as_far_as_it_has_their_dims() -> None:
    """Depthwise layers have no K, products none of R, S, P, Q and C: what is said of these is left out."""
    files = read_timeloop(V03[:4])
    chip = timeloop_architecture(files, "a")
    names = frozenset({*LAYER.sizes, *EVERYTHING})
    depthwise = convolution("depthwise", K=12, C=12, P=8, Q=6, R=3, S=1, groups=12)
    assert set(depthwise.sizes) == set(LAYER.sizes) - {"K"}
    with pytest.raises(InputError, match="expected names among R, S, P, Q, C, N, found K"):
        read_constraints(files, chip, depthwise)
    of = [
        {found.level: found for found in read_constraints(files, chip, layer, names)}
        for layer in (LAYER, depthwise, gemm("product", M=8, N=6, K=12))
    ]
    assert of[0] == {found.level: found for found in read_constraints(files, chip, LAYER)}
    buffer, registers = of[1]["Buffer"], of[1]["RegFile"]
    assert (buffer.spatial_x, buffer.spatial_y) == (("R", "S", "P", "Q", "C"), ("N",))
    assert (registers.temporal, registers.spatial) == ((("R", 3, 3), ("S", 1, 1)), ())
    assert of[2]["Buffer"] == LevelConstraint("Buffer", spatial=(("N", 1, 1),), spatial_x=())
    assert of[2]["RegFile"].temporal == (("K", 1, 4),)
    with pytest.raises(InputError, match="found K"):
        read_constraints(files, chip, depthwise, names - {"K"})


def written_architecture(data: dict[str, Any]) -> dict[str, Any]:
    """An architecture of the reference cases as a Timeloop 0.3 tree with an ERT."""
    node: dict[str, Any] = {}
    for depth, level in enumerate(data["storage"]):
        attributes = {
            "word-bits": level["word_bits"],
            "block-size": level["block_size"],
            "instances": level["instances"],
            "meshX": level["meshX"],
            "multiple-buffering": level["multiple_buffering"],
        }
        attributes |= {"entries": level["size_words"]} if level["size_words"] else {}
        attributes |= {
            key: level[key]
            for key in ("read_bandwidth", "write_bandwidth", "shared_bandwidth")
            if level[key] is not None
        }
        kind = "DRAM" if level is data["storage"][-1] else "SRAM"
        local = [{"name": level["name"], "class": kind, "attributes": attributes}]
        if depth == 0:
            macs = data["arithmetic"]
            shape = {key: macs[key] for key in ("instances", "meshX")} | {"datawidth": macs["word_bits"]}
            local.append({"name": macs["name"], "class": "intmac", "attributes": shape})
        node = {"name": f"node{depth}", "local": local, **({"subtree": [node]} if depth else {})}
    return {
        "architecture": {"version": 0.3, "subtree": [node]},
        "ERT": {"tables": list(written_energies(data))},
    }


def written_energies(data: dict[str, Any]) -> Any:
    macs = data["arithmetic"]
    yield {"name": macs["name"], "actions": [{"name": "compute", "energy": macs["energy_per_op_pJ"]}]}
    for level in data["storage"]:
        energies = level["energy_per_access_pJ"]
        names = {"read": "read", "write": "fill_write", "update": "update", "leak": "leak_per_cycle_instance"}
        actions = [{"name": name, "energy": energies[key]} for name, key in names.items()]
        yield {"name": f"system.{level['name']}", "actions": actions}


def written_case(case: Case) -> dict[str, Any]:
    problem, mapping = case.record["problem"], case.record["mapping"]
    axes = {
        tensor.name: [[[dim] if step == 1 else [dim, step] for dim, step in axis] for axis in tensor.terms]
        for tensor in case.layer.tensors
    }
    spaces = [
        {"name": tensor.name, "projection": axes[tensor.name], "read-write": tensor.is_output}
        for tensor in case.layer.tensors
    ]
    shape = {"name": problem["shape"], "dimensions": list(problem["dims"]), "data-spaces": spaces}
    directives = [
        {
            **block,
            "factors": " ".join(f"{dim}{factor}" for dim, factor in block["factors"].items()),
            "permutation": "".join(block["permutation"]),
        }
        for block in mapping["levels"]
    ]
    bypass = [{"type": "bypass", **entry} for entry in mapping["bypass"]]
    return {"problem": {"shape": shape, "instance": problem["dims"]}, "mapping": directives + bypass}


@pytest.mark.parametrize(
    "name", ["A_eyeriss_like", "B_simba_like", "C_two_level", "D_tpu_like", "E_four_level"]
)
def test_reference_cases_written_as_timeloop_files_count_as_timeloop_did(
    name: str, cases_folder: Path, tmp_path: Path
) -> None:
    data = json.loads((cases_folder / "archs.json").read_text())[name]
    arch = tmp_path / f"{name}.yaml"
    arch.write_text(yaml.safe_dump(written_architecture(data)))
    loaded = load_architecture(str(arch))
    assert replace(loaded, frequency_hz=1e9) == replace(load_architecture(name), frequency_hz=1e9)
    cases = [
        case for case in read_cases(cases_folder / f"{name}.jsonl.gz") if case.record["oracle"] == "exact"
    ]
    for number, case in enumerate(cases[::9]):
        path = tmp_path / f"{number}.yaml"
        path.write_text(yaml.safe_dump(written_case(case)))
        read, _ = read_timeloop_case([arch, path])
        found = evaluate(read.architecture, read.layer, read.mapping)
        counted = case.record.get("results_no_link_transfers") or case.record["results"]
        assert found.cycles == counted["cycles"]
        assert found.energy_pj == pytest.approx(counted["energy_pJ"], rel=1e-9)


LAYERS = [
    convolution("strided", N=2, K=6, C=4, P=7, Q=9, R=3, S=5, stride=(2, 1), dilation=(1, 3)),
    convolution("depthwise", K=12, C=12, P=6, Q=8, R=3, S=3, groups=12),
    gemm("gemm", M=12, N=18, K=20),
    batched_matmul("batched", B=4, M=6, N=10, K=8),
]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_exported_mappings_come_back_equal(
    data: st.DataObject, random_mappings: RandomMappings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    architecture = load_architecture(data.draw(st.sampled_from(architecture_names())))
    layer = data.draw(st.sampled_from(LAYERS))
    mapping = next(iter(random_mappings(architecture, layer, 1, data.draw(st.integers(0, 2**32)))))
    path = tmp_path_factory.mktemp("export") / "mapping.yaml"
    path.write_text(mapping_text(architecture, layer, mapping, data.draw(st.sampled_from(VERSIONS))))
    assert read_mapping(read_timeloop([path]), architecture, layer) == mapping


def test_dims_of_several_letters_need_version_0_4(tmp_path: Path) -> None:
    names = {"M": "rows", "N": "columns", "K": "depth"}
    data = json.loads(json.dumps(gemm("named", M=4, N=6, K=2).to_json()))
    data["dims"] = {names[dim]: size for dim, size in data["dims"].items()}
    for tensor in data["tensors"]:
        tensor["axes"] = [[[names[dim], step] for dim, step in axis] for axis in tensor["axes"]]
    layer, chip = Layer.from_json(data), load_architecture("C_two_level")
    keep = frozenset({"A", "B", "Z"})
    levels = (
        LevelMapping((("depth", 2),), (("rows", 4),), (), keep),
        LevelMapping((("columns", 6),), (), (), keep),
    )
    path = tmp_path / "mapping.yaml"
    path.write_text(mapping_text(chip, layer, Mapping(levels), "0.4"))
    assert read_mapping(read_timeloop([path]), chip, layer) == Mapping(levels)
    with pytest.raises(InputError, match=r"permutation: expected dims of one letter.*Write version 0\.4"):
        mapping_text(chip, layer, Mapping(levels), "0.3")


def test_without_tables_the_technologys_laws_hold_and_follow_an_axis() -> None:
    small = load_architecture(str(V03[0]))
    assert small.levels[1].read_energy_pj == 2 * THISTLE_45NM.access_energy_pj("sram", 1024, 16)
    assert small.compute.energy_pj == 2.2
    large = load_architecture(str(V03[0]), {"Buffer.size": "4096 words"})
    assert large.levels[1].read_energy_pj == pytest.approx(2 * small.levels[1].read_energy_pj)


def test_energies_of_tables_are_right_at_their_size_and_scaled_from_there() -> None:
    both = f"{V03[0]}+{V03[1]}"
    assert load_architecture(both) == described(*V03[:2]).build()
    large = load_architecture(both, {"Buffer.size": "4096 words", "RegFile.size": 48}).levels
    assert (large[1].read_energy_pj, large[1].update_energy_pj) == pytest.approx((13, 16))
    assert large[0].read_energy_pj == pytest.approx(0.5)


def test_areas_of_tables_are_right_at_their_size_and_grow_with_it() -> None:
    same, half = (load_architecture("+".join(map(str, V03[:2])), {"Buffer.size": n}) for n in (1024, 512))
    assert same.levels[1].area_um2 == 9000
    assert half.levels[1].area_um2 == 4500


def test_energies_beside_the_attributes(tmp_path: Path) -> None:
    text = V03[0].read_text().replace("n_banks: 4", "vector-access-energy: 3.5")
    (tmp_path / "arch.yaml").write_text(text)
    assert load_architecture(str(tmp_path / "arch.yaml")).levels[1].write_energy_pj == 3.5


def test_leakage_of_macs_is_named_because_it_is_not_counted(tmp_path: Path) -> None:
    text = (
        V03[1]
        .read_text()
        .replace("{name: mac_random,", "{name: leak, energy: 0.25}\n        - {name: compute,")
    )
    (tmp_path / "ERT.yaml").write_text(text)
    with pytest.warns(NotCountedWarning, match=r"ERT\.yaml: ERT\.MAC\.leak: 0\.25 pJ a cycle"):
        load_architecture(f"{V03[0]}+{tmp_path / 'ERT.yaml'}")


def test_memories_side_by_side_share_out_the_tensors(tmp_path: Path) -> None:
    text = V04[0].read_text()
    old = text[
        text.index("    - !Component\n      name: RegFile") : text.index("    - !Component\n      name: MAC")
    ]
    node = "        - !Component {{name: {0}, class: regfile, attributes: {{entries: 8, datawidth: 16}},"
    node += " constraints: {{dataspace: {{keep: [{1}]}}}}}}\n"
    memories = [("inputs_file", "Inputs"), ("weights_file", "Weights"), ("outputs_file", "Outputs")]
    parallel = "    - !Parallel\n      nodes:\n" + "".join(node.format(*memory) for memory in memories)
    energies = "".join(
        f'    - {{name: "{name}", actions: [{{name: access, energy: 1}}]}}\n' for name, _ in memories
    )
    text = text.replace(old, parallel).replace("ART:", f"{energies}ART:")
    text = text.replace("RegFile[1..12]", "inputs_file").replace(
        '  tables:\n    - {name: "inputs_file", area: 480}', ""
    )
    start, end = (
        text.index("    - name: system_top_level.inputs_file"),
        text.index("    - name: system_top_level.MAC"),
    )
    text = text[:start] + text[end:]
    text = text.replace('    - {name: "system_top_level.inputs_file", area: 480}\n', "")
    (tmp_path / "design.yaml").write_text(text)
    files = read_timeloop([tmp_path / "design.yaml"])
    chip = timeloop_architecture(files, "parallel")
    assert [level.name for level in chip.build().levels][:3] == [name for name, _ in reversed(memories)]
    asked = {constraint.level: constraint for constraint in read_constraints(files, chip, LAYER)}
    for name, tensor in memories:
        assert asked[name].keep == (tensor,)
        assert set(asked[name].bypass) == EVERYTHING - {tensor}
    (tmp_path / "design.yaml").write_text(text.replace("keep: [Weights]", "bypass: [Inputs]"))
    files = read_timeloop([tmp_path / "design.yaml"])
    chip = timeloop_architecture(files, "parallel")
    with pytest.raises(InputError, match=r"weights_file\.constraints: expected the tensors that it keeps"):
        read_constraints(files, chip, LAYER)
