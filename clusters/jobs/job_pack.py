"""Prints a folder's result files as lines of JSON; it travels as one file and needs nothing but Python.

    python job_pack.py FOLDER MOST_BYTES KNOWN

KNOWN is a file with an object of JSON: the SHA-256 of each file that need not be printed, by its name.
"""

import base64
import hashlib
import json
import os
import sys
from collections.abc import Iterator

MARK = "archsweep-pack:"
SUFFIXES = (".parquet", ".yaml")
"""The report is drawn anew where the rows arrive."""
TABLES = ("layers", "fusions", "scratchpads", "tile_costs", "schedules", "programs", "codesigns", "designs")
"""Folders of a run folder; designs last, for they rest on the rows of the others."""


def result_files(folder: str) -> Iterator[str]:
    """Finished files of the folder and its tables, relative to it, in the order of their writing."""
    for below in ("", *TABLES):
        path = os.path.join(folder, below)
        for name in sorted(os.listdir(path)) if os.path.isdir(path) else ():
            if name.endswith(SUFFIXES) and not name.startswith("."):
                yield os.path.join(below, name)


def pack(folder: str, most_bytes: int, known: dict[str, str]) -> Iterator[dict[str, object]]:
    """An entry for each file whose digest is not ``known``, at most about ``most_bytes``; then one of all."""
    sent, more, names = 0, False, []
    for name in result_files(folder):
        try:
            with open(os.path.join(folder, name), "rb") as file:
                content = file.read()
        except FileNotFoundError:
            continue  # joined into a later part, which is still to come
        names.append(name)
        digest = hashlib.sha256(content).hexdigest()
        if known.get(name) == digest:
            continue
        if sent and sent + len(content) > most_bytes:
            more = True
            continue
        sent += len(content)
        yield {"name": name, "sha256": digest, "data": base64.b64encode(content).decode()}
    yield {"all": names, "more": more}


if __name__ == "__main__":
    with open(sys.argv[3], encoding="utf-8") as known:
        digests = json.load(known)
    for entry in pack(os.path.expanduser(sys.argv[1]), int(sys.argv[2]), digests):
        print(MARK + json.dumps(entry), flush=True)
