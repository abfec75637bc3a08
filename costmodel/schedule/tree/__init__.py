"""Resource-allocation trees (SET, section 3): leaves are layers, an S cut divides tiles, a T cut divides
time.

Start with ``tree.py``, which has the values. ``text.py`` reads and writes trees, ``validity.py`` says why a
tree is not valid (Formulas 1-10), ``data_flow.py`` says where the data that layers read stays on the chip,
and ``spatial_temporal.py`` draws the S-T chart. ``wiring.py`` numbers a network's layers.
"""
