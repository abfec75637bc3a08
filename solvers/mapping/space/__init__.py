"""The space of mappings that a problem allows, for every mapping solver.

``rules.py`` says what is allowed: which tensors a level keeps, the user's constraints, padding. ``space.py``
counts and draws mappings, ``neighbours.py`` lists the neighbours of one, ``obstacles.py`` says why a space is
empty, ``space_bounds.py`` bounds all of it, and ``rule_violations.py`` checks a mapping independently of
every solver.
"""
