"""Mistakes that an error and the submission's source name together, without another run.

Each row of the table takes a failure and the source; it gives a cause only where what it says of
the source is there to be read.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from grader.executors.runner import CaseResult
from grader.grading.diagnosis import Cause
from grader.status import Status

MOST_CHARACTERS = 200_000  # of a source that is looked at


@dataclass(frozen=True)
class Seen:
    """A failure and the source of the submission's file."""

    result: CaseResult
    source: str
    is_triton: bool

    @property
    def what(self) -> str:
        """The failure in the grader's, the compiler's or Python's words."""
        return self.result.verdict.what

    @cached_property
    def lines(self) -> list[str]:
        """The source's lines."""
        return self.source.splitlines()

    @property
    def line(self) -> str:
        """The line of the failure, or ""."""
        number = self.result.line or 0
        return self.lines[number - 1] if 1 <= number <= len(self.lines) else ""

    @cached_property
    def code(self) -> str:
        """A CUDA source with blanks in the place of comments, so that offsets stay."""
        return _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), self.source)


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def cause_of(result: CaseResult, source: str, language: str) -> Cause | None:
    """The mistake that a failure's words and the source name; None where they name none."""
    if len(source) > MOST_CHARACTERS:
        return None
    seen = Seen(result, source, language == "triton")
    return next(filter(None, (row(seen) for row in TABLE)), None)


# --- names -------------------------------------------------------------------------------------

_UNKNOWN = re.compile(
    r"NameError\W+(?:name ')?(?P<a>\w+)'? is not defined"
    r"|[‘'\"](?P<b>\w+)[’'\"] was not declared in this scope"
    r"|identifier \"(?P<c>\w+)\" is undefined"
    r"|has no attribute '(?P<d>\w+)'"
)


def _unknown_name(seen: Seen) -> Cause | None:
    found = _UNKNOWN.search(seen.what)
    if found is None:
        return None
    name = next(filter(None, found.groups()))
    known = set(re.findall(r"\b[A-Za-z_]\w*\b", seen.source)) - {name}
    same = sorted(each for each in known if each.lower() == name.lower())
    near = same or difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)
    if not near:
        return None
    what = f"`{name}` is not defined: did you mean `{near[0]}`?"
    advice = "Upper and lower case differ." if same else f"Define `{name}`, or correct its name."
    return Cause("unknown_name", what, advice)


_WITHOUT = re.compile(r"`(\w+)` was launched without (\w+)")


def _misnamed_configuration(seen: Seen) -> Cause | None:
    found = _WITHOUT.search(seen.what)
    if found is None:
        return None
    kernel, name = found.groups()
    given = set(re.findall(r"""["'](\w+)["']\s*:""", seen.source))
    near = difflib.get_close_matches(name, sorted(given - {name}), n=1, cutoff=0.6)
    if not near or name in given:
        return None
    return Cause(
        "misnamed_configuration",
        f"The configurations set `{near[0]}`, and the parameter of `{kernel}` is `{name}`",
        "Give both one name.",
    )


# --- Triton's compiler -------------------------------------------------------------------------

_NEEDS_FLOAT32 = re.compile(r"Expected dtype \['fp32', 'fp64'\] but got \w+")
_TWO_DTYPES = re.compile(r"Both operands must be same dtype. Got \w+ and \w+")
_CALL = re.compile(r"\b((?:tl|tl\.math|libdevice)\.\w+)\(")


def _half_precision(seen: Seen) -> Cause | None:
    if _NEEDS_FLOAT32.search(seen.what) is None:
        return None
    calls = _CALL.findall(seen.line)
    which = f"`{calls[0]}`" if len(set(calls)) == 1 else "This function"
    return Cause(
        "half_precision",
        f"{which} takes float32, and gets half precision where the input has it",
        "Convert right behind the load: `tl.load(...).to(tl.float32)`.",
    )


def _operands_differ(seen: Seen) -> Cause | None:
    if _TWO_DTYPES.search(seen.what) is None:
        return None
    dot = re.search(r"tl\.dot\(\s*(\w+)\s*,\s*(\w+)", seen.line)
    advice = "Convert one of them with `.to(...)`."
    if dot:
        advice = f"Convert one of them, as in `{dot[1]}.to({dot[2]}.dtype)`."
    return Cause(
        "operands_differ", "The operands of `tl.dot` need one dtype, whichever it is", advice
    )


