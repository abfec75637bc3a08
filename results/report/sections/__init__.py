"""The sections of the report, one a module.

Each takes the ``RunData`` of a run and returns a ``ReportSection``, or None where the run has nothing for it.
"""
