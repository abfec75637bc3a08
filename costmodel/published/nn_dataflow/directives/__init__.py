"""KAPLA's tensor-centric dataflow directives (section III-B): values, text, counts, loops, pipelines.

CONV:
  REGF:
    tensor{0}(N=1, C=2, Xi=5, Yi=1)
    ...
    stack(S+=1, Yi+=1, 5)
    update(C+=2)
"""
