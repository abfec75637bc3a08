"""What a study asks for and how long it will take, before anything runs. Start with ``plan.py``."""
