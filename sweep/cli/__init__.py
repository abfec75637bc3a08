"""The ``archsweep`` command: options, printed answers, exit status. Start with ``main.py``; nothing here
computes.

``main.py`` has the commands and hands each to the module of its name. ``arguments/`` checks words of a
command line, ``solve/`` and ``evaluate/`` have the commands of one problem, ``measured/`` those that hold a
machine's measured runs against the cost model, ``jobs/`` those of studies that run on a cluster.
``messages.py`` says how every command speaks and ends.
"""
