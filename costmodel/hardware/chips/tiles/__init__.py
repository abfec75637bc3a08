"""The library of tiles: data, no code; the package is there for its files to be installed."""
