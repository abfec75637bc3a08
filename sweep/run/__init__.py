"""The run: propose designs, submit what they need, record what comes back. Start with ``run.py``."""
