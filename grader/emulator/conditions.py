"""Preprocessor conditions on which nvcc and the emulator's compiler may disagree.

A file that tests a macro which only one of them defines could have one kernel for the emulator and
another for the GPU. A condition on a macro that the file has defined itself, not under a condition,
is the same for both. So is an include guard, a default for a limit such as FLT_MAX, a condition
that no compiler finds true, and one that decides nothing but an `#error`, or macros that nothing
uses. Both compilers define the same architecture for device code, so that its functions, and macros
and functions that only these use, may depend on it. So may functions for host and device, and the
macros that they use: each of nvcc's two passes takes its own branch, and so do the two objects that
the emulator makes of such a file (`for_host`).
"""

from __future__ import annotations

import operator
import re
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

from . import unsupported
from .edits import Edit, apply
from .lexer import NOBODYS_MACROS, Directive
from .tokens import Source, opening, read

_TESTS = frozenset({"if", "ifdef", "ifndef", "elif", "elifdef", "elifndef"})
_BETWEEN = _TESTS | {"else", "endif"}
_MACROS = {"define", "error", "warning"}  # what a conditional may have that decides no code
# Names that compilers, CUDA's headers or the emulator's headers define.
_OF_COMPILERS = re.compile(
    r"__\w*|_[A-Z]\w*|CUDA\w*|cuda[A-Z]\w*|NV_?\w*|CUB_\w*|CCCL_\w*|THRUST_\w*"
    r"|WARPGRADE\w*|warpgrade\w*"
    # Of C headers, of which each compiler includes others.
    r"|\w+_(?:MAX|MIN|WIDTH)|FE_\w+|\w+[fF]128|CU_UUID\w*|IF_DEVICE\w*|LIBCUDACXX\w*"
    r"|linux|unix|assert\w*|errno|is\w+_l|isascii|toascii\w*|st_[acm]time"
)
_LIMIT = re.compile(r"\w+_(?:MAX|MIN|WIDTH)")
_GUARD = re.compile(r"\w+_(?:H|HH|HPP|CUH|CU|INCLUDED)_*")
# Both define these, with the same meaning for a submission. (nvcc calls g++ for the host code, and
# its device code sees the same host compiler.)
_ALIKE_TEXT = """
__CUDACC__ __NVCC__ __cplusplus __linux__ __linux __unix__ __x86_64__ __GNUC__ __LP64__
__FILE__ __LINE__ __func__ __FUNCTION__ __BYTE_ORDER__ __SIZEOF_POINTER__ __CHAR_BIT__
"""
# Neither nvcc nor g++ defines these here.
_NEITHER_TEXT = """
__aarch64__ __clang__ __INTEL_COMPILER __CUDA__ __NVCOMPILER __CUDACC_RTC__
__HIP_DEVICE_COMPILE__
"""
_ALIKE = NOBODYS_MACROS | frozenset(f"{_ALIKE_TEXT} {_NEITHER_TEXT}".split())
# True of every nvcc that knows C++17, which is 11.0 and later, and of the emulator's headers.
_NOT_OLD = re.compile(
    r"(?:^|(?<=[(&|] ))(?:(?:CUDA|CUDART)_VERSION > ?= (?:\d{1,4}|10\d{3}|11000)"
    r"|__CUDACC_VER_MAJOR__ > ?= (?:\d|1[01])|(?:defined (?:\( )?)?__has_include(?: \))?"
    r"|__has_include \( < (?:cuda_runtime|cuda_[bf][fp]16|cuda_pipeline|cooperative_groups|mma)"
    r" \. h > \))(?=$| [)&|])"
)
_DEFINED = re.compile(r"defined (?:\( )?(\w+) (?:\) )?")
MOST_CHARACTERS = 200  # of a macro's name
_ARCHITECTURE = "__CUDA_ARCH__"  # defined by both in device code; not by nvcc in host code
_OF_DEVICE = 900  # its value, as in include/cuda_runtime.h
_PART = re.compile(
    rf"(?:\( )*(?:(?P<not>! )?defined (?:\( )?{_ARCHITECTURE}"
    rf"|{_ARCHITECTURE} (?P<is>[<>]=?|[!=]=) (?P<than>[1-9]\d{{0,5}}))(?: \))*"
)
_COMPARED = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_OF_TESTS = frozenset({"defined", "__VA_ARGS__", "__VA_OPT__"})  # words, not macros
_CLOSURE = re.compile(r"(?<!\] )\] [A-Za-z_]")  # [=] __device__, no [[attribute]]
# Words in a function's head by which its body may decide what other code is; ## may make them.
_DECIDING = frozenset(
    {"auto", "constexpr", "consteval", "decltype", "##", "struct", "union", "enum"}
)
_PLAIN_WORDS = frozenset({"class", "template", "(", ")"})  # that no macro may make there
_NO_FUNCTION = re.compile(r"|__\w+|alignas|asm")  # before the last parenthesis of a variable's head
_BUILT_IN = r"(?:(?:const|void|bool|char|short|int|long|float|double|signed|unsigned) )+"
_PARAMETER = rf"{_BUILT_IN}(?:[*&] (?:(?:const|__restrict__) )*)*(?:\w+ )?"
# A function's head with types of the language alone. By a class, other code could find a function
# without naming it: a range's begin, swap in a trait.
_PLAIN_HEAD = re.compile(
    r"(?:(?:static|inline|__inline__|__forceinline__|__noinline__|__device__) )*"
    rf"{_BUILT_IN}(?:\* )*(?P<name>[A-Za-z]\w*) \( (?:{_PARAMETER}(?:, {_PARAMETER})*)?\)"
)

