"""The lines of a submission's source that a failure is about, and its names for arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from grader.evidence import SourceLine
from grader.executors.runner import CaseResult
from grader.executors.source_text import SourceText
from grader.spec.task import Task
from grader.status import Status

MOST = 3  # lines
LONGEST = 400  # characters of a line
# An access: a load or store of Triton's, or an element of an array to which something is assigned.
_STORE = re.compile(r"tl\.(?:store|atomic_\w+)\(.*|\*?\w+(?:\s*\[[^\]]*\])+(?=\s*[-+*/|&]?=[^=])")
_LOAD = re.compile(r"tl\.load\(.*|\w+(?:\s*\[[^\]]*\])+(?!.*\[)")
_OF_ARRAY = re.compile(r"bytes at offset [\d,]+ of (\w+)")
_WRITES = (Status.wrote_out_of_bounds, Status.modified_input)
MOST_CHARACTERS = 60_000  # of a source
_SAID = r"`{0}`|\b{0}\[\d|\b(?:of|to) {0}\b"  # a name that a message says
_CARET = re.compile(r"(?P<text>[^\n]+)\n(?P<before> *)\^")


def marked_lines(source: str, result: CaseResult) -> tuple[SourceLine, ...]:
    """The lines of a result, those at one line together; none where no line is known."""
    notes: dict[int, list[str]] = {}
    for line, note in result.marks or (((result.line, ""),) if result.line else ()):
        notes.setdefault(line, []).append(note)
    return tuple(_of_lines(source.splitlines(), notes, result))[:MOST]


def own_names(task: Task, source: str, *words: str) -> str:
    """Which parameters of the submission's entry the spec's names in a message are, if others.

    A name that the file has for something else is left out: the message may mean that.
    """
    text = SourceText(source[:MOST_CHARACTERS], task.variant.language == "triton")
    entry = text.functions.get(task.variant.entry)
    names = [each.name for each in task.signature]
    if entry is None or len(entry.parameters) != len(names):
        return ""
    own = [
        f"`{name}` is `{parameter}`"
        for name, parameter in zip(names, entry.parameters, strict=True)
        if parameter not in names
        and re.search(_SAID.format(name), " ".join(words))
        and not re.search(rf"\b{name}\b", text.code)
    ]
    return f"In this file {', '.join(own)}." if own else ""


def _of_lines(
    lines: list[str], notes: dict[int, list[str]], result: CaseResult
) -> Iterator[SourceLine]:
    for line in sorted(notes):
        if 1 <= line <= len(lines) and lines[line - 1].strip():
            text = lines[line - 1].expandtabs(4)[:LONGEST]
            note = "; ".join(each for each in notes[line] if each)
            start, length = _place(text, note, result)
            yield SourceLine(line, text, note, start, length)


def _place(text: str, note: str, result: CaseResult) -> tuple[int, int]:
    """(start, length) of the place in a line; (0, 0) for all of it."""
    caret = _CARET.match(result.detail)
    if caret and caret["text"].strip() == text.strip():
        shift = text.find(caret["text"].strip())
        at = shift + len(caret["before"]) - (len(caret["text"]) - len(caret["text"].lstrip()))
        return max(at, 0), 1
    does = ("writes", "fills", "stores", "updates", "changes")
    match = None
    if result.status in _WRITES or any(verb in note for verb in does):
        match = _STORE.search(text)
    elif result.status is Status.invalid_read or note:
        match = _LOAD.search(text)
        named = _OF_ARRAY.search(result.verdict.what)
        of_it = rf"\b{named[1]}(?:\s*\[[^\]]*\])+" if named else "$^"
        *_, match = [match, *re.finditer(of_it, text)]  # what is assigned to stands in front
    return (match.start(), len(match[0].rstrip())) if match else (0, 0)
