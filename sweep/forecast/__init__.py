"""What a study will take, said before it runs: solves counted, a few of them timed, the rest simulated.

``plan.py`` counts designs and solves, and is what a run begins with; start there. ``prediction.py`` says how
long they take on a given number of workers.
"""
