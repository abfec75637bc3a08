"""How designs are proposed: all of a grid, at random, or by Optuna's samplers.

The run asks a search for designs and tells it their rows; plans count what it will propose. Start with
``search.py``; only ``optuna_search.py`` knows Optuna.
"""
