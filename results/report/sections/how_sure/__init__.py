"""How sure is that: what was proven of each solve, and how far the search had come.

``solves.py`` shows statuses and gaps of all solves: how much better a mapping could be. ``progress.py`` shows
the hypervolume of the front as the search went on: whether better designs were still being found.
"""
