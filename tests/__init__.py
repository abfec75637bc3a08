"""The tests mirror the five packages; what several of them need is imported as ``tests.sweep.ended``."""
