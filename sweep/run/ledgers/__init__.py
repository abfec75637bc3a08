"""Who waits for which answers. ``waiting_ledger.py`` is the one ledger; start there.

Three ledgers lie over it. A design waits for all its answers, and then gets its row. A schedule waits for the
costs of the layers that it asks for. An epoch waits until every seed has ended the one before. Nothing here
solves or stores: the run loop does.
"""
