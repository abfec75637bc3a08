"""Solvers for one layer on one architecture."""
