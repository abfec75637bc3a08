"""How far the bound of an assignment has come: it is computed in parts, with a look at the clock between."""

DONE, LEFT = 0, 1
"""The columns of ``Lattice.steps``. DONE: how many steps of a bound are done; 0: the next call begins anew.
LEFT: how many more tiles are looked at before the next look at the clock."""
