"""Changes after what stands beside: a line like its neighbour, an index like the line's others.

A student who copies a line and forgets to change a part of it leaves a trace: the part differs from
what it is paired with. Matrices have the axes M, N and K, a vector the components x to w.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from grader.executors.source_text import Change
from grader.grading.edits.edit_scope import (
    BUILTINS,
    Edit,
    Rule,
    Scope,
    are_twins,
    at_each,
    axis_of,
    plain,
    shared_arrays,
)

MOST_PLACES = 5  # of one change that is made in all of them: a warp's reduction has five steps
_REPEATED = frozenset(  # names of changes that a copied mistake needs at each of its places
    [
        *("as_elsewhere", "fills", "function", "mask_lacks", "name", "number", "odd_index"),
        *("operator", "rounded_down"),
    ]
)


def at_all_places(edits: Sequence[Edit]) -> Iterator[Edit]:
    """Changes that a function may need at each of several places, as one change."""
    alike: dict[tuple[str, str, int], dict[Change, Edit]] = {}
    for edit in edits:
        if len(edit.changes) == 1 and edit.name in _REPEATED:
            for idea in _ideas(edit):
                key = edit.name, idea, edit.cost
                alike.setdefault(key, {}).setdefault(edit.changes[0], edit)
    groups = {tuple(repeated): repeated for repeated in alike.values()}
    for repeated in groups.values():
        changes = sorted(repeated, key=lambda each: each.start)
        apart = all(a.end < b.start for a, b in itertools.pairwise(changes))
        if apart and 1 < len(changes) <= MOST_PLACES:
            first = repeated[changes[0]]
            where = "at both places" if len(changes) == 2 else f"at all {len(changes)} places"
            yield replace(first, changes=tuple(changes), what=f"{first.what}, {where}")
        if len(changes) > 2 and repeated[changes[0]].name == "name":
            for pair in itertools.pairwise(changes):
                first, second = repeated[pair[0]], repeated[pair[1]]
                if second.line == first.line + 1 and " * " in first.what:
                    what = f"{first.what}, and in the line below"
                    yield replace(first, name="two_lines", changes=pair, what=what, cost=1)


def _ideas(edit: Edit) -> Iterator[str]:
    """What a change says, for a mask the bound alone: two may lack it in two directions.

    Two quotients of a line may round down.
    """
    what = re.sub(r"\[[:, None]+\]", "", edit.what.rpartition(" lacks a part: ")[2])
    yield re.sub(r"`\w+ [-+*]?= ", "`", what)
    if edit.name == "rounded_down":
        yield f"in line {edit.line}"


@at_each(r"\b(\w+)(?:\.([xyzw])|\[(\d)\])\s*=(?!=)([^;\n]*?)\b(\w+)(?:\.([xyzw])\b|\[(\d)\])")
def _components(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A component of a vector that is made from another one: `y.w = f(x.z)`."""
    to, made_of = match[2] or match[3], match[6] or match[7]
    alike = bool(match[2]) == bool(match[6])
    if not alike or to == made_of or {match[1], match[5]} & {*BUILTINS}:
        return
    place = 6 if match[6] else 7
    given = 2 if match[2] else 3
    yield scope.instead("component", *match.span(place), to, 1, (match.start(5), match.end()))
    at = match.start(1), match.end(given) + (given == 3)
    yield scope.instead("component", *match.span(given), made_of, 2, at)


# An index, or the last summand of one: `j` in `row[start + j]`.
_INDEXED = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\[(?:[^\[\]\n]{1,60} \+ )?([A-Za-z_][\w.]*)\]")


def _odd_index(scope: Scope) -> Iterator[Edit]:
    """An index that differs from the others of its line: `y[j] = x[j] * w[tid]`."""
    lines: dict[int, list[re.Match[str]]] = {}
    for match in scope.matches(_INDEXED):
        lines.setdefault(scope.text.line_at(match.start()), []).append(match)
    for accesses in lines.values():
        counts = Counter(match[2] for match in accesses)
        names = {each[2] for each in accesses if each[0] == f"{each[1]}[{each[2]}]"}
        for match, other in itertools.product(accesses, counts):
            # Of two indices that are as frequent, either may be odd: only names are then exchanged.
            are_names = {match[2], other} <= names and "." not in match[2] + other
            if other != match[2] and counts[other] >= counts[match[2]] + (not are_names):
                cost = 1 if counts[other] > counts[match[2]] else 2
                if "." in match[2]:  # marked with its array, as `out[threadIdx.x]` is elsewhere
                    new = match[0].removesuffix(f"{match[2]}]") + f"{other}]"
                    yield scope.instead("odd_index", *match.span(), new, cost)
                else:
                    yield scope.instead("odd_index", *match.span(2), other, cost, match.span())


