"""Faults of Timeloop's own files: every message names the file and the key."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.formats.timeloop.case import read_timeloop_case

FILES = Path(__file__).parents[3] / "data" / "timeloop_files"
V03 = [FILES / "v03" / f"{name}.yaml" for name in ("arch", "ERT", "problem", "constraints", "mapping")]
V04 = [FILES / "v04" / f"{name}.yaml" for name in ("design", "mapping")]

DIGITS = "9" * 5000
"""More than Python makes an integer of."""

FAULTS = [
    ("arch", "depth: 512", "dpeth: 512", r"arch\.yaml: .*\.chip\.Buffer\.attributes\.dpeth.*mean depth"),
    ("arch", "depth: 512", "rows: 512", r"Buffer\.attributes\.depth: expected a size"),
    ("arch", "depth: 512", "depth: 2*256", r"Buffer\.attributes\.depth: .*expressions are not evaluated"),
    ("arch", "read_bandwidth: 6", "read_bandwidth: .inf", r"read_bandwidth: expected a number of at least 0"),
    ("arch", "width: 32", "width: 48", r"Buffer\.attributes\.width: expected width = block_size x 16"),
    ("arch", "n_banks: 4", "cluster-size: 4", r"Buffer\.attributes\.cluster_size: expected 1"),
    ("arch", "n_banks: 4", "min-utilization: 0.5", r"attributes\.min_utilization"),
    ("arch", "meshX: 8", "meshX: 7", r"MAC\.attributes: expected meshX x meshY = 24"),
    ("arch", "meshX: 4", "meshX: 6", r"RegFile: expected meshX and meshY that the next"),
    ("arch", "class: intmac", "class: XY_NoC", r"MAC\.class: .*Networks and other components"),
    ("arch", "class: intmac", "class: SRAM", r"architecture: expected memories, .*one kind of MAC"),
    ("arch", "PE[0..11]", "PE[0-11]", r"chip\.name: expected a name such as"),
    ("arch", "local:", "locals:", r"subtree system: .*Did you mean local"),
    ("arch", "version: 0.3", "version: 0.3\n  nodes: []", r"architecture: .*found subtree"),
    ("arch", "architecture:", "arch:", r"arch: .*Write the architecture as version 0\.3"),
    ("ERT", "system.chip.Buffer\n", "system.chip.Bufer\n", r"ERT\.yaml: ERT: .*Did you mean Buffer"),
    ("ERT", "name: mac_random", "name: idle", r"ERT\.yaml: ERT\.MAC: expected an action 'compute'"),
    ("ERT", "energy: 512", "energy: much", r"ERT\.yaml: ERT\.DRAM\.read: energy: expected a number"),
    ("ERT", "energy: 512", "energy: .nan", r"ERT\.yaml: ERT\.DRAM\.read: energy: expected a number"),
    ("problem", "read-write: true", "read-write: maybe", r"problem\.yaml: .*read_write"),
    ("problem", "instance:", "instance: {}\n  sizes:", r"problem\.yaml: .*sizes"),
    ("constraints", "target: DRAM", "target: dram", r"architecture|targets|Did you mean DRAM"),
    ("constraints", "K<=4", "K<4", r"constraints\.yaml: mapspace_constraints\.targets\[0\]\.factors: .*K<4"),
    ("constraints", "K<=4", "Z<=4", r"constraints\.yaml: mapspace_constraints\.targets\[0\]: factors: .*Z"),
    (
        "constraints",
        "permutation: QN",
        "permutation: QNQ",
        r"mapspace_constraints\.targets\[1\]\.permutation: .*once",
    ),
    ("constraints", "permutation: QN", "no_reuse: [Inputs]", r"no_reuse.*not modelled"),
    ("constraints", "factors: K=2}", "min: 0.5}", r"\.min: expected for spatial"),
    (
        "constraints",
        "type: temporal, permutation: QN",
        "type: utilization",
        r"type: expected a type",
    ),
    ("constraints", "bypass: [Weights]", "bypass: [Inputs]", r"keep: expected a tensor either in keep or"),
    (
        "constraints",
        "RegFile, type: spatial, factors: K=2",
        "RegFile, type: temporal, factors: R=1",
        r"one constraint on R at RegFile, R=3, found R=1",
    ),
    ("mapping", "P2 Q3", "P2 Q2", r"mapping\.yaml: mapping: .*factors of Q multiply to 4"),
    ("mapping", "split: 5", "split: 9", r"spatial factors on X multiply to 12, the fan-out is 4"),
    ("mapping", ", split: 5", "", r"mapping\[2\]\.split: expected how many leading dims"),
    ("mapping", "P=4 Q=2", "P=4:2 Q=2", r"mapping\[1\]\.factors: .*perfect factors"),
    ("mapping", "permutation: KPQRSCN", "permutation: KQRSCN", r"mapping\[1\]\.permutation: .*none of P"),
    (
        "mapping",
        "target: RegFile, type: temporal",
        "target: Regfile, type: temporal",
        r"\[4\]\.target: .*mean",
    ),
    ("mapping", "mapping:", "sparse_optimizations: {a: 1}\nmapping:", r"mapping\.yaml: sparse_optimizations"),
    ("mapping", "mapping:", "mapspace: {template: ruby}\nmapping:", r"mapping\.yaml: mapspace: .*padding"),
    ("mapping", "mapping:", "globals: {environment_variables: {X: 1}}\nmapping:", r"yaml: globals: expected"),
    ("mapping", "mapping:", "globals: {environment_variables: [[1]]}\nmapping:", r"globals: expected"),
    ("mapping", "mapping:", "problem: {}\nmapping:", r"mapping\.yaml: problem: expected one section"),
    ("mapping", "mapping:", "{{ include }}\nmapping:", r"mapping\.yaml:1: .*Jinja"),
    ("mapping", "P2 Q3", f"P{DIGITS} Q3", r"mapping\[0\]\.factors: expected perfect factors"),
    ("mapping", "type: temporal", "type: [temporal]", r"mapping\[0\]\.type: expected a type among"),
    ("mapping", "mapping:", "mapping: &m [*m]\nother:", r"mapping\.yaml:1: .*contains itself"),
    ("arch", "PE[0..11]", f"PE[0..{DIGITS}]", r"chip\.name: expected a name such as"),
    ("arch", "PE[0..11]", "PE[0..99999999999999999]", r"Buffer\.fanout.*at most 2147483648"),
    ("problem", "R: 3,", f"R: {DIGITS},", r"problem\.yaml:14: .*4300 digits"),
    ("problem", "name: Inputs", "name: Weights", r"problem\.yaml: .*every tensor's name once"),
    (
        "constraints",
        "targets:",
        "target:",
        r"architecture_constraints: expected names among version, targets",
    ),
]


@pytest.mark.parametrize(("file", "old", "new", "message"), FAULTS, ids=range(len(FAULTS)))
def test_faults_of_version_0_3_name_file_and_key(
    file: str, old: str, new: str, message: str, tmp_path: Path
) -> None:
    for path in V03:
        shutil.copy(path, tmp_path)
    damaged = tmp_path / f"{file}.yaml"
    assert old in damaged.read_text()
    damaged.write_text(damaged.read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=message) as caught:
        read_timeloop_case([tmp_path / path.name for path in V03])
    assert str(caught.value).startswith(str(tmp_path))


NODE_FAULTS = [
    ("!Component\n      name: RegFile", "!Compnent\n      name: RegFile", r"design\.yaml:\d+: .*!Compnent"),
    ("- !Container\n      name: chip", "- name: chip", r"nodes\[2\]: expected a node with a tag"),
    ("- !Container\n      name: chip", "- !Pipelined\n      nodes: []", r"nodes one inside the other"),
    ("spatial: {meshY: 3}", "spatial: {meshX: 3}", r"architecture\.PE: expected one fan-out along each axis"),
    ("spatial: {meshY: 3}", "spatial: 0", r"architecture\.PE\.spatial: expected meshX and meshY, found 0"),
    (
        "constraints:\n        spatial: {factors: [K=2]}",
        "constraints: 0",
        r"MAC\.constraints: expected temporal",
    ),
    ("attributes: {entries: 24, datawidth: 16}", "attributes: false", r"RegFile\.attributes: expected keys"),
    (
        "meshX: 2}\n      attributes: {datawidth: 16}",
        "meshX: 2}\n      attributes: {datawidth: 0}",
        "word_bits",
    ),
    ("class: regfile", "class: regfile\n      subclass: 0", r"RegFile\.subclass: expected a text|subclass"),
    ("spatial: {meshY: 3}", "spatial: {meshZ: 3}", r"architecture\.PE: spatial: .*meshZ"),
    ("factors: [P=1, Q=1, N=1, K=1]", "factors: [K<=2]", r"column.*a bound on both sides of K"),
    ("temporal: {permutation: [Q, N]}", "temporary: {permutation: [Q, N]}", r"DRAM\.constraints\.temporary"),
    ("temporal: {permutation: [Q, N]}", "spatial: {factors: [Q=1]}", r"DRAM\.constraints\.spatial"),
    ("temporal: {permutation: [Q, N]}", "temporal: {permutation: [Q, no]}", r"DRAM.*permutation"),
    ("entries: 24,", "entries: 24, meshX: 4,", r"RegFile\.meshX: expected spatial: \{meshX"),
    (
        "entries: 24,",
        "entries: 24, global_cycle_seconds: 1e-9,",
        r"RegFile\.attributes\.global_cycle_seconds",
    ),
    ("class: regfile", "class: smartbuffer", r"RegFile\.class: expected a class whose energy has a law"),
    ("global_cycle_seconds: 2e-9", "global_cycle_seconds: fast", r"global_cycle_seconds"),
]


@pytest.mark.parametrize(("old", "new", "message"), NODE_FAULTS)
def test_faults_of_version_0_4_name_file_and_key(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = V04[0].read_text()
    assert old in text
    text = text.replace(old, new, 1)
    if "smartbuffer" in new:
        text = text[: text.index("ERT:")] + text[text.index("ART:") :]
    (tmp_path / "design.yaml").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_timeloop_case([tmp_path / "design.yaml", V04[1]])
    assert str(caught.value).startswith(str(tmp_path))
