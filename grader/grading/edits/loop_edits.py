"""Changes of loops and of the order of statements: a loop that stands still, or ends one early."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from grader.executors.source_text import Change
from grader.grading.edits.edit_scope import Edit, Rule, Scope, at_each

MOST_STEPS = 6  # by which a variable may be moved on
MOST_EARLY = 4  # lines by which a value is taken on too early
_LOOP = re.compile(r"^([ \t]*)(?:for|while)\b.*$", re.M)
_ROUNDS = re.compile(r"(?:cdiv\(\s*[^,()\n]+,\s*|//?\s*)(\w+)|range\([^()\n]*,\s*(\w+)\)")


@at_each(_LOOP)
def _not_advanced(scope: Scope, loop: re.Match[str]) -> Iterator[Edit]:
    """A variable that a loop uses from round to round, and that nothing in it moves on."""
    code = scope.text.code
    end, indent = scope.end_of(loop)
    body = code[loop.end() : end]
    before = code[scope.function.body : loop.start()]
    steps = [one or other for one, other in _ROUNDS.findall(code[loop.start() : loop.end()])]
    steps += [each for each in scope.kinds if each.isupper() and each in body]
    started = re.findall(r"^[ \t]*(?:int |size_t )?(\w+) = 0;?[ \t]*$", before, re.M)
    counter = re.match(r"\s*for (\w+) in", loop[0])
    if not counter or not re.search(rf"\b{counter[1]}\b", body):  # no address follows from it
        moved = ("int", "offsets", "pointer") if counter else ("pointer",)
        started += [
            each
            for each in re.findall(r"^[ \t]*(\w+) = ", before, re.M)
            if scope.kinds.get(each) in moved
        ]
    for name in dict.fromkeys(started):
        is_used = re.search(rf"(?<![\w.]){name}\b", body)
        if not is_used or re.search(rf"\b{name}\s*(?:[-+*/]?=(?!=)|\+\+)", body):
            continue
        for step in [*dict.fromkeys(steps)][:MOST_STEPS]:
            statement = f"{name} += {step}{'' if scope.is_triton else ';'}"
            what = f"Nothing in the loop moves `{name}` on: `{statement}` is missing"
            change = Change(end, end, f"{indent}{statement}\n")
            yield scope.edit("not_advanced", [change], what, "", 1, loop.start())


_STOP = re.compile(
    r"(?:range\([^()\n]*?,\s*|\bwhile\b[^\n]*<\s*|\bfor\s*\([^;\n]*;[^;\n]*<=?\s*)([A-Za-z_]\w*)\b"
)
_FIRST_OF_BLOCK = re.compile(
    r"(?:^[ \t]*|\b)(\w+) = [^=;,\n]+ \* ([A-Za-z_]\w*)[ \t]*(?=[;,\n])", re.M
)
_ALIAS = re.compile(r"\b(\w+) = ([A-Za-z_]\w*)[ \t]*(?=[;\n])")


def _stops(scope: Scope) -> Iterator[Edit]:
    """The end of a loop, computed before it: off by one, or of a block's first row alone."""
    blocks = {match[1]: match[2] for match in scope.matches(_FIRST_OF_BLOCK)}
    for stop in dict.fromkeys(match[1] for match in scope.matches(_STOP)):
        made = re.compile(rf"^[ \t]*(?:(?:const|int|size_t) )*{stop} = ([^;\n]+?);?[ \t]*$", re.M)
        for match in scope.matches(made):
            for by in (" + 1", " - 1"):
                new = f"{match[1]}{by}" if match[1][-1:] != ")" else f"({match[1]}){by}"
                yield scope.instead("stop", *match.span(1), new, 1)
            for own in re.finditer(r"(?<![\w.])([A-Za-z_][\w.]*) \* ([A-Z]\w*)\b", match[1]):
                start, end = (match.start(1) + at for at in own.span())
                new = f"({own[1]} + 1) * {own[2]}"
                yield scope.instead("last_of_block", start, end, new, 1, match.span(1))
            for first in re.finditer(r"\b[A-Za-z_]\w*\b", match[1]):
                if block := blocks.get(first[0]):
                    start, end = (match.start(1) + at for at in first.span())
                    new = f"{first[0]} + {block} - 1"
                    yield scope.instead("last_of_block", start, end, new, 1, match.span(1))
            for alias in scope.matches(_ALIAS, end=match.start()):
                block = blocks.get(alias[2])
                if block and re.search(rf"\b{alias[1]}\b", match[1]):
                    new = f"{alias[2]} + {block} - 1"
                    yield scope.instead("last_of_block", *alias.span(2), new, 1, alias.span())


