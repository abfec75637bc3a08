"""What released tools count for the same decision: for validation, and for reading the papers.

``set_isca2023/`` counts as SET's released evaluator does, ``nn_dataflow/`` as nn-dataflow 2.1 does, the tool
behind KAPLA. No solver and no study takes a number from here. Only tests, benchmarks and `archsweep evaluate`
use this package, the last through ``registration.py``.
"""
