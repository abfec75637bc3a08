"""What reaches a limit and who hears of it."""

from __future__ import annotations

from costmodel.limits import Limit, cached, limit_reached, recording


def test_each_limit_is_recorded_once_by_the_innermost_block() -> None:
    limit_reached("things", 3, "nobody listens")
    with recording() as outer:
        limit_reached("things", 3, "some are missing")
        with recording() as inner:
            limit_reached("boxes", 1_000, "the rest is open")
        limit_reached("things", 3, "some are missing")
    assert list(outer) == [Limit("things", 3, "some are missing")]
    assert [str(limit) for limit in inner] == ["limit of 1,000 boxes reached: the rest is open"]


def test_a_block_that_ends_in_an_error_is_closed() -> None:
    with recording() as outer:
        try:
            with recording():
                raise ValueError("no")
        except ValueError:
            limit_reached("things", 3, "some are missing")
    assert len(outer) == 1


def test_a_remembered_result_comes_with_the_limits_reached_for_it() -> None:
    computed = []

    @cached(maxsize=4)
    def doubled(number: int) -> int:
        computed.append(number)
        if number > 1:
            limit_reached("numbers", 1, f"{number} is more")
        return 2 * number

    for _ in range(2):
        with recording() as reached:
            assert (doubled(1), doubled(7)) == (2, 14)
        assert [limit.effect for limit in reached] == ["7 is more"]
    assert computed == [1, 7]
    doubled.cache_clear()  # type: ignore[attr-defined]
    assert doubled(1) == 2
    assert computed == [1, 7, 1]
