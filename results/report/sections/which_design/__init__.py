"""Which design should I take: the front, its designs as a table, and all designs across their axes.

Start with ``front.py``. It draws a few thousand designs one by one and counts the others in cells, so that a
page of half a million designs still opens.
"""
