"""Several layers mapped together: a tree of loops, of which neighbours share the outer ones.

An intermediate tensor then stays on the chip, in tiles or whole. ``problem.py`` has the chain of einsums and
the levels of memory, ``mapping.py`` the tree (shared loops, backing levels, hoisted tiles, own loops), and
``checker.py`` says why a mapping is not one. ``tree.py`` says which loops stand above every tile,
``movement.py`` counts the words that enter one, ``counts.py`` the reads, fills and updates that follow,
``evaluate.py`` what they cost. ``text.py`` writes the tree for people. Start with ``problem.py``.
"""
