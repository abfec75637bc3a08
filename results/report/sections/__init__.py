"""The sections of the report, one a module: each takes what ``results.report.data`` read and returns HTML."""
