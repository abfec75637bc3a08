"""The designs of a study: what its axes span, and what is known of a design without a solve.

Start with ``design_space.py``, which builds one design after the other and says which meet the constraints;
``axis.py`` has one axis with its choices. ``design_table.py`` has the same as columns, for very many designs,
and ``hardware.py`` the numbers of a design that need no solve.
"""