_ASSIGNED = re.compile(r"^[ \t]*[\w :*<>&]*?[\w.\]]\s*[-+*/]?=(?!=)\s*(.*?);?\s*$")
_PIECE = re.compile(r"[A-Za-z_]\w*|\S")
_HEAD = re.compile(r"^[ \t]*for\b\s*(\([^;]*;[^;]*;[^;{]*?\)|[^;]*:)")


def _like_neighbour(scope: Scope) -> Iterator[Edit]:
    """A name of a line that is built as the next ones are: `k += z * M;` beside `v += z * N;`.

    Loops of a function are like each other, too, however far they are apart.
    """
    first, last = scope.line_span
    numbers = [n for n in range(first, last + 1) if scope.code_line(n).strip()]
    heads = {n: match for n in numbers if (match := _HEAD.match(scope.code_line(n)))}
    given = {n: heads.get(n) or _ASSIGNED.match(scope.code_line(n)) for n in numbers}
    for at, number in enumerate(numbers):
        beside = numbers[at + 1 : at + 1 + MOST_APART]
        for other in heads if number in heads else beside:
            one, two = given[number], given[other]
            if one is None or two is None:
                continue
            pieces = [[*_PIECE.finditer(each[1])] for each in (one, two)]
            shapes = [
                [p[0] if p[0] in _WORDS else "_" * p[0][0].isalpha() or p[0] for p in each]
                for each in pieces
            ]
            if len(pieces[0]) < LEAST_PIECES or shapes[0] != shapes[1]:
                continue
            pairs = [(a, b) for a, b in zip(*pieces, strict=True) if a[0] != b[0]]
            if number in heads and len(pairs) > 1:
                continue  # loops over something else
            for a, b in pairs:
                kinds = {scope.kinds.get(a[0]), scope.kinds.get(b[0])}
                if len(kinds) > 1 or None in kinds:
                    continue
                for line, match, piece, new in ((number, one, a, b[0]), (other, two, b, a[0])):
                    start = scope.text.starts[line - 1] + match.start(1)
                    span = start + piece.start(), start + piece.end()
                    if new not in scope.values or scope.first_use.get(new, 0) < span[0]:
                        around = _segment(scope, *span)
                        yield scope.instead("as_neighbour", *span, new, 1, around)


def _segment(scope: Scope, start: int, end: int) -> tuple[int, int]:
    """A name with the operands beside it, up to a comma, a parenthesis or the line's end."""
    code = scope.text.code
    equals = code.rfind("=", 0, start)
    marks = "(,;\n" if code[equals - 1] in "+-*/" else "(,;=\n"  # what is added to is quoted, too
    low = max(code.rfind(each, 0, start) for each in marks) + 1
    high = min(at for each in "),;\n" if (at := code.find(each, end)) >= 0 or (at := len(code)))
    return low + len(code[low:start]) - len(code[low:start].lstrip()), high


MOST_APART = 3  # lines between those that are compared
LEAST_PIECES = 4  # of a line that is compared
_WORDS = frozenset(BUILTINS) | {"tl", "triton", "torch"}
_LIKE_FUNCTIONS = (("exp", "exp2"), ("log", "log2"), ("expf", "exp2f"), ("logf", "log2f"))


def _odd_function(scope: Scope) -> Iterator[Edit]:
    """An exponential or logarithm to another base than the others of its function."""
    for pair in _LIKE_FUNCTIONS:
        calls = [*scope.matches(rf"\b({'|'.join(pair)})(?=\()")]
        counts = Counter(call[1] for call in calls)
        for call in calls if len(counts) == 2 else ():
            other = pair[call[1] == pair[0]]
            cost = 1 if counts[call[1]] <= counts[other] else 2
            yield scope.instead("odd_function", *call.span(), other, cost)


