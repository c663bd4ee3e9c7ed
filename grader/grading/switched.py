"""One C++ text that holds many changes of a submission's functions, one of which a run chooses.

To compile a function takes far longer than to run it on a small case. Here each function that is
changed stands once, with a parameter that says which change is made: a changed statement is behind
`if (change__ == 3)`, a changed expression behind `?`. Each change has an entry, which passes its
number. Changes that can't be told apart in this way are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.executors.source_text import (
    MOST_TOKENS,
    Change,
    Function,
    SourceText,
    Token,
    changed,
    tokens_of,
)
from grader.grading.edits import cpp_statements
from grader.grading.edits.cpp_statements import NotRead, Slot, Statement

AS_IT_IS = 0  # the number of the entry in which nothing is changed
MOST_CHANGES = 6  # of one edit
MOST_CHARACTERS = 1_500  # of the smallest part that a change needs in two forms
MOST_ADDED = 40_000  # characters, of all changed parts
MOST_COPIED = 60_000  # characters, of the functions
MOST_OF_GRID = 200  # tokens
_PARAMETER = "change__"
_SUFFIX = "__switched"
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?!pragma\b)\w", re.M)
_FIRST_VALUE = re.compile(r"\s*=(?!=)([^;{}]+)")
_NOBODY = (AS_IT_IS, False)

_Owner = tuple[int, bool]  # an edit's number, and whether an error there is the edit's own
_Line = tuple[str, _Owner]


@dataclass(frozen=True)
class _Part:
    """A part of the text that stands in several forms; an empty one is between statements.

    `slot` is None where the part is made of statements.
    """

    start: int
    end: int
    slot: Slot | None = None

    def meets(self, other: _Part) -> bool:
        """Whether one change in both would be made twice, or once only."""
        return self == other or (self.start < other.end and other.start < self.end)


@dataclass
class _Switches:
    """The statements of a function, and the other forms of its parts with their edits' numbers."""

    function: Function
    body: Statement
    forms: dict[_Part, list[tuple[int, str]]] = field(default_factory=dict)


_Placed = tuple[_Switches, _Part, str]


def entry_of(entry: str, number: int) -> str:
    """The name of the entry that makes one of the edits."""
    return f"{entry}__{number}"


