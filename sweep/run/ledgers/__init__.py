"""Who waits for which answers. ``waiting_ledger.py`` is the one ledger; start there.

Over it lie the ledgers of designs (a row, once all answers are there), of costs of layers (a schedule, once
the layers that it asks for are costed) and of epochs (the next one, once every seed has ended the last).
Nothing here solves or stores: the run loop does.
"""
