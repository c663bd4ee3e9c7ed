"""A spec's text as plain data with line numbers, and mistakes as messages with a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pydantic
import yaml

from grader import given_files
from grader import mistakes as users
from grader.spec.blocks import Scalar, Tensor
from grader.spec.formula import as_written
from grader.spec.values import Block, Mistake, SpecError, choice_problem, joined

MOST_BYTES = 16 << 20
MAX_NODES = 20_000  # of a file, against aliases of aliases
SAFE_DEPTH = 2_000  # of nested collections, far below what overflows libyaml's stack
_Model = TypeVar("_Model", bound=Block)


class Document(NamedTuple):
    """A YAML file as plain data, with lines and names of places for messages."""

    file: str
    data: dict[str, Any]
    lines: dict[tuple[str | int, ...], int]

    def report(self, mistakes: Iterable[Mistake]) -> SpecError:
        """The mistakes as lines, in the order of the file."""
        placed = []
        for mistake in mistakes:
            path = self.real(mistake.path)
            line = self.line(path)
            where = f"{self.file}:{line}" if line else self.file
            text = ": ".join(filter(None, (where, self.shown(path), mistake.message)))
            placed.append((line, text))
        placed.sort(key=lambda entry: entry[0])
        return SpecError(dict.fromkeys(text for _, text in placed))

    def as_a(self, model: type[_Model]) -> _Model:
        """The data as a model. Raises SpecError, with a line for every mistake."""
        models: dict[int, type[Block]] = {}
        try:
            return model.model_validate(self.data, context=models)
        except pydantic.ValidationError as error:
            mistakes = [
                mistake
                for detail in error.errors(include_url=False)
                for mistake in _mistakes_of(detail, self, models)
            ]
            raise self.report(mistakes) from None

    def real(self, path: Iterable[str | int]) -> tuple[str | int, ...]:
        """The path without steps that aren't in the file (tags, wrapped alternatives)."""
        real: tuple[str | int, ...] = ()
        for step in path:
            if (*real, step) in self.lines or _child(self.at(real), step) is not None:
                real = (*real, step)
        if real and real[-1] == "name" and real not in self.lines:  # added by load()
            real = real[:-1]
        return real

    def at(self, path: Iterable[str | int]) -> Any:
        """The value at a real path."""
        value: Any = self.data
        for step in path:
            value = _child(value, step)
        return value

    def line(self, path: tuple[str | int, ...]) -> int:
        """The line of a place, or of the nearest place around it; 0 for the whole file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)

    def shown(self, path: tuple[str | int, ...]) -> str:
        """A path as text; a named item is shown by its name: `arguments.out.shape[1]`."""
        steps: list[str | int] = []
        for index, step in enumerate(path):
            item = self.at(path[: index + 1])
            name = item.get("name") if isinstance(item, Mapping) else None
            steps.append(name if isinstance(step, int) and isinstance(name, str) else step)
        return joined(steps)


def _child(value: Any, step: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


def read_document(path: Path) -> Document:
    """The file as data and lines. Raises SpecError where it isn't a YAML mapping."""
    try:
        text = given_files.content(path, MOST_BYTES).decode("utf-8")
    except users.Mistake as mistake:
        raise SpecError([str(mistake)]) from None
    except UnicodeDecodeError:
        raise SpecError([f"{path}: can't be read: not UTF-8 text"]) from None
    loader: yaml.SafeLoader | yaml.CSafeLoader = yaml.SafeLoader("")
    try:
        loader, root = parsed(text)
        if not isinstance(root, yaml.MappingNode):
            is_list = isinstance(root, yaml.SequenceNode)
            came = "a list" if is_list else "one value" if root else "an empty file"
            raise SpecError([f"{path.name}: expected a mapping (title: ...), got {came}"])
        document = Document(path.name, {}, {})
        mistakes = list(_walk(root, (), document.lines, ()))
        if mistakes:
            raise document.report(mistakes)
        return document._replace(data=loader.construct_document(root))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path.name}:{mark.line + 1}" if mark else path.name
        raise SpecError(
            [f"{where}: can't be read as YAML: {error.problem or error.context}"]
        ) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise SpecError([f"{path.name}:{line}: can't be read as YAML: {error.reason}"]) from None
    except RecursionError:
        raise SpecError([f"{path.name}: nested too deeply"]) from None
    except ValueError as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError([f"{path.name}: a value can't be read: {error}"]) from None
    finally:
        loader.dispose()


