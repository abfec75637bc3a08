"""Studies that run elsewhere: ``archsweep submit``, ``attach``, ``status``, ``stop``, ``watch``, ``cluster``.

``submit.py`` is the door to a cluster's jobs. ``submit_job.py`` packs a study, its files and the code it
needs; ``plug_in_code.py`` adds that of plug-ins. ``home_copy.py`` keeps the results that come home.
``watch.py`` shows a run from wherever it is, ``watch_job.py`` that of a job which is followed. ``cluster.py``
checks the file that describes a deployment.
"""
