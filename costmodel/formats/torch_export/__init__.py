"""PyTorch's exported programs as operator graphs. Its modules need torch, and nothing else imports them.

``exported_graph.py`` turns a program into a graph. ``published_models.py`` is a program that exports the
networks of COSMA's evaluation, most of them from torchvision and timm; ``searched_networks.py`` builds the
two that no package has. What it wrote came with the package, so that nobody needs torch to plan them.
``onnx_export.py`` and ``program_export.py`` write the small models of ``small_models.py`` for tests of what
reads such files.
"""

from __future__ import annotations

from pathlib import Path

EXPORTED = Path(__file__).parents[2] / "workload" / "library" / "exported"
"""The folder of what was exported: NETWORK.raw.json.gz."""

FORMS = ("fused", "raw")
"""How an exported graph can be taken: with fused operators, or with one for every ATen operation."""
