"""How layers are cut among tiles: boxes of iteration spaces, their images in tensors, and messages.

A box has one interval of indices for each dim of a loop nest, or for each axis of a tensor. Four steps lead
from a partition to the messages on a chip, and they are the same for all kinds of layers:

1. ``partition.py`` cuts an iteration space (a loop nest; a layer's is ``NetworkLayer.space``) into one box a
   tile;
2. ``images.py`` finds the elements that a tile reads and makes: the images of its box under the projections;
3. ``layer_graph/sources.py`` says which layer computes which channels of a tensor, or that DRAM has them;
4. a message is the intersection of what a consumer's part needs with what a producer's part makes: the chip
   model counts these in ``leaf/kernels``, and programs write them in ``program/segment_messages.py``. Tests
   list them one by one and hold both to that.

``arrays.py`` has the arithmetic of boxes. Start with ``images.py``. Nothing here knows whose outputs a layer
reads: layer graphs import boxes.
"""
