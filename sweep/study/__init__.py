"""The study: from its file to checked values.

Start with ``study.py``, the whole file. Its blocks have modules of their own: ``network_choice.py``,
``mapping_space.py``, ``search_choice.py`` and ``schedule_choice.py``; ``number_keys.py`` has the
numbers that several blocks share. ``study_names.py`` loads the networks, hardware and solvers that a study
names.

``designs/`` has the designs that the axes span. ``hardware_space.py`` and ``timeloop_space.py`` read the
constraints on mappings that architecture files state. ``identity.py`` has the hashes by which equal content
is known; ``lock.py`` and ``plug_ins.py`` record what ran.
"""
