"""Changes of CUDA C++: guards, barriers, shared memory, first values, bytes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from grader.executors.source_text import Change
from grader.grading.edits.edit_scope import Call, Edit, Rule, Scope, at_each, shared_arrays


def _guards(scope: Scope) -> Iterator[Edit]:
    """An access in CUDA C++ that no condition guards, or one that lacks a part."""
    code = scope.text.code
    conditions = scope.conditions
    pattern = r"\bif\s*\(([^(){};]{1,200})\)|([^?;={}()]{3,120}[^?;={}]{0,80})\?"
    for match in scope.matches(pattern):
        low, high = match.span(1) if match[1] else match.span(2)
        low += len(code[low:high]) - len(code[low:high].lstrip())
        inner = code[low:high].rstrip()
        for condition in conditions:
            is_bound = bool(re.search(r"[<>](?!\s*-?INFINITY)", inner))
            is_there = condition in inner or condition.replace("<", ">=") in inner
            if is_bound and not is_there and scope.is_known(condition, low):
                what = f"The condition {scope.quoted(low, high)} lacks a part: `{condition}`"
                change = Change(low, low + len(inner), f"({inner}) && {condition}")
                yield scope.edit("guard_lacks", [change], what, "Each dimension needs its own.", 2)
    pattern = r"(?m)^([ \t]*)(?!if|for|while|else|return)([^\n;{}]*\w\[[^\n;{}]*);"
    for match in scope.matches(pattern):
        statement = match[2]
        start = match.start(2)
        tried = [*_bounds(statement, scope), *conditions]
        tried = [each for each in dict.fromkeys(tried) if scope.is_known(each, start)]
        tried = [each for each in tried if not _is_left(scope, each, start)]
        tried.sort(key=lambda each: each.count("&&"))
        for place, condition in enumerate(tried):
            what = f"Nothing keeps this access inside: `{condition}` isn't checked before it"
            advice = "The last block has threads beyond the end: they must not load or store."
            cost = 2 + place // 6
            loaded = re.match(
                r"((?:const\s+)?(?:float\s+)?\w+[^=]*[^=!<>+\-*/]=\s*)(?!=)(.+)$", statement
            )
            is_loaded = loaded and "[" in loaded[2] and not re.search(r"\?|&&", loaded[2])
            if loaded and is_loaded:
                low = match.start(2) + loaded.start(2)
                change = Change(low, match.end(2), f"({condition}) ? ({loaded[2]}) : 0")
                yield scope.edit("no_guard", [change], what, advice, cost)
            is_stored = not is_loaded or (loaded and "[" in loaded[1])
            if is_stored and not re.match(r"(?:const|float|int|auto)\b", statement):
                change = Change(match.start(2), match.start(2), f"if ({condition}) ")
                yield scope.edit("no_guard", [change], what, advice, cost)


_LEFT = re.compile(r"\bif\s*\(([^{};\n]{1,120})\)\s*(?:\{\s*)?return\b")


def _is_left(scope: Scope, condition: str, at: int) -> bool:
    """Whether a return before a place compares the same, rightly or not."""
    index, _, size = map(re.escape, condition.partition(" < "))
    beyond = re.compile(rf"(?<![\w.]){index} >=? {size}\b|\b{size} <=? {index}(?![\w.])")
    return any(beyond.search(match[1]) for match in scope.matches(_LEFT, end=at))


_GUARDED = re.compile(r"\bif \(([^{};\n]{1,120})\)\s*(?:\{\s*)?(\w+\[[^;{}]*);")
_CHOSEN = re.compile(r"= \(?([^?;={}\n]{1,120}?)\)? \? (\w+\[[^;:{}]*\]) :")


def _other_guards(scope: Scope) -> Iterator[Edit]:
    """A condition on a store or load that isn't held against the indices of its array."""
    for match in (*scope.matches(_GUARDED), *scope.matches(_CHOSEN)):
        stored = match[2].partition(" = ")[0]
        for condition in _bounds(stored, scope):
            if "&&" in condition and {*condition.split(" && ")} != {*match[1].split(" && ")}:
                yield scope.instead("crossed", *match.span(1), condition, 1)


MOST_FILLED = 4  # places of a function that lack the same


