"""What no schedule of a network on a chip falls below.

``bounds.py`` puts the bounds on energy and cycles together. ``compulsory.py`` counts what every schedule
moves, ``staying.py`` adds what cannot stay on the chip between producer and consumer, ``waiting.py`` the
time of layers whose weights do not fit the buffers together. Solvers ask here, to say how far from the best
an answer may be.
"""
