"""Solves in blocks: what the driver and its workers exchange where designs wait for nothing of each other.

``block.py`` says what a block is and what comes back, ``block_work.py`` is what a worker does with it,
``closing.py`` makes rows of designs from answers. ``sweep/run/block_run.py`` hands the blocks out; on many
workers ``division.py`` comes between, in sub-drivers.
"""
