"""Changes of either language: names, operators, numbers, arguments, indices."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from grader.executors.source_text import Change, Token, changed
from grader.grading.edits.edit_scope import (
    BUILTINS,
    LONGEST,
    WORDS,
    Call,
    Edit,
    Rule,
    Scope,
    are_twins,
    at_each,
    plain,
)


def _names(scope: Scope) -> Iterator[Edit]:
    """A name that stands for another one like it: `rows` for `cols`, `stride_am` for another."""
    tokens = scope.tokens
    for index, token in enumerate(tokens):
        if not token.is_name or token.text in WORDS:
            continue
        before = tokens[index - 1].text if index else ""
        behind = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if behind == "=" or before in ("def", "->"):
            continue  # what is assigned, and a keyword's name
        if before == "." and index > 1:
            is_builtin = tokens[index - 2].text in BUILTINS
            if token.text in ("x", "y") and scope.has_two_axes and is_builtin:
                low = tokens[index - 2].start
                new = "y" if token.text == "x" else "x"
                yield scope.instead("name", token.start, token.end, new, 2, (low, token.end))
            continue
        if behind == "(":
            continue
        if behind == "." and token.text in BUILTINS:
            for other in BUILTINS:
                if other != token.text:
                    around = (token.start, tokens[index + 2].end)
                    cost = 2 if {token.text, other} == {"blockDim", "gridDim"} else 4
                    yield scope.instead("builtin", token.start, token.end, other, cost, around)
            for size in sorted(scope.function.integers) if token.text == "blockDim" else ():
                around = (token.start, tokens[index + 2].end)
                yield scope.instead("name", *around, size, 2)
            continue
        for other in _alike(token.text, scope):
            if scope.first_use.get(other, token.end) < token.start:
                low, high = _term(scope, index)
                is_size = {token.text, other} <= scope.function.integers
                is_size = is_size or (token.text.isupper() and other.isupper())
                cost = 2 if is_size or "stride" in other else 3
                if token.text.startswith(f"{other}_"):  # `M_KEY`, which is made of `M`
                    yield scope.instead("made_of", token.start, token.end, other, 1, (low, high))
                is_pair = any(
                    token.text.lower() in each and other.lower() in each for each in _PAIRS
                )
                name = "pair" if is_pair else "name"
                if other in scope.siblings.get(token.text, ()):
                    name, cost = "sibling", 1
                yield scope.instead(name, token.start, token.end, other, cost, (low, high))


def _exchanged_names(scope: Scope) -> Iterator[Edit]:
    """Two names of a line in each other's place: `row < cols && col < rows`."""
    by_line: dict[int, list[Token]] = {}
    everything = scope.tokens
    for index, token in enumerate(everything):
        behind = everything[index + 1].text if index + 1 < len(everything) else ""
        is_keyword = behind == "="
        is_member = index > 1 and everything[index - 1].text == "."
        is_axis = is_member and everything[index - 2].text in BUILTINS
        is_value = token.is_name and token.text not in WORDS and not is_keyword
        if is_value and (is_axis or not is_member):
            by_line.setdefault(token.line, []).append(token)
    for tokens in by_line.values():
        names = list(dict.fromkeys(token.text for token in tokens))[:12]
        for place, one in enumerate(names):
            for other in names[place + 1 :]:
                if other not in _alike(one, scope) and {one, other} != {"x", "y"}:
                    continue
                swap = {one: other, other: one}
                matches = [token for token in tokens if token.text in swap]
                changes = [Change(each.start, each.end, swap[each.text]) for each in matches]
                what = f"`{one}` and `{other}` stand in each other's place"
                if one in ("x", "y"):
                    what = _in_place(scope, changes) or what
                yield scope.edit("names", changes, what, "", 2)


def _in_place(scope: Scope, changes: Sequence[Change]) -> str:
    """What a line's changes do to the code from the first to the last of them."""
    source = scope.text.source
    low, high = changes[0].start, changes[-1].end
    while low and re.match(r"[\w.\[]", source[low - 1]):
        low -= 1
    if source[high : high + 1] == "]":
        high += 1
    if source.count("(", low, high) > source.count(")", low, high):
        high = max(high, source.find(")", high) + 1)
    if high - low > LONGEST:
        return ""
    quoted = scope.quoted(low, high), scope.quoted(0, 0, changed(source, changes, low, high))
    return f"{quoted[0]} stands where {quoted[1]} belongs"


