"""Technologies, architectures and networks of plug-ins, and what happens where plug-ins are wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import FOLDER as ARCHITECTURES
from costmodel.formats.architectures import architecture_names, load_architecture, named_technology
from costmodel.formats.layer_graphs import layer_graph_names, load_layer_graph
from costmodel.formats.networks import load_layer, load_network
from costmodel.formats.operator_networks import network_names
from costmodel.formats.technologies import FOLDER as TECHNOLOGIES
from costmodel.formats.technologies import load_technology, technology_names
from costmodel.plug_ins import plug_in_names
from tests.installed import install, on_path

PROBLEM = (Path(__file__).parents[1] / "data" / "problems" / "gemm.yaml").read_text(encoding="utf-8")
NETWORK = """
from costmodel.workload.library.layer_lists import layer_list
from costmodel.workload.network import gemm


def stack(batch):
    return layer_list("stack", [gemm("first", M=4 * batch, N=6, K=8), gemm("second", M=4 * batch, N=2, K=6)])


def nothing(batch):
    return None
"""
Find = Callable[[str], object]
FINDERS: dict[str, tuple[Find, str]] = {
    "technologies": (load_technology, "thistle-45nm"),
    "architectures": (load_architecture, "eyeriss"),
    "networks": (load_network, "resnet18"),
}


@pytest.fixture
def chips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution with one of each; its architecture is Eyeriss in its technology, which costs twice."""
    technology = (TECHNOLOGIES / "thistle-45nm.yaml").read_text(encoding="utf-8")
    architecture = (ARCHITECTURES / "eyeriss.yaml").read_text(encoding="utf-8")
    assert "technology: thistle-45nm" in architecture
    install(
        tmp_path,
        "acme-chips",
        {
            "archsweep.technologies": {"acme-45nm": "acme_chips"},
            "archsweep.architectures": {"acme_edge": "acme_chips"},
            "archsweep.networks": {"acme_gemm": "acme_chips", "acme_stack": "acme_chips.networks:stack"},
        },
        {
            "acme_chips/__init__.py": "",
            "acme_chips/networks.py": NETWORK,
            "acme_chips/acme_gemm.yaml": PROBLEM,
            "acme_chips/acme-45nm.yaml": technology,
            "acme_chips/acme_edge.yaml": architecture.replace(
                "technology: thistle-45nm", "technology: acme-45nm"
            ),
        },
    )
    return on_path(tmp_path, monkeypatch)


def test_a_plug_in_s_technology_and_architecture_are_found_by_name(chips: Path) -> None:
    assert technology_names()[-1] == "acme-45nm"
    assert architecture_names()[-1] == "acme_edge"
    assert load_technology("acme-45nm") == load_technology("thistle-45nm")
    assert named_technology("acme_edge") == "acme-45nm"
    ours, theirs = load_architecture("eyeriss"), load_architecture("acme_edge")
    assert theirs.levels == ours.levels
    file = chips / "acme_chips" / "acme-45nm.yaml"
    assert "mac" in file.read_text()
    smaller = load_architecture("acme_edge", {"SRAM.size": "2 KiB"})
    assert smaller.levels != theirs.levels


def test_a_plug_in_s_networks_are_found_by_name(chips: Path) -> None:
    assert network_names()[-2:] == ["acme_gemm", "acme_stack"]
    (layer,) = load_network("acme_gemm").layers
    assert load_layer(f"acme_gemm/{layer.name}") == layer
    assert [layer.sizes["M"] for layer in load_network("acme_stack", 3).layers] == [12, 12]
    with pytest.raises(InputError, match="no batch for a Timeloop problem"):
        load_network("acme_gemm", 2)


def test_a_network_of_a_plug_in_runs_on_a_chip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a function that makes one of the library's graphs, and its training step by the suffix."""
    text = "from costmodel.workload.library.plain import alexnet\n"
    points = {"archsweep.networks": {"acme_net": "acme_alexnet:alexnet"}}
    on_path(install(tmp_path, "acme", points, {"acme_alexnet.py": text}), monkeypatch)
    assert load_layer_graph("acme_net").layers == load_layer_graph("alexnet").layers
    assert load_layer_graph("acme_net.training").layers == load_layer_graph("alexnet.training").layers


