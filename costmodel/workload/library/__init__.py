"""The built-in networks. Each module builds a family of them; ``builder.py`` is what they build with.

``set_networks/`` and ``nn_dataflow_networks.json.gz`` hold the networks that SET and KAPLA published, as they
published them. ``configurations/`` has models by their configuration: an entry names the repository whose
``config.json`` has the facts (``source``), the parameters that it publishes (``parameters``, which a test
compares) and the lengths where none are stated (``dims``).

A network is found by its name through :mod:`costmodel.formats.networks`.
"""