def _term(scope: Scope, index: int) -> tuple[int, int]:
    """A name with what it is multiplied with, or compared to, on its line."""
    tokens = scope.tokens
    first = last = index
    joined = ("*", "/", "//", "<", "<=", "%", "+", "-", ".")
    line = tokens[index].line
    if index > 1 and tokens[index - 1].text in joined and tokens[index - 2].line == line:
        first = index - 2 if tokens[index - 2].is_name else index
    is_free = first == index and tokens[index - 1].text not in ("*", "/", "//", "%")
    if index + 2 < len(tokens) and tokens[index + 1].text in joined and is_free:
        last = index + 2 if tokens[index + 2].is_name else index
    return tokens[first].start, tokens[last].end


_PAIRS = (("row", "col"), ("rows", "cols"), ("height", "width"), ("query", "key"))


def _alike(name: str, scope: Scope) -> Iterator[str]:
    """Names of the function that a student may confuse with this one."""
    pairs = {(a, b) for one, other in _PAIRS for a, b in ((one, other), (other, one))}
    constants = [each for each in scope.kinds if each.isupper() and each not in scope.values]
    for other in (*scope.values, *constants):
        if other == name:
            continue
        ours, theirs = name.split("_"), other.split("_")
        differing = [pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]]
        same_parts = len(ours) == len(theirs) > 1 and len(differing) == 1
        is_pair = (name.lower(), other.lower()) in pairs and name.isupper() == other.isupper()
        parameters = scope.function.parameters
        alike = all(
            (name in known) == (other in known)
            for known in (parameters, scope.function.integers, scope.addresses)
        )
        is_longer = len(ours) != len(theirs) and (
            ours[: len(theirs)] == theirs or theirs[: len(ours)] == ours
        )
        one_letter = alike and are_twins(name, other)
        if "stride" in name:  # of another axis, or of another tensor
            same_parts = same_parts and len(name) == len(other) and one_letter
        known = {scope.kinds.get(name), scope.kinds.get(other)} - {None}
        is_pair |= other in scope.siblings.get(name, ())
        if len(known) < 2 and (same_parts or one_letter or is_longer or is_pair):
            yield other


def _unused(scope: Scope) -> Iterator[Edit]:
    """A parameter that the kernel never uses, as a factor: a stride, a scale."""
    for parameter in scope.unused:
        for index, token in enumerate(scope.tokens):
            behind = scope.tokens[index + 1].text if index + 1 < len(scope.tokens) else ""
            if token.text not in scope.values or behind in ("(", "=", "."):
                continue
            if token.text in scope.pointers:
                continue
            end = token.end
            if behind == "[" and scope.is_triton:
                end = next((t.end for t in scope.tokens[index:] if t.text == "]"), token.end)
            what = (
                f"`{scope.function.name}` never uses its parameter `{parameter}`: "
                f"{scope.quoted(token.start, end)} isn't multiplied by it"
            )
            cost = 5 if parameter in scope.function.integers else 2
            yield scope.edit("unused", [Change(end, end, f" * {parameter}")], what, "", cost)


_OTHER_OPERATORS = {
    "<": (("<=", 3),), "<=": (("<", 1),), ">": ((">=", 3),), ">=": ((">", 3), ("<=", 4)),
    "==": (("!=", 4),), "!=": (("==", 4),), "&&": (("||", 4),), "||": (("&&", 3),),
    "+": (("-", 4), ("^", 6)), "-": (("+", 4),), "*": (("/", 5),), "/": (("*", 5), ("%", 4)),
    "%": (("/", 4),), "//": (("%", 4),), "&": (("|", 5),), "|": (("&", 3),),
    "+=": (("=", 4), ("-=", 5)), "-=": (("+=", 4),), "*=": (("/=", 5),),
}  # fmt: skip
_TYPES = frozenset([
    "static_cast", "reinterpret_cast", "vector", "float", "int", "size_t", "long", "unsigned",
    "half",
])  # fmt: skip


