"""What computes: an architecture, a chip of tiles, and the technology that says what their parts cost.

An :class:`~costmodel.hardware.architecture.Architecture` is a stack of storage levels over an array of MAC
units. A :class:`~costmodel.hardware.chip.Chip` is a mesh of tiles with links and DRAM. ``technology.py`` has
the laws of energy (pJ) and area (um2). ``architectures/``, ``chips/`` and ``technologies/`` are the
libraries, one file for each entry. Start with ``architecture.py``. Nothing here knows mappings.
"""
