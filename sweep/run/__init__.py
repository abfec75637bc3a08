"""The run: propose designs, solve what they need, record what comes back, until each design has its row.

``run.py`` is the loop: start there; ``block_run.py`` and ``generation_run.py`` are the loops of studies
whose designs wait for nothing of each other. What a design, a schedule or an epoch waits for is in
``ledgers/``; what is told of a run while it goes on is in ``progress/``. ``session.py`` runs a study into
its folder; the command line and ``archsweep.py`` come in there, or in ``finished.py``, which draws the
report as well.
"""
