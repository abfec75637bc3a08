"""Readers of other people's formats: ONNX, graph JSON, Timeloop, and archsweep's own architecture files."""
