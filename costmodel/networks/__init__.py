"""The built-in networks, and networks and layers from files."""

from costmodel.networks.counting import counting_warnings, mapped_layers, size_warnings, uncounted_rows
from costmodel.networks.library import load_layer, load_network, network_around, network_names

__all__ = [
    "counting_warnings",
    "load_layer",
    "load_network",
    "mapped_layers",
    "network_around",
    "network_names",
    "size_warnings",
    "uncounted_rows",
]