def test_nothing_is_imported_before_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = {f"archsweep.{kind}": {"acme_broken": "acme_broken_package"} for kind in FINDERS}
    on_path(install(tmp_path, "acme", points, {"acme_broken_package/__init__.py": "1 / 0\n"}), monkeypatch)
    for kind, (find, ours) in FINDERS.items():
        assert plug_in_names(f"archsweep.{kind}") == ["acme_broken"]
        assert find(ours)
        with pytest.raises(InputError, match=r"of acme 1\.2 .*ZeroDivisionError.*uninstall acme"):
            find("acme_broken")


@pytest.mark.parametrize("kind", FINDERS)
def test_a_name_of_ours_is_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's results change because somebody installed something: the name is ambiguous, and it is said."""
    find, ours = FINDERS[kind]
    points = {f"archsweep.{kind}": {ours: "acme_package"}}
    on_path(install(tmp_path, "acme", points, {"acme_package/__init__.py": ""}), monkeypatch)
    with pytest.raises(
        InputError, match=r"of acme 1\.2 .*that archsweep does not use itself.*Uninstall acme"
    ):
        find(ours)


def test_other_spellings_and_networks_for_chips_are_ours_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for_chips = next(known for known in layer_graph_names() if known not in network_names())
    points = {"archsweep.networks": {for_chips: "acme_nets:stack", "ResNet-18": "acme_nets:stack"}}
    on_path(install(tmp_path, "acme", points, {"acme_nets.py": NETWORK}), monkeypatch)
    for taken in (for_chips, "ResNet-18"):
        for find in (load_network, load_layer_graph):
            with pytest.raises(InputError, match="that archsweep does not use itself"):
                find(taken)


@pytest.mark.parametrize("kind", FINDERS)
def test_two_of_one_name_are_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("acme", "bcme"):
        points = {f"archsweep.{kind}": {"mine": f"{name}_package"}}
        install(tmp_path, name, points, {f"{name}_package/__init__.py": ""})
    on_path(tmp_path, monkeypatch)
    with pytest.raises(InputError, match=r"acme 1\.2 and bcme 1\.2"):
        FINDERS[kind][0]("mine")


def test_of_two_copies_the_first_on_the_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job's folder has a copy of what may be installed on the cluster as well."""
    for copy, version in (("old", "1.0"), ("new", "2.0")):
        points = {"archsweep.networks": {"mine": "twice_package:stack"}}
        install(tmp_path / copy, "acme", points, {"twice_package.py": NETWORK}, version)
        on_path(tmp_path / copy, monkeypatch)
    assert len(load_network("mine").layers) == 2


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        ("acme_odd.networks:missing", "AttributeError"),
        ("acme_odd.networks:nothing", "to return a Network, found NoneType"),
        ("acme_odd.networks:__doc__", "a function from the batch to a Network"),
        ("acme_odd", r"no such file in .*acme_odd"),
        ("acme_odd.networks", "which is no package"),
        ("no_such_module_of_acme", "ModuleNotFoundError"),
    ],
)
def test_a_network_that_is_none_is_refused(
    point: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"acme_odd/__init__.py": "", "acme_odd/networks.py": NETWORK}
    on_path(install(tmp_path, "acme", {"archsweep.networks": {"mine": point}}, files), monkeypatch)
    with pytest.raises(InputError, match=reason) as caught:
        load_network("mine")
    assert "acme 1.2" in str(caught.value)


@pytest.mark.parametrize("name", ["my.net", "my net", "é"])
def test_a_name_that_looks_like_something_else_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {"archsweep.technologies": {name: "acme_names"}}
    on_path(install(tmp_path, "acme", points, {"acme_names/__init__.py": ""}), monkeypatch)
    with pytest.raises(InputError, match="a name of letters, digits"):
        load_technology(name)
