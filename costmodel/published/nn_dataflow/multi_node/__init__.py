"""Multi-node accelerators after KAPLA's template (Fig 4), and the two devices of its evaluation.

The paper prints unit costs, the released files hold others (registers, buffers and DRAM differ 2 to 3.1
times); the files here have both, and
:func:`~costmodel.published.nn_dataflow.multi_node.library.load_multi_node` asks which.
"""
