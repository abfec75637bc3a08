"""``python -m sweep`` is the ``archsweep`` command, but for a user's ``sweep.py`` in the current folder.

Of the others of our packages a file of that name there is not in the way: they are imported first, from where
this one is.
"""

import sys
from importlib import import_module
from pathlib import Path

import sweep

HOUSE = str(Path(sweep.__file__).resolve().parents[1])

sys.path.insert(0, HOUSE)
for name in sweep.PACKAGES:
    import_module(name)
sys.path.remove(HOUSE)

from sweep.command_line import main  # noqa: E402 - after the lines that say where it is from

if __name__ == "__main__":
    main()
