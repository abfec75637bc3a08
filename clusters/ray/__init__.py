"""The runtime on Ray.

``ray_actors.py`` is the door; only this folder and ``jobs``, ``deployment`` import ``ray``.
"""