_TWIN = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.[xy]\b)?")


def _across_lines(scope: Scope) -> Iterator[Edit]:
    """Two like names, one in each of two neighbouring lines, in each other's place."""
    first, last = scope.line_span
    for number in range(first, last):
        pair = scope.code_line(number), scope.code_line(number + 1)
        values = [line.partition("=")[2] for line in pair]
        if not all(values) or any(re.match(r"\s*(?:if|for|while|return)\b", x) for x in pair):
            continue
        names = [dict.fromkeys(_TWIN.findall(each)) for each in values]
        for one, other in itertools.product(*names):
            is_other_kind = scope.kinds.get(one) != scope.kinds.get(other)
            if one in names[1] or other in names[0] or is_other_kind or not are_twins(one, other):
                continue
            changes = [
                Change(at, at + len(name), new)
                for place, name, new in ((0, one, other), (1, other, one))
                for at in _places(scope, number + place, name)
            ]
            what = f"`{one}` and `{other}` stand in each other's line"
            yield scope.edit("names", changes, what, "", 1)


def _places(scope: Scope, number: int, name: str) -> Iterator[int]:
    """The offsets of a name behind a line's first `=`."""
    line = scope.code_line(number)
    start = scope.text.starts[number - 1]
    for match in re.finditer(rf"(?<![\w.]){re.escape(name)}\b", line):
        if match.start() > line.index("="):
            yield start + match.start()


_PAIRED = re.compile(
    r"(?<![\w.])([A-Za-z_]\w*)(?:\[[:, None]+\])?\s*(?:,|//|[*/%<])\s*"
    r"([A-Za-z_]\w*)(?![\w.(\[])"
)


def _axes(scope: Scope) -> Iterator[Edit]:
    """A size of another axis than what it is paired with: `cdiv(N, BM)`, `pid_n * BLOCK_M`."""
    known = {*scope.values, *scope.kinds}
    code = scope.text.code
    at = scope.function.body
    by_line: dict[int, list[Edit]] = {}
    while match := _PAIRED.search(code, at, scope.function.end):
        at = match.start(2)
        axes = axis_of(match[1]), axis_of(match[2])
        is_listed = "," in match[0] and code[match.end() : match.end() + 1] != ")"  # of arguments
        if not all(axes) or axes[0] == axes[1] or is_listed:
            continue
        for place, axis in ((2, axes[0]), (1, axes[1])):
            letter = axis.upper() if match[place][-1].isupper() else axis
            other = match[place][:-1] + letter
            if other in known and scope.first_use.get(other, 0) <= match.start():
                edit = scope.instead("axis_of", *match.span(place), other, 1, match.span())
                if place == 2:
                    by_line.setdefault(edit.line, []).append(edit)
                yield edit
    for edits in by_line.values():
        if len(edits) > 1:
            changes = [change for each in edits for change in each.changes]
            what = f"{edits[0].what}, and so beside it"
            yield scope.edit("axis_of", changes, what, "", 1)


def _reordered(scope: Scope) -> Iterator[Edit]:
    """Arguments of a call in the order in which the parameters of these names come."""
    for call in scope.calls:
        callee = scope.callee_of(call)
        given = [scope.text.source[slice(*each)] for each in call.arguments]
        if callee is None or any("=" in each or each.startswith("*") for each in given):
            continue
        parameters = map(plain, callee.parameters[: len(given)])
        named = [re.sub(r"_(?:key|ptr|size)$", "", each) for each in parameters]
        left = [*given]
        placed: list[str | None] = []
        for name in named:
            match = next((each for each in left if _stands_for(each, name)), None)
            placed.append(match)
            if match is not None:
                left.remove(match)
        if len(left) > MOST_UNNAMED or len(named) != len(given):
            continue
        ordered = [each if each is not None else left.pop(0) for each in placed]
        if ordered != given:
            changes = [
                Change(*span, new) for span, new in zip(call.arguments, ordered, strict=True)
            ]
            what = f"The arguments of `{call.name}` don't come in the order of its parameters"
            advice = f"The parameters are {', '.join(callee.parameters[: len(given)])}."
            yield scope.edit("reordered", changes, what, advice, 1)


