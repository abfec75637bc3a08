"""Jobs on a Ray cluster through its dashboard: submit, follow, stop, and bring results home."""
