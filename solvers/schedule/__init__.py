"""How to run a whole network on a tiled chip."""
