"""Where tasks run: in this process, or on Ray, on a laptop as on a cluster.

``runtime.py`` is the protocol; ``in_process.py`` and ``ray/`` are its two forms. ``jobs/`` submits a study to
a cluster's head, ``deployment/`` checks cluster files. A runtime knows payloads, not studies: this package
imports none of the other four.

"""
