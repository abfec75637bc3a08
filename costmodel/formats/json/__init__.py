"""JSON files: networks as operator graphs or as chips' layer graphs, and programs of chips.

``safe_json.py`` reads any JSON file from a stranger, bounded in size and depth, and ``json_fields.py``
takes its fields by type; ``fused_graph.py`` fuses the operators of a graph. ``saved_program.py`` reads what
``torch.export.save`` wrote, whose graph is JSON. Each other module reads one kind of file, and
``programs.py`` (of chips) writes its kind, too.
"""
