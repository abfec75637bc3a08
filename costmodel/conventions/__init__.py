"""What published tools count for a decision, to validate ours and read theirs; no study uses it."""
