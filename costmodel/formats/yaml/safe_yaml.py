"""YAML from untrusted files: plain data only, no key twice; size, depth and expanded aliases are bounded."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import yaml

from costmodel.errors import InputError, NotFoundError

MOST_BYTES = 2 * 1024 * 1024
MOST_NODES = 10_000
"""The most nodes of a document, where an alias counts as all nodes that it stands for."""
MOST_DEPTH = 64


class TaggedDict(dict[str, Any]):
    """A mapping with its tag, one of the file format's own such as ``!Container``."""

    tag: str = ""


def load_yaml(path: str | Path, tags: Collection[str] = ()) -> Any:
    """The one document of a YAML file as dicts, lists and scalars; None when the file is empty.

    Mappings under one of ``tags`` come as :class:`TaggedDict`. Raises InputError naming the file (and the
    line) for what cannot be read: no such file, more than 2 MiB, more than 10,000 nodes with aliases
    expanded, nesting deeper than 64, a syntax error, a key that is there twice, any other tag.
    """
    return parse_yaml(read_text(path, MOST_BYTES), str(path), tags)


def parse_yaml(text: str, where: str, tags: Collection[str] = ()) -> Any:
    """As :func:`load_yaml`, for text that is already read; ``where`` is its name in errors."""
    try:
        loader = _BoundedLoader(text, tags)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except _Refused as refused:
        location = f"{where}:{refused.mark.line + 1}"
        raise InputError(location, refused.expected, refused.found, refused.remedy) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        location = f"{where}:{mark.line + 1}" if mark else where
        raise InputError(location, "valid YAML", error.problem or str(error)) from None
    except yaml.YAMLError as error:
        raise InputError(where, "valid YAML", " ".join(str(error).split())) from None


def names_a_file(path: str | Path) -> bool:
    """Whether a regular file is there; False, too, for a text that cannot be a file's name.

    A user may have written anything: a name that is too long for the file system, one with a zero byte, a
    path in a folder that may not be read.
    """
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def read_text(path: str | Path, most_bytes: int) -> str:
    """The text of a UTF-8 file of at most ``most_bytes``; InputError says why it cannot be read."""
    data = read_bytes(path, most_bytes)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(str(path), "UTF-8 text", f"a byte that is not, at offset {error.start}") from None


def read_bytes(path: str | Path, most_bytes: int) -> bytes:
    """The content of a regular file of at most ``most_bytes``; InputError says why it cannot be read."""
    try:
        if not Path(path).is_file():
            what = "a folder" if Path(path).is_dir() else "no such file"
            raise NotFoundError(str(path), "a file that can be read", f"{what}: {path}")
        with open(path, "rb") as file:
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError(str(path), "a file that can be read", reason) from None
    if len(data) > most_bytes:
        raise InputError(str(path), f"at most {most_bytes:,} bytes", "a larger file")
    return data


class _Refused(Exception):  # noqa: N818 - carried to parse_yaml, which knows the file
    """Raised for a document that is YAML, but beyond a limit or of a kind that is not accepted."""

    def __init__(self, mark: yaml.Mark, expected: str, found: str, remedy: str = "") -> None:
        super().__init__(expected)
        self.mark, self.expected, self.found, self.remedy = mark, expected, found, remedy


class _BoundedLoader(yaml.SafeLoader):
    """PyYAML's safe loader with limits: it measures the nodes before any value is built from them.

    A few lines of YAML can expand to gigabytes, where aliases stand for lists of aliases. So every node's
    size is counted with its aliases expanded, and the file is refused while it is parsed.
    """

    def __init__(self, text: str, tags: Collection[str] = ()) -> None:
        super().__init__(text)
        self._tags = tags
        self._nesting = 0
        self._read = 0
        self._measured: dict[yaml.Node, tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        mark = event.start_mark
        self._nesting += 1
        self._read += 1
        self._hold(mark, self._read, self._nesting)
        node = super().compose_node(parent, index)
        self._nesting -= 1
        if node is not None:
            if isinstance(event, yaml.AliasEvent) and node not in self._measured:
                raise _Refused(mark, "no value that contains itself", "an alias of its own ancestor")
            self._measure(node, mark)
        return node

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        first: dict[tuple[str, str], yaml.Node] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            earlier = first.setdefault((key.tag, key.value), key)
            if earlier is not key:
                found = f"{key.value!r} again (first on line {earlier.start_mark.line + 1})"
                raise _Refused(key.start_mark, "every key once", found, "Remove one of the two")
        return node

    def construct_tagged(self, _: str, node: yaml.Node) -> Iterator[Any]:
        """Construct a tagged mapping in PyYAML's two steps: the empty object, later its content."""
        if node.tag not in self._tags:
            self.construct_undefined(node)
        if not isinstance(node, yaml.MappingNode):
            raise _Refused(node.start_mark, f"keys and values under {node.tag}", "something else")
        found = TaggedDict()
        found.tag = node.tag
        yield found
        found.update({str(key): value for key, value in self.construct_mapping(node).items()})

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except ValueError as error:  # a date or number that only looks like one
            raise _Refused(node.start_mark, "a value that its tag can hold", str(error)) from None

    def _measure(self, node: yaml.Node, mark: yaml.Mark) -> None:
        """Note the node's size and height, from those of its children, and check them against the limits."""
        if node not in self._measured:
            sizes = [self._measured[child] for child in _children(node)]
            size, height = 1 + sum(s for s, _ in sizes), 1 + max((h for _, h in sizes), default=0)
            self._measured[node] = size, height
        size, height = self._measured[node]
        self._hold(mark, size, self._nesting + height)

    def _hold(self, mark: yaml.Mark, nodes: int, depth: int) -> None:
        if nodes > MOST_NODES:
            raise _Refused(
                mark,
                f"at most {MOST_NODES:,} values with aliases written out",
                "a larger document",
                "Split the file, or write fewer aliases of aliases",
            )
        if depth > MOST_DEPTH:
            raise _Refused(mark, f"at most {MOST_DEPTH} levels of nesting", "a deeper one")


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


_BoundedLoader.add_multi_constructor("!", _BoundedLoader.construct_tagged)

# YAML 1.2 reads 4e6 as a number, YAML 1.1 (PyYAML) as the text "4e6"; hardware files mean the number.
_BoundedLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)
