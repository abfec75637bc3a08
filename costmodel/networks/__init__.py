"""The built-in networks, and networks and layers from files."""

from costmodel.networks.counting import counting_warnings, mapped_layers, uncounted_rows
from costmodel.networks.library import layers_beside, load_layer, load_network, network_names

__all__ = [
    "counting_warnings",
    "layers_beside",
    "load_layer",
    "load_network",
    "mapped_layers",
    "network_names",
    "uncounted_rows",
]
