"""The study: design space, tasks, the run loop, the command line."""

VERSION = "0.1.0"
"""Of archsweep, as in pyproject.toml: what a driver and its workers must agree on."""

PACKAGES = ("clusters", "costmodel", "results", "solvers", "sweep")
"""The top-level packages that archsweep is made of."""
