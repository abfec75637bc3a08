"""The built-in networks. Each module builds a family of them; ``builder.py`` is what they build with.

``set_networks/`` and ``nn_dataflow_networks.json.gz`` hold the networks that SET and KAPLA published, as they
published them. A network is found by its name through :mod:`costmodel.formats.networks`.
"""