_COUNTED = re.compile(r"\bfor \(\w+ (\w+) = 0; \1 < (\w+);[^\n]*(?:\n[^\n]*)?")
_ARRAY = re.compile(r"\b(?:float|int|double) (\w+)\[([^\[\]\n]+)\]")


def _elements(scope: Scope) -> Iterator[Edit]:
    """A loop over an array that ends at another number than that of its elements."""
    arrays = {match[1]: match[2] for match in scope.matches(_ARRAY)}
    for match in scope.matches(_COUNTED):
        read = {each for each in arrays if re.search(rf"\b{each}\[{match[1]}\]", match[0])}
        for size in dict.fromkeys(arrays[each] for each in read if arrays[each] != match[2]):
            yield scope.instead("stop", *match.span(2), size, 1, (match.start(1), match.end(2)))


@at_each(r"\bfor \(\w+ (\w+) = ([\w.]+); \1 > 0; \1 (?:/= 2|>>= 1)\)")
def _halved(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A halving reduction that starts with all elements instead of half of them."""
    around = match.start(1), match.end(2)
    yield scope.instead("steps", *match.span(2), f"{match[2]} / 2", 1, around)


_SHIFT = re.compile(r"[-+] (\w+) - (\w+)\b")
_ENDS = ("min", "minimum", "tl.minimum", "tl.min")


def _stop_lacks(scope: Scope) -> Iterator[Edit]:
    """The end of a loop that lacks what is added where its indices are compared: a shift."""
    sizes = scope.function.integers
    shifts = [f"+ {m[1]} - {m[2]}" for m in scope.matches(_SHIFT) if {m[1], m[2]} <= sizes]
    named = re.compile(r"\b(\w+) = (\w+) - (\w+);?[ \t]*$", re.M)
    shifts += [f"+ {m[1]}" for m in scope.matches(named) if {m[2], m[3]} <= sizes]
    stops = "|".join(dict.fromkeys(match[1] for match in scope.matches(_STOP)))
    if not shifts or not stops:
        return
    made = re.compile(rf"\b(?:{stops}) = ([^;\n]+?);?[ \t]*$", re.M)
    for match in scope.matches(made):
        low, high = match.span(1)
        ends = [
            end
            for call in scope.calls
            if call.name in _ENDS and low <= call.start and call.end <= high
            for _, end in call.arguments
        ]
        for shift in dict.fromkeys(shifts):
            for end in ends or [high]:
                yield scope.instead("stop_lacks", end, end, f" {shift}", 1, (low, high))


_COUNTED_LOOP = re.compile(
    r"\bfor\s*\([^;\n]*;\s*(\w+)\s*<\s*([\w.]+(?:\s*\+\s*[\w.]+)?)(?=\s*;([^;\n)]*)\))"
)


def _loop_lacks(scope: Scope) -> Iterator[Edit]:
    """A loop over a thread's part of a row, which may go on behind the row's end."""
    members = re.findall(r"(?<![\w.])[a-z]\w*\.[a-z]\w*(?![\w(])", scope.code)
    sizes = [*sorted(scope.function.integers), *dict.fromkeys(members)]
    for match in scope.matches(_COUNTED_LOOP):
        beside = [re.sub(r"\W", "", each) for each in match[3].split(",")[1:]]
        for name in [*beside, *([match[1]] if "+" in match[2] else [])]:
            for size in sizes if name.isidentifier() else ():
                new = f" && {name} < {size}"
                yield scope.instead("loop_lacks", match.end(), match.end(), new, 1, match.span())


_SIMPLE = re.compile(
    r"^([ \t]*)(?:(?:const|auto|float|int|size_t) )*([A-Za-z_]\w*)(?:\[[^\]=]*\])?"
    r"\s*[-+*/]?=(?!=)[^;\n]*(;?)[ \t]*$"
)
_COPIED = re.compile(r"\s*\w+ = [A-Za-z_]\w*;?$")  # such as `m = m_new`


@at_each(r"\bfor (\w+) in range\([^,()\n]+, [^,()\n]+, (\w+)\)")
def _stepped_twice(scope: Scope, loop: re.Match[str]) -> Iterator[Edit]:
    """The variable of a loop in steps of a block, that is multiplied by the block once more."""
    for match in scope.matches(rf"\b{loop[1]} \* {loop[2]}\b", loop.end()):
        yield scope.instead("steps", *match.span(), loop[1], 1)


def _order(scope: Scope) -> Iterator[Edit]:
    """A statement in front of one that it belongs behind; `m = m_new` may be some lines early."""
    first, last = scope.line_span
    for number in range(first, last):
        is_copied = _COPIED.match(scope.code_line(number).rstrip())
        for below in range(number + 1, min(number + (MOST_EARLY if is_copied else 1), last) + 1):
            yield from _in_order(scope, number, below)


def _in_order(scope: Scope, number: int, following: int) -> Iterator[Edit]:
    """A statement behind one that it stands before, with the lines between them where they are."""
    lines = scope.code_line(number).rstrip(), scope.code_line(following).rstrip()
    one, two = map(_SIMPLE.match, lines)
    balanced = all(each.count("(") == each.count(")") for each in lines)
    if one is None or two is None or one[1] != two[1] or not balanced:
        return
    starts = [scope.text.starts[each - 1] for each in (number, following)]
    reads = [
        re.search(rf"\b{set_[2]}\b", line.partition("=")[2])
        and scope.first_use.get(set_[2], starts[0]) < starts[0]
        for set_, line in ((one, lines[1]), (two, lines[0]))
    ]
    reads.append(one[2] == two[2] and "*=" in lines[1] and "+=" in lines[0])
    if not any(reads):
        return
    spans = [(start, start + len(line)) for start, line in zip(starts, lines, strict=True)]
    changes = [Change(*spans[0], ""), Change(spans[1][1], spans[1][1], f"\n{lines[0]}")]
    below = scope.quoted(0, 0, lines[1])
    behind = scope.text.code[spans[1][1] : scope.function.end]
    if not re.search(rf"\b{one[2]}\b", behind):  # there nothing would read it
        what = f"{scope.quoted(*spans[0])} is a line too many: it changes what {below} reads"
        change = Change(starts[0], starts[0] + len(lines[0]) + 1, "")
        yield scope.edit("order", [change], what, "Leave it out.", 3)
        return
    what = f"{scope.quoted(*spans[0])} stands before {below} and belongs behind it"
    yield scope.edit("order", changes, what, "", 1 if _COPIED.match(lines[0]) else 3)


_SET = re.compile(r"^\s*(?:(?:const|auto|float|int) )*(\w+)\s*[-+*/]?=(?!=)([^\n]*)", re.M)


@at_each(_LOOP)
def _not_kept(scope: Scope, loop: re.Match[str]) -> Iterator[Edit]:
    """A value that a loop reads, and that nothing in it changes: its new one isn't kept."""
    end, margin = scope.end_of(loop)
    body = scope.text.code[loop.end() : end]
    given = dict(_SET.findall(body))
    before = (name for name in scope.kinds if 0 < scope.first_use.get(name, 0) < loop.start())
    kept = [each for each in before if each not in given and re.search(rf"\b{each}\b", body)]
    for name, (new, made) in itertools.product(kept, given.items()):
        is_made_of_it = re.search(rf"\bf?max\w*\(.*\b{name}\b", made)
        if is_made_of_it or new.split("_")[0] == name.split("_")[0]:
            statement = f"{name} = {new}{'' if scope.is_triton else ';'}"
            what = f"Nothing in the loop changes `{name}`: `{statement}` is missing at its end"
            change = Change(end, end, f"{margin}{statement}\n")
            advice = "Each round then begins with what the one before it left."
            yield scope.edit("not_kept", [change], what, advice, 1, loop.start())


_OVER_BLOCKS = re.compile(
    r"^([ \t]*)for (\w+) in (?:tl\.)?range\((?:0, )?(?:\w+\.)?(cdiv\()?(\w+), (\w+)\)+:", re.M
)


@at_each(_OVER_BLOCKS)
def _mask_stays(scope: Scope, loop: re.Match[str]) -> Iterator[Edit]:
    """A mask that is the same in each turn, of a loop whose pointers move on."""
    _, turn, is_counted, size, block = loop.groups()
    first = f"{turn} * {block}" if is_counted else turn
    end, _ = scope.end_of(loop)
    for mask in scope.matches(
        rf"(?<![\w.+*] )\b(\w+)(\[[:, None]+\])? < {size}\b", loop.end(), end
    ):
        if re.search(rf"\b{mask[1]} = [^\n]*\b{turn}\b", scope.text.code[loop.end() : end]):
            continue  # it goes along already
        moved = f"{first} + {mask[1]}"
        what = f"{scope.quoted(*mask.span())} is the same in each turn, and the loop goes on"
        advice = f"Compare `{moved}`, which goes along."
        change = Change(*mask.span(1), f"({moved})" if mask[2] else moved)
        yield scope.edit("not_moved", [change], what, advice, 1)


_SCALED = re.compile(
    r"[ \t]*\}?\n*^([ \t]*)(?:for \([^\n)]*\)\s*)?(\w+)(?:\[\w+\])? \*= [^;\n]+;?$", re.M
)


@at_each(_LOOP)
def _scaled_late(scope: Scope, loop: re.Match[str]) -> Iterator[Edit]:
    """A sum that is rescaled behind the loop which adds to it, and belongs in front of it."""
    code = scope.text.code
    end, _ = scope.end_of(loop)
    late = _SCALED.match(code, end)
    added = late and re.search(rf"\b{late[2]}(?:\[\w+\])? \+=", code[loop.end() : end])
    if late and added and late[1] == loop[1]:
        what = "{} scales what this loop has added, too"
        advice = "Rescale the earlier sum first, in front of the loop."
        yield _in_front(scope, loop, (late.end(1), late.end()), ("order", what, advice))


def _in_front(
    scope: Scope, loop: re.Match[str], span: tuple[int, int], words: tuple[str, str, str]
) -> Edit:
    """A statement in front of a loop instead of in it or behind it; `words` quote it as {}."""
    name, what, advice = words
    statement = scope.text.source[slice(*span)]
    changes = [
        Change(loop.start(), loop.start(), f"{loop[1]}{statement}\n"),
        Change(*span, ""),
    ]
    return scope.edit(name, changes, what.format(scope.quoted(*span)), advice, 1, span[0])


_RESET = re.compile(
    r"^[ \t]*(?:for \([^;\n]*;[^;\n]*;[^)\n]*\) )?(\w+)(?:\[\w+\])? = -?[\w.()\"-]+;?$"
)
_FIRST_VALUE = re.compile(r".* = -?(?:[\d.]+f?|INFINITY|float\(\"-?inf\"\));?$")


@at_each(_LOOP)
def _hoisted(scope: Scope, loop: re.Match[str]) -> Iterator[Edit]:
    """A first value that is set in each turn of a loop, and belongs in front of it."""
    code = scope.text.code
    end, indent = scope.end_of(loop)
    first = scope.text.line_at(loop.start()) + 1
    for number in range(first, scope.text.line_at(end)):
        line = scope.code_line(number).rstrip()
        reset = _RESET.match(line)
        body = code[loop.end() : end]
        if reset is None or not re.search(rf"\b{reset[1]}\b", body.replace(line, "", 1)):
            continue
        is_first_value = line.startswith(indent + line.strip()) and _FIRST_VALUE.match(line)
        if number > first and not is_first_value:
            continue
        start = scope.text.starts[number - 1]
        span = start + len(line) - len(line.lstrip()), start + len(line)
        words = "{} stands in the loop, so each turn begins anew"
        advice = "Set it once, in front of the loop."
        yield _in_front(scope, loop, span, ("hoisted", words, advice))


_DIVIDED = re.compile(r"^[ \t]*((\w+)(?:\[\w+\])?) (?:/=|= \1 /) [^;\n]+;?$")


@at_each(_LOOP)
def _divided_early(scope: Scope, loop: re.Match[str]) -> Iterator[Edit]:
    """A sum that each turn of a loop divides, and that is to be divided once, behind the loop."""
    end, indent = scope.end_of(loop)
    numbers = range(scope.text.line_at(loop.start()) + 1, scope.text.line_at(end))
    lines = {number: scope.code_line(number).rstrip() for number in numbers}
    behind = scope.text.line_at(end) + (not scope.is_triton and indent != "")  # past the brace
    for number, line in lines.items():
        divided = _DIVIDED.match(line)
        if not divided or not line.startswith(indent + divided[1]):
            continue
        others = "\n".join(each for n, each in lines.items() if n != number)
        if not re.search(rf"\b{divided[2]}\b(?:\[\w+\])? [+*]?= ", others):
            continue
        start = scope.text.starts[number - 1]
        left_out = Change(start, start + len(line) + 1, "")
        what = f"{scope.quoted(start, start + len(line))} stands in the loop, so each turn divides"
        what += " what those before it have added"
        at = scope.text.starts[behind - 1]
        moved = Change(at, at, f"{loop[1]}{line.strip()}\n")
        for changes in ([left_out, moved], [left_out]):
            advice = "Divide once, behind the loop."
            yield scope.edit("hoisted", changes, what, advice, 1, start)


_TURNS = re.compile(
    r"\bfor \w+ in (?:tl\.)?(?:static_)?range\((?:0, )?([A-Z]\w*)\)"
    r"|\bfor \(\w+ \w+ = 0; \w+ < ([A-Z]\w*);"
)
_OWN = re.compile(
    r"(?:program_id\(\d\)(?:\.to\([\w.]+\))?|\bpid\w*|\bblockIdx\.x\)?) \* "
    r"([A-Z]\w*|blockDim\.x)(?![\w*]| \*)"
)


def _turns(scope: Scope) -> Iterator[Edit]:
    """A program's first element, where each takes several blocks: `pid * BLOCK * TURNS`."""
    for turns in dict.fromkeys(match[1] or match[2] for match in scope.matches(_TURNS)):
        for match in scope.matches(_OWN):
            new = f"{match[1]} * {turns}"
            yield scope.instead("turns", *match.span(1), new, 1, match.span())


@at_each(r"\b(\w+)( - (\w+)(?: \+ 1)?)(?=, \3\)|; \w+ \+= \3\))")
def _whole_blocks(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A loop over blocks that ends before the last one, which is not a whole one."""
    what = "The loop takes whole blocks only, and leaves out what is left"
    advice = f"End it at `{match[1]}`: the mask, or a condition, leaves out what is beyond."
    yield scope.edit("whole_blocks", [Change(*match.span(2), "")], what, advice, 0)


@at_each(r"\brange\((?:0, )?(?:tl\.)?cdiv\((\w+), (\w+)\)\)")
def _steps(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A loop that counts blocks, whose variable is used as the offset of a block."""
    new = f"range(0, {match[1]}, {match[2]})"
    yield scope.instead("steps", *match.span(), new, 1)


_CASE = re.compile(r"^([ \t]*)(?:case\b[^:\n]*|default\s*):", re.M)


def _falls_through(scope: Scope) -> Iterator[Edit]:
    """A case of a `switch` without `break`, so that the next one runs as well."""
    code = scope.text.code
    cases = [*scope.matches(_CASE)]
    for one, other in itertools.pairwise(cases):
        between = code[one.end() : other.start()]
        if between.strip() and not re.search(r"\b(?:break|return|continue)\b", between):
            what = (
                f"{scope.quoted(one.start(), one.end())} has no `break`, so the next case runs too"
            )
            change = Change(other.start(), other.start(), f"{other[1]}    break;\n")
            advice = "End it with `break;`."
            yield scope.edit("falls_through", [change], what, advice, 0, one.start())


RULES: Sequence[Rule] = (
    _not_advanced,
    _stops,
    _elements,
    _halved,
    _turns,
    _whole_blocks,
    _steps,
    _stepped_twice,
    _stop_lacks,
    _loop_lacks,
    _order,
    _scaled_late,
    _not_kept,
    _mask_stays,
    _hoisted,
    _divided_early,
    _falls_through,
)