_WORDS: Sequence[tuple[re.Pattern[str], str, str]] = (
    (
        re.compile(r"arange's arguments must be of type tl.constexpr"),
        "`tl.arange` needs numbers that are known when the kernel is compiled",
        "Declare the parameter with `: tl.constexpr`.",
    ),
    (
        re.compile(r"arange's range must be a power of 2|Shape element \d+ must be a power of 2"),
        "A block's size has to be a power of two",
        "Take the next one, `triton.next_power_of_2(n)`, with a mask.",
    ),
    (
        re.compile(r"dynamic shared memory, of which the launch has 0 bytes"),
        "The launch asks for no dynamic shared memory, and the kernel has an `extern __shared__` "
        "array",
        "Pass its size in bytes as the third argument of the launch: kernel<<<grid, block, "
        "bytes>>>(...).",
    ),
)


def _words(seen: Seen) -> Cause | None:
    for pattern, what, advice in _WORDS:
        if pattern.search(seen.what):
            return Cause("words", what, advice)
    return None


_AXIS = re.compile(r"\baxis\b.*(?:out of|range|must be|invalid)|reduction axis", re.IGNORECASE)


def _axis(seen: Seen) -> Cause | None:
    given = re.search(r"(tl\.\w+)\(.*axis\s*=\s*(\d+)", seen.line)
    if seen.result.status is not Status.compile_error or given is None:
        return None
    if not _AXIS.search(seen.what) and "IndexError" not in seen.what:
        return None
    return Cause(
        "axis",
        f"`{given[1]}` is asked for axis {given[2]}, which this block doesn't have",
        "Axes count from 0: a block of one dimension has axis 0 alone.",
    )


# --- CUDA --------------------------------------------------------------------------------------

_POINTER_SIZE = re.compile(r"sizeof\s*\(\s*(\w+)\s*\*\s*\)")


def _size_of_a_pointer(seen: Seen) -> Cause | None:
    found = _POINTER_SIZE.search(seen.line)
    if found is None or "copies" not in seen.what:
        return None
    return Cause(
        "size_of_a_pointer",
        f"`{found[0]}` is the size of a pointer, 8 bytes",
        f"An element has `sizeof({found[1]})` bytes.",
    )


_DECLARED = re.compile(r"\b(?:float|double|int|unsigned|long|size_t)\s+(\w+)\s*;")


def _uninitialised(seen: Seen) -> Cause | None:
    """A local variable without a value, to which its first use adds."""
    if seen.is_triton or seen.result.status not in _OF_VALUES:
        return None
    for found in _DECLARED.finditer(seen.code):
        name = found[1]
        if seen.code[: found.start()].rstrip().endswith(("__shared__", "extern", "struct")):
            continue
        use = re.compile(rf"\b{name}\b").search(seen.code, found.end())
        if use is None:
            continue
        behind = seen.code[use.end() :]
        is_added_to = re.match(r"\s*(?:\+=|-=|\*=|\+\+)", behind)
        is_own = re.match(rf"\s*=(?!=)[^;]*\b{name}\b", behind)
        if is_added_to or is_own:
            declared, used = (seen.code.count("\n", 0, at) + 1 for at in (found.start(), use.end()))
            return Cause(
                "uninitialised",
                f"`{name}` has no initial value at line {declared}, and line {used} adds to it",
                f"Write `{found[0].rstrip(';').strip()} = 0;`, or what the reduction begins with.",
            )
    return None


_OF_VALUES = frozenset(
    {Status.wrong_values, Status.not_finite, Status.nondeterministic, Status.uninitialised_read}
)
_SAME_ADDRESS = re.compile(
    r"(?P<who>thread|program) (?P<one>\([\d, ]+\))(?: of block (?P<block>\([\d, ]+\)))?"
    r" (?:writes|stores) .*?(?:fills with another value|stores another value)",
    re.IGNORECASE | re.DOTALL,
)
_BLOCK = re.compile(r"of block (\([\d, ]+\))")
_STORED = re.compile(r"(\w+)\s*\[[^=;]*\]\s*=(?!=)")


