"""Layers of a network mapped together on one architecture: shared loops around ordinary mappings.

The tree of shared loops, backing levels and hoisted tiles is that of :mod:`costmodel.mapping.fused.mapping`.
Below its shared loops every layer has a mapping of the part that one iteration leaves of it, counted
as ``evaluate`` counts it.

Start with ``group.py``, which has the layers and what passes between them; ``links.py`` finds that in a
network. ``turns.py`` has the parts of each layer and where its tensors are held; ``sliding.py`` says which
rows of a layer are made when, where a loop over windows further on makes them. ``pipelines.py`` has
layers that run at the same time on parts of the array (``array_parts.py``). ``checker.py`` says why a mapping
is none, ``evaluate.py`` what it costs, and ``text.py`` writes it for people.
"""
