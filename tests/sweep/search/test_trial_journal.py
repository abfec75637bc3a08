"""Mending the journal of trials: whatever a killed driver leaves, the whole records before it are kept."""

import resource
import signal
from pathlib import Path

import pytest

from results.errors import CannotWriteError, DamagedFileError
from sweep.search.trial_journal import NAME, append_records, journal_in, mend

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


@pytest.mark.parametrize("records", [0, 3])
@pytest.mark.parametrize(
    "tail",
    [
        b"\x00" * 40,
        b"{]\n",
        b"7\n",
        b'{"a": 1\n{"b"\n',
        b'\xff\r{"op_code": 5}\n',
        b"[" * 100_000 + b"\n",
        b"\n",
        b"{}\n",
        b'{"op_code": "5"}\n',
    ],
)
def test_a_tail_that_is_no_record_goes_with_a_warning(tmp_path: Path, records: int, tail: bytes) -> None:
    path, whole = tmp_path / NAME, b"".join(RECORDS[:records])
    path.write_bytes(whole + tail)
    with pytest.warns(UserWarning, match=f"the last {len(tail)} bytes are no records"):
        assert mend(path) == len(tail)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("torn", [b'{"op_code": 5}', b"{", b'{"name": "\xc3'])
def test_the_record_that_a_killed_driver_was_writing_goes_with_a_warning(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / NAME
    path.write_bytes(torn)
    with pytest.warns(UserWarning, match=rf"{NAME}: the last {len(torn)} bytes are .* a part of one"):
        assert mend(path) == len(torn)
    append_records(path, [{"op_code": 0}])
    assert path.read_bytes() == RECORDS[0].replace(b" ", b"")


def test_records_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """The file may not grow beyond 1000 bytes: what does not fit leaves no half record behind."""
    path = tmp_path / NAME
    append_records(path, [{"op_code": 0}])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(CannotWriteError, match=f"{NAME}: cannot write: no space left"):
            append_records(path, [{"name": "x" * 600}, {"name": "y" * 600}])
        with pytest.raises(CannotWriteError, match=f"{NAME}: cannot write"):
            append_records(path, [{"name": "x" * 2000}])
        append_records(path, [{"op_code": 1}])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert path.read_bytes() == b'{"op_code":0}\n{"op_code":1}\n'


def test_damage_in_the_middle_is_said_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(RECORDS[0] + b"{]\n" + RECORDS[1])
    with pytest.raises(DamagedFileError, match="line 2 is no record"):
        mend(path)
    assert path.read_bytes() == RECORDS[0] + b"{]\n" + RECORDS[1]


def test_a_folder_in_place_of_the_journal_is_said(tmp_path: Path) -> None:
    assert mend(tmp_path / NAME) == 0
    (tmp_path / NAME).mkdir()
    with pytest.raises(DamagedFileError, match=r"optuna\.journal: cannot be read: Is a directory\. Remove"):
        mend(tmp_path / NAME)


def test_a_run_that_does_not_resume_begins_a_new_journal(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(RECORDS[0])
    assert journal_in(tmp_path, resume=True).read_bytes() == RECORDS[0]
    assert not journal_in(tmp_path, resume=False).exists()
