"""The built-in studies."""
