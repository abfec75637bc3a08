"""Where tasks run: in this process, or on Ray, on a laptop as on a cluster."""
