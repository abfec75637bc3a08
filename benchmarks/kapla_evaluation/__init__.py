"""The cells, methods, networks and charts of KAPLA's evaluation (section VI), for ``kapla_paper.py``."""
