"""Pareto fronts: which designs are on one, how certain that is, how the search got there, which axes matter.

Start with ``pareto.py``. This reads run folders by ``results.store``; ``report/`` draws what is found here.
"""