def _same_element(seen: Seen) -> Cause | None:
    """Two writes of different values to one element."""
    found = _SAME_ADDRESS.search(seen.what)
    if seen.result.status is not Status.data_race or found is None:
        return None
    blocks = _BLOCK.findall(seen.what)
    who = "programs" if seen.is_triton else "blocks"
    if not seen.is_triton and len(set(blocks)) == 1:
        who = "threads of a block"
    stored = _STORED.search(seen.line)
    array = f" of `{stored[1]}`" if stored else ""
    return Cause(
        "same_element",
        f"Several {who} store different values to the same element{array}: the index isn't unique",
        f"The index of the store must differ between {who}: "
        + (
            "does it contain the program id, and are its strides those of the output?"
            if seen.is_triton
            else "does it contain blockIdx, and are row lengths those of the array stored to?"
            if who == "blocks"
            else "threads that add to one element need atomicAdd, or an element each."
        ),
    )


# --- launches ----------------------------------------------------------------------------------


def _exchanged_arguments(seen: Seen) -> Cause | None:
    """A launch that passes two arguments each for the parameter of the other's name."""
    if seen.result.status in (Status.compile_error, Status.import_error):
        return None
    launches = _triton_launches(seen) if seen.is_triton else _cuda_launches(seen)
    for kernel, parameters, arguments in launches:
        plain = [_plain(each) for each in parameters]
        given = [_plain(each) for each in arguments]
        for i, name in enumerate(given[: len(plain)]):
            if not name or name == plain[i] or plain.count(name) != 1:
                continue
            j = plain.index(name)
            if j > i and j < len(given) and given[j] != plain[j] and _fits(given[j], plain[i]):
                return Cause(
                    "exchanged_arguments",
                    f"The launch of `{kernel}` passes `{arguments[i]}` for the parameter "
                    f"`{parameters[i]}`, and `{arguments[j]}` for `{parameters[j]}`",
                    "Exchange the two arguments.",
                )
    return None


def _plain(name: str) -> str:
    """A name as arguments and parameters share it: `n_cols` and `cols`, `x_ptr` and `x`."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        return name
    return re.sub(r"^(?:n|num|d)_|_(?:ptr|pointer|size)$", "", name.lower())


def _fits(argument: str, parameter: str) -> bool:
    return argument == parameter or argument in parameter or parameter in argument


_Launch = tuple[str, list[str], list[str]]


def _triton_launches(seen: Seen) -> Iterator[_Launch]:
    try:
        tree = ast.parse(seen.source)
    except (SyntaxError, ValueError, RecursionError):
        return
    functions: Mapping[str, list[str]] = {
        node.name: [each.arg for each in node.args.args]
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    chosen: dict[str, str] = {}  # `kernel = one_kernel if ... else other_kernel`
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names = [each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)]
            for name in names:
                if name in functions:
                    chosen[node.targets[0].id] = name
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            name = ast.unparse(node.func.value)
            name = chosen.get(name, name)
            if name in functions:
                yield name, functions[name], [ast.unparse(each) for each in node.args]


_KERNEL = re.compile(r"__global__[^({;]*?\b(\w+)\s*\(([^)]*)\)\s*\{")
_LAUNCH = re.compile(r"\b(\w+)\s*<<<[^;]*?>>>\s*\(([^;]*)\)\s*;")


def _cuda_launches(seen: Seen) -> Iterator[_Launch]:
    functions = {
        found[1]: [re.findall(r"\w+", each)[-1] for each in found[2].split(",") if each.strip()]
        for found in _KERNEL.finditer(seen.code)
    }
    for found in _LAUNCH.finditer(seen.code):
        if found[1] in functions and "(" not in found[2]:
            yield found[1], functions[found[1]], [each.strip() for each in found[2].split(",")]


TABLE: Sequence[Callable[[Seen], Cause | None]] = (
    _unknown_name,
    _misnamed_configuration,
    _half_precision,
    _operands_differ,
    _words,
    _axis,
    _size_of_a_pointer,
    _exchanged_arguments,
    _uninitialised,
    _same_element,
)