def parsed(text: str) -> tuple[yaml.SafeLoader | yaml.CSafeLoader, yaml.Node | None]:
    """The text's root node, and the loader that constructs its value; dispose of the loader.

    libyaml parses six times as fast as PyYAML. It has no bound on nesting, so a text that could
    nest deeply is PyYAML's, and so is one with a mistake, whose message names it better.
    Raises yaml.YAMLError, and RecursionError for a text that nests too deeply.
    """
    # A block nests one level with each column, a flow collection with each bracket.
    depth = max(map(len, text.splitlines()), default=0) + text.count("[") + text.count("{")
    if depth < SAFE_DEPTH and yaml.__with_libyaml__:
        fast = yaml.CSafeLoader(text)
        try:
            return fast, fast.get_single_node()
        except yaml.YAMLError:
            fast.dispose()
    loader = yaml.SafeLoader(text)
    return loader, loader.get_single_node()


_DECIMAL = re.compile(r"[+-]?(0|[1-9][0-9_]*)")
_INT, _FLOAT, _STR, _MERGE = (
    f"tag:yaml.org,2002:{tag}" for tag in ("int", "float", "str", "merge")
)


def _walk(
    node: yaml.Node,
    path: tuple[str | int, ...],
    lines: dict[tuple[str | int, ...], int],
    around: tuple[yaml.Node, ...],
) -> Iterator[Mistake]:
    """Note the line of every node; yield what YAML allows and a spec doesn't."""
    if any(node is outer for outer in around) or len(lines) > MAX_NODES:
        raise yaml.MarkedYAMLError(
            problem="an alias that makes the file endless", problem_mark=node.start_mark
        )
    if isinstance(node, yaml.ScalarNode):
        yield from _scalar_mistakes(node, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            here = (*path, index)
            lines[here] = item.start_mark.line + 1
            yield from _walk(item, here, lines, (*around, node))
    else:
        for key, value in node.value:
            if key.tag == _MERGE:
                continue
            here = (*path, key.value) if isinstance(key, yaml.ScalarNode) else path
            line = key.start_mark.line + 1
            if key.tag != _STR:
                lines.setdefault(here, line)
                yield Mistake(here, "expected text as key: put it in quotes, or rename it")
            elif here in lines:
                yield Mistake(here, f"expected each key once, got it again on line {line}")
            else:
                lines[here] = line
                yield from _walk(value, here, lines, (*around, node))


def _scalar_mistakes(node: yaml.ScalarNode, path: tuple[str | int, ...]) -> Iterator[Mistake]:
    """Numbers that YAML and people read differently: 010 is 8, and 1:30 is 90."""
    odd_int = node.tag == _INT and not _DECIMAL.fullmatch(node.value)
    if odd_int or (node.tag == _FLOAT and ":" in node.value):
        yield Mistake(
            path, f"expected a plain decimal number, got {node.value}, which YAML reads otherwise"
        )


def _mistakes_of(
    detail: Any, document: Document, models: Mapping[int, type[Block]]
) -> Iterator[Mistake]:
    """One of pydantic's errors in this module's words."""
    path, kind, came = tuple(detail["loc"]), detail["type"], as_written(detail["input"])
    context = detail.get("ctx", {})
    if "mistakes" in context:
        for mistake in context["mistakes"]:
            yield Mistake((*path, *mistake.path), mistake.message)
    elif kind == "missing":
        yield Mistake(path[:-1], f"expected the key {path[-1]!r}, which is missing")
    elif kind == "extra_forbidden":
        model = models.get(id(document.at(document.real(path[:-1]))))
        fields = model.model_fields.items() if model else ()
        names = ((key, field.validation_alias) for key, field in fields if key != "name")
        known = [*dict.fromkeys(a if isinstance(a, str) else key for key, a in names)]
        if model in (Tensor, Scalar):
            known = ["name", *known]
        yield Mistake(path, choice_problem(known, path[-1], "the keys "))
    elif kind == "spec":
        yield Mistake(path, context["message"])
    elif kind == "value_error":
        yield Mistake(path, str(context["error"]))
    else:
        wanted = {
            "string_type": "text",
            "tuple_type": "a list",
            "dict_type": "a mapping",
            "model_type": "a mapping",
        }.get(kind, detail["msg"])
        yield Mistake(path, f"expected {wanted}, got {came}")
