"""Networks from ONNX files. ``reader.py`` is the door; only this folder imports ``onnx``."""