def _as_parameter(scope: Scope) -> Iterator[Edit]:
    """An argument where one that is named as its parameter belongs, and isn't passed: `f(n, n)`."""
    for call in scope.calls:
        callee = scope.callee_of(call)
        given = [scope.text.source[slice(*each)].strip() for each in call.arguments]
        for span, argument, name in zip(
            call.arguments, given, callee.parameters if callee else (), strict=False
        ):
            is_passed = not argument.isidentifier() or argument == name or name in given
            if not is_passed and scope.first_use.get(name, call.end) < call.start:
                what = f"`{call.name}` gets `{argument}` for its parameter `{name}`"
                advice = f"Pass `{name}`."
                yield scope.edit("as_parameter", [Change(*span, name)], what, advice, 1)


MOST_UNNAMED = 3  # arguments of a call that no parameter is named after


def _stands_for(argument: str, name: str) -> bool:
    """Whether an argument is named as a parameter: `M` or `key(M)` for m, `a.stride(0)`."""
    inner = re.sub(r"^\w+\((\w+)\)$", r"\1", argument.strip())
    is_called = inner != argument.strip()
    return plain(inner).lower() == name.lower() and not (is_called and name.startswith("stride"))


_PART = re.compile(r"^[ \t]*(?:const int |int )?(\w+) = (\w+) (?:%|//?) \w+;?[ \t]*$", re.M)
_SUM = re.compile(r"^([ \t]*)(?:\w+ )*(\w+) = ([^=;\n]+ \+ )(\S[^;\n+]*?);?[ \t]*$", re.M)
_FIRST = re.compile(r"^([ \t]*)for \((?:\w+ )+(\w+) = ()([a-z][\w.]*);", re.M)


def _whole(scope: Scope) -> Iterator[Edit]:
    """A part of an index where the whole one belongs: the head within a batch for the head of all.

    Or an offset within a block, `tl.arange(0, BLOCK)`, where one with the block's start belongs;
    or a thread's first element where the one of this turn of the loop does.
    """
    code = scope.text.code
    parts = {match[1]: match[2] for match in scope.matches(_PART)}
    for token in scope.tokens:
        whole = parts.get(token.text)
        if whole and scope.first_use.get(token.text, token.start) < token.start:
            yield scope.instead("whole", token.start, token.end, whole, 1)
    for match in (*scope.matches(_SUM), *scope.matches(_FIRST)):
        _, name, start, part = match.groups()
        part = part.removesuffix(".to(tl.int64)")
        is_likely = not start or scope.in_loop(scope.text.line_at(match.start(2)))
        end = None if start else scope.end_of(match)[0]
        again = rf"(?<![\w.])(\w+\[)?(?<![\w.]){re.escape(part)}(?(1)\]|(?![\w.(]|\[(?![:N])))"
        for other in scope.matches(again, match.end(), end):
            line = scope.code_line(scope.text.line_at(other.start()))
            is_given = re.match(rf"\s*(?:\w+ )*{name} =", line)
            is_there = start and code[: other.start()].endswith(start)
            if part.upper() != part and not is_given and not is_there:
                around = other.span() if other[1] else _segment(scope, *other.span())
                # As in `tl.arange(0, BLOCK)[:, None]`.
                bracket = code.find("]", other.end())
                is_block = not other[1] and code.startswith("[", other.end()) and bracket > 0
                if is_block:
                    around = other.start(), bracket + 1
                new = other[0].replace(part, name)
                cost = 1 if is_likely or (is_block and re.search(r"[<>]=?", line)) else 2
                yield scope.instead("whole", *other.span(), new, cost, around)


_TWO_INDICES = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\[([^\[\]\n]+)\]\[([^\[\]\n]+)\]")


def _same_form(scope: Scope) -> Iterator[Edit]:
    """An index that lacks what other accesses of its array have.

    Such as `a[j][i]` for `a[j][i ^ j]`, or `a[x][y]` beside `a[y + j][x]`.
    """
    accesses = [*scope.matches(_TWO_INDICES)]
    for own, other in itertools.permutations(accesses, 2):
        if own[1] != other[1]:
            continue
        for place, beside in ((3, 2), (2, 3)):
            match = re.fullmatch(r"(\w+) ([-+^]) (\w+)", other[place])
            is_plain = own[place].isidentifier() and own[beside].isidentifier()
            if match and is_plain and other[beside] in (match[1], match[3]):
                new = f"{own[place]} {match[2]} {own[beside]}"
                yield scope.instead("as_elsewhere", *own.span(place), new, 1, own.span())
        for place, theirs in itertools.product((2, 3), (other[2], other[3])):
            begins = re.match(rf"{re.escape(own[place])} [-+^] ", theirs)
            if begins and scope.is_known(theirs, own.start()):
                yield scope.instead("as_elsewhere", *own.span(place), theirs, 1, own.span())


