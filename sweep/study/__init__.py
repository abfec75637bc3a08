"""The study: from its file to values that are checked. Start with ``study.py``; ``space.py`` has the design
space.
"""
