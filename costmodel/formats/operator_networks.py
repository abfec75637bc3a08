"""Networks as graphs of operators: the built-in ones by name, and those of files, whatever their format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.torch_export import EXPORTED, FORMS
from costmodel.plug_ins import NETWORKS, PlugIn, plug_in, plug_in_names
from costmodel.workload.library.detection import yolov8n
from costmodel.workload.library.diffusion import dit_xl_2, sd_unet
from costmodel.workload.library.inception import googlenet
from costmodel.workload.library.layer_lists import (
    cosa_alexnet,
    cosa_resnet50,
    cosa_resnext50,
    deepbench,
    layer_list,
    thistle_resnet18,
)
from costmodel.workload.library.mobilenet import efficientnet_b0, mobilenet_v2, mobilenet_v4_conv_small
from costmodel.workload.library.plain import alexnet, vgg16, yolo9000
from costmodel.workload.library.residual import resnet18, resnet50, resnext50
from costmodel.workload.library.transformer import bert_base, gpt2, vit_b_16
from costmodel.workload.network import Network

BUILT_IN: dict[str, Callable[[int], Network]] = {
    "resnet18": resnet18,
    "resnet50": resnet50,
    "resnext50": resnext50,
    "mobilenet_v2": mobilenet_v2,
    "vgg16": vgg16,
    "alexnet": alexnet,
    "yolo9000": yolo9000,
    "googlenet": googlenet,
    "bert_base": bert_base,
    "gpt2": gpt2,
    "vit_b_16": vit_b_16,
    "efficientnet_b0": efficientnet_b0,
    "mobilenet_v4_conv_small": mobilenet_v4_conv_small,
    "yolov8n": yolov8n,
    "sd_unet": sd_unet,
    "dit_xl_2": dit_xl_2,
    "deepbench": deepbench,
    "cosa_resnet50": cosa_resnet50,
    "cosa_resnext50": cosa_resnext50,
    "cosa_alexnet": cosa_alexnet,
    "thistle_resnet18": thistle_resnet18,
}
_CONFIGURATIONS = Path(__file__).parents[1] / "workload" / "library" / "configurations"
TRAINING = ".training"
"""The suffix of a network's name, or a file's, that asks for the layers of its training step."""
SUFFIXES = (".onnx", ".pt2", ".json", ".json.gz", ".yaml", ".yml")
"""How the names of networks' files end."""


_PUBLISHED = Path(__file__).parents[1] / "workload" / "library" / "published_networks.json"


@cache
def published_networks() -> Mapping[str, Mapping[str, str]]:
    """By collection, our names of published networks with their authors' names, in the order shown to users.

    ``set`` are the layer graphs of the released SET program; the first five are in the paper's evaluation.
    ``kapla`` are the networks of nn-dataflow and KAPLA; the first seven are in KAPLA's evaluation.
    """
    from costmodel.formats.json.safe_json import load_json

    names: Mapping[str, Mapping[str, str]] = load_json(_PUBLISHED)
    return names


def network_names() -> list[str]:
    """The names of the built-in networks, in the order in which they are shown, and those of plug-ins."""
    return [*BUILT_IN, *(name for name in plug_in_names(NETWORKS) if _built_in(name) is None)]


@cache
def exported_names() -> tuple[str, ...]:
    """The graphs of COSMA's evaluation, exported from PyTorch: NETWORK.fused and NETWORK.raw of each.

    They differ from the networks of :func:`network_names`, some of which have the same names before the
    point: those keep views apart and have the shapes of a paper, these are as PyTorch runs them.
    """
    networks = sorted(file.name.partition(".")[0] for file in EXPORTED.iterdir())
    return tuple(f"{network}.{form}" for network in networks for form in FORMS)


@cache
def configured_names() -> tuple[str, ...]:
    """The models that the library knows by the facts of their published configurations.

    Unlike the networks of :func:`network_names` they have lengths that can be stated.
    """
    return tuple(sorted(file.stem for file in _CONFIGURATIONS.iterdir()))


def takes_dims(name_or_path: str | Path) -> bool:
    """Whether the network has lengths that are stated by name; a training step has those of its network."""
    name = str(name_or_path).removesuffix(TRAINING)
    if name.endswith((".onnx", ".pt2")) or _configured(name) is not None:
        return True
    if not name.endswith((".json", ".json.gz")):
        return False
    from costmodel.formats.hugging_face.reader import is_configuration
    from costmodel.formats.json.safe_json import load_json

    return is_configuration(load_json(name))


def check_dims(name_or_path: str | Path, dims: Mapping[str, int] | None) -> None:
    """InputError for ``dims`` of a network that has no lengths to state."""
    if dims and not takes_dims(name_or_path):
        expected = "no dims but for ONNX files, saved programs (.pt2) and models by their configuration"
        raise InputError(f"network {name_or_path}", expected, dict(dims), key="dims")


def network_file(name_or_path: str | Path) -> str:
    """The file of a plug-in's network that has one, for its name; any other name as it is.

    ``.training`` behind the name stays.
    """
    name = str(name_or_path)
    base = name.removesuffix(TRAINING)
    added = _added(base)
    if added is None or added.attribute:
        return name
    return f"{added.file(SUFFIXES)}{name.removeprefix(base)}"


