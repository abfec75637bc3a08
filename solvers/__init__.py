"""How to find good decisions: one folder a family, one module or folder a solver, every answer an Outcome.

A solver takes a problem and a budget. Its Outcome has the objective as the cost model counts it, and a proven
lower bound or none. ``catalogue.py`` lists all solvers; ``outcome.py`` and ``budget.py`` are the contract.
``portfolio.py`` is what portfolios of solvers share. Solvers import ``costmodel`` and nothing else of ours.

"""