_Functions = dict[int, tuple[str, int]]  # by the first token of each, its name and its end


@dataclass(frozen=True)
class Condition:
    """A test of a macro that the two compilers may answer differently."""

    line: int
    macro: str


def find(source: Source) -> list[Condition]:
    """The conditions of a file that the compilers may answer differently, in order."""
    every = {each.macro for each in source.directives}
    own: set[str] = set()  # defined so far
    always: list[bool] = []  # of the open conditionals: whether both compilers take the branch
    bodies = [body for body, _ in _deciding_for_themselves(source) if not body.on_host]
    braces = [(body.begin, body.end) for body in bodies]
    inside = [
        (source.code.tokens[start].start, source.code.tokens[end].start)
        for start, end in (*braces, *_bodies_by_pass(source))
    ]
    conditions = []
    made_of = _made_of(source)
    texts = [token.text for token in source.code.tokens]
    decides_nothing = {*chain(*_deciding_nothing(source, texts, {}))}
    functions = _plain_functions(source, bodies)
    for start, end in (*braces, *((start, end) for start, (_, end) in functions.items())):
        texts[start:end] = [""] * (end - start)
    for_device = {*chain(*_deciding_nothing(source, texts, functions), *_macros_by_pass(source))}
    for number, each in enumerate(source.directives):
        is_guard = _is_guard(source.directives[number : number + 3])
        if each.name in ("if", "ifdef", "ifndef"):
            always.append(is_guard)
        elif always and each.name == "endif":
            always.pop()
        elif always and each.name != "define":
            always[-1] = always[-1] and each.name not in ("else", *_TESTS)
        elif all(always):
            own.add(each.macro)
        if is_guard or each in decides_nothing or _is_never_true(each, every):
            continue
        if _is_alike(each):
            continue
        for name in _tested(each, made_of):
            in_device_code = each in for_device or any(
                start < each.at.start < end for start, end in inside
            )
            known = name in own or name in _ALIKE or (name == _ARCHITECTURE and in_device_code)
            if not known and _OF_COMPILERS.fullmatch(name):
                conditions.append(Condition(each.at.line, name[:MOST_CHARACTERS]))
    return conditions


def for_host(text: str) -> str | None:
    """The file as nvcc's pass for the host reads it; None where the passes read the same.

    In functions for host and device, and for macros that are made for them, the architecture is
    undefined. Elsewhere it stays, since the planner's program knows the kernels' sizes.
    """
    source = read(text)
    run = source.code.tokens
    places = [
        (run[begin].end, run[begin].line, run[end].start, run[end].line)
        for begin, end in _bodies_by_pass(source)
    ]
    for group in _macros_by_pass(source):
        first, last = group[0].at, group[-1]
        places.append((first.start, first.line, last.end, last.at.line))
    edits = []
    for begin, begin_line, end, end_line in places:
        undefined = f"\n#undef {_ARCHITECTURE}\n#line {begin_line}\n"
        again = f"\n#define {_ARCHITECTURE} {_OF_DEVICE}\n#line {end_line}\n"
        edits += [Edit(begin, begin, undefined), Edit(end, end, again)]
    return apply(text, edits) if edits else None


def _bodies_by_pass(source: Source) -> Iterator[tuple[int, int]]:
    """The braces of functions for host and device that ask for the architecture, as indices."""
    if _sets_architecture(source):
        return
    made_of = _made_of(source)
    for body, within in _deciding_for_themselves(source):
        if body.on_host and any(_ARCHITECTURE in _tested(each, made_of) for each in within):
            yield body.begin, body.end


