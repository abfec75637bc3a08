"""The compiled loops of a leaf's search; ``leaf.py`` and ``reduction.py`` beside this folder call them.

Start with ``leaf_kernel.py``, which tries every partition in every placement. ``ranges_kernel.py`` finds
which data every part needs, ``overlap_kernel.py`` what producers hold of it, ``placement_kernel.py`` on which
tiles parts lie, and ``transfer_kernel.py`` counts all transfers of a placed leaf over the mesh.
``reduction_kernel.py`` counts leaves whose input channels are cut, ``volumes_kernel.py`` the elements that
parts read. ``leaf_values.py`` has the records that they compute with.
"""
