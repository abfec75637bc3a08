"""The evaluations of five papers, run again with this cost model: ``archsweep paper``.

``paper.py`` has the frame. A paper has a name, the studies that its figures need, and for each figure a
function that makes a table of the studies' rows. Some solves are no study of designs, such as plans of graphs
or architectures for single layers; they run beside the studies, as ``PaperSolves``.

The papers are ``cosa.py``, ``cosma.py`` (with ``cosma_cases.py``), ``kapla.py``, ``set_schedules.py`` and
``thistle.py``. ``reproduction.py`` runs the studies and solves of the chosen figures, each into a run folder
of its own, and writes tables and charts. A new paper is a module here and an entry in ``catalogue.py``.
"""
