"""``archsweep validate`` and ``calibrate``: measured runs of a machine beside what the cost model says.

``validate.py`` reads the runs and compares; ``calibrate.py`` fits the machine's timing constants to them.
"""
