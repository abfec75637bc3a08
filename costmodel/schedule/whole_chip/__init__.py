"""A layer whose loop nest is mapped on all tiles together, its data in DRAM: KAPLA's segments of one layer.

``cost.py`` counts it; ``steps.py`` says what DRAM brings step by step, ``padding.py`` what of a layer's input
no memory holds. Segments of one layer and programs ask here. Start with ``cost.py``.
"""
