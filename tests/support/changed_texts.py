"""The texts that changes of grader/grading make of a small one, without blanks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from grader.executors.source_text import SourceText
from grader.grading.edits.edit_scope import Edit, Scope
from grader.grading.edits.proposals import edits_of


def without_blanks(text: str) -> str:
    return "".join(text.split())


def scopes(text: str, is_triton: bool) -> list[Scope]:
    """A scope of each function that the entry `f` reaches."""
    source = SourceText(text, is_triton)
    reached = source.reached("f")
    return [Scope(source, function, reached, is_triton) for function in reached]


def changed(text: str, edit: Edit) -> str:
    """The text with a change made."""
    for change in sorted(edit.changes, key=lambda each: each.start, reverse=True):
        text = text[: change.start] + change.new + text[change.end :]
    return without_blanks(text)


def changed_texts(
    rules: Sequence[Callable[[Scope], Iterable[Edit]]], text: str, is_triton: bool
) -> Iterator[tuple[str, str]]:
    """The name of each change that some rules make, and the changed text."""
    for scope in scopes(text, is_triton):
        for rule in rules:
            for edit in rule(scope):
                yield edit.name, changed(text, edit)


def undone(text: str, right: str, wrong: str, is_triton: bool) -> list[str]:
    """The names of the changes that undo a mistake in a text."""
    assert text.count(right) == 1
    mistaken = text.replace(right, wrong)
    return [
        edit.name
        for scope in scopes(mistaken, is_triton)
        for edit in edits_of(scope)
        if changed(mistaken, edit) == without_blanks(text)
    ]
