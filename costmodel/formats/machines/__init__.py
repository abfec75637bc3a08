"""Machines that exist: mappings in their own notation, and runs measured on them.

``row_stationary.py`` reads the notation of the Eyeriss papers, ``gemmini.py`` writes the arguments of
Gemmini's tiled calls, ``measurements.py`` reads measured runs and ``gemmini_runs.py`` those of Gemmini's
RTL.
"""
