"""The built-in deployment files."""
