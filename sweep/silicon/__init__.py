"""Machines that were measured, and what the cost model says of the same runs: one module a machine.

A module reads the rows of its machine's measurements, rebuilds what ran as mappings (or programs), and
predicts the figures of every row by the cost model. ``archsweep validate`` and
``benchmarks/silicon_chips.py`` print them.
"""
