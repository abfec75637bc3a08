"""Run folders behind a URI: fetched before a run, sent while it writes.

``run_folder.py`` is the door.
"""
