"""Deployment files: the built-in ones in ``files/``, and what is wrong with one before a cluster is started
from it.
"""
