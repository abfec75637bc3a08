"""Multi-node accelerators after KAPLA's template (Fig 4), and the two devices of its evaluation.

The unit costs that the paper prints differ from those of its released files: those of registers, buffers and
DRAM by factors of 2 to 3.1. The files here have both, and
:func:`~costmodel.published.nn_dataflow.multi_node.library.load_multi_node` asks which to use.
"""
