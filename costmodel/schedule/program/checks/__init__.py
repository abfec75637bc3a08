"""What the checker of programs looks at, one module for each question; ``../checker.py`` asks them all.

``references.py``: do all numbers name something? ``issued.py``: is each message issued by its sources and
targets, equally often? ``coverage.py``: do the works compute each layer once? ``partial_sums.py``: are
partial sums added up before outputs leave? ``passing.py``: do tiles pass on what they have? ``stores.py``:
has data been stored before it is loaded?
``untimed_run.py``: does the program get to its end, with its data in the buffers?
"""
