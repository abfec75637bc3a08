"""KAPLA's tensor-centric dataflow directives (section III-B): values, text, counts, loops, pipelines.

Directives say what buffers hold and how that moves, not which loops run. For each level of a layer, innermost
first, ``tensor`` says what one buffer holds of a tensor, ``stack`` how the next buffers differ from it, and
``update`` how all of them move on in time. Start with ``values.py``; ``counts.py`` counts accesses.

CONV:
  REGF:
    tensor{0}(N=1, C=2, Xi=5, Yi=1)
    ...
    stack(S+=1, Yi+=1, 5)
    update(C+=2)
"""
