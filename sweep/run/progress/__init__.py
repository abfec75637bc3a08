"""What is told of a run while it goes on. ``observer.py`` says what there is to hear; start there.

``run_tally.py`` counts it, for the progress bar and for Python; ``live_progress.py`` writes it to a file
every second, which ``archsweep watch`` shows.
"""
