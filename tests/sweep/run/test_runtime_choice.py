"""Where a study runs: what reaches the runtime of the limits that were asked for."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from clusters.runtime import MemoryLimitError, RuntimeSettings
from costmodel.errors import InputError
from sweep import PACKAGES
from sweep.run.block_run import BlockRun
from sweep.run.session import GRACE_SECONDS, RuntimeChoice, run_study
from sweep.study.study import Study
from sweep.tasks.warm_up import warm_up, with_members


def test_limits_reach_the_workers(tiny: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[RuntimeSettings] = []
    monkeypatch.setattr("clusters.ray.actors.RayRuntime", lambda work, settings: asked.append(settings))
    RuntimeChoice("10.1.2.3:6379", workers=3, memory_limit_mib=512).runtime(tiny)
    RuntimeChoice().runtime(tiny)
    prepare = asked[0].prepare
    assert isinstance(prepare, partial)
    assert (prepare.func, prepare.args) == (warm_up, (("random_search",),))
    assert asked[0] == RuntimeSettings(
        workers=3,
        wall_limit_seconds=tiny.mapping.wall_seconds + GRACE_SECONDS,
        memory_limit_bytes=512 * 1024 * 1024,
        address="10.1.2.3:6379",
        packages=PACKAGES,
        prepare=prepare,
    )
    assert asked[1].memory_limit_bytes is None


@pytest.mark.parametrize("given", [{"workers": 2}, {"workers": 1}, {"address": "auto"}])
def test_this_process_has_neither_workers_nor_a_cluster(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"no --{next(iter(given))} with --in-process, found both"):
        RuntimeChoice(in_process=True, **given)


def test_a_limit_would_limit_the_caller_itself() -> None:
    with pytest.raises(InputError, match="in-process"):
        RuntimeChoice(in_process=True, memory_limit_mib=512)


def test_the_members_of_a_portfolio_are_warmed_up_too() -> None:
    assert with_members(("auto", "exact")) == ("auto", "exact", "cosa", "thistle", "random_search")


def test_a_limit_that_is_too_low_is_one_sentence_with_the_least_that_would_do(
    tiny: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(run: BlockRun, *_: object) -> None:
        raise MemoryLimitError(256 << 20, (600 << 20) + 1, (792 << 20) + 1)

    monkeypatch.setattr(BlockRun, "explore", refused)
    with pytest.raises(InputError) as error:
        run_study(tiny, tmp_path / "tiny", RuntimeChoice(in_process=True))
    assert str(error.value) == (
        "--memory-limit: expected at least 793 MiB, found 256 MiB. The code of random_search takes 601 MiB "
        "of a worker's address space, and solves need 192 MiB more"
    )