def _operators(scope: Scope) -> Iterator[Edit]:
    """One operator in the place of another."""
    tokens = scope.tokens
    for index in range(1, len(tokens) - 1):
        token, before, behind = tokens[index], tokens[index - 1], tokens[index + 1]
        around = scope.operands(index)
        if scope.is_triton and token.text in ("%", "/"):
            swaps: tuple[tuple[str, int], ...] = (("//", 4),)
        else:
            swaps = _OTHER_OPERATORS.get(token.text, ())
        if token.text in "<>" and {before.text, behind.text} & _TYPES:
            continue
        if not (before.is_name or before.text[-1] in ")]" or before.text[0].isdigit()):
            if token.text == "-":  # a sign
                signed = (around[0], behind.end)
                yield scope.instead("sign", token.start, token.end, "", 4, signed)
            continue
        is_of_loop = bool(re.match(r"\s*(?:for|while)\b", scope.code_line(token.line)))
        for new, cost in swaps:
            if is_of_loop and token.text + "=" == new:  # a round too few
                cost = 1
            if token.text + new == "/*" and scope.kinds.get(before.text) == "int":
                continue  # more rounds, blocks or elements are right by chance
            line = scope.code_line(token.line)
            if new == "=" and len(re.findall(rf"\b{re.escape(before.text)}\b", line)) > 1:
                cost = 1  # `acc += tl.dot(a, b, acc)`
            yield scope.instead("operator", token.start, token.end, new, cost, around)
        if token.text == "=" and behind.text != "=":
            earlier = tokens[index - 2].text if index > 1 else ""
            is_first = scope.first_use.get(before.text, 0) >= before.start
            is_first = is_first or not scope.in_loop(token.line)
            is_first = is_first or bool(re.fullmatch(r"0(?:\.0*)?f?", behind.text))  # adds nothing
            if not (is_first or earlier in WORDS or earlier in ("*", "(", ",", "&")):
                start = rf"^[ \t]*(?:float )?{re.escape(before.text)} = (?:tl\.zeros|0)"
                above = scope.text.code[scope.function.body : before.start]
                cost = 1 if re.search(start, above, re.M) else 2  # a sum, set to 0 before
                yield scope.instead("operator", token.start, token.end, "+=", cost, around)


_FACTOR = r"(?<![\w.)\]])(\w+(?:\.\w+(?:\([^()\n]*\))?)*)"  # n, x.numel(), blockDim.x, x.size(0)
_TO_WHOLE = re.compile(r"\b(?:round|int|math\.floor)\((\w+) / (\w+)\)")


def _rounded_down(scope: Scope) -> Iterator[Edit]:
    """A quotient that rounds down where the last, partly filled block counts."""
    divided = "//" if scope.is_triton else "/"
    pattern = re.compile(
        rf"{_FACTOR}\s*(?<!/){divided}(?!/)\s*"
        r"((?:\(int\)\s*)?\w+(?:\.\w+)*(?:\[[^\[\]\n]+\])?)(?![\w(])"
    )
    to_whole = scope.matches(_TO_WHOLE) if scope.is_triton else ()
    for match in (*scope.matches(pattern), *to_whole):
        one, other = (scope.text.source[slice(*match.span(place))] for place in (1, 2))
        if one[0].isdigit():
            continue
        up = f"(({one} + {other} - 1) / {other})"
        if scope.is_triton:
            up = f"{'tl' if scope.function.is_kernel else 'triton'}.cdiv({one}, {other})"
        is_size = bool(
            re.fullmatch(
                r"[A-Z_\d]+|(?:\(int\)\s*)?\w+\[.[A-Z_\d]+.\]|(?:block|grid)Dim\.\w", other
            )
        )
        rounds = "may round down" if match[0].startswith("round") else "rounds down"
        up_words = up.partition("(")[0] if scope.is_triton else "(n + size - 1) / size"
        yield scope.edit(
            "rounded_down",
            [Change(match.start(), match.end(), up)],
            f"{scope.quoted(*match.span())} {rounds}, so a rest of the elements is left out",
            f"Round up: {up_words}.",
            1 if is_size or scope.counts_blocks(scope.text.line_at(match.start())) else 5,
        )


_COUNTS = ("range", "arange", "size", "stride", "program_id", "num_programs")


def _is_shuffled(scope: Scope, line: int) -> bool:
    """Whether a line, or the next one, exchanges values within a warp."""
    near = range(line, min(line + 2, len(scope.text.lines) + 1))
    return any("__shfl" in scope.code_line(each) for each in near)


_WIDTHS = (1, 2, 4, 8, 16, 32)
_INFINITIES = ('float("-inf")', "-float('inf')", "-INFINITY", "float('-inf')")
_REDUCTIONS = ("tl.sum", "tl.max", "tl.min", "tl.argmax", "tl.argmin", "tl.cumsum")
_FAR = re.compile(r"\d+\.?\d*(?:[eE]\+?\d+)?[fF]?")
_LEAST_FAR = 1e3  # a number so far below zero stands for -infinity
_COMPARISONS = ("<", ">", "<=", ">=", "==")


def _positional_axes(scope: Scope) -> dict[int, tuple[int, int]]:
    """By where a reduction's axis begins that isn't named: the span of the call."""
    return {
        call.arguments[1][0]: (call.start, call.end)
        for call in scope.calls
        if call.name in _REDUCTIONS and len(call.arguments) > 1
    }


def _is_axis(tokens: Sequence[Token], index: int) -> bool:
    return index > 1 and tokens[index - 1].text == "=" and tokens[index - 2].text in ("axis", "dim")


