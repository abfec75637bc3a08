"""Problem files of three versions give the layer that the builders give; wrong ones name file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.formats.timeloop.problem import read_problem
from costmodel.workload.network import Layer, convolution, gemm

OLD = """
problem:
  shape: cnn-layer
  R: 3
  S: 5
  P: 7
  Q: 9
  C: 4
  K: 6
  N: 2
  Wstride: 2
  Hdilation: 3
"""
V03 = """
problem:
  shape:
    name: "CNN_Layer"
    dimensions: [ R, S, P, Q, C, K, N ]
    coefficients:
    - {name: Wstride, default: 1}
    - {name: Hstride, default: 1}
    - {name: Wdilation, default: 1}
    - {name: Hdilation, default: 3}
    data-spaces:
    - name: Weights
      projection: [ [[C]], [[K]], [[R]], [[S]] ]
    - name: Inputs
      projection:
      - [ [N] ]
      - [ [C] ]
      - [ [R, Wdilation], [P, Wstride] ]
      - [ [S, Hdilation], [Q, Hstride] ]
    - name: Outputs
      projection: [ [[N]], [[K]], [[Q]], [[P]] ]
      read-write: True
  instance: {R: 3, S: 5, P: 7, Q: 9, C: 4, K: 6, N: 2, Wstride: 2}
"""
V04 = V03.replace("data-spaces", "data_spaces").replace("read-write", "read_write")
V04 = V04.replace("problem:\n", "problem:\n  version: 0.4\n", 1)


def read(tmp_path: Path, text: str) -> Layer:
    path = tmp_path / "layer.yaml"
    path.write_text(text)
    return read_problem(path)


@pytest.mark.parametrize("text", [OLD, V03, V04, OLD.replace("  shape: cnn-layer\n", "")])
def test_convolution_in_every_version(tmp_path: Path, text: str) -> None:
    layer = read(tmp_path, text)
    expected = convolution("", N=2, K=6, C=4, P=7, Q=9, R=3, S=5, stride=(2, 1), dilation=(1, 3))
    assert layer.shape == expected.shape
    assert layer.name == "layer"


def test_named_gemm(tmp_path: Path) -> None:
    layer = read(tmp_path, "problem: {shape: gemm-ABZ, instance: {M: 5, N: 9, K: 7}}")
    assert layer.shape == gemm("", M=5, N=9, K=7).shape


def test_any_nest_with_numbers_as_coefficients(tmp_path: Path) -> None:
    text = """
problem:
  shape:
    dimensions: [W, F]
    data_spaces:
    - {name: Filter, projection: [F]}
    - {name: Signal, projection: [[[W, 2], [F]]]}
    - {name: Result, projection: [W], read_write: true}
  instance: {W: 10, F: 3}
"""
    layer = read(tmp_path, text)
    assert [tensor.role for tensor in layer.tensors] == ["weights", "inputs", "outputs"]
    assert layer.tensor("Signal").words(layer.sizes) == 9 * 2 + 2 + 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("K: 6, ", "", "problem.K: .*found None"),
        ("K: 6", "K: 0", "problem.K: .*at least 1, found 0"),
        ("K: 6", "K: many", "problem.K"),
        ("K: 6", "K: 6.5", "problem.K"),
        ("Wstride: 2", "Wstride: -2", "problem.Wstride: .*found -2"),
        ("Wstride: 2", "Wstrides: 2", "Did you mean Wstride"),
        ("Wstride: 2", "densities: {Inputs: 0.5}", "a dense problem"),
        ("    data-spaces:", "    flatten: []\n    data-spaces:", "a dense problem"),
        ("[P, Wstride]", "[P, Xstride]", "data space Inputs.projection: .*found Xstride"),
        ("[P, Wstride]", "[X, Wstride]", r"layer layer\.Inputs: expected dims among .*X"),
        ("[P, Wstride]", "[P, Wstride, 2]", "data space Inputs.projection"),
        ("[P, Wstride]", "[P, 0]", "at least 1, found 0"),
        ("read-write: True", "read-write: 3", "data space Outputs.read_write"),
        ("      read-write: True\n", "", "exactly one output"),
        ("dimensions: [ R,", "dimensions: [ R, R,", "every dim once"),
        ("dimensions: [ R,", "dimensions: [ 1,", "shape.dimensions"),
        ("data-spaces", "data-space", "keys among"),
        ("instance:", "instances:", "keys among .*found instances"),
        ("  shape:\n", "  shape: conv\n  other:\n", "problem.shape: .*'gemm_ABZ'"),
        ("problem:", "problems:", "file.problem: expected a mapping under 'problem'"),
    ],
)
def test_wrong_problems(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in V03
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, V03.replace(old, new))
    assert str(caught.value).startswith(str(tmp_path / "layer.yaml"))


def test_alias_bomb_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    with pytest.raises(InputError, match=r"layer\.yaml:5: .*10,000 values"):
        read(tmp_path, "\n".join(lines))


def test_sizes_that_timeloop_does_not_read_may_stand_in_a_problem(tmp_path: Path) -> None:
    text = V04.replace("Wstride: 2}", "Wstride: 2, H: 32, W: 30, Hpad: 1, Wpad: 1, densities: {}}")
    assert text != V04
    assert read(tmp_path, text).shape == read(tmp_path, V04).shape


def test_a_coefficient_without_its_default_is_not_taken_as_1(tmp_path: Path) -> None:
    path = tmp_path / "layer.yaml"
    path.write_text(V03.replace("{name: Hdilation, default: 3}", "{name: Hdilation, defualt: 3}"))
    with pytest.raises(InputError, match=r"coefficients.defualt: .*found defualt. Did you mean default"):
        read_problem(path)
