"""The study: from its file to checked values.

Start with ``study.py``; ``design_space.py`` has the designs that its axes span.
"""
