"""The ``archsweep`` command: options, printed answers, exit status. Start with ``main.py``; nothing here
computes.
"""
