"""The operators that change an RA tree (SET, section 4.2.1); an annealing draws one of them each round.

Start with ``operators.py``, the six operators at a random leaf, as in SET's released program.
``printed_operators.py`` has them at a random cut, as the paper's text says. ``editing.py`` changes frozen
trees and keeps their batches consistent, and ``row_bands.py`` adds operators for bands of rows.
"""
