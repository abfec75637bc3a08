"""Prints a file as one line whenever it has changed; it travels as one file and needs nothing but Python.

    python job_file.py FILE SECONDS MOST_BYTES

It ends after SECONDS, or once it has printed MOST_BYTES: its log stays on the head, and the one who asked may
be gone. A follower that still wants to know starts it again.
"""

import base64
import os
import sys
import time
import zlib
from collections.abc import Iterator

MARK = "archsweep-file:"
LOOK_SECONDS = 1.0


def lines(path: str, seconds: float, most_bytes: int) -> Iterator[str]:
    """A line for the file as it is, and one whenever it has changed; none while there is no file."""
    ending, left, before = time.monotonic() + seconds, most_bytes, b""
    while left > 0 and time.monotonic() < ending:
        try:
            with open(path, "rb") as file:
                found = file.read()
        except OSError:
            found = b""  # not there yet
        if found not in (b"", before):
            before = found
            line = line_of(found)
            left -= len(line)
            yield line
        time.sleep(LOOK_SECONDS)


def line_of(content: bytes) -> str:
    return MARK + base64.b64encode(zlib.compress(content)).decode()


if __name__ == "__main__":
    for line in lines(os.path.expanduser(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])):
        print(line, flush=True)
