"""A segment whose layers are mapped together on every tile: a fused group as a leaf of a chip's schedule.

``members.py`` says which layers of a chip's network form a group and what passes between them, ``cuts.py``
how tiles divide a group among them, ``cost.py`` what a mapping of each tile's part costs the chip. Start with
``members.py``.
"""
