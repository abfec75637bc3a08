"""One problem, one answer: what ``archsweep solve`` and ``archsweep.solve_mapping`` and its like both ask.

A request holds what the user states, names of the library and files among it; its answer holds the problem
that was solved, the outcome, and what the cost model says of it. Nothing here prints or reads options: the
command line does that with the answer's ``to_json``. Start with ``mapping.py``.
"""
