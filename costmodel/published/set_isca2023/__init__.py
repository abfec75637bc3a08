"""What the released SET evaluator counts for an RA tree.

The semantics are those of SET-ISCA2023 at commit a7bd739, bug by bug, so that its published numbers can be
checked. Two of the bugs: weights are charged once for the whole run although the paper reloads them, and
where outputs are concatenated on the chip only the first producer sends anything. Start with
``evaluator.py``, which counts a tree from the root down; ``incremental.py`` counts the same, faster.
"""
