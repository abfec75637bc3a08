"""Resource-allocation trees (SET, section 3): leaves are layers, an S cut shares tiles, a T cut shares time.

``tree.py`` has the values, ``text.py`` reads and writes them, ``validity.py`` says what is wrong with one,
``data_flow.py`` and ``segment_flow.py`` who reads whose outputs, and ``spatial_temporal.py`` draws the S-T
chart.
"""
