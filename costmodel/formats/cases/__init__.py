"""Cases: a mapping with what Timeloop counted for it, in the form of the files in ``tests/data/timeloop``.

``folder.py`` reads a folder of them; the other modules read one part of a case each.
"""
