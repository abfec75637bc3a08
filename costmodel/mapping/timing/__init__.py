"""Timed cycles: what a mapping takes on a machine whose architecture file has ``timing:``.

``walk`` says in which steps a machine runs a mapping, ``counts`` what the steps ask for (passes, requests,
beats, lines), ``caches`` which lines miss, and ``cycles`` what all of it takes.
"""
