"""What released tools count for the same decision: for validation, and for reading the papers.

``set_isca2023/`` counts as SET's released evaluator, ``nn_dataflow/`` as nn-dataflow 2.1, the tool behind
KAPLA. No solver and no study takes a number from here. Only tests, benchmarks and ``registration.py``,
through which `archsweep evaluate` reads the tools' files, come in.

"""
