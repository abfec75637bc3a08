"""The runtime on Ray: one worker process for each CPU of a cluster.

``actors.py`` is what others import. It hands items out and takes results in; ``pool.py`` starts and ends the
workers, ``worker.py`` is what runs in each; ``sub_driver.py`` feeds some of many workers. Only this folder,
``jobs/`` and ``deployment/`` import ``ray``.
"""