def _fills(scope: Scope) -> Iterator[Edit]:
    """An element of shared memory that is filled under a condition, and else holds anything."""
    code = scope.text.code
    head = code[scope.function.start : scope.function.body]
    passed = re.findall(r"\(&\s*(\w+)\)\s*\[|\b(\w+)\s*\[\w*\]\s*\[", head)
    shared = [*shared_arrays(code), *filter(None, itertools.chain(*passed))]
    pattern = re.compile(
        r"\bif\s*\(([^{};\n]{1,200})\)\s*(\{?)\s*((\w+)(?:\[[^\]\n]*\])+)\s*=\s*([^;{}]{1,300});"
    )
    filled_all = []
    for match in scope.matches(pattern):
        behind = code[match.end() :].lstrip(" \t\n}") if match[2] else code[match.end() :].lstrip()
        if match[4] in shared and not behind.startswith("else"):
            what = f"Where `{match[1]}` is false, nothing fills `{match[3]}`"
            brace = match[2]
            filled = f"{brace} {match[3]} = ({match[1]}) ? ({match[5]}) : 0;"
            change = Change(match.start(), match.end(), filled)
            filled_all.append(change)
            yield scope.edit("fills", [change], what, "Store 0 there, which adds nothing.", 1)
    if 1 < len(filled_all) <= MOST_FILLED:
        what = "Where these conditions are false, nothing fills the elements of shared memory"
        yield scope.edit("fills", filled_all, what, "Store 0 there, which adds nothing.", 1)


def _elements(scope: Scope) -> Iterator[Edit]:
    """An element read past the end of an array of shared memory or of registers."""
    code = scope.text.code
    sizes = dict(re.findall(r"\b(?:float|int|double)\s+(\w+)\s*\[(\w+)\]\s*[;=]", code))
    for match in scope.matches(r"\b(\w+)\[([^\[\]\n]+)\](?!\s*[-+*/]?=[^=])"):
        size = sizes.get(match[1])
        if size is None or code[: match.start()].rstrip().endswith(("float", "int", "double")):
            continue
        what = f"`{match[1]}` has {size} elements, and `{match[2]}` can be larger here"
        advice = f"Read it only where {match[2]} < {size}, and take 0 elsewhere."
        new = f"({match[2]} < {size} ? {match[0]} : 0)"
        yield scope.edit("past_array", [Change(*match.span(), new)], what, advice, 1)


