"""Names that a store, a cluster or a file gives never lead out of the folder that they are names in."""

from pathlib import Path

import pytest

from results.errors import CannotWriteError, UnsafeNameError
from results.store.names import path_inside
from results.store.parts import next_part
from results.store.remote.run_folder import RemoteFolder


@pytest.mark.parametrize(
    "name", ["a", "layers/00000001.parquet", "study.lock.yaml", "a b (1).parquet", ".x", "ä/ö"]
)
def test_names_of_files_in_the_folder_are_paths_below_it(tmp_path: Path, name: str) -> None:
    assert path_inside(tmp_path, name, "here") == tmp_path / name


@pytest.mark.parametrize(
    "name",
    [
        "../victim.txt",
        "../../victim.txt",
        "layers/../../victim.txt",
        "layers/..",
        "..",
        ".",
        "./a",
        "a//b",
        "a/",
        "",
        "/etc/passwd",
        "//host/share",
        "C:/windows",
        "c:evil",
        "..\\victim.txt",
        "layers\\a.parquet",
        "a\0b",
        "a\nb",
        "a\x7f",
        "x" * 256,
        "layers/" + "ä" * 128,
        "\udce4",
        None,
        7,
        ["a"],
    ],
)
def test_all_others_are_refused_and_quoted(tmp_path: Path, name: object) -> None:
    with pytest.raises(UnsafeNameError, match=r"s3://bucket/run: the name of a file") as caught:
        path_inside(tmp_path, name, "s3://bucket/run")
    assert str(tmp_path) in str(caught.value)
    assert "\0" not in str(caught.value)


def test_a_link_in_the_folder_leads_nowhere_else(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (tmp_path / "victim.txt").write_text("mine")
    (folder / "file").symlink_to(tmp_path / "victim.txt")
    (folder / "layers").symlink_to(tmp_path)
    (folder / "loop").symlink_to("loop")
    (folder / "within").symlink_to("other")
    for name in ("file", "layers/victim.txt", "loop/a"):
        with pytest.raises(UnsafeNameError, match="over a link"):
            path_inside(folder, name, "here")
    assert path_inside(folder, "within/a", "here") == folder / "within/a"


def test_a_folder_that_is_itself_a_link_is_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to("disk")
    assert path_inside(tmp_path / "run", "layers/a", "here") == tmp_path / "run/layers/a"


@pytest.mark.parametrize("name", ["a\nb.parquet", "a\\..\\victim.parquet", "\\victim.parquet"])
def test_a_store_names_no_file_elsewhere(tmp_path: Path, name: str) -> None:
    (tmp_path / "shared/layers").mkdir(parents=True)
    (tmp_path / "shared/layers" / name).write_bytes(b"x")
    (tmp_path / "here").mkdir()
    with pytest.raises(UnsafeNameError, match="control character"):
        RemoteFolder(f"file://{tmp_path}/shared").pull(tmp_path / "here")
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize("name", ["²²²", "foreign", "1", "123456789", "0000000٣"])
def test_a_foreign_part_has_no_number(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.parquet").touch()
    assert next_part(tmp_path).name == "00000001.parquet"


def test_parts_whose_order_could_not_be_told_are_not_written(tmp_path: Path) -> None:
    (tmp_path / "99999999.parquet").touch()
    with pytest.raises(CannotWriteError, match="99999999"):
        next_part(tmp_path)
