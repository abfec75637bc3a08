"""Transfers between DRAM and tiles, and among tiles, as bytes on the links of the mesh.

Routes go along the row of the source first (XY routing); a multicast is one tree. Files that end in
``_kernel`` are compiled.
"""
