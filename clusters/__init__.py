"""Where tasks run: in this process, or on Ray, on a laptop as on a cluster.

Start with ``runtime.py``, the protocol that callers use; ``in_process.py`` and ``ray/`` are its two forms.
``jobs/`` submits a study to a cluster's head, ``deployment/`` checks cluster files. A runtime knows keys and
payloads, not studies: this package imports none of the other four.
"""
