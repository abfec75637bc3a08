"""Evaluations of papers, as studies: ``archsweep paper``.

``paper.py`` has the frame: a paper is a name, the studies that its figures need, and a function a figure
that makes a table of their rows. Solves that are no study of designs (plans of graphs, architectures for
single layers) are run beside the studies, as ``PaperSolves``. ``cosa.py``, ``cosma.py`` and ``thistle.py``
are the papers. ``reproduction.py`` runs what the figures asked for need, each study into a run folder of its
own, and writes tables and charts. A new paper is a module here and an entry in ``catalogue.py``.
"""
