"""Files in and out: networks, layers, architectures, chips and cases, in every format that we read.

A reader turns a file into our values and nothing else; what it does not understand stays visible or is
refused by name. ``networks.py``, ``layer_graphs.py``, ``architectures.py``, ``chips.py`` and
``technologies.py`` are the doors: they take the name of a built-in thing or a file's path, whatever its
format. Behind them is a folder for each format: ``yaml/`` (our own files), ``json/``, ``onnx/``,
``timeloop/``, ``directives/`` (KAPLA's language), ``cases/`` (mappings with counts) and ``machines/`` (what
chips that exist are told and what was measured on them).
"""