def _macros_by_pass(source: Source) -> list[Sequence[Directive]]:
    """The conditionals on the architecture whose macros functions for host and device use.

    Nothing else uses them but functions of the device that have no shared memory.
    """
    if _sets_architecture(source):
        return []
    texts = [token.text for token in source.code.tokens]
    bodies = [body for body, _ in _deciding_for_themselves(source)]
    for body in bodies:
        within = slice(body.begin, body.end)
        if not body.on_host and "__shared__" not in texts[within]:
            texts[within] = [""] * (body.end - body.begin)
    for_device = _deciding_nothing(source, texts, {})
    for body in bodies:
        if body.on_host:
            texts[body.begin : body.end] = [""] * (body.end - body.begin)
    for_both = [one for one in _deciding_nothing(source, texts, {}) if one not in for_device]
    outermost = [one for one in for_both if not any(one[0] in other[1:] for other in for_both)]
    made_of = _made_of(source)
    asked = [{name for each in one for name in _tested(each, made_of)} for one in outermost]
    return [one for one, names in zip(outermost, asked, strict=True) if names == {_ARCHITECTURE}]


def _sets_architecture(source: Source) -> bool:
    lines = [each for each in source.directives if each.name in ("define", "undef")]
    return any(each.tokens and each.tokens[0].text == _ARCHITECTURE for each in lines)


def _deciding_for_themselves(
    source: Source,
) -> Iterator[tuple[unsupported.Body, Sequence[Directive]]]:
    """The device functions whose bodies decide no type, constant or macro of other code.

    With the directives in their bodies.
    """
    run, made_of = source.code.tokens, _made_of(source)
    before = [each.before for each in source.directives]
    for body in unsupported.bodies(source):
        words = [token.text for token in run[body.head : body.begin]]
        made = {each for word in words if word in made_of for each in _reached(word, made_of)}
        if made.union(words) & _DECIDING or _CLOSURE.search(" ".join(words)):
            continue
        if made & _PLAIN_WORDS or ("class" in words and words[0] != "template"):
            continue
        last = body.begin - 1
        while run[last].text in ("const", "noexcept", "override"):
            last -= 1
        begin = opening(run, last) if run[last].text == ")" else None
        name = run[begin - 1].text if begin else ""  # of a function, before its parameters
        within = source.directives[bisect(before, body.begin) : bisect(before, body.end)]
        if name not in made and not _NO_FUNCTION.fullmatch(name) and _is_whole(within):
            yield body, within


def _plain_functions(source: Source, bodies: Sequence[unsupported.Body]) -> _Functions:
    """The functions at file scope with plain heads."""
    run, macros = source.code.tokens, _made_of(source).keys()
    depths = list(accumulate(((t.text == "{") - (t.text == "}") for t in run), initial=0))
    opened: list[int] = []
    for each in source.directives:
        if each.name in ("if", "ifdef", "ifndef"):
            opened.append(depths[each.before])
        elif opened and each.name in _BETWEEN and depths[each.before] != opened[-1]:
            return {}  # a branch opens or closes braces: what is at file scope isn't known
        elif opened and each.name == "endif":
            opened.pop()
    cut = {each.before for each in source.directives}
    functions: _Functions = {}
    for body in bodies:
        words = [token.text for token in run[body.head : body.begin]]
        head = _PLAIN_HEAD.fullmatch(" ".join(words))
        is_whole = cut.isdisjoint(range(body.head + 1, body.begin + 1))
        if head and is_whole and depths[body.head] == 0 and macros.isdisjoint(words):
            functions[body.head] = (head["name"], body.end + 1)
    return functions


def _is_whole(directives: Sequence[Directive]) -> bool:
    """Whether these have whole conditionals, in which no macro is made for what follows."""
    depth = 0
    for each in directives:
        depth += each.name in ("if", "ifdef", "ifndef")
        if depth == 0 and each.name in _BETWEEN:
            return False
        if depth and each.name in ("define", "undef", "include"):
            return False
        depth -= each.name == "endif"
    return depth == 0


def _made_of(source: Source) -> dict[str, set[str]]:
    """The words of each macro's definitions."""
    words: dict[str, set[str]] = {}
    for each in source.directives:
        if each.macro:
            words.setdefault(each.macro, set()).update(token.text for token in each.body)
    return words


def _reached(name: str, made_of: Mapping[str, set[str]]) -> Iterator[str]:
    """A name, and all words of the macros that it stands for."""
    known, following = {name}, [name]
    while following:
        yield (word := following.pop())
        new = made_of.get(word, set()) - known
        known |= new
        following.extend(sorted(new))


def _is_guard(lines: Sequence[Directive]) -> bool:
    """Whether the first line is that of an include guard, or of a limit that has a default."""
    if len(lines) < 3 or lines[0].name != "ifndef" or lines[0].before != lines[1].before:
        return False
    name = lines[1].macro
    if [token.text for token in lines[0].tokens] != [name]:
        return False
    if _LIMIT.fullmatch(name):
        return lines[2].name == "endif" and lines[2].before == lines[0].before
    return bool(_GUARD.fullmatch(name)) or not _OF_COMPILERS.fullmatch(name)


