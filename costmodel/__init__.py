"""What a decision costs: the one count of accesses, energy, cycles and bytes. No search happens here.

``workload/`` is what is computed and ``hardware/`` what computes it. ``mapping/`` counts one layer on one
architecture, ``schedule/`` a network on a chip of tiles, ``scratchpad/`` a network in one buffer.
``formats/`` reads and writes files.
``published/`` counts as released tools do, to validate ours. Start with ``workload/network.py``,
``hardware/architecture.py`` and ``mapping/evaluate.py``. This package imports none of the other four.

"""

MODEL_VERSION = "19"
"""Changes whenever the model counts anything differently: answers of another version are not reused."""
