"""Solvers that plan an operator graph in a scratchpad."""
