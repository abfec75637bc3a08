"""From a network to the layers of a chip's schedule, node by node.

``reader.py`` comes first: it goes through the nodes in order and refuses by name what a schedule cannot have.
Each node changes two things. ``layout.py`` says of a value where its elements lie: which layer computes which
of its channels, rows and columns. ``drafts.py`` has the layers made so far. ``data.py`` makes layers without
products, ``products.py`` those with them: by ``contraction.py`` where every axis of the operands is known, by
``folded.py`` where the file leaves out the views in front of a product. ``views.py`` has reshapes, transposes
and slices, which compute nothing. Others import ``reader``.
"""
