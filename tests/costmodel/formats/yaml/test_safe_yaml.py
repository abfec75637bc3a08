"""Plain data comes through; bombs, damage and double keys are refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.formats.yaml.safe_yaml import MOST_BYTES, MOST_NODES, load_yaml, parse_yaml


def refusal(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "study.yaml")
    return str(caught.value)


def test_plain_data_comes_through(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("a: [1, 0x10, 2.5, true, text]\nb: {c: null}\n")
    assert load_yaml(file) == {"a": [1, 16, 2.5, True, "text"], "b": {"c": None}}


def test_empty_document_is_none() -> None:
    assert parse_yaml("# nothing\n", "x") is None


@pytest.mark.parametrize(
    ("text", "number"), [("4e6", 4e6), ("-1E-3", -1e-3), ("1.5e9", 1.5e9), (".5e+1", 5.0)]
)
def test_exponents_are_numbers_as_in_yaml_1_2(text: str, number: float) -> None:
    assert parse_yaml(text, "x") == number


def test_aliases_and_merge_keys_work() -> None:
    text = "base: &b {x: 1, y: 2}\nother: {<<: *b, y: 3}\nagain: *b\n"
    assert parse_yaml(text, "x") == {
        "base": {"x": 1, "y": 2},
        "other": {"x": 1, "y": 3},
        "again": {"x": 1, "y": 2},
    }


def test_alias_bomb() -> None:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    assert "study.yaml:5" in refusal("\n".join(lines))


def test_merge_bomb() -> None:
    lines = ["a0: &a0 {k: 1}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 12)]
    assert "aliases" in refusal("\n".join(lines))


def test_alias_of_its_own_ancestor() -> None:
    assert "contains itself" in refusal("a: &a [1, *a]")


@pytest.mark.slow
def test_deep_nesting() -> None:
    assert "levels of nesting" in refusal("[" * 5000 + "]" * 5000)


def test_depth_built_from_aliases() -> None:
    lines = ["- &a0 [1]"] + [f"- &a{i} [*a{i - 1}]" for i in range(1, 200)]
    assert "levels of nesting" in refusal("\n".join(lines))


@pytest.mark.slow
def test_many_nodes() -> None:
    assert parse_yaml("[" + "1," * (MOST_NODES - 1) + "]", "x") == [1] * (MOST_NODES - 1)
    assert "at most 10,000" in refusal("[" + "1," * MOST_NODES + "]")


def test_size_limit(tmp_path: Path) -> None:
    file = tmp_path / "big.yaml"
    file.write_text("# " + "x" * MOST_BYTES)
    with pytest.raises(InputError, match=r"big\.yaml: expected at most 2,097,152 bytes"):
        load_yaml(file)


def test_key_twice_names_both_lines() -> None:
    message = refusal("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n")
    assert "study.yaml:5" in message
    assert "'c' again (first on line 3)" in message


@pytest.mark.parametrize(
    "text",
    [
        "a: [1, 2",
        "a: b: c",
        "a: *nowhere",
        "--- 1\n--- 2",
        "a: !!python/object/apply:os.system [ls]",
        "{[1]: 2}",
        "a: 2024-13-45",
        "a: 0x_",
        "a: " + "9" * 5000,
        "a: \x01",
        "{",
        "!!int a",
    ],
)
def test_damage_is_named(text: str) -> None:
    assert refusal(text).startswith("study.yaml")


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9")
    for name, found in (("none.yaml", "no such file"), ("", "a folder"), ("latin.yaml", "not, at offset 3")):
        with pytest.raises(InputError, match=found):
            load_yaml(tmp_path / name)
    with pytest.raises(InputError):
        load_yaml("a\0b")
