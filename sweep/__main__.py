"""``python -m sweep`` in a checkout is ``python -m archsweep``, which a user's ``sweep.py`` cannot hide."""

from archsweep import main

if __name__ == "__main__":
    main()
