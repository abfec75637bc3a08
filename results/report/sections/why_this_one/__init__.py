"""Why this design: its layers, where its energy goes, which axes decide, and how its networks run on it.

Start with ``chosen.py``, the panel of the design that the reader points at; ``compare.py`` puts it beside the
study's baseline. ``schedules.py`` is for chips, ``fusion.py`` for layers mapped together, ``memory.py`` for
plans of a scratchpad.
"""
