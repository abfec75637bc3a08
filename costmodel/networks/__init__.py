"""The built-in networks, and networks and layers from files."""

from costmodel.frontends.operators import unsupported_operators
from costmodel.networks.library import layers_beside, load_layer, load_network, network_names

__all__ = ["layers_beside", "load_layer", "load_network", "network_names", "unsupported_operators"]
