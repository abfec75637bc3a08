"""Mending the journal of trials: whatever a killed driver leaves, the whole records before it are kept."""

from pathlib import Path

import pytest

from results.errors import DamagedFileError
from sweep.trial_journal import NAME, journal_in, mend

RECORDS = [b'{"op_code": 0}\n', b'{"op_code": 4, "study_id": 0}\n', b'{"op_code": 5, "name": "x"}\n']


def test_every_cut_of_a_journal_keeps_the_whole_records_before_it(tmp_path: Path) -> None:
    whole = b"".join(RECORDS)
    ends = [sum(map(len, RECORDS[:count])) for count in range(len(RECORDS) + 1)]
    path = tmp_path / NAME
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        kept = max(end for end in ends if end <= cut)
        assert mend(path) == cut - kept
        assert path.read_bytes() == whole[:kept]


@pytest.mark.parametrize("tail", [b"\x00" * 40, b"{]\n", b"7\n", b'{"op_code": 5}', b'{"a": 1\n{"b"\n'])
def test_a_tail_that_is_no_record_goes(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"".join(RECORDS) + tail)
    assert mend(path) == len(tail)
    assert path.read_bytes() == b"".join(RECORDS)


def test_damage_in_the_middle_is_said_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(RECORDS[0] + b"{]\n" + RECORDS[1])
    with pytest.raises(DamagedFileError, match="line 2 is no record"):
        mend(path)
    assert path.read_bytes() == RECORDS[0] + b"{]\n" + RECORDS[1]


def test_a_run_that_does_not_resume_begins_a_new_journal(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(RECORDS[0])
    assert journal_in(tmp_path, resume=True).read_bytes() == RECORDS[0]
    assert not journal_in(tmp_path, resume=False).exists()
