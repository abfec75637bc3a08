"""Evaluations of papers, as studies: ``archsweep paper``.

``paper.py`` has the frame: a paper is a name, the studies that its figures need, and a function a figure
that makes a table of the studies' rows. ``cosa.py`` is one. ``reproduction.py`` runs the studies of the
figures asked for, each into a run folder of its own, and writes tables and charts. A new paper is a module
here and an entry in ``catalogue.py``.
"""
