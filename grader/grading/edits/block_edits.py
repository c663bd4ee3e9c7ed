"""Changes of what a block, a warp or a program has to do: its threads, its tile, its result."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from grader.executors.source_text import Change, Function
from grader.grading.edits import kinds
from grader.grading.edits.edit_scope import Edit, Rule, Scope, at_each, shared_arrays

MOST_CONSTANTS = 4  # for a launch's threads
MOST_WRAPPED = 12  # values that a helper which nothing calls may be meant for

_DIVIDED = re.compile(
    r"\b(\w+)\s*=\s*\(?\s*([\w.]+)\s*(?://?)\s*([\w.]+)[^;\n]*[;\n]\s*(?:const\s+)?(?:int\s+)?"
    r"(\w+)\s*=\s*\(?\s*\2\s*%\s*\3"
)
_AXIS = re.compile(r"\b(\w+)\s*=\s*blockIdx\.([xy])(?:\s*\*\s*\w+)?\s*[;,]")


def _tile_behind_barrier(scope: Scope) -> Iterator[Edit]:
    """A transposed tile whose place isn't exchanged: its row and column, behind the barrier."""
    start, end = scope.function.body, scope.function.end
    barrier = scope.text.code.rfind("__syncthreads()", start, end)
    if scope.is_triton or barrier < 0:
        return
    pairs = [(match[1], match[4]) for match in scope.matches(_DIVIDED, end=barrier)]
    axes = {match[2]: match[1] for match in scope.matches(_AXIS, end=barrier)}
    if len(axes) == 2:
        pairs.append((axes["x"], axes["y"]))
    for one, other in pairs:
        new = {one: other, other: one}
        behind = [each for each in scope.tokens if each.start > barrier and each.text in new]
        if {each.text for each in behind} == {one, other}:
            changes = [Change(each.start, each.end, new[each.text]) for each in behind]
            what = (
                f"Behind the barrier `{one}` and `{other}` stand in each other's place: the tile "
                "is turned, and its place isn't"
            )
            advice = "The tile in row i and column j of the input goes to row j and column i."
            yield scope.edit("tile", changes, what, advice, 1)
    both = [*scope.matches(r"\bblockIdx\.([xy])\b", barrier)]
    if {each[1] for each in both} == {"x", "y"}:
        changes = [Change(*each.span(1), "yx"["xy".index(each[1])]) for each in both]
        what = "Behind the barrier `blockIdx.x` and `blockIdx.y` stand in each other's place"
        yield scope.edit("tile", changes, what, "", 1)


_SQUARE = re.compile(r"(\bdim3(?: \w+)?[({])(\w+), \2([)}])")
_SQUARE_TILE = re.compile(r"\b\w+\[([A-Z]\w*)\]\[\1\b")
_ALIAS = re.compile(r"\b(\w+) = ((?:blockIdx|threadIdx)\.x);")


_ELEMENT = r"(?<![\w.])([A-Za-z_][\w.]*) \* (\d+|[A-Z]\w*) \+ ([A-Za-z_][\w.]*)"


def _own_length(scope: Scope) -> Iterator[Edit]:
    """A thread's element by a fixed number of threads, where a launch may have another number."""
    known = dict(_ALIAS.findall(scope.code))
    for match in scope.matches(_ELEMENT):
        block, thread = (known.get(each, each) for each in match.group(1, 3))
        if (block, thread) == ("blockIdx.x", "threadIdx.x"):
            edit = scope.instead("threads", *match.span(2), "blockDim.x", 1, match.span())
            yield replace(edit, advice="`blockDim.x` is how many threads the launch gives a block.")


_ARRAY = re.compile(r"__shared__\s+\w+\s+(\w+)\[(\d+|[A-Z]\w*)\];")
_SHAPE = re.compile(r"\bdim3 (\w+)[({][^,;(){}]+, ([^,;(){}]+)[)}]")


def _threads(scope: Scope) -> Iterator[Edit]:
    """A launch whose threads differ from the constant its kernel steps by, or from its arrays."""
    if scope.is_triton:
        return
    code = scope.text.code
    for square in scope.matches(_SQUARE):
        for size in {*_SQUARE_TILE.findall(code)} - {square[2]}:
            new = f"{square[1]}{size}, {size}{square[3]}"
            yield scope.instead("threads", square.start(), square.end(), new, 1)
    constants = kinds.of_constants(scope.text.source)
    for call in scope.calls:
        kernel = scope.callee_of(call) if call.is_launch and len(call.grid) > 1 else None
        if kernel is None:
            continue
        low, high = call.grid[1]
        body = code[kernel.body : kernel.end]
        steps = [name for name in constants if re.search(rf"\+= {name}\b", body)]
        steps += re.findall(r"\bblockIdx\.x \* (\d+|[A-Z]\w*) \+ threadIdx\.x", body)
        for array, size in _ARRAY.findall(body):
            steps += [size] * (f"{array}[threadIdx.x]" in body)
        for name in dict.fromkeys(steps[:MOST_CONSTANTS]):
            if name != code[low:high] and "(" not in code[low:high]:
                yield scope.instead("threads", low, high, name, 1, (call.start, high + 3))
            for shape in scope.matches(_SHAPE, end=call.start) if "threadIdx.y" in body else ():
                if shape[1] == code[low:high] and shape[2] != name:
                    yield scope.instead("threads", *shape.span(2), name, 1, shape.span())