def switched(
    source: str, entry: str, edits: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    """The text that is put behind a source to have edits chosen by entries, as JSON.

    `edits` has the changes of each edit by its number, which is above 0. The answer has the `text`,
    "" where there is none; the `numbers` of the edits in it; and `owners`: for each line of the
    text an edit's number, 0 for none, and whether an error there is sure to be that edit's own.
    """
    text = SourceText(source, is_triton=False)
    reached = text.reached(entry)
    constants = cpp_statements.constants_of(text.code)
    read = [_read(text, function, constants) for function in reached]
    known = [each for each in read if each is not None]
    added, numbers, made = 0, [], []
    heads: dict[int, list[Change]] = {}  # of the entries with changed parameters
    for key, fields in edits.items():
        number, changes = int(key), [Change(**each) for each in fields]
        if _are_parameters(text.functions.get(entry), changes):
            heads[number] = changes
            numbers.append(number)
            made += changes
            continue
        placed = _placed(text.code, known, changes)
        size = sum(len(form) for _, _, form in placed)
        if placed and added + size <= MOST_ADDED:
            added += size
            numbers.append(number)
            made += changes
            for switches, part, form in placed:
                switches.forms.setdefault(part, []).append((number, form))
    leading = text.leading_to(reached, made) if numbers else []
    try:
        lines = [*_program(text, leading, known, entry, numbers, heads)]
    except NotRead:
        lines = []
    owners = [owner for part, owner in lines for _ in range(part.count("\n") + 1)]
    written = "\n".join(part for part, _ in lines)
    return {"text": written, "numbers": numbers if lines else [], "owners": owners}


def _read(text: SourceText, function: Function, constants: frozenset[str]) -> _Switches | None:
    """A function's statements; None where they can't be read, or have to be constant."""
    code = text.code[function.body : function.end - 1]
    is_constant = "constexpr" in text.code[function.start : function.body]
    if _has_directives(text, function) or (is_constant and function.name in constants):
        return None
    try:
        tokens = text.tokens(function)[:-1]
        children = tuple(cpp_statements.read(tokens, cpp_statements.constants_of(code)))
    except NotRead:
        return None
    body = Statement("block", function.body - 1, function.end, (), children)
    return _Switches(function, body)


def _has_directives(text: SourceText, function: Function) -> bool:
    """Whether the preprocessor chooses between parts of a function."""
    return bool(_DIRECTIVE.search(text.source, function.body, function.end))


# ---- Where an edit's changes are made ------------------------------------------------------------


def _are_parameters(entry: Function | None, changes: Sequence[Change]) -> bool:
    """Whether an edit only changes what stands before an entry's body."""
    if entry is None:
        return False
    return all(entry.start <= each.start <= each.end < entry.body for each in changes)


def _placed(code: str, known: Sequence[_Switches], changes: Sequence[Change]) -> list[_Placed]:
    """The parts of the text that an edit changes, with what stands there instead; [] for none."""
    groups: list[tuple[_Switches, list[Change]]] = []
    for change in changes[: MOST_CHANGES + 1]:
        around = (e for e in known if e.body.start < change.start <= change.end < e.body.end)
        switches = next(around, None)
        if switches is None:
            return []
        groups.append((switches, [_trimmed(code, change)]))
    if len(groups) > MOST_CHANGES:
        return []
    while True:
        placed = [_in_one(code, *group) for group in groups]
        if None in placed:
            return []
        parts = [each for each in placed if each is not None]
        pair = _meeting(parts)
        if pair is None:
            return parts
        groups[pair[0]][1].extend(groups.pop(pair[1])[1])


def _meeting(placed: Sequence[_Placed]) -> tuple[int, int] | None:
    """Two parts that would be changed apart from each other, though they have text in common."""
    for first, (switches, part, _) in enumerate(placed):
        for second in range(first + 1, len(placed)):
            if placed[second][0] is switches and part.meets(placed[second][1]):
                return first, second
    return None


def _trimmed(code: str, change: Change) -> Change:
    """A change without what is the same before and after it."""
    old, new = code[change.start : change.end], change.new
    most = min(len(old), len(new))
    first = next((at for at in range(most) if old[at] != new[at]), most)
    most -= first
    last = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    return Change(change.start + first, change.end - last, new[first : len(new) - last])


def _in_one(code: str, switches: _Switches, changes: Sequence[Change]) -> _Placed | None:
    """The smallest part that can be switched with all of these changes in it."""
    low = min(each.start for each in changes)
    high = max(each.end for each in changes)
    for part in _parts(code, switches.body, low, high):
        form = changed(code, changes, part.start, part.end)
        if max(len(form), part.end - part.start) > MOST_CHARACTERS:
            return None
        if _may_stand(part, form):
            return switches, part, form
    return _as_first_value(switches, changes)


def _parts(code: str, body: Statement, low: int, high: int) -> Iterator[_Part]:
    """The parts around some text that may be switched, from the smallest on."""
    path = _path(body, low, high)
    if low == high and path[-1].kind == "block":
        yield _Part(low, low)
        behind = low + len(code[low : body.end]) - len(code[low : body.end].lstrip())
        path += [each for each in path[-1].children if each.start == behind]
    for statement in reversed(path):
        for slot in statement.slots:
            if slot.start <= low and high <= slot.end:
                yield _Part(slot.start, slot.end, slot)
        if statement.kind in ("plain", "compound", "block"):
            yield _Part(min(low, statement.start), statement.end)


def _path(body: Statement, low: int, high: int) -> list[Statement]:
    """The statements around some text, or around the place between two statements."""
    path = [body]
    while True:
        inner = next((each for each in path[-1].children if _surrounds(each, low, high)), None)
        if inner is None:
            return path
        path.append(inner)


def _surrounds(statement: Statement, low: int, high: int) -> bool:
    if low == high:
        return statement.start < low < statement.end
    return statement.start <= low and high <= statement.end


def _may_stand(part: _Part, form: str) -> bool:
    """Whether a text can stand in the place of a part without an effect on what is around it."""
    if "__shared__" in form:
        return False
    tokens = tokens_of(form)
    try:
        if part.slot is None:
            return not cpp_statements.declares(cpp_statements.read(tokens))
        return cpp_statements.is_expression(tokens, may_have_commas=part.slot.type == "void")
    except NotRead:
        return False


def _as_first_value(switches: _Switches, changes: Sequence[Change]) -> _Placed | None:
    """A first value that a declaration is given, as an assignment behind it."""
    change = changes[0]
    path = _path(switches.body, change.start, change.end)
    declared, value = path[-1], _FIRST_VALUE.fullmatch(change.new)
    is_bare = declared.name and change.start == change.end == declared.end - 1
    if len(changes) > 1 or value is None or not is_bare or path[-2].kind != "block":
        return None
    part = _Part(declared.end, declared.end)
    form = f"{declared.name} = {value[1]};"
    return (switches, part, form) if _may_stand(part, form) else None


# ---- The text ------------------------------------------------------------------------------------


def _program(
    text: SourceText,
    functions: Sequence[Function],
    known: Sequence[_Switches],
    entry: str,
    numbers: Sequence[int],
    heads: Mapping[int, Sequence[Change]],
) -> Iterator[_Line]:
    """Functions with switches and the entries that choose; nothing where one can't be copied."""
    names = frozenset(each.name for each in functions)
    bodies = {each.function.name: each for each in known}
    if entry not in names or any(_has_directives(text, each) for each in functions):
        return
    if sum(each.end - each.start for each in functions) > MOST_COPIED:
        return
    for function in functions:
        head = text.code[function.start : function.body - 1]
        added = f"int {_PARAMETER}" + ", " * bool(function.parameters)
        head = _named(head, function.name, function.name + _SUFFIX, added)
        yield function.within + head, _NOBODY
        switches = bodies.get(function.name)
        if switches is None:
            body: list[_Line] = [(text.code[function.body - 1 : function.end], _NOBODY)]
        else:
            parts = sorted(switches.forms, key=lambda each: (each.start, -each.end))
            span = _Part(function.body - 1, function.end)
            body = [*_with_forms(text.code, span, parts, switches.forms)]
        yield from _passing_it_on(body, names, text.functions)
        yield "}" * function.within.count("{"), _NOBODY
    of_entry = text.functions[entry]
    given = ", ".join(of_entry.parameters)
    for number in (AS_IT_IS, *numbers):
        owner = (number, True) if number in heads else _NOBODY
        head = changed(text.code, heads.get(number, ()), of_entry.start, of_entry.body - 1)
        head = " ".join(_named(head, entry, entry_of(entry, number)).split())
        head = head if "extern" in head else f'extern "C" {head}'
        yield f"{head} {{ {entry}{_SUFFIX}({number}, {given}); }}", owner


def _named(head: str, old: str, new: str, added: str = "") -> str:
    """What stands before a function's body, with another name and perhaps one parameter more.

    It is the first one, since the last ones may have default values.
    """
    named = [*re.finditer(rf"\b{re.escape(old)}\s*\(", head)]
    if not named:
        raise NotRead
    return f"{head[: named[-1].start()]}{new}({added}{head[named[-1].end() :]}"


def _with_forms(
    code: str, span: _Part, parts: Sequence[_Part], forms: Mapping[_Part, list[tuple[int, str]]]
) -> Iterator[_Line]:
    """The text of a span, in which each part stands in its forms; `parts` has the outer first."""
    at, place = span.start, 0
    while place < len(parts):
        part, behind = parts[place], place + 1
        while behind < len(parts) and parts[behind].end <= part.end:
            if parts[behind].start >= part.end:
                break
            behind += 1
        yield code[at : part.start], _NOBODY
        inner = _with_forms(code, part, parts[place + 1 : behind], forms)
        if part.slot is not None:
            yield from _chosen_value(part.slot, forms[part], inner)
        elif part.start == part.end:
            for number, form in forms[part]:
                yield f"if ({_PARAMETER} == {number}) {{ {form}\n}}", (number, True)
        else:
            yield from _chosen_statement(forms[part], inner)
        at, place = part.end, behind
    yield code[at : span.end], _NOBODY


def _chosen_statement(forms: Sequence[tuple[int, str]], inner: Iterator[_Line]) -> Iterator[_Line]:
    yield "{", _NOBODY
    for number, form in forms:
        yield f"if ({_PARAMETER} == {number}) {{ {form}\n}} else", (number, True)
    yield "{", _NOBODY
    yield from inner
    yield "} }", _NOBODY


def _chosen_value(
    slot: Slot, forms: Sequence[tuple[int, str]], inner: Iterator[_Line]
) -> Iterator[_Line]:
    """A value in several forms, all of one type: otherwise the one would change the other."""
    cast = f"static_cast<{slot.type}>" if slot.type else ""
    yield "(", _NOBODY
    for number, form in forms:
        yield f"{_PARAMETER} == {number} ? {cast}({form}) :", (number, bool(cast))
    yield f"{cast}(", _NOBODY
    yield from inner
    yield "))", _NOBODY


def _passing_it_on(
    body: Sequence[_Line], names: frozenset[str], functions: Mapping[str, Function]
) -> Iterator[_Line]:
    """Lines in which the functions have their other names, and calls pass on what is chosen."""
    written = "\n".join(part for part, _ in body)
    owners = [owner for part, owner in body for _ in range(part.count("\n") + 1)]
    tokens = tokens_of(written)
    if len(tokens) == MOST_TOKENS:
        raise NotRead
    added: list[Change] = []
    for index, token in enumerate(tokens[:-1]):
        behind = tokens[index + 1].text
        is_pointer = behind == "<<<" and token.is_name and token.text not in functions
        if token.text in names and not _is_of_another(tokens, index, functions[token.text]):
            added.append(Change(token.end, token.end, _SUFFIX))
        elif not is_pointer:
            continue
        opening = _opening(tokens, index)
        if opening is not None:
            is_last = tokens[opening + 1].text == ")"
            place = tokens[opening].end
            added.append(Change(place, place, _PARAMETER + ", " * (not is_last)))
    yield from zip(changed(written, added).split("\n"), owners, strict=True)


def _is_of_another(tokens: Sequence[Token], index: int, function: Function) -> bool:
    """Whether a name is that of a member, of another namespace or of a variable."""
    before = tokens[index - 1].text if index else ""
    if before == "::":
        return index < 2 or tokens[index - 2].text not in re.findall(r"\w+", function.within)
    return before in (".", "->") or tokens[index + 1].text == "="


def _opening(tokens: Sequence[Token], index: int) -> int | None:
    """The parenthesis behind a called or launched name; None where it isn't called."""
    at = cpp_statements.behind_template(tokens, index + 1, len(tokens))
    if at < len(tokens) and tokens[at].text == "<<<":
        ends = (
            i for i in range(at, min(len(tokens), at + MOST_OF_GRID)) if tokens[i].text == ">>>"
        )
        at = next(ends, len(tokens)) + 1
    is_called = at + 1 < len(tokens) and tokens[at].text == "("
    return at if is_called else None
