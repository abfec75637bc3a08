"""Why a design costs what it does, from nothing but the rows of its run.

``design.explained(run, design)`` is the value: what binds each layer, where energy goes, what is better
nearby (``neighbour.py``). ``page.py`` draws it.
"""
