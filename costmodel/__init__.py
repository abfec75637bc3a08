"""What a decision costs: workloads, hardware, mappings, traffic, energy, latency, area. Pure; no search."""

MODEL_VERSION = "1"
"""Changes whenever the model counts anything differently: answers of another version are not reused."""