def operator_network(
    name_or_path: str | Path, batch: int | None, dims: Mapping[str, int] | None
) -> Network | None:
    """The network of that name, built in or a plug-in's function, or of that file; None for what is neither.

    ``batch`` and ``dims`` as of :func:`costmodel.formats.networks.load_network`.
    """
    # Plug-ins first, because asking for one is what finds a name that is taken twice. A file comes last: a
    # file in the current folder must not change what a name of the library means.
    if added := _added(str(name_or_path)):
        return _made_by(added, batch or 1)
    if built_in := _built_in(str(name_or_path)):
        return built_in(batch or 1)
    if str(name_or_path) in exported_names():
        return _exported(str(name_or_path), batch)
    if configured := _configured(str(name_or_path)):
        return _of_configuration(configured, batch, dims or {})
    return _from_file(Path(name_or_path), batch, dims) if str(name_or_path).endswith(SUFFIXES) else None


def _added(name: str) -> PlugIn | None:
    """The plug-in of that name; InputError where a network of the library has it, however it is written."""
    # Names of published networks count too, ours and their authors': otherwise a plug-in called as one of
    # them would silently change what existing studies mean.
    taken = (
        _built_in(name)
        or _configured(name)
        or any(
            name in (*ours, *theirs)
            for ours, theirs in ((n, n.values()) for n in published_networks().values())
        )
    )
    return plug_in(NETWORKS, name, (name,) if taken else ())


def _made_by(added: PlugIn, batch: int) -> Network:
    """What a plug-in's function returns for a batch; InputError where it is no network."""
    function: Any = added.load()
    if not callable(function):
        raise InputError(added.where, "a function from the batch to a Network", function)
    network = function(batch)
    if not isinstance(network, Network):
        raise InputError(added.where, "its function to return a Network", type(network).__name__)
    return network


@cache
def _exported(name: str, batch: int | None) -> Network:
    """A graph of :func:`exported_names`; InputError for a batch that it cannot take."""
    from costmodel.formats.json.fused_graph import fused_graph
    from costmodel.formats.json.graph_json import network_of_graph
    from costmodel.formats.json.safe_json import load_json

    network, _, form = name.partition(".")
    graph = load_json(EXPORTED / f"{network}.raw.json.gz")
    try:
        found = network_of_graph(fused_graph(graph) if form == "fused" else graph, batch)
    except InputError as error:
        raise error.at(f"network {name}") from None
    return replace(found, name=name)


def _built_in(name: str) -> Callable[[int], Network] | None:
    """The network of that name, however it is hyphenated and capitalised."""
    return {_plain(known): build for known, build in BUILT_IN.items()}.get(_plain(name))


def _configured(name: str) -> str | None:
    """The library's own name of a model that it knows by its configuration."""
    return {_plain(known): known for known in configured_names()}.get(_plain(name))


def _of_configuration(name: str, batch: int | None, dims: Mapping[str, int]) -> Network:
    """A model of :func:`configured_names`, with the lengths of its entry where none are stated."""
    from costmodel.formats.hugging_face.reader import network_of_configuration
    from costmodel.formats.json.safe_json import load_json

    entry = load_json(_CONFIGURATIONS / f"{name}.json")
    stated = entry["dims"] | dict(dims)
    return network_of_configuration(entry["configuration"], name, f"network {name}", batch, stated)


def _plain(name: str) -> str:
    """The name as people may write it in several ways: ResNet-50, resnet_50 and resnet50 are one."""
    return name.lower().replace("-", "").replace("_", "").replace("/", "")


def _from_file(path: Path, batch: int | None, dims: Mapping[str, int] | None) -> Network:
    """The network of a file, by the format that its name's end says.

    Each reader is imported where it is used: ONNX's library takes longer to import than most files to read.
    """
    if path.name.endswith(".onnx"):
        from costmodel.formats.onnx.reader import read_onnx

        return read_onnx(path, batch, dims)
    if path.name.endswith(".pt2"):
        from costmodel.formats.json.saved_program import read_saved_program

        return read_saved_program(path, batch, dims)
    if path.name.endswith((".json", ".json.gz")):
        return _from_json(path, batch, dims or {})
    from costmodel.formats.timeloop.problem import read_problem

    if batch is not None:
        raise InputError(
            str(path),
            "no batch for a Timeloop problem, whose sizes are all given",
            batch,
            "Leave the batch out and set the problem's N",
            key="batch",
        )
    layer = read_problem(path)
    return layer_list(layer.name, [layer])


def _from_json(path: Path, batch: int | None, dims: Mapping[str, int]) -> Network:
    from costmodel.formats.hugging_face.reader import is_configuration, network_of_configuration
    from costmodel.formats.json.graph_json import network_of_file
    from costmodel.formats.json.safe_json import load_json

    content = load_json(path)
    if not is_configuration(content):
        return network_of_file(content, path, batch)
    name = path.name.partition(".")[0]
    if name == "config":  # as all of them are called: the model is what the folder is called
        name = path.absolute().parent.name
    return network_of_configuration(content, name, str(path), batch, dims)
