"""Freezes the answers of solvers, or the counts of the cost model, as they are now.

    python tests/solvers/golden/freeze.py [NAME ...]

Without names: of all. Answers that changed while their version did not are refused, with status 1: results
stored by users are reused as long as the version stays, so such a change would hand out stale answers.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))  # this and the next as pytest has them
sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.solvers.golden.frozen import NAMES, changed, complaint, freeze, frozen, now


def main(names: list[str]) -> int:
    if unknown := sorted(set(names) - set(NAMES)):
        print(f"no golden answers of {', '.join(unknown)}; there are {', '.join(NAMES)}")
        return 2
    found, status = frozen(), 0
    for name in names or NAMES:
        before, after = found.get(name), now(name)
        if before and changed(before, after) and before["version"] == after["version"]:
            print(complaint(name, before, after))
            status = 1
            continue
        found[name] = after
        print(f"{name}, version {after['version']}: {len(after['answers'])} answers frozen")
    freeze(found)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
