"""``python -m sweep`` is the ``archsweep`` command."""

from sweep.command_line import main

if __name__ == "__main__":
    main()
