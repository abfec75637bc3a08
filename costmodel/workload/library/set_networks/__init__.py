"""Layer graphs of the networks that the released SET program comes with."""
