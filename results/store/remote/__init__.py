"""Run folders behind a URI, such as ``s3://bucket/runs/study``: fetched before a run, sent while it writes.

Start with ``mirrored`` in ``run_folder.py``: a run calls nothing else. The run itself writes to a folder of
this machine, so a slow or dead store delays no solve.
"""