@at_each(r"\bif \((threadIdx\.x|\w+) < (\w+)\) \{[^{}]*__shfl\w*\([^{}]*\}")
def _whole_warp(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A shuffle of a whole warp behind a condition that fewer of its threads meet."""
    if match[2] != "32":
        what = f"A whole warp shuffles where only {scope.quoted(*match.span(2))} threads come"
        advice = f"Let all 32 threads come: `{match[1]} < 32`, with 0 from the others."
        yield scope.edit("whole_warp", [Change(*match.span(2), "32")], what, advice, 0)


_CAPPED = re.compile(r"\bif \((\w+) > (\w+)\)\s*\{?\s*(\1 = \2;)")
_STRIDED = re.compile(
    r"^[ \t]*(?:for|while)\b.*(?:\b(?:gridDim|num_programs)\b|,.*, [A-Z]\w*\)|cdiv\(.*\))",
    re.M,
)


def _takes_the_rest(scope: Scope, function: Function) -> bool:
    """Whether a kernel loops by blocks or over the grid, where a bound is no mistake."""
    loop = _STRIDED.search(scope.text.code, function.body, function.end)
    return function.is_kernel and loop is not None


def _capped(scope: Scope) -> Iterator[Edit]:
    """A launcher's bound on its blocks, or on a block's length, without a loop over the rest."""
    if scope.function.is_kernel or any(_takes_the_rest(scope, each) for each in scope.reached):
        return
    capped = [*scope.matches(_CAPPED)]
    bounds = [(match.span(), Change(*match.span(3), ";")) for match in capped]
    for call in (each for each in scope.calls if each.name == "min" and len(each.arguments) == 2):
        span = call.start, call.end
        bounds += [(span, Change(*span, scope.text.code[low:high])) for low, high in call.arguments]
    for span, change in bounds:
        what = f"{scope.quoted(*span)} is a bound, and what lies past it is left out"
        advice = "Leave the bound out, or take the rest in a loop."
        yield scope.edit("one_block", [change], what, advice, 1)


_NUMBER_OF_WARP = r"threadIdx\.x\s*(?:/|>>)\s*\w+"
_WARP = re.compile(rf"\b(\w+)\s*=\s*{_NUMBER_OF_WARP}")
_IN_WARP = re.compile(r"\b(\w+)\s*=\s*threadIdx\.x\s*(?:%|&)\s*\(?\w+")


def _one_of_warp(scope: Scope) -> Iterator[Edit]:
    """A warp's element of shared memory, or a block's number there, that several threads store."""
    if scope.is_triton:
        return
    code = scope.text.code
    numbers = [match[1] for match in scope.matches(_IN_WARP)] or ["threadIdx.x % 32"]
    own = _SHARED_NUMBER.findall(code)
    warps = "|".join([_NUMBER_OF_WARP, *{match[1] for match in scope.matches(_WARP)}])
    for match in scope.matches(rf"(?m)^[ \t]*((\w+)(?:\[(?:{warps})\])? = [^;\n]+;)"):
        stored = match[1].partition(" =")[0]
        if stored in own or ("[" in stored and match[2] in shared_arrays(code)):
            for number in dict.fromkeys((["threadIdx.x"] if stored in own else []) + numbers[:1]):
                what = f"More than one thread of a warp stores to `{stored}`"
                advice = f"Let the thread that has the result store it: if ({number} == 0)."
                change = Change(match.start(1), match.start(1), f"if ({number} == 0) ")
                yield scope.edit("one_of_warp", [change], what, advice, 1)


def _first_thread(scope: Scope) -> Iterator[Edit]:
    """The first thread of a block in the place of the first of each warp, or the reverse."""
    if scope.is_triton:
        return
    numbers = dict.fromkeys(["threadIdx.x", *(match[1] for match in scope.matches(_IN_WARP))])
    for match in scope.matches(r"(?<![\w.])(threadIdx\.x|\w+) == 0\b"):
        for other in numbers if match[1] in numbers else ():
            if other != match[1]:
                yield scope.instead("name", *match.span(1), other, 1, match.span())


_SHARED_NUMBER = re.compile(r"__shared__\s+\w+\s+(\w+);")


def _never_called(scope: Scope) -> Iterator[Edit]:
    """A value that isn't passed to the file's helper which nothing calls: a reduction left out."""
    code = scope.text.code
    for helper in scope.text.functions.values():
        is_left_out = len(re.findall(rf"\b{helper.name}\b", code)) == 1
        if helper.is_kernel or len(helper.parameters) != 1 or not is_left_out:
            continue
        own = [
            each
            for each in scope.tokens
            if scope.kinds.get(each.text) in ("float", "data")
            and re.match(r"\s*(?:[;,)\n+*/-])", code[each.end : each.end + 3])
            and re.search(r"[-+*/=(,]\s*$", code[each.start - 3 : each.start])
        ]
        for token in itertools.islice(own, MOST_WRAPPED):
            around = _statement(scope, token.line)
            new = f"{helper.name}({token.text})"
            yield scope.instead("never_called", token.start, token.end, new, 1, around)


@at_each(r"(?m)^([ \t]*)(if) \(([^;{}\n]{1,120}?)\)\s*\{([^{}]{0,600})\}")
def _once(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A branch that moves on what it is taken by: a loop over the grid that turns once."""
    if scope.is_triton:
        return
    moved = re.findall(r"\b(\w+) (?:\+=|= \w+ \+) ", match[4])
    if any(re.search(rf"\b{name}\b", match[3]) for name in moved):
        around = match.start(2), match.end(3) + 1
        yield scope.instead("once", *match.span(2), "while", 0, around)


@at_each(r"\bstd::vector<\w+> (\w+)(\((\w+)\))(?=;)")
def _filled_before(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A vector that is made with its elements, and to which as many are appended."""
    if f"{match[1]}.push_back(" in scope.text.code[match.end() : scope.function.end]:
        what = f"`{match[1]}` has {match[3]} elements already, and `push_back` appends others"
        advice = f"Begin without elements, or store to {match[1]}[i]."
        yield scope.edit("filled_before", [Change(*match.span(2), "")], what, advice, 0)


_LOADED = re.compile(
    r"\(?([^?;=\n]{1,80}?)\)? \? \w+\[(?:\w+\((\w+), (\w+), (\w+)\)|(\w+) \* (\w+) \+ (\w+))\] :"
)


def _guards_lack(scope: Scope) -> Iterator[Edit]:
    """Loads of tiles that check one of two indices: each index needs its own bound."""
    lacking: list[list[tuple[Change, str]]] = []
    for match in scope.matches(_LOADED):
        row, column, length = match[2] or match[5], match[3] or match[7], match[4] or match[6]
        within = {column: [length], row: sorted(scope.function.integers - {length})}
        bounds = [
            f"{name} < {size}"
            for name, sizes in within.items()
            if not re.search(rf"\b{name}\b", match[1])
            for size in sizes
        ]
        added = [(Change(match.end(1), match.end(1), f" && {each}"), each) for each in bounds]
        if added:
            lacking.append(added)
    for one in itertools.chain.from_iterable(lacking):
        what = f"The condition of this load lacks a part: `{one[1]}`"
        yield scope.edit("guard_lacks", [one[0]], what, "Each index needs its own.", 1)
    if len(lacking) == 2:
        for first, second in itertools.product(*lacking):
            what = f"The conditions of two loads lack a part each: `{first[1]}`, and `{second[1]}`"
            changes = [first[0], second[0]]
            yield scope.edit("guard_lacks", changes, what, "Each index needs its own.", 1)


def _statement(scope: Scope, number: int) -> tuple[int, int]:
    """Where the code of a line begins and ends, without blanks around it."""
    line = scope.code_line(number)
    start = scope.text.starts[number - 1]
    return start + len(line) - len(line.lstrip()), start + len(line.rstrip())


_OF_TWO = frozenset(["tl.maximum", "tl.minimum", "max", "min", "fmax", "fmin", "fmaxf", "fminf"])


def _running(scope: Scope) -> Iterator[Edit]:
    """A block's own maximum where the running one, of which it is a part, has been computed."""
    code = scope.text.code
    for call in (each for each in scope.calls if each.name in _OF_TWO):
        line = _statement(scope, scope.text.line_at(call.start))
        name = re.search(r"(\w+) = (?:tl\.)?$", code[line[0] : call.start])
        if name is None:
            continue
        for part in (code[low:high] for low, high in call.arguments):
            for match in scope.matches(re.escape(part), call.end) if "(" in part else ():
                around = _statement(scope, scope.text.line_at(match.start()))
                yield scope.instead("running", *match.span(), name[1], 1, around)


RULES: Sequence[Rule] = (
    _own_length,
    _tile_behind_barrier,
    _threads,
    _whole_warp,
    _capped,
    _one_of_warp,
    _first_thread,
    _never_called,
    _running,
    _guards_lack,
    _once,
    _filled_before,
)
