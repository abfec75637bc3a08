"""The built-in networks, and networks and layers from files."""

from costmodel.frontends.operators import unsupported_operators
from costmodel.networks.library import load_layer, load_network, network_names

__all__ = ["load_layer", "load_network", "network_names", "unsupported_operators"]
