"""Digests against sets of texts."""

from __future__ import annotations

import pyarrow
from hypothesis import given
from hypothesis import strategies as st

from results.store.digests import Digests

TEXTS = st.lists(
    st.one_of(
        st.text(alphabet="0123456789abcdef", min_size=32, max_size=32),
        st.text(alphabet="01fFgz\0é", max_size=33),
    ),
    max_size=20,
)


@given(TEXTS, TEXTS, st.integers(0, 5))
def test_a_text_is_among_others_if_it_is_one_of_them(
    asked: list[str], others: list[str], skipped: int
) -> None:
    others = others + asked[::3]
    # a slice of a column has its texts somewhere in a larger buffer
    sliced = Digests.of(pyarrow.array(asked, pyarrow.string()).slice(skipped))
    found = sliced.are_in(Digests.of_texts(others))
    assert found.tolist() == [text in others for text in asked[skipped:]]
    pieces = [Digests.of_texts(others[:4]), Digests.of_texts(others[4:])]
    assert Digests.joined(pieces).are_in(Digests.of_texts(others)).all()


def test_ids_that_count_from_zero_are_told_apart() -> None:
    ids = [f"{number:032x}" for number in range(3000)]
    digests = Digests.of_texts(ids)
    assert len(set(digests.high.tolist())) == len(ids)
    assert digests.are_in(Digests.of_texts(ids[:7])).sum() == 7


def test_null_is_the_empty_text() -> None:
    column = pyarrow.chunked_array([pyarrow.array([None, "a"]), pyarrow.array([""])])
    assert Digests.of(column).are_in(Digests.of_texts([""])).tolist() == [True, False, True]
    assert len(Digests.of(pyarrow.chunked_array([], pyarrow.string()))) == 0