def _in_place_of_infinity(scope: Scope) -> Iterator[Edit]:
    """0, or a number far below it, in the place of -infinity."""
    tokens, axes = scope.tokens, _positional_axes(scope)
    minus = 'float("-inf")' if scope.is_triton else "-INFINITY"
    for index, token in enumerate(tokens):
        before = tokens[index - 1].text if index else ""
        is_axis = token.start in axes or _is_axis(tokens, index)
        is_zero = re.fullmatch(r"0(?:\.0?f?)?", token.text) and before not in _COMPARISONS
        if is_zero and not is_axis and not (before == "(" and tokens[index - 2].text in _COUNTS):
            around = (tokens[index - 2].start if index > 1 else token.start, token.end)
            yield scope.instead("infinity", token.start, token.end, minus, 3, around)
        is_far = before == "-" and _FAR.fullmatch(token.text)
        if is_far and float(token.text.rstrip("fF")) >= _LEAST_FAR:
            yield scope.instead("infinity", tokens[index - 1].start, token.end, minus, 1)


def _numbers(scope: Scope) -> Iterator[Edit]:
    """A number that is off by one, by a factor of two, or 0 in the place of 1."""
    tokens = scope.tokens
    axes = _positional_axes(scope)
    last_axis = 2 if re.search(r"\[(?:None|:), (?:None|:), ", scope.text.code) else 1
    for index, token in enumerate(tokens):
        if not token.text[0].isdigit():
            continue
        before = tokens[index - 1] if index else None
        if before and before.text == "(" and tokens[index - 2].text in _COUNTS:
            if token.text == "1" and tokens[index - 2].text == "range":
                around = (token.start, token.end)
                yield scope.instead("number", *around, "0", 2, around)
            continue
        low = tokens[index - 2].start if before and index > 1 else token.start
        low -= len(re.findall(r"[\w.]*$", scope.text.code[:low][-40:])[0])  # `x` of `blockIdx.x`
        around = axes.get(token.start, (low, _product_end(tokens, index)))
        is_axis = token.start in axes or _is_axis(tokens, index)
        if re.fullmatch(r"\d{1,5}", token.text):
            number = int(token.text)
            others = [number + 1, number - 1, number * 2, number // 2]
            if number in _WIDTHS:  # of a reduction: the distance of its first step, or its width
                others += [each for each in _WIDTHS if each != number]
            is_step = _is_shuffled(scope, token.line)
            for place, other in enumerate(dict.fromkeys(others)):
                if other < 0 or other == number or (is_axis and other > last_axis):
                    continue
                if not other and before and before.text in ("-", "+"):
                    continue  # without the summand the same: see off_by_one
                cost = 3 if number < 2 and other < 2 else 4 + place // 2
                is_bound = before and before.text in (">", "<", ">=") and other < 2
                if is_axis or (is_step and {number, other} <= {*_WIDTHS}):
                    # A reduction by shuffles begins at a distance of half a warp.
                    is_first = before and before.text == "=" and other == _WIDTHS[-1] // 2
                    cost = 0 if is_first and not is_axis else 1
                elif is_bound:
                    cost = 2
                elif other == 1 and before and before.text in ("*", "/", "//", "%"):
                    continue  # undoes the operation, and mostly hides a mistake elsewhere
                yield scope.instead("number", token.start, token.end, str(other), cost, around)
            if before and before.text in ("-", "+") and index > 1 and number == 1:
                around = (low, token.end)
                # Of a row of shared memory it is a padding.
                is_padding = tokens[index - 2].text.isupper() and not scope.is_triton
                cost = 5 if is_padding else 2
                yield scope.instead("off_by_one", before.start, token.end, "", cost, around)
        if token.text in ("1.0", "1.0f") and before and before.text == "=":
            yield scope.instead("number", token.start, token.end, "0.0", 2, around)
        if re.fullmatch(r"0[xX][fF]+[uUlL]*", token.text):
            yield scope.instead("number", token.start, token.end, "0xffffffff", 2, around)


def _product_end(tokens: Sequence[Token], index: int) -> int:
    """Where a number ends, or what it is multiplied by: `64 * 1024` is quoted whole."""
    behind = tokens[index + 1 : index + 3]
    is_product = len(behind) == 2 and behind[0].text in ("*", "/", "//")
    is_plain = is_product and (behind[1].is_name or behind[1].text.isdigit())
    return behind[1].end if is_plain else tokens[index].end


def _infinities(scope: Scope) -> Iterator[Edit]:
    """An infinity where 0 belongs."""
    for match in re.finditer("|".join(map(re.escape, _INFINITIES)), scope.text.source):
        if scope.function.body <= match.start() < scope.function.end:
            yield scope.instead("number", match.start(), match.end(), "0.0", 4)


_LIKE_EACH_OTHER = (
    ("exp", "exp2"), ("log", "log2"), ("expf", "exp2f"), ("logf", "log2f"), ("sqrt", "rsqrt"),
    ("sqrtf", "rsqrtf"), ("maximum", "minimum"), ("fmaxf", "fminf"),
    ("cudaMemcpyHostToDevice", "cudaMemcpyDeviceToHost"),
)  # fmt: skip
_FUNCTIONS = {
    **{one: (two,) for pair in _LIKE_EACH_OTHER for one, two in (pair, pair[::-1])},
    "max": ("sum", "min", "maximum"),
    "sum": ("max",),
    "__shfl_down_sync": ("__shfl_xor_sync",),
    "__shfl_up_sync": ("__shfl_xor_sync", "__shfl_down_sync"),
    "__shfl_sync": ("__shfl_xor_sync",),
    "int32": ("int64",),
    **dict.fromkeys(["float16", "bfloat16"], ("float32",)),
    **dict.fromkeys(["half", "__half", "double"], ("float",)),
}
_OF_FIRST = (
    "Only a warp's first thread has the whole result, and another's is used: with xor all have it."
)
_DTYPES = ("float16", "bfloat16", "int32", "half", "__half", "double")


def _functions(scope: Scope) -> Iterator[Edit]:
    """A function, type or constant of the library that stands for a like one."""
    tokens = scope.tokens
    for index, token in enumerate(tokens):
        behind = tokens[index + 1].text if index + 1 < len(tokens) else ""
        is_called = behind == "(" or not token.text.islower() or token.text in _DTYPES
        for other in _FUNCTIONS.get(token.text, ()) if is_called else ():
            cost = 2 if "shfl" in other else 3
            if other in ("float32", "float"):
                cost = 1
            edit = scope.instead("function", token.start, token.end, other, cost)
            yield replace(edit, advice=_OF_FIRST if "shfl_down" in token.text else "")
        if not scope.is_triton and token.text == "int" and scope.function.is_kernel:
            behind = scope.text.code[token.end : token.end + 120]
            is_counter = scope.text.code[: token.start].rstrip().endswith("(")
            if not is_counter and re.match(r"\s+\w+\s*=\s*0(?:\.0f?)?\s*;", behind):
                name = behind.split()[0]
                yield scope.edit(
                    "whole_number",
                    [Change(token.start, token.end, "float")],
                    f"`{name}` is an int, so what is behind the point is cut off",
                    "Declare it as a float.",
                    1,
                )


def _arguments(scope: Scope) -> Iterator[Edit]:
    """Two arguments, indices or numbers of a grid in the wrong order."""
    source = scope.text.source
    for call in scope.calls:
        callee = scope.callee_of(call)
        if call.is_launch and len(call.grid) > 1:
            words = "grid" if scope.is_triton else "launch"
            one, other = call.grid[:2]
            edit = scope.exchanged(one, other, f"the {words} of `{call.name}`", 2)
            yield replace(edit, name="grid")
        is_shape = source[max(call.start - 6, 0) : call.start].strip() == "dim3"
        if call.name in ("dim3", "cudaMemcpy") and len(call.arguments) > 1:
            first, second = call.arguments[:2]
            yield scope.exchanged(first, second, f"`{call.name}`", 2 * (call.name != "dim3"))
        if call.name == "cudaMemcpy2D" and len(call.arguments) > 5:
            for first_place, second_place in ((4, 5), (1, 3), (0, 2)):
                pair = call.arguments[first_place], call.arguments[second_place]
                yield scope.exchanged(*pair, f"`{call.name}`", 1)
        for one, other in itertools.pairwise(call.arguments) if is_shape else ():
            yield scope.exchanged(one, other, f"`dim3 {call.name}`", 0)
        if callee is None or len(call.arguments) < 2:
            continue
        yield from _by_names(scope, call, callee.parameters)
        given = [source[low:high] for low, high in call.arguments]
        named = [plain(each) for each in callee.parameters]
        for i in range(len(given)):
            for j in range(i + 1, len(given)):
                if "=" in given[i] or "=" in given[j] or j >= len(named):
                    continue
                fits = (plain(given[i]) == named[j]) + (plain(given[j]) == named[i])
                was = (plain(given[i]) == named[i]) + (plain(given[j]) == named[j])
                are_sizes = given[i].isidentifier() and given[j].isidentifier()
                tensors = {*scope.function.parameters} if scope.is_triton else scope.pointers
                are_sizes = are_sizes and not {given[i], given[j]} & tensors
                cost = 0 if fits > was else 1 if are_sizes and was < 2 else 4
                if fits > was or j == i + 1:
                    what = (
                        f"`{call.name}` gets {scope.quoted(0, 0, given[i])} for its parameter "
                        f"`{callee.parameters[i]}`, and {scope.quoted(0, 0, given[j])} for "
                        f"`{callee.parameters[j]}`"
                    )
                    edit = scope.exchanged(call.arguments[i], call.arguments[j], "", cost)
                    yield replace(edit, what=what, advice="Exchange the two arguments.")


def _by_names(scope: Scope, call: Call, parameters: Sequence[str]) -> Iterator[Edit]:
    """Three or more arguments in another order than the parameters that have their names."""
    source = scope.text.source
    spans = [span for span in call.arguments if "=" not in source[slice(*span)]]
    left = [source[slice(*span)] for span in spans]
    named = [plain(each) for each in parameters[: len(spans)]]
    right: list[str] = []
    for name in named:
        fitting = [each for each in left if plain(each) == name]
        fitting = fitting or [each for each in left if plain(each) not in named]
        if not fitting:
            return
        right.append(fitting[0])
        left.remove(fitting[0])
    changes = [
        Change(*span, new)
        for span, new in zip(spans, right, strict=False)
        if source[slice(*span)] != new
    ]
    if len(changes) > 2:
        what = f"`{call.name}` gets arguments in another order than that of its parameters"
        advice = f"Write {', '.join(right)}."
        yield scope.edit("exchanged", changes, what, advice, 0)


def _parameters(scope: Scope) -> Iterator[Edit]:
    """Two parameters of the entry in another order than the stub's signature has."""
    if scope.function is not scope.reached[-1] or scope.function.is_kernel:
        return
    code = scope.text.code
    low = code.find("(", scope.function.start, scope.function.body)
    named = code.find(scope.function.name, scope.function.start, scope.function.body)
    low = code.find("(", max(low, named), scope.function.body)
    high = code.rfind(")", low, scope.function.body)
    at = low + 1
    spans = []
    for part in code[low + 1 : high].split(","):
        begin = at + len(part) - len(part.lstrip())
        spans.append((begin, begin + len(part.strip())))
        at += len(part) + 1
    where = f"the parameters of `{scope.function.name}`"
    advice = "Keep the order of the stub's signature: arguments come by their places."
    by_name = dict(zip(scope.function.parameters, spans, strict=False))
    if len(by_name) == len(spans) and by_name.keys() == {*scope.stub}:
        pairs = [(span, by_name[name]) for span, name in zip(spans, scope.stub, strict=True)]
        moved = [(*span, scope.text.source[slice(*own)]) for span, own in pairs if span != own]
        if moved:
            right = ", ".join(scope.stub)
            what = f"T{where[1:]} stand in another order than in the stub: `{right}`"
            yield scope.edit("signature", [Change(*each) for each in moved], what, advice, 0)
        return
    for place, one in enumerate(spans):
        for other in spans[place + 1 : place + 3]:
            edit = scope.exchanged(one, other, where, 3)
            yield replace(edit, name="parameters", advice=advice)


def _subscripts(scope: Scope) -> Iterator[Edit]:
    """`tile[x][y]` for `tile[y][x]`, and `[None, :]` for `[:, None]`."""
    code = scope.text.code
    for match in scope.matches(r"(\w+)\s*\[([^\[\]]*)\]\s*\[([^\[\]]*)\]"):
        is_declared = match[2].isupper() or match[2].isdigit()  # an array of a constant size
        if match[2] != match[3] and not is_declared:
            new = f"{match[1]}[{match[3]}][{match[2]}]"
            yield scope.instead("subscripts", match.start(), match.end(), new, 1)
    index = r"(\w+(?:\[[:, None]+\])?)"  # in Triton a block's axes may stand behind it
    flat = re.compile(rf"(\[|\b\w+ \+ ){index}( \* \w+ \+ ){index}(?=[\],])")
    for match in scope.matches(flat):
        new = f"{match[1]}{match[4]}{match[3]}{match[2]}"
        yield scope.instead("subscripts", match.start(), match.end(), new, 1)
    for match in scope.matches(r"(\w+)\[(None, :|:, None)\]"):
        new = f"{match[1]}[{':, None' if match[2] == 'None, :' else 'None, :'}]"
        yield scope.instead("subscripts", match.start(), match.end(), new, 4)
    for match in scope.matches(r"tl\.trans\((\w+)\)|(?<=, )(\w+)\.T\b"):
        yield scope.instead("transposed", match.start(), match.end(), match[1] or match[2], 3)
    for call in scope.calls:
        if call.name == "tl.dot":
            for low, high in call.arguments[:2]:
                new = f"tl.trans({code[low:high]})"
                yield scope.instead("transposed", low, high, new, 3)
        if call.name == "tl.store" and len(call.arguments) > 1:
            low, high = call.arguments[1]
            if code[low:high].strip().isidentifier():
                yield scope.instead("transposed", low, high, f"tl.trans({code[low:high]})", 2)


_ROUNDED_UP = re.compile(r"\((\w+) \+ (\w+) - 1\) //? (\2)\b")
_OF_REST = re.compile(r"(\([^()\n]+\)|\w+ % \w+) (%|//?) (\w+)")


def _quotients(scope: Scope) -> Iterator[Edit]:
    """A quotient and its remainder in each other's place, or one by another block's length."""
    divided = "//" if scope.is_triton else "/"
    for match in scope.matches(_ROUNDED_UP):
        for block in (each for each in scope.kinds if re.search("BLOCK|TILE", each)):
            if block != match[2]:
                changes = [Change(*match.span(2), block), Change(*match.span(3), block)]
                new = f"({match[1]} + {block} - 1) {divided} {block}"
                what = f"{scope.quoted(*match.span())} stands where `{new}` belongs"
                yield scope.edit("divisor", changes, what, "", 1)
    of_rest = [*scope.matches(_OF_REST)]
    for one, other in itertools.permutations(of_rest, 2):
        if one[1] == other[1] and one[2] != other[2] and one[3] != other[3]:
            yield scope.instead("divisor", *one.span(3), other[3], 1, one.span())
    pattern = re.compile(rf"\b(\w+(?:\.\w+)?)\s*(%|{divided})\s*(\w+(?:\.\w+)?)")
    matches = list(scope.matches(pattern))
    for place, one in enumerate(matches):
        for other in matches[place + 1 : place + 4]:
            apart = scope.text.line_at(other.start()) - scope.text.line_at(one.start())
            if one[1] == other[1] and one[2] != other[2] and one[3] != other[3]:
                for changed, kept in ((one, other), (other, one)):
                    around = changed.span()
                    yield scope.instead("divisor", *changed.span(3), kept[3], 1, around)
            if one.group(1, 3) == other.group(1, 3) and apart < 2:
                yield from _split(scope, one, other)
            if one.group(1, 3) == other.group(1, 3) and one[2] != other[2] and apart < 2:
                changes = [Change(*one.span(2), other[2]), Change(*other.span(2), one[2])]
                what = (
                    f"{scope.quoted(*one.span())} and {scope.quoted(*other.span())} are exchanged"
                )
                yield scope.edit("quotients", changes, what, "", 1)


def _split(scope: Scope, one: re.Match[str], other: re.Match[str]) -> Iterator[Edit]:
    """A flat index that is split by another size than a row's length."""
    for size in _alike(one[3], scope):
        if scope.first_use.get(size, one.start()) < one.start():
            what = (
                f"{scope.quoted(*one.span())} and {scope.quoted(*other.span())} split the index by "
                f"`{one[3]}`, where `{size}` belongs"
            )
            changes = [Change(*one.span(3), size), Change(*other.span(3), size)]
            yield scope.edit("names", changes, what, "A row's length splits a flat index.", 1)


def _indices(scope: Scope) -> Iterator[Edit]:
    """An index without the block's or program's own part."""
    if scope.is_triton:
        yield from _indices_of_programs(scope)
        return
    for match in scope.matches(r"(?<![*.+] )\bthreadIdx\.([xy])\b"):
        axis = match[1]
        new = f"(blockIdx.{axis} * blockDim.{axis} + threadIdx.{axis})"
        uses_blocks = f"blockIdx.{axis}" in scope.code
        yield scope.instead("index", *match.span(), new, 3 if uses_blocks else 1)
    for match in scope.matches(_BLOCK_START):  # in the place of a thread's own element
        new = f"{match[0]} + threadIdx.{match[1] or match[2]}"
        yield scope.instead("index", *match.span(), new, 1)
    pattern = re.compile(r"\bblockIdx\.([xy])\b(?!\s*\*)")
    for match in scope.matches(pattern):
        new = f"(blockIdx.{match[1]} * blockDim.{match[1]} + threadIdx.{match[1]})"
        yield scope.instead("index", *match.span(), new, 4)
    own = re.compile(r"\bblockIdx\.([xy]) \* blockDim\.\1 \+ threadIdx\.\1")
    for match in scope.matches(own):  # a block has a row, and its threads share it
        yield scope.instead("index", *match.span(), f"blockIdx.{match[1]}", 3)
    for match in scope.matches(r"(\b\w+)\s*\[(\w+)\]"):
        for size in sorted(scope.function.integers):
            for block in ("blockIdx.x", "blockIdx.y", *_rows(scope)):
                new = f"{match[1]}[{block} * {size} + {match[2]}]"
                yield scope.instead("index", *match.span(), new, 4)


_BLOCK_START = (
    r"(?<![+\w] )\b(?:blockIdx\.([xy])\s*\*\s*(?:blockDim\.\1|[A-Z]\w*)"
    r"|(?:blockDim\.[xy]|[A-Z]\w*)\s*\*\s*blockIdx\.([xy]))(?=\s*[;,)])"
)


_ONE_ELEMENT = r"(?m)=\s*((?:tl\.program_id\([^()]*\)|\w+) \* ([A-Z]\w*))[ \t]*$"


def _indices_of_programs(scope: Scope) -> Iterator[Edit]:
    """In Triton, a program's first element for its block, or a block that each program has."""
    if "tl.arange(" not in scope.code:
        for match in scope.matches(_ONE_ELEMENT):
            new = f"{match[1]} + tl.arange(0, {match[2]})"
            yield scope.instead("index", *match.span(1), new, 1)
    ids = [each for each in scope.values if "pid" in each or "row" in each] or ["tl.program_id(0)"]
    for match in scope.matches(r"tl\.arange\(0, (\w+)\)"):
        for each in ids:
            if scope.first_use.get(each, 0) < match.start():
                new = f"({each} * {match[1]} + {match[0]})"
                yield scope.instead("index", *match.span(), new, 4)


def _rows(scope: Scope) -> list[str]:
    return [each for each in ("row", "r", "block_row") if each in scope.first_use]


_DIVIDED = re.compile(r"\b(\w+)\s*=\s*\w+\s*/{1,2}\s*(\d+)\b")


def _multiples(scope: Scope) -> Iterator[Edit]:
    """A part of a size where all such parts belong: `4 * n4` for `n4 = n / 4`."""
    code = scope.code
    counts = dict(_DIVIDED.findall(code))
    for index, token in enumerate(scope.tokens):
        count = counts.get(token.text)
        if count is None or scope.first_use.get(token.text, token.start) >= token.start:
            continue
        if not re.search(rf"\b{token.text}\s*(?:[-+*/]|>>|<<)=", code):  # as a loop halves it
            new = f"({count} * {token.text})"
            around = scope.operands(index)
            yield scope.instead("product", token.start, token.end, new, 2, around)


_PRODUCT = re.compile(r"(?<![\w.])([A-Za-z_]\w*) \* ([A-Z_]{2,}|\d{1,4})(?![\w.(\[])")
MOST_PRODUCTS = 8


def _products(scope: Scope) -> Iterator[Edit]:
    """A size that stands alone here, and elsewhere in the file as a factor of a product."""
    known = {match.group(1, 2) for match in _PRODUCT.finditer(scope.text.code)}
    names = {*scope.values, *re.findall(r"\b[A-Z][A-Z_\d]+\b", scope.text.code)}
    tokens = scope.tokens
    for one, other in sorted(known)[:MOST_PRODUCTS]:
        if not (other[0].isdigit() or other in names):
            continue
        for index, token in enumerate(tokens[:-1]):
            behind = tokens[index + 1].text
            is_alone = token.text == one and behind not in ("(", "[", "=", "*", ".", ":")
            is_alone = is_alone and (index == 0 or tokens[index - 1].text not in (".", "&"))
            if is_alone and scope.first_use.get(one, 0) < token.start:
                around = scope.operands(index)
                new = f"({one} * {other})"
                yield scope.instead("product", token.start, token.end, new, 2, around)


@at_each(
    r"(?<![\w.)\]])([\w.]+(?:\([^()\n]*\))?)\s*(?<![*/])([*/])(?![*/])\s*"
    r"(([\w.]+(?:\([^()\n]*\))?)\s*[-+]\s*[\w.]+(?:\([^()\n]*\))?)"
)
def _parentheses(scope: Scope, match: re.Match[str]) -> Iterator[Edit]:
    """A quotient or product whose second operand lacks its parentheses: `1 / 1 + e`."""
    new = f"({match[3]})"
    cost = 1 if match[2] == "/" else 3
    yield scope.instead("parentheses", *match.span(3), new, cost, match.span())


# Special ones first: of changes that are as likely, the first of a line are tried first.
RULES: Sequence[Rule] = (
    _arguments,
    _parameters,
    _unused,
    _multiples,
    _parentheses,
    _quotients,
    _functions,
    _names,
    _exchanged_names,
    _subscripts,
    _rounded_down,
    _products,
    _operators,
    _numbers,
    _in_place_of_infinity,
    _infinities,
    _indices,
)
