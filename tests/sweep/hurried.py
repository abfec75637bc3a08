"""Shorter waits for a store that does not answer, in the process of a test's own ``archsweep``."""

from __future__ import annotations

from types import ModuleType

from results.store.remote import file_systems, mirror, run_folder

WAITS: tuple[tuple[ModuleType, str], ...] = (
    (file_systems, "ANSWER_SECONDS"),
    (mirror, "SILENT_SECONDS"),
    (mirror, "PAUSE_SECONDS"),
    (run_folder, "MIRROR_SECONDS"),
    (run_folder, "END_SECONDS"),
    (run_folder, "STOP_SECONDS"),
)


def hurry() -> None:
    """Make them a third; raises AttributeError for one that the module does not have.

    Only tests that break a store wait so long. They look at what is said and kept, never at seconds.
    """
    for module, name in WAITS:
        setattr(module, name, getattr(module, name) / 3)
