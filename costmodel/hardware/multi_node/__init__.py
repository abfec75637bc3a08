"""Multi-node accelerators after KAPLA's template (Fig 4), and the devices of its evaluation.

``template.py`` is the template, ``derived.py`` a device as an architecture, one node of it, and a chip. The
unit costs that the paper prints differ from those of its released files: those of registers, buffers and DRAM
by factors of 2 to 3.1. The files here have both, and :func:`costmodel.formats.multi_nodes.load_multi_node`
asks which to use.
"""
