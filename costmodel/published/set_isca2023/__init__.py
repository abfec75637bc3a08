"""What the released SET evaluator counts for an RA tree.

The semantics are those of SET-ISCA2023 at commit a7bd739, bug by bug, so that its published numbers can be
read and checked: among others weights are charged once a run although the paper reloads them, and of outputs
that are concatenated on the chip only the first producer's are sent. Start with ``evaluator.py``.
"""
