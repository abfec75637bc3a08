"""One problem, one answer: behind ``archsweep solve`` and functions such as ``archsweep.solve_mapping``.

A request holds what the user states, such as names of the library and files. Its answer holds the problem
that was solved, the outcome, and the cost model's evaluation. Nothing here prints or reads options: the
command line does that, with the answer's ``to_json``. Start with ``mapping.py``.
"""