@at_each(r"__shared__\s+\w+\s+(\w+)((?:\s*\[[^\[\]\n]+\])+)")
def _array_sizes(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A size of an array in shared memory that should be another constant, or the whole of one."""
    code = scope.text.code
    for part in scope.matches(r"\[(\w+) / (\w+)\]", *match.span(2)):
        if {*re.findall(rf"\b{part[1]} / (\w+)", code)} == {part[2]}:  # no other part is meant
            at = *part.span(), f"[{part[1]}]", 1, (match.start(1), match.end())
            yield scope.instead("array_size", *at)
    for size in scope.matches(r"\b[A-Z]\w*\b", *match.span(2)):
        others = [each for each in scope.kinds if each.isupper() and each != size[0]]
        for other in others if size[0] in scope.kinds else ():
            is_near = size[0].startswith(other) or other.startswith(size[0])
            at = *size.span(), other, 2 - is_near, (match.start(1), match.end())
            yield scope.instead("array_size", *at)


def _sizes_of_all(scope: Scope) -> Iterator[Edit]:
    """A constant in the sizes of all arrays in shared memory that should be another one."""
    places: dict[str, list[re.Match[str]]] = {}
    for declared in scope.matches(r"__shared__[^;=\n]*;"):
        for size in scope.matches(r"(?<=[\[ ])[A-Z]\w*(?=[\] ])", *declared.span()):
            places.setdefault(size[0], []).append(size)
    constants = [each for each in scope.kinds if each.isupper()]
    for (name, sizes), other in itertools.product(places.items(), constants):
        if name in constants and other != name and len(sizes) > 1:
            changes = [Change(*each.span(), other) for each in sizes]
            what = f"`{name}` stands in the sizes of these arrays, where `{other}` belongs"
            advice = f"The block's threads and loops count up to `{other}`."
            yield scope.edit("array_size", changes, what, advice, 1)


_FLAT = re.compile(r"\b(\w+)\[[^\[\]\n]*?\* (\w+|\(\w+ \+ \w+\))(?= \+| *\])[^\[\]\n]*\]")


def _pitches(scope: Scope) -> Iterator[Edit]:
    """A row of a flat array in shared memory that is as long here as in no other access."""
    matches = [*scope.matches(_FLAT)]
    shared = shared_arrays(scope.code)
    for match, other in itertools.permutations(matches, 2):
        if match[1] == other[1] and match[2] != other[2] and match[1] in shared:
            yield scope.instead("pitch", *match.span(2), other[2], 1, match.span())


@at_each(r"(?<![\w.])(\d+) / (\d+)(?![\w.])")
def _whole_quotients(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A quotient of two whole numbers, which drops its fraction: `1 / 2` is 0."""
    one, other = int(match[1]), int(match[2])
    if other and one % other:
        what = f"`{match[0]}` is a quotient of whole numbers, which is {one // other} in C++"
        change = Change(match.end(1), match.end(1), ".0f")
        yield scope.edit("whole_number", [change], what, f"Write `{one}.0f / {other}`.", 0)


_WARPS = ("blockDim.x / 32", "(blockDim.x + 31) / 32", "blockDim.x")


def _unfilled(scope: Scope) -> Iterator[Edit]:
    """An element of shared memory that is read where fewer have been filled."""
    if not scope.function.is_kernel:
        return
    shared = shared_arrays(scope.code)
    for match in scope.matches(r"=\s*(\w+)\[(\w+(?:\.x)?)\]\s*;"):
        if match[1] not in shared:
            continue
        element = f"{match[1]}[{match[2]}]"
        for count in _WARPS:
            what = f"`{element}` is read where nothing has filled it: there are {count} elements"
            advice = f"Take 0 where {match[2]} isn't below {count}."
            new = f"= ({match[2]} < {count} ? {element} : 0);"
            yield scope.edit("past_filled", [Change(*match.span(), new)], what, advice, 1)


def _bounds(statement: str, scope: Scope) -> Iterator[str]:
    """Conditions for the indices of a statement: of `row * K + col` that `col < K`."""
    sizes = sorted(scope.function.integers)
    pointers = {*scope.function.parameters} - scope.function.integers
    for name, index in re.findall(r"(\w+)\s*\[([^\[\]]+)\]", statement):
        if name not in pointers:
            continue
        index = re.sub(r"\((?:size_t|long|long long|int)\)", "", index).strip()
        index = re.sub(r"static_cast<[^>]*>\(([^()]*)\)", r"\1", index)
        factor = re.match(r"\(?([\w.]+(?:\s*\+\s*[\w.]+)?)\)?\s*\*\s*(\w+)\s*\+\s*(.+)$", index)
        helped = re.fullmatch(r"\w+\(([^,()]+), ([^,()]+), (\w+)\)", index)
        parts = helped.group(1, 3, 2) if helped else factor and factor.groups()
        if parts and parts[1] in sizes:
            row, length, column = parts
            yield f"{column} < {length}"
            for size in sizes:
                yield f"{row} < {size} && {column} < {length}"
                yield f"{row} < {size}"
        elif re.fullmatch(r"[\w.\s+*-]+", index):
            yield from (f"{index} < {size}" for size in sizes)


def _barriers(scope: Scope) -> Iterator[Edit]:
    """A __syncthreads() that is missing before a line, or that stands where some threads are.

    Places outside loops come first: where one of them is enough, no turn of a loop has to wait.
    """
    body = scope.code
    if not (scope.function.is_kernel or "threadIdx" in body):
        return
    first, last = scope.line_span
    starts = scope.text.starts
    previous = ""
    blocks: list[str] = []  # around the line: "if" where some threads may not be there, or "for"
    missing: list[tuple[int, Edit]] = []  # by the loops around it
    for number in range(first, last + 1):
        code = scope.code_line(number).strip()
        if not code:
            continue
        closes, opens = code.startswith("}"), code.endswith("{")
        within = blocks[:-1] if closes and opens else blocks
        is_body = bool(re.match(r"(?:for|while|if)\b.*\)$|(?:\} *)?else$", previous))
        may_stand = number > first and "if" not in within and not is_body
        is_there = "__syncthreads" in code + previous
        if may_stand and not is_there and not code.startswith("} else"):
            where = "at the end of the loop, " if closes and within[-1:] == ["for"] else ""
            what = f"A `__syncthreads()` is missing {where}before line {number}"
            change = Change(starts[number - 1], starts[number - 1], "__syncthreads();\n")
            edit = scope.edit("barrier", [change], what, _SHARED, 1)
            missing.append((within.count("for"), edit))
        if "__syncthreads" in code:
            at = scope.text.code.index("__syncthreads", starts[number - 1])
            end = scope.text.code.index(";", at) + 1
            yield from _moved(scope, at, end)
        if closes:
            blocks = blocks[:-1]
        if opens:
            is_branch = re.search(r"\b(?:if|else)\b", code)
            blocks = [
                *blocks,
                "if" if is_branch else "for" * bool(re.match(r"(?:for|while)\b", code)),
            ]
        previous = code
    yield from (edit for _, edit in sorted(missing, key=lambda each: each[0]))
    for match in scope.matches(r"\bif\s*\([^;{}]{1,200}\)\s*\{?\s*return\s*;"):
        at = scope.text.code.rindex("return", match.start(), match.end())
        what = "Threads return here, before a barrier or a shuffle that all of them must reach"
        advice = "Let threads beyond the end skip the loads and stores, and reach every barrier."
        yield scope.edit("early_return", [Change(at, match.end(), ";")], what, advice, 0)


_SHARED = (
    "A barrier has to stand between a thread's write and another's read of the same element, and "
    "between that read and the next write."
)
_ALONE = re.compile(r"\bif\s*\([^;{}]{1,200}\)\s*$")


def _moved(scope: Scope, at: int, end: int) -> Iterator[Edit]:
    """A barrier in a branch: moved to its end, or freed of a condition of its own."""
    what = "This `__syncthreads()` stands in a branch that not every thread takes"
    advice = "Move it out of the branch: every thread of the block has to reach it, in every turn."
    if alone := _ALONE.search(scope.text.code, scope.function.body, at):
        yield scope.edit("barrier_in_branch", [Change(alone.start(), at, "")], what, advice, 0)
    branches: list[bool] = []  # of the blocks around it, whether each one is a branch
    head = scope.function.body
    for brace in re.finditer(r"[{};]", scope.text.code[head:at]):
        place = scope.function.body + brace.start()
        if brace[0] == "{":
            branches.append(bool(re.search(r"\b(?:if|else)\b", scope.text.code[head:place])))
        elif brace[0] == "}" and branches:
            branches.pop()
        head = place + 1
    if True not in branches:
        return
    depth = 1 + branches[::-1].index(True)
    for place in range(end, scope.function.end):
        depth += (scope.text.code[place] == "{") - (scope.text.code[place] == "}")
        if not depth:
            changes = [Change(at, end, ""), Change(place + 1, place + 1, " __syncthreads();")]
            yield scope.edit("barrier_in_branch", changes, what, advice, 0)
            return


@at_each(r"(?<![\w.])(threadIdx\.([xyz])) \* (?:blockDim\.\2|\w+) \+ (blockIdx\.\2)(?![\w.])")
def _global_indices(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """An index over all threads in which the thread and its block are exchanged."""
    yield scope.exchanged(match.span(1), match.span(3), "this index", 0)


def _other_indices(scope: Scope) -> Iterator[Edit]:
    """An array of the arguments at the index of another access, or at another local."""
    pattern = re.compile(r"\b(\w+)\s*\[([^\[\]\n]{1,80})\]")
    matches = [each for each in scope.matches(pattern) if each[1] in scope.pointers]
    locals_ = re.findall(r"\b(?:int|size_t|unsigned)\s+(\w+)\s*=", scope.code)
    for match in matches:
        for index in dict.fromkeys([*(each[2] for each in matches), *locals_]):
            if index != match[2] and scope.is_known(index, match.start()):
                new = f"{match[1]}[{index}]"
                yield scope.instead("index", *match.span(), new, 3)


def _declarations(scope: Scope) -> Iterator[Edit]:
    """A local of CUDA C++ without a first value; an addition that other threads may undo."""
    code = scope.text.code
    for match in scope.matches(r"\b(float|double|int|unsigned|long)\s+(\w+)\s*;"):
        if code[: match.start()].rstrip().endswith(("__shared__", "extern")):
            continue
        zero = "0.0f" if match[1] == "float" else "0"
        for value, cost in ((zero, 0), ("-INFINITY", 3)):
            what = f"`{match[2]}` has no initial value"
            advice = f"Write `{match[1]} {match[2]} = {value};`."
            change = Change(match.end() - 1, match.end() - 1, f" = {value}")
            yield scope.edit("uninitialised", [change], what, advice, cost)
    shared = shared_arrays(scope.code)
    for match in scope.matches(r"\breturn\s+(\w+)\s*;"):
        for new in (*(f"{each}[0]" for each in shared), *scope.values):
            if new != match[1] and scope.first_use.get(new.split("[")[0], 0) < match.start():
                yield scope.instead("returned", *match.span(1), new, 2, match.span())
    for match in scope.matches(r"(\w+(?:\[[^\]\n]*\])?)\s*\+=\s*([^;\n]+);"):
        if match[1] in scope.function.parameters:
            continue  # each thread has its own
        what = f"Several threads add to `{match[1]}` at the same time, so additions get lost"
        advice = "Use atomicAdd, or keep a sum in a register of each thread and reduce them."
        change = Change(*match.span(), f"atomicAdd(&{match[1]}, {match[2]});")
        yield scope.edit("lost_additions", [change], what, advice, 3)


_BYTES = re.compile(r"\b(\w*(?:bytes|size)\w*)\s*=\s*([^;\n]{1,80})(?=;)", re.IGNORECASE)
_ALLOCATED = re.compile(
    r"cudaMalloc\s*\(\s*(?:\([^()]*\)\s*)?&\s*(\w+)\s*,\s*([^;\n]{1,80})\)\s*\)?\s*;"
)


def _bytes(scope: Scope) -> Iterator[Edit]:
    """A number of elements where the CUDA runtime or a launch takes bytes."""
    code = scope.text.code
    for match in scope.matches(_BYTES):
        if "sizeof" not in match[2] and not _is_in_a_grid(scope, match[1]):
            what = f"`{match[1]}` is a number of elements, and it is used as one of bytes"
            change = Change(*match.span(2), f"({match[2]}) * sizeof(float)")
            yield scope.edit("bytes", [change], what, "Multiply by sizeof(float).", 1)
    for match in scope.matches(_ALLOCATED):
        what = f"Nothing sets the memory of `{match[1]}` to 0: cudaMalloc leaves anything in it"
        advice = f"Clear it before the launch: cudaMemset({match[1]}, 0, …)."
        cleared = f" cudaMemset({match[1]}, 0, {match[2]});"
        yield scope.edit("cleared", [Change(match.end(), match.end(), cleared)], what, advice, 1)
    for call in scope.calls:
        for (low, high), bytes_of in zip(call.arguments, range(9), strict=False):
            is_bytes = (call.name, bytes_of) in (
                ("cudaMalloc", 1),
                ("cudaMemcpy", 2),
                ("cudaMemset", 2),
            )
            if is_bytes and "sizeof" not in code[low:high]:
                what = f"{scope.quoted(low, high)} counts elements, and `{call.name}` takes bytes"
                change = Change(low, high, f"({code[low:high]}) * sizeof(float)")
                yield scope.edit("bytes", [change], what, "Multiply by sizeof(float).", 1)
        pointer = re.search(r"\bsizeof\((\w+)\)", code[call.start : call.end])
        if pointer and scope.kinds.get(pointer[1]) == "pointer" and call.name.startswith("cuda"):
            low, high = (call.start + at for at in pointer.span())
            for name in _BYTES.findall(code[scope.function.body : call.start]):
                what = (
                    f"`sizeof({pointer[1]})` is the size of the pointer, not of what it points at"
                )
                yield scope.edit("bytes", [Change(low, high, name[0])], what, f"Pass {name[0]}.", 1)
        if call.name == "cudaMemcpy2D":
            sizes = sorted(scope.function.integers)
            for low, high in (
                call.arguments[place] for place in (1, 3, 4) if len(call.arguments) > 4
            ):
                for new in ("sizeof(float)", *(f"{size} * sizeof(float)" for size in sizes)):
                    if new != code[low:high]:
                        yield scope.instead("bytes", low, high, new, 2)
            yield from _elements_of_2d(scope, call)
        if call.is_launch and len(call.grid) > 2:
            yield from _shared_bytes(scope, call)


def _elements_of_2d(scope: Scope, call: Call) -> Iterator[Edit]:
    """A copy of a matrix whose pitches and width count elements, two of them or all."""
    code, places = scope.text.code, (1, 3, 4) if len(call.arguments) > 4 else ()
    counted = [call.arguments[place] for place in places]
    counted = [(low, high) for low, high in counted if "sizeof" not in code[low:high]]
    if len(counted) > 1:
        changes = [Change(*each, f"({code[slice(*each)]}) * sizeof(float)") for each in counted]
        quoted = [scope.quoted(*each) for each in counted]
        joined = f"{', '.join(quoted[:-1])} and {quoted[-1]}"
        what = f"{joined} count elements, and `{call.name}` takes bytes"
        advice = "Multiply by sizeof(float): both pitches and the width are in bytes."
        yield scope.edit("bytes", changes, what, advice, 1)


def _is_in_a_grid(scope: Scope, name: str) -> bool:
    """Whether a launch has so many blocks or threads, so that the variable counts no bytes."""
    spans = (span for call in scope.calls if call.is_launch for span in call.grid[:2])
    word = re.compile(rf"\b{re.escape(name)}\b")
    return any(word.search(scope.text.code[low:high]) for low, high in spans)


SHARED = 49152  # bytes that a launch may ask for, without more
MOST_CUT = 3  # parts of dynamic shared memory that are quoted
_CUT = re.compile(r"\* ?\w+ = \w+ \+ ([^;\n]+);")  # a part of it begins behind another one


def _shared_bytes(scope: Scope, call: Call) -> Iterator[Edit]:
    """A launch with less dynamic shared memory than its kernel uses."""
    low, high = call.grid[2]
    code = scope.text.code
    given = code[low:high]
    defined = re.search(rf"\b{re.escape(given.strip())}\s*=\s*([^;]*);", code)
    if "sizeof" in given or (defined and "sizeof" in defined[1]):
        what = (
            "The kernel uses more dynamic shared memory than its launch asks for: "
            f"{scope.quoted(low, high)}"
        )
        counted = scope.quoted(*defined.span(1)) if defined else scope.quoted(low, high)
        advice = f"{counted} lacks something that the kernel keeps there: its padding?"
        kernel = scope.callee_of(call)
        parts = _CUT.findall(code, kernel.body, kernel.end) if kernel else []
        if parts:
            kept = " and ".join(scope.quoted(0, 0, each) for each in parts[:MOST_CUT])
            advice = f"{counted} has to count all of it: {kept} elements, and what follows them."
        more = f"(({given}) < {SHARED} ? ({SHARED} - ({given})) / 4 * 3 : ({given}) + 1024)"
        change = Change(low, high, f"({given}) + {more}")
        yield scope.edit("shared_bytes", [change], what, advice, 1)
        return
    what = f"{scope.quoted(low, high)} counts elements, and a launch takes bytes"
    change = Change(low, high, f"({given}) * sizeof(float)")
    yield scope.edit("bytes", [change], what, "Multiply by sizeof(float).", 1)


@at_each(r"(?:<\s*(?:const )?\w+?([24])\s*\*>|\((?:const )?\w+?([24])\s*\*\))\s*\((\w+) \+ (\w+)\)")
def _vector_offsets(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A number of vectors that is added to a pointer to single elements, before its cast."""
    count, index = match[1] or match[2], match[4]
    what = f"`{match[3]} + {index}` goes on by single elements, and a vector here has {count}"
    advice = f"Add {count} * {index}, or cast the pointer first and index then."
    change = Change(*match.span(4), f"{count} * {index}")
    yield scope.edit("vector_offset", [change], what, advice, 0)


# --- values that the threads of a block exchange --------------------------------------------------


@at_each(
    r"(?m)^[ \t]*((?:float|double|int|unsigned|half|__half|__nv_bfloat16|T)[234]? "
    r"\w+(?:\s*\[[^\[\]\n]+\])*)(?: = [^;\n]{1,60})?;"
)
def _not_shared(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A local that each thread has for itself, where the threads of a block wait for each other."""
    if not scope.function.is_kernel or "__syncthreads" not in scope.code:
        return
    name = re.split(r"\W+", match[1])[1]
    mistake = f"`{name}` isn't shared: each thread has its own, and no other thread can read it"
    # A first value may only stand where each thread has its own.
    change = Change(match.start(1), match.end() - 1, f"__shared__ {match[1]}")
    yield scope.edit("not_shared", [change], mistake, f"Write `__shared__ {match[1]};`.", 0)


@at_each(r"(\w+(?:\.x)?) % (\w+) == 0\)\s*\{?\s*(\w+)\[\1\] \+= \3\[\1 \+ \2\]")
def _pairs(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A reduction in which twice as many threads add as there are pairs of partial results."""
    thread, distance = match.group(1, 2)
    mistake = f"Every `{distance}`-th thread adds here, and only half of them begin a pair"
    advice = f"A pair begins at each multiple of 2 * {distance}: {thread} % (2 * {distance})."
    yield scope.edit("pairs", [Change(*match.span(2), f"(2 * {distance})")], mistake, advice, 0)


_OPERAND = r"\w+(?:\.\w+)?"
# An element of a tile by row and column: `tile[row * LENGTH + column]` or `tile[row][column]`.
_ELEMENT = re.compile(
    rf"\b(?P<tile>\w+)\[(?P<row>{_OPERAND})(?: \* \w+ \+ |\]\[)(?P<column>{_OPERAND})\]"
)


def _swizzles(scope: Scope) -> Iterator[Edit]:
    """An access to a tile that leaves out the order of columns in which others use its rows."""
    swizzled = re.findall(r"\b(\w+)(?:\[[^\[\]\n]*\])?\[[^\[\]\n]*\^[^\[\]\n]*\]", scope.code)
    tiles = {*swizzled} & {*shared_arrays(scope.code)}
    for match in scope.matches(_ELEMENT):
        tile, row, column = match.group("tile", "row", "column")
        if tile in tiles:
            mistake = (
                f"`{tile}` is swizzled in another access and not here: the elements of its "
                "row lie in another order"
            )
            advice = f"Use the same order wherever it is stored and loaded: {column} ^ {row}."
            change = Change(*match.span("column"), f"({column} ^ {row})")
            yield scope.edit("swizzle", [change], mistake, advice, 0)


@at_each(
    r"\b(?P<const>const )?(?:int|size_t|unsigned(?: int)?) "
    r"(?P<index>\w+) = threadIdx\.(?P<axis>[xy]);"
)
def _one_each(scope: Scope, made: re.Match[str]) -> Iterator[Edit]:
    """A row of which each thread of a block takes one element, however long the row is."""
    index, step = made["index"], f"blockDim.{made['axis']}"
    guard = rf"\bif \(({index} < [\w.]+)\)"
    for match in itertools.islice(scope.matches(guard, made.end()), 1):
        loop = f"for (; {match[1]}; {index} += {step})"
        changes = [Change(*match.span(), loop)]
        if made["const"]:
            changes.append(Change(*made.span("const"), ""))
        what = f"`{index}` is one element for each thread, and a row may have more than `{step}`"
        advice = f"Let each thread go on: `for (int {index} = threadIdx.{made['axis']}; "
        advice += f"{match[1]}; {index} += {step})`."
        yield scope.edit("one_block", changes, what, advice, 1, match.start())


RULES: Sequence[Rule] = (
    _declarations,
    _vector_offsets,
    _bytes,
    _barriers,
    _guards,
    _other_guards,
    _fills,
    _elements,
    _array_sizes,
    _sizes_of_all,
    _pitches,
    _whole_quotients,
    _unfilled,
    _global_indices,
    _other_indices,
    _not_shared,
    _pairs,
    _swizzles,
    _one_each,
)
