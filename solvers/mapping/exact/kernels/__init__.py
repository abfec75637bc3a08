"""The compiled half of the exact mapper: loops over assignments, tiles and loop orders, in machine code.

They work on the arrays of :mod:`solvers.mapping.exact.tables`. In the order of the search:

* ``choice_kernel.py``: cheap bounds of many assignments, from sums over the tensors;
* ``bound_kernel.py``: the close bound of one assignment, from a table over all tiles;
* ``search_kernel.py``: branch and bound over the temporal loops of one assignment.

``assignment_kernel.py`` (what an assignment decides without its loops), ``words_kernel.py`` (words of tiles)
and ``delivery_kernel.py`` (what a decided level adds) count for them.
"""
