"""Hugging Face's ``config.json`` as networks: a model's sizes, by the name of its architecture.

``reader.py`` is where to start: it has the table of architectures. A reader of an architecture takes the keys
that decide what is computed (``configuration.py``), refuses any that it does not know, and hands the facts to
the builders of :mod:`costmodel.workload.library`.
"""
