"""``archsweep evaluate`` and ``list``: count what a file states, and show what is in the library."""
