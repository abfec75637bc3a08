"""Pareto fronts: which designs are on one, how certain that is, and how the search got there."""
