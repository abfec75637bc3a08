"""archsweep finds the best schedule for every candidate accelerator of a family, over a Ray cluster.

The command ``archsweep`` and ``python -m archsweep`` both run :func:`main`. All that archsweep does
lies in the five packages beside this file.
"""

from __future__ import annotations

import sys
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

__all__ = ["main"]

_FOLDER = Path(__file__).parent.resolve()
_PACKAGES = ("clusters", "costmodel", "results", "solvers", "sweep")


def main() -> None:
    """Run the command that ``sys.argv`` states, and end the process with its exit status.

    0: done; 1: the work failed or was stopped; 2: the input was wrong, or a file has a package's name.
    """
    _import_packages()
    from sweep.command_line import main as command

    command()


def _import_packages() -> None:
    """Import the packages from one folder, whatever else has their names; the current folder comes last.

    ``python -m`` has Python search the current folder first, and a Ray job its working directory, where a
    user's ``results.py`` may lie. A package that is imported stays: nothing can take its name afterwards.
    """
    before = sys.path[:]
    others = [folder for folder in before if Path(folder).resolve() != _FOLDER]
    beside = all((_FOLDER / name / "__init__.py").is_file() for name in _PACKAGES)
    # `ray submit` copies this file alone into the home folder: the packages are then installed elsewhere
    sys.path[:] = [str(_FOLDER), *others] if beside else others
    files = {name: _file_of(name) for name in _PACKAGES}
    homes = Counter(file.parents[1] for file in files.values() if file is not None)
    home = _FOLDER if beside else homes.most_common(1)[0][0] if homes else None
    for name, file in files.items():
        # a package may be a link to where it really lies
        if home is None or file != (home / name / "__init__.py").resolve():
            _refuse(name, file)
        import_module(name)
    last = {Path.cwd(), _FOLDER} - {home}
    sys.path[:] = sorted(before, key=lambda folder: Path(folder).resolve() in last)


def _file_of(name: str) -> Path | None:
    """The file that ``import name`` takes, or the folder where it has no ``__init__.py``; nothing is run."""
    module = sys.modules.get(name)
    spec = find_spec(name) if module is None else module.__spec__
    if spec is None:
        file = getattr(module, "__file__", None)
        return Path(file).resolve() if file else None
    if spec.origin is not None:
        return Path(spec.origin).resolve()
    return next((Path(folder).resolve() for folder in spec.submodule_search_locations or ()), None)


def _refuse(name: str, file: Path | None) -> None:
    if file is not None:
        said = f"{file} is imported as {name}, which is the name of a package of archsweep: rename the file"
    elif name in sys.modules:
        said = f"a module {name} is imported already, which is the name of a package of archsweep: rename it"
    else:
        said = f"the package {name} of archsweep is not installed for {sys.executable}: pip install archsweep"
    print(f"archsweep: {said}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
