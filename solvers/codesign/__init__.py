"""Architecture and mapping chosen at once."""