_MEMBER = re.compile(r"(?<![\w.>])([A-Za-z_]\w*)\.([A-Za-z_]\w*)\b(?!\s*\()")


def _members(scope: Scope) -> Iterator[Edit]:
    """A member of a struct where another one of it belongs: `shape.rows` for `shape.cols`."""
    if scope.is_triton:
        return
    members: dict[str, dict[str, None]] = {}
    for match in _MEMBER.finditer(scope.text.code):
        members.setdefault(match[1], {})[match[2]] = None
    for match in scope.matches(_MEMBER):
        for other in members[match[1]] if match[1] not in BUILTINS else ():
            if other != match[2] and len(other) > 1 < len(match[2]):
                yield scope.instead("name", *match.span(2), other, 2, match.span())


@at_each(r"(?m)^[ \t]*(?:const )?(?:int |unsigned |size_t )?(\w+) = (\w+ \+ \w+);?[ \t]*$")
def _not_clamped(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """The end of a thread's or program's part of a size, that isn't kept below the size."""
    code = scope.text.code
    bounds = re.compile(rf"<\s*{match[1]}\b|\brange\([^()\n]*\b{match[1]}\b")
    for size in sorted(scope.function.integers) if bounds.search(code, match.end()) else ():
        smaller = "tl.minimum" if scope.is_triton else "min"
        new = f"{smaller}({match[2]}, {size})"
        yield scope.instead("not_clamped", *match.span(2), new, 1)


_OWN_ELEMENT = re.compile(r"\b(\w+)\[(?:\w*(?:lane|tid|thread)\w*|threadIdx\.x)\]")


def _whole_sum(scope: Scope) -> Iterator[Edit]:
    """A thread's own element of shared memory where the first has what all threads need."""
    if scope.is_triton:
        return
    code = scope.text.code
    shared = shared_arrays(code[scope.function.start : scope.function.end])
    for match in scope.matches(_OWN_ELEMENT):
        behind = code[match.end() : match.end() + 3].strip()
        is_read = not re.match(r"[-+*/]?=(?!=)", behind)
        if match[1] in shared and is_read:
            yield scope.instead("whole_sum", *match.span(), f"{match[1]}[0]", 1)


@at_each(
    r"(?<![\w.])(\w+)(?:\.t\(\)|\.T\b|\.(?:reshape|view|transpose|permute)"
    r"\([^()\n]*(?:\([^()\n]*\))?[^()\n]*\))?(?=[,)\n]|$)"
)
def _views(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A tensor of a launcher that is to be transposed, or is and isn't to be."""
    if not scope.is_triton or scope.function.is_kernel:
        return
    if scope.kinds.get(match[1]) == "tensor":
        is_turned = re.search(r"\.(?:t\(|T\b|transpose|permute)", match[0])
        new = match[1] if is_turned else f"{match[1]}.t()"
        yield scope.instead("view", *match.span(), new, 1 if match[0] != match[1] else 3)


def _moved_alike(scope: Scope) -> Iterator[Edit]:
    """The distance that a pointer is moved by in CUDA C++, in the place of another pointer's."""
    moves = [] if scope.is_triton else scope.matches(r"(?m)^[ \t]*(\w+) \+= ([^;\n]+);")
    moved = [match for match in moves if match[1] in scope.pointers]
    for match in moved:
        for other in dict.fromkeys(each[2] for each in moved if each[2] != match[2]):
            yield scope.instead("as_elsewhere", *match.span(2), other, 1, match.span(2))


RULES: Sequence[Rule] = (
    _components,
    _odd_index,
    _odd_function,
    _axes,
    _like_neighbour,
    _across_lines,
    _same_form,
    _members,
    _not_clamped,
    _whole_sum,
    _whole,
    _views,
    _reordered,
    _as_parameter,
    _moved_alike,
)
