"""The run: propose designs, solve what they need, record what comes back, until each design has its row.

``run.py`` is the loop: start there. Designs, schedules and epochs wait in ledgers of their own, all
of which rest on ``waiting_ledger.py``. ``session.py`` runs a study into its folder; the command line and
``archsweep.py`` come in there, or in ``finished.py``, which draws the report as well.
"""