def _tested(directive: Directive, made_of: Mapping[str, set[str]]) -> Iterator[str]:
    """The macros that decide a test, also through the file's own: `#define ARCH __CUDA_ARCH__`."""
    if directive.name in _TESTS:
        asked = _NOT_OLD.sub("", " ".join(token.text for token in directive.tokens)).split()
        names = (
            each.text for each in directive.tokens if each.kind == "name" and each.text in asked
        )
        reached = (word for name in names for word in _reached(name, made_of))
        yield from dict.fromkeys(word for word in reached if word not in _OF_TESTS)


def _is_never_true(directive: Directive, own: set[str]) -> bool:
    """Whether a condition needs a macro that nobody defines: `defined(MINE) && ...`."""
    spelled = " ".join(token.text for token in directive.tokens)
    factors = [""]
    depth = 0
    for word in spelled.replace("& &", "&&").replace("| |", "||").split():
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in ("||", "?"):
            return False
        if depth == 0 and word == "&&":
            factors.append("")
        else:
            factors[-1] += f"{word} "
    asked = filter(None, map(_DEFINED.fullmatch, factors))
    return any(each[1] not in own and not _OF_COMPILERS.fullmatch(each[1]) for each in asked)


def _is_alike(directive: Directive) -> bool:
    """Whether a condition on the architecture has one answer in device code and in host code.

    `!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 600` stands around what old GPUs lack.
    """
    answers = _answers(directive)
    return answers in ((True, True), (False, False))


def for_device_alone(directives: Sequence[Directive]) -> Iterator[tuple[int, int]]:
    """The ranges of a file's tokens that nvcc's pass for the host doesn't read."""
    open_at: list[int | None] = []  # of each open conditional: where such a range began
    for each in directives:
        if each.name in ("if", "ifdef", "ifndef"):
            open_at.append(each.before if _answers(each) == (False, True) else None)
        elif open_at and each.name.startswith(("el", "endif")):
            if (begin := open_at.pop()) is not None:
                yield begin, each.before
            if each.name != "endif":
                open_at.append(None)


def _answers(directive: Directive) -> tuple[bool, bool] | None:
    """A condition's answers in host code and in device code; None where others decide it too."""
    meaning = {"if": "", "elif": "", "ifdef": "defined ", "ifndef": "! defined "}
    words = meaning.get(directive.name, "") + " ".join(token.text for token in directive.tokens)
    words = re.sub(r"(?<=[<>!=]) =", "=", words.replace("& &", "&&").replace("| |", "||"))
    joint = "||" if "||" in words else "&&"
    parts = [_PART.fullmatch(part.strip()) for part in words.split(joint)]
    if directive.name not in meaning or not all(parts):
        return None

    def answer(value: int | None) -> bool:
        holds = (
            _COMPARED[part["is"]](value or 0, int(part["than"]))
            if part["is"]
            else (value is None) == bool(part["not"])
            for part in parts
            if part
        )
        return any(holds) if joint == "||" else all(holds)

    return answer(None), answer(_OF_DEVICE)


def _deciding_nothing(
    source: Source, texts: Sequence[str], functions: _Functions
) -> list[Sequence[Directive]]:
    """The conditionals whose branches only have what neither `texts` nor other lines name.

    That is macros alone, or some of `functions` alone.
    """
    directives = source.directives
    last_include = max(
        (n for n, each in enumerate(directives) if each.name == "include"), default=-1
    )
    code = set(texts)
    nothing: list[Sequence[Directive]] = []
    open_at: list[int] = []
    for number, each in enumerate(directives):
        if each.name in ("if", "ifdef", "ifndef"):
            open_at.append(number)
        elif each.name == "endif" and open_at:
            begin = open_at.pop()
            group = directives[begin : number + 1]
            outside = (*directives[:begin], *directives[number + 1 :])
            used = code.union(token.text for other in outside for token in other.tokens)
            made = _made_by(group, functions) if "##" not in used else None
            if made is None or made & used or (made and begin <= last_include):
                continue
            if not any(map(_OF_COMPILERS.fullmatch, made)):
                nothing.append(group)
    return nothing


def _made_by(group: Sequence[Directive], functions: _Functions) -> set[str] | None:
    """The names that a conditional of nothing but macros, or nothing but `functions`, makes.

    One of nothing but `#error` makes none: the file has the same kernels, or can't be compiled.
    """
    at, end = group[0].before, group[-1].before
    if at == end:
        made = {each.macro for each in group} - {""}
        return made if {each.name for each in group} <= _BETWEEN | _MACROS else None
    made, between = set(), {at}
    while at in functions and at < end:
        name, at = functions[at]
        made.add(name)
        between.add(at)
    outside = {each.name for each in group if each.before in between}
    return made if at == end and outside <= _BETWEEN else None
