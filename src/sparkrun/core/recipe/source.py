"""Reading a recipe's text with the place of every key, so that each message can say ``file:line:col``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from sparkrun.core.errors import RecipeSyntaxError
from sparkrun.core.recipe.places import Document, Duplicate, KeyPath, Position
from sparkrun.utils.yamlio import ODD_VALUES

MAX_KEYS = 50_000
"""Keys and list entries of one document, aliases followed. Real recipes have some hundred; more is an alias bomb."""

_BaseLoader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"
_TEXT = "tag:yaml.org,2002:str"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(_BaseLoader):  # type: ignore[misc]
    """The safe loader without timestamps: a recipe has no dates, so ``2026-01-01`` stays the text it is."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own way to set them
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in _BaseLoader.yaml_implicit_resolvers.items()  # type: ignore[attr-defined]
    }


def read_document(text: str, name: str, *, what: str = "recipe") -> Document:
    """Parse one YAML mapping. ``name`` is what messages call the file, ``what`` what it should be. Raises ``RecipeSyntaxError``."""
    try:
        loader = _Loader(text)
        try:
            return _read(loader, name, what)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise RecipeSyntaxError(f"{where}: {_problem(error)}", hint=_advice(error.problem or "")) from error
    except yaml.reader.ReaderError as error:
        raise RecipeSyntaxError(f"{_place_of(text, error, name)}: a character that YAML forbids ({error.reason})") from error
    except RecursionError as error:
        raise RecipeSyntaxError(f"{name}: nested too deeply", hint="an alias (*name) must not contain itself") from error
    except (yaml.YAMLError, *ODD_VALUES) as error:
        raise RecipeSyntaxError(f"{name}: not YAML: {' '.join(str(error).split())}") from error


def _read(loader: Any, name: str, what: str) -> Document:
    node = loader.get_single_node()
    if not isinstance(node, yaml.MappingNode):
        hint = "begin with: model: org/name" if what == "recipe" else None
        raise RecipeSyntaxError(f"{name}:1:1: a {what} is a mapping of keys, not {_kind(node)}", hint=hint)
    index = _Index(loader)
    index.walk(node, ())
    return Document(name, loader.construct_document(node), index.positions, tuple(index.duplicates), index.spellings)


class _Index:
    """Walks the nodes once, before they become values, and keeps what the values lose."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self.positions: dict[KeyPath, Position] = {}
        self.duplicates: list[Duplicate] = []
        self.spellings: dict[KeyPath, str] = {}

    def walk(self, node: yaml.Node, path: KeyPath) -> None:
        if isinstance(node, yaml.MappingNode):
            self._walk_mapping(node, path)
        elif isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                self._put((*path, number), item)
                self.walk(item, (*path, number))
        elif node.tag != _TEXT:
            self.spellings[path] = node.value

    def _walk_mapping(self, node: yaml.MappingNode, path: KeyPath) -> None:
        seen: set[str | int] = set()
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self._key(key_node)
            first = self.positions.get((*path, key))
            self._put((*path, key), key_node)
            if key in seen and first:
                self.duplicates.append(Duplicate((*path, key), first, self.positions[(*path, key)]))
            seen.add(key)
            self.walk(value_node, (*path, key))
        for base in _merged(node):
            self._walk_base(base, path)

    def _walk_base(self, base: yaml.MappingNode, path: KeyPath) -> None:
        for key_node, value_node in base.value:
            inner = (*path, self._key(key_node))
            if key_node.tag != _MERGE and inner not in self.positions:
                self._put(inner, key_node)
                self.walk(value_node, inner)
        for deeper in _merged(base):
            self._walk_base(deeper, path)

    def _put(self, path: KeyPath, node: yaml.Node) -> None:
        if len(self.positions) >= MAX_KEYS:
            raise ValueError(f"more than {MAX_KEYS} keys (aliases counted each time)")
        self.positions[path] = Position(node.start_mark.line + 1, node.start_mark.column + 1)

    def _key(self, node: yaml.Node) -> str | int:
        if not isinstance(node, yaml.ScalarNode) or node.tag == _MERGE:
            return "?"
        if node.tag == _TEXT:
            return str(node.value)
        value = self._loader.construct_object(node)
        return value if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _merged(node: yaml.MappingNode) -> Iterator[yaml.MappingNode]:
    """What ``<<:`` brings in, nearest first."""
    for key_node, value_node in node.value:
        if key_node.tag == _MERGE:
            bases = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
            yield from (base for base in bases if isinstance(base, yaml.MappingNode))


def _kind(node: yaml.Node | None) -> str:
    if node is None:
        return "an empty file"
    return "a list" if isinstance(node, yaml.SequenceNode) else "plain text"


def _problem(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "not YAML"
    if error.context and error.context_mark and error.context_mark != error.problem_mark:
        return f"{problem} ({error.context} that begins on line {error.context_mark.line + 1})"
    return problem


def _advice(problem: str) -> str:
    if "unhashable" in problem:
        return "put quotes around a value that begins with {{"
    return "correct the YAML at that place"


def _place_of(text: str, error: yaml.reader.ReaderError, name: str) -> str:
    before = text[: error.position]
    return f"{name}:{before.count(chr(10)) + 1}:{error.position - before.rfind(chr(10))}"
