"""Numbers of a spec changed in place: every other letter stays, comments and spaces too.

PyYAML says where each value begins and ends in the text; what is written there is exchanged, and
the result is read again to see that it says what was meant and nothing else has changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from grader.mistakes import Mistake

Path = tuple[str | int, ...]


def changed(text: str, values: Mapping[Path, float | str], source: str = "spec") -> str:
    """The YAML `text` with other values at some places.

    A place that isn't there must be a key of a mapping in block style; it is put in front of the
    mapping's last key. Raises Mistake where a place has no single value, or where the
    change would reach further than that place.
    """
    root = _composed(text, source)
    edits: list[tuple[int, int, str]] = []
    for path, value in values.items():
        node = _at(root, path)
        if node is None:
            edits.append(_inserted(text, root, path, _written(value), source))
        elif isinstance(node, yaml.ScalarNode):
            edits.append((node.start_mark.index, node.end_mark.index, _written(value)))
        else:
            raise Mistake(f"{source}: {_shown(path)}: expected one value")
    for start, end, written in sorted(edits, reverse=True):
        text = text[:start] + written + text[end:]
    _expect_meant(_composed(text, source), root, values, source)
    return text


def _composed(text: str, source: str) -> yaml.Node:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None:
        raise Mistake(f"{source}: expected a spec, got an empty file")
    return root


def _at(node: yaml.Node | None, path: Path) -> yaml.Node | None:
    for step in path:
        node = _child(node, step)
    return node


def _child(node: yaml.Node | None, step: str | int) -> yaml.Node | None:
    known: Mapping[str | int, yaml.Node] = {}
    if isinstance(node, yaml.MappingNode):
        known = {key.value: value for key, value in node.value}
    elif isinstance(node, yaml.SequenceNode):
        known = dict(enumerate(node.value))
    return known.get(step)


def _inserted(
    text: str, root: yaml.Node, path: Path, written: str, source: str
) -> tuple[int, int, str]:
    around = _at(root, path[:-1])
    if not isinstance(around, yaml.MappingNode) or around.flow_style or not around.value:
        raise Mistake(f"{source}: {_shown(path)}: expected a place for it, found none")
    last, _ = around.value[-1]
    indent = " " * last.start_mark.column
    line = text.rfind("\n", 0, last.start_mark.index) + 1
    return line, line, f"{indent}{path[-1]}: {written}\n"


def _written(value: float | str) -> str:
    if isinstance(value, str):
        dumped = yaml.safe_dump(value, width=1000).strip()
        return dumped.removesuffix("\n...").strip()
    return f"{value:.2f}" if round(value, 2) == value else f"{value:g}"


def _expect_meant(
    now: yaml.Node, before: yaml.Node, values: Mapping[Path, float | str], source: str
) -> None:
    # By way of JSON, in which nothing is shared: a change stays where it was made.
    wanted = json.loads(json.dumps(_data(before)))
    for path, value in values.items():
        place = wanted
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
    if _data(now) != wanted:
        paths = ", ".join(map(_shown, values))
        raise Mistake(
            f"{source}: {paths}: expected values that stand nowhere else; are there aliases? "
            "Write them by hand"
        )


def _data(node: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _shown(path: Path) -> str:
    return ".".join(map(str, path))
