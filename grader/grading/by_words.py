"""Mistakes that an error's words show, some together with the submission's source.

Each row of a table has a pattern and makes a cause of what it matches; it makes one only where what
it says of the source is there to be read.
"""

from __future__ import annotations

import ast
import difflib
import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from grader.emulator.findings import is_exchanged_launch
from grader.executors.runner import CaseResult
from grader.executors.source_text import SourceText, code_of
from grader.grading import by_python, by_source
from grader.grading.by_source import Context
from grader.grading.diagnosis import Cause
from grader.status import Status

LINES_OF_LAUNCH = 8  # that are looked at
MOST_NAMES = 2000  # that may be meant by a misspelt one


def cause_of(result: CaseResult, source: str, language: str) -> Cause | None:
    """The mistake that a failure's words and the source name; None where they name none."""
    return _first(_TABLE, result, source, language)


def general_cause_of(result: CaseResult, source: str, language: str) -> Cause | None:
    """What a failure's words say in general, where no try shows more; None where nothing."""
    return _first(_GENERAL, result, source, language)


class _Row(NamedTuple):
    """A pattern, and the cause that its match in the failure's words or line may show."""

    pattern: str
    cause: Callable[[Context, re.Match[str]], Cause | None]
    is_of_line: bool = False
    status: Status | None = None  # None where any will do

    def cause_of(self, context: Context) -> Cause | None:
        """The cause of a failure; None where this row shows none."""
        if self.status not in (None, context.result.status):
            return None
        text = context.line_of_code if self.is_of_line else context.words
        match = re.search(self.pattern, text, re.DOTALL)
        return self.cause(context, match) if match else None


def _first(table: Sequence[_Row], result: CaseResult, source: str, language: str) -> Cause | None:
    if len(source) > by_source.MOST_CHARACTERS:
        return None
    context = Context(result, source, language == "triton")
    try:
        return next(filter(None, (row.cause_of(context) for row in table)), None)
    except (RecursionError, MemoryError):
        return None  # expressions in a thousand levels


# --- names -------------------------------------------------------------------------------------

_UNKNOWN = (
    r"NameError\W+(?:name ')?(?P<a>\w+)'? is not defined"
    r"|[‘'\"](?P<b>\w+)[’'\"] was not declared in this scope"
    r"|identifier \"(?P<c>\w+)\" is undefined"
)
# A name that each turn of a loop makes anew from its counter, unlike an accumulator.
_OF_TURN = r"(?m)^( +)for (\w+) in [^\n]*\n(?:(?:\1 [^\n]*)?\n)*?\1 +{} = [^\n]*\b\2\b"


def _unknown_name(context: Context, match: re.Match[str]) -> Cause | None:
    name = next(filter(None, match.groups()))
    code = code_of(context.source, context.is_triton)
    if not context.is_triton:
        code = f"threadIdx blockIdx blockDim gridDim warpSize {code}"
    names = dict.fromkeys(re.findall(r"\b[A-Za-z_]\w{0,60}\b", code))
    known = set(islice(names, MOST_NAMES)) - {name}
    same = sorted(each for each in known if each.lower() == name.lower())
    near = same or difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)
    before = "\n".join(context.lines[: context.result.line]).rpartition("\ndef ")[2]
    # Without a blank it would be an argument's name in a call of several lines.
    if context.is_triton and re.search(rf"(?m)^ {{5,}}{name} +=(?!=)", before):
        stored = re.findall(r"\b[A-Za-z_]\w*", context.line_of_code.partition("tl.store(")[2])
        of_turn = [each for each in stored[:20] if re.search(_OF_TURN.format(each), before)]
        if of_turn:
            what = f"The store stands behind the loop, and each turn has its own `{of_turn[0]}`"
            return Cause("unknown_name", what, "Indent it into the loop: each turn stores its own.")
        what = f"`{name}` has a value only where a condition or a loop gives it one"
        advice = "Give it a first value before them, of the same shape and dtype."
        return Cause("unknown_name", what, advice)
    if not near:
        return None
    what = f"`{name}` is not defined: did you mean `{near[0]}`?"
    advice = "Upper and lower case differ." if same else f"Define `{name}`, or correct its name."
    at = re.search(rf"\b{name}\b", context.line)
    return Cause("unknown_name", what, advice, context.marked(*at.span()) if at else ())


def _mixed_indents(context: Context, match: re.Match[str]) -> Cause | None:
    """A tab before a line where others have spaces: an editor may show both as wide."""
    numbers = {
        start: [n for n, line in enumerate(context.lines, 1) if line.startswith(start)]
        for start in ("\t", "  ")
    }
    if not all(numbers.values()):
        return None
    near = min(numbers["\t"], key=lambda number: abs(number - (context.result.line or 0)))
    what = f"Line {near} is indented by a tab, and other lines are by spaces"
    advice = "Use spaces in every line: to Python a tab is 8 of them, whatever an editor shows."
    return Cause("mixed_indents", what, advice)


# Characters of typeset text, with what code has in their place.
_TYPED = {
    **dict.fromkeys("“”„«»", '"'),
    **dict.fromkeys("‘’‚´", "'"),
    **dict.fromkeys("‐‑–—−", "-"),
    "×": "*",
    "÷": "/",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
}
_ODD_CHARACTER = (
    r"(?:invalid |extended )(?:non-printable )?character "
    r"(?:'?(?P<given>[^\x00-\x7f])|U\+(?P<code>[0-9A-F]{4}))"
)


def _odd_character(context: Context, match: re.Match[str]) -> Cause | None:
    """A character that stands for one of ASCII in typeset text: a curly quote, a dash, a space."""
    given = match["given"] or chr(int(match["code"], 16))
    meant = _TYPED.get(given) or unicodedata.normalize("NFKC", given)
    if not meant.isascii():
        return None
    name = unicodedata.name(given, "without a name").lower()
    typed = "a space" if meant.isspace() else f"`{meant}`"
    what = f"This line has U+{ord(given):04X}, {name}, where code has {typed}"
    advice = f"Type {typed} there: text copied from a page or from slides may have such characters."
    at = context.line.find(given)
    return Cause("odd_character", what, advice, context.marked(at, at + 1) if at >= 0 else ())


# What headers declare, and a file may use without having included them.
_DECLARED_IN = {
    "cassert": "assert",
    "cfloat": "FLT_MAX FLT_MIN FLT_EPSILON DBL_MAX DBL_EPSILON",
    "climits": "INT_MAX INT_MIN UINT_MAX LLONG_MAX",
    "cstdint": "int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t uintptr_t",
    "cstdio": "printf fprintf stderr stdout",
    "cstdlib": "exit abort EXIT_FAILURE",
    "vector": "vector",
    "cuda_fp16.h": "half half2 __half __half2",
    "cuda_bf16.h": "nv_bfloat16 nv_bfloat162 __nv_bfloat16 __nv_bfloat162",
    "cooperative_groups.h": "cooperative_groups",
    "mma.h": "nvcuda",
}
_HEADER_OF = {name: header for header, names in _DECLARED_IN.items() for name in names.split()}
_UNDECLARED = (
    r"[‘'\"](?:std::)?(\w+)[’'\"] (?:was not declared|has not been declared|does not name a type"
    r"|is not a member of \W*std\b|is undefined|that depend on a template parameter)"
    r"|namespace \"std\" has no member \"(\w+)"
)


def _missing_include(context: Context, match: re.Match[str]) -> Cause | None:
    """A name that a header declares which the file doesn't include."""
    name = match[1] or match[2]
    header = _HEADER_OF.get(name)
    if header is None:
        return None
    of_c = f"{header[1:]}.h"  # <assert.h> declares what <cassert> does
    if re.search(rf"#\s*include\s*<({re.escape(header)}|{re.escape(of_c)})>", context.source):
        return None
    what = f"`{name}` is declared in <{header}>, which the file doesn't include"
    return Cause("missing_include", what, f"Write `#include <{header}>` at its top.")


def _in_an_initialiser(context: Context, match: re.Match[str]) -> Cause | None:
    """A device function in a constructor's initialisers, which nvcc compiles for the host too."""
    if not re.search(r"__device__[^;{}]*\)\s*:[^:]", context.line):
        return None
    what = "nvcc compiles the initialisers of a `__device__` constructor for the host too"
    return Cause("initialiser", what, f"Call `{match[1]}` in the constructor's body.")


def _misnamed_configuration(context: Context, match: re.Match[str]) -> Cause | None:
    kernel, name = match.groups()
    launch = "\n".join(context.lines[max((context.result.line or 1) - 1, 0) :][:LINES_OF_LAUNCH])
    passed = [each for each in re.findall(r"\b(\w+)\s*=", launch) if each != name]
    same = [each for each in passed if each.lower() == name.lower()]
    if same or (meant := difflib.get_close_matches(name, passed, n=1, cutoff=0.8)):
        used = (same or meant)[0]
        advice = "Upper and lower case differ." if same else "Give both one name."
        what = f"The launch passes `{used}`, and the parameter of `{kernel}` is `{name}`"
        return Cause("misnamed_parameter", what, advice)
    given = set(re.findall(r"""["'](\w+)["']\s*:""", context.source))
    head = re.search(rf"\bdef {kernel}\(([^()]{{0,2000}})\)", context.source)
    parameters = re.findall(r"\w+", head[1]) if head else ()
    unknown = [each for each in sorted(given - {name}) if each not in parameters]
    near = difflib.get_close_matches(name, unknown, n=1, cutoff=0.6)
    if not near:
        return None
    which = "A configuration sets" if name in given else "The configurations set"
    what = f"{which} `{near[0]}`, and the parameter of `{kernel}` is `{name}`"
    return Cause("misnamed_configuration", what, "Give both one name.")


def _rebound_output(context: Context, _: re.Match[str]) -> Cause | None:
    """An output whose name a launcher gives to another tensor: the one passed is lost."""
    try:
        tree = ast.parse(context.source if context.is_triton else "")
    except (SyntaxError, ValueError):
        return None
    functions = (each for each in tree.body if isinstance(each, ast.FunctionDef))
    for launcher in (each for each in functions if not each.decorator_list):
        parameters = {each.arg for each in launcher.args.args}
        for each in (each for each in launcher.body if isinstance(each, ast.Assign)):
            name = each.targets[0].id if isinstance(each.targets[0], ast.Name) else ""
            if name in parameters and re.search(rf"\b{name}(?:\.|\[.*\] was never)", context.words):
                what = f"`{name} = ...` gives the name another tensor; the one passed isn't written"
                advice = f"Leave that line out, and store into the `{name}` that the entry gets."
                return Cause("rebound", what, advice, context.shown(each.lineno))
    return None


# --- Triton's compiler -------------------------------------------------------------------------

_CALL = re.compile(r"\b((?:tl|tl\.math|libdevice)\.\w+)\(")


def _half_precision(context: Context, needed: re.Match[str]) -> Cause:
    calls = _CALL.findall(context.line)
    which = f"`{calls[0]}`" if len(set(calls)) == 1 else "This function"
    if "int" in needed[1]:
        what = f"{which} takes float32, and gets integers: is it an index, or the value loaded?"
        return Cause("integers", what, "Compute with what `tl.load(...).to(tl.float32)` gives.")
    what = f"{which} takes float32, and gets half precision where the input has it"
    advice = "Convert right behind the load: `tl.load(...).to(tl.float32)`."
    return Cause("half_precision", what, advice)


_NO_KERNEL = r'host function call cannot be configured|calling a __device__ function\("(\w+)\('


def _launched_function(context: Context, launched: re.Match[str]) -> Cause | None:
    """A function that is launched and is no kernel: of the host, or of the device."""
    named = re.search(r"(\w+)\s*<<<", context.line)
    if named is None or launched[1] not in (None, named[1]):
        return None
    of = "the device" if launched[1] else "the host"
    what = f"`{named[1]}` is launched, and is a function of {of}: `__global__` is missing"
    return Cause("launched_function", what, f"Define it as `__global__ void {named[1]}(...)`.")


def _called_from_device(context: Context, called: re.Match[str]) -> Cause | None:
    """A function of the host that kernels need: nvcc refuses its call, or its own calls."""
    function = called["helper"] or called["host"]
    is_launcher = re.search(rf'extern "C"[^;{{}}]{{0,200}}\b{function}\s*\(', context.source)
    if is_launcher or len(re.findall(rf"\b{function}\s*\(", context.source)) < 2:
        return None  # nothing else calls it
    what = f"`{function}` is a function of the host, and kernels need it: `__device__` is missing"
    return Cause("host_function", what, "Write `__device__` in front of its definition.")


_OPERAND = r"\s*(?:tl\.trans\(\s*)?(\w+)(?:\.T\b|\.trans\(\s*\))?\s*\)?\s*"  # as it is, or turned


def _operands_differ(context: Context, _: re.Match[str]) -> Cause:
    dot = re.search(rf"tl\.dot\({_OPERAND},{_OPERAND}[,)]", context.line)
    advice = "Convert one of them with `.to(...)`."
    if dot:
        advice = f"Convert one of them, as in `{dot[1]}.to({dot[2]}.dtype)`."
    what = "The operands of `tl.dot` need one dtype, whichever it is"
    return Cause("operands_differ", what, advice)


_NEW_NAMES = (
    r"span|bit_cast|source_location|remove_cvref_t|popcount|bit_ceil|countl_zero|midpoint|lerp"
    r"|same_as|convertible_to|invocable|floating_point"
)
# What a failure's words say by themselves: a pattern, the mistake, and what to do.
_WORDS = (
    (r"\W(?:concept|requires|consteval|constinit)\W+(?:does not name|was not|is undefined)"
     rf"|\W(?:{_NEW_NAMES})\W+(?:is not a member of \W*std\b|has not been declared)"
     rf"|namespace \Wstd\W has no member \W(?:{_NEW_NAMES})\b",
     "This is C++20, and CUDA C++ is compiled as C++17, which is nvcc's default",
     "Write it in C++17: `std::enable_if_t` or a `static_assert` for a concept, a pointer "
     "and a size for a span."),
    (r"\WcudaDeviceProp\W has no member \W(clockRate|memoryClockRate|computeMode|deviceOverlap"
     r"|kernelExecTimeoutEnabled|singleToDoublePrecisionPerfRatio|cooperativeMultiDeviceLaunch)\b",
     r"CUDA 13 has taken `\1` out of `cudaDeviceProp`",
     "Leave it out, or ask `cudaDeviceGetAttribute` for it."),
    ("__global__ function call must be configured",
     "A kernel is called here like a function of the host, without a launch",
     "Launch it: kernel<<<blocks, threads>>>(...)."),
    (r"arange's arguments must be of type tl.constexpr",
     "`tl.arange` needs numbers that are known when the kernel is compiled",
     "Declare the parameter with `: tl.constexpr`."),
    (r"arange's range must be a power of 2|Shape element \d+ must be a power of 2",
     "A block's size has to be a power of two",
     "Take the next one above it, which `triton.next_power_of_2` computes, with a mask."),
    (r"numel \(\d+\) exceeds triton maximum tensor numel",
     "A block grows with the size, and Triton's have at most 1,048,576 elements",
     "Give the block a fixed size, and take more programs or a loop."),
    (r"Ternary expression with dynamic condition",
     "`a if c else b` chooses once for a whole block in Triton, not for each element",
     "Choose for each element by `tl.where(c, a, b)`."),
    (r"\b(?:max|min)imum\(\) got an unexpected keyword argument 'axis'",
     "`tl.maximum` and `tl.minimum` compare two blocks, element by element, and have no axis",
     "Along an axis of one block it is `tl.max` or `tl.min`."),
    (r"order that streams and events allow.*through a null pointer",
     "A kernel uses memory of `cudaMallocAsync` before its stream has waited for the allocation",
     "Allocate on the kernel's stream, or let it wait for an event behind the allocation."),
    (r"copies in another direction than it says",
     "The kind of this copy doesn't fit its destination and its source",
     "The destination comes first. cudaMemcpyHostToDevice copies to device memory, "
     "cudaMemcpyDeviceToHost to host memory."),
    (r"through a null pointer",
     "The pointer is null: no memory was given to it",
     "Make it an array, in shared memory where a block shares it, or allocate what it points "
     "to."),
    (r"no matching function for call to \W(__(?:shfl(?:_\w+)?_sync(?=\([^,()]*,[^,()]*\))"
     r"|(?:ballot|any|all)_sync(?=\([^,()]*\))))",
     r"`\1` is called without the mask of the threads that take part, which comes first",
     "Put `0xffffffff` first where all 32 threads of the warp come to the call."),
    (r"can only concatenate tuple \(not \"int\"\) to torch.Size|between instances of 'torch.Size'"
     r"|unsupported operand type\(s\) for \S+ 'torch.Size'",
     "A shape, which is a tuple, stands where a number belongs",
     "`x.shape[0]` is the length of the first axis, and `x.numel()` counts all elements."),
    (r"becomes (?:unsigned )?(?:int|long|short|char)\b[^\n]*, which doesn't hold it",
     "A float becomes a whole number here, which also cuts off what is behind the point",
     "Keep it in a `float`; where a whole number is meant, bound it before it is converted."),
    (r"Conflicting meta-parameters",
     "The launch sets a parameter that the autotuner chooses as well",
     "Leave it out of the call: the configurations give it a value."),
    (r"OSError: lib(?:cuda|cudart)\.so\S*: cannot open shared object",
     "The launcher loads CUDA's library, and host code runs in a process without a GPU",
     "Take memory from `torch.empty`, also in an allocator for `triton.set_allocator`."),
    (r"Cannot view a tensor|view size is not compatible",
     "`view` needs a contiguous tensor, and this one's rows or columns lie apart",
     "Pass the tensor itself and its strides to the kernel."),
    (r"object of type 'int' has no len\(\)",
     "A number stands where a tuple or a list belongs, as in a launch's grid",
     "A tuple of one has a comma: `(programs,)`."),
    (r"'function' object is not subscriptable",
     "A plain function stands where a kernel with its grid belongs",
     "Write `@triton.jit` in the line above the kernel's `def`."),
    (r"ssignment of read-only location",
     "This line stores through a pointer that is declared `const`",
     "Leave the `const` of what is written out."),
    (r"expected unqualified-id before string constant",
     "A function above this line has no end: a `}` is missing",
     "Count the braces of the function above."),
    (r"dynamic shared memory, of which the launch has 0 bytes",
     "The launch asks for no dynamic shared memory, and the kernel has an `extern __shared__` "
     "array",
     "Pass its size in bytes as the third argument of the launch: kernel<<<grid, block, "
     "bytes>>>(...)."),
    (r"cannot cast [^\n]* to [^\n]*pointer<",
     "The dtype of a pointer isn't that of its elements",
     "The elements have `x_ptr.dtype.element_ty`. A store converts by itself."),
    (r"Value argument cannot be block type if pointer argument is not a block",
     "This store has a whole block of values, and one address for all of them",
     "Add each element's offset to the pointer, or reduce the block to one value first."),
    (r"cannot add pointers together",
     "An address is added to another one here: a variable has its tensor's pointer already",
     "A pointer takes offsets, which are whole numbers: add the tensor's pointer once."),
    (r"invalid operands of type pointer<\w+> and (?:<[^<>\n]*|\S*\.)((?:bf|fp|float)\d+)",
     r"An offset to a pointer is a whole number, and this one is \1",
     "`/` makes a fraction of whole numbers: divide by `//`."),
    (r"AST node type: (?:Break|Continue)\b",
     "Triton's language has neither `break` nor `continue`",
     "Bound the loop by its range, and leave elements out by a mask or `tl.where`."),
    (r"cannot convert (\S+) of type <class 'str'> to tensor",
     r"The text '\1' stands where a number belongs",
     'Infinity is `float("inf")`.'),
)  # fmt: skip
# The same, of kernels alone: in host code Python says it of something else.
_WORDS_OF_KERNELS = (
    (r"for \*\*", "Triton has no `**`", "Write `x * x`, or `tl.exp2(y * tl.log2(x))` for x > 0."),
    (r"'int' object is not iterable",
     "A number stands where a shape or a tuple belongs",
     "Write it in brackets: `[BLOCK]`."),
    (r"unexpected keyword argument 'dim'",
     "A reduction of Triton's has no `dim`",
     "Write `axis=`. `tl.softmax` alone has a `dim`."),
    (r"Boolean value of Tensor with more than one value is ambiguous",
     "A condition decides for a whole program in Triton, and this one is a block",
     "Pass it as the `mask` of a load or a store, choose by `tl.where`, or combine by `&`."),
)  # fmt: skip


def _in_words(pattern: str, mistake: str, advice: str, status: Status | None = None) -> _Row:
    return _Row(
        pattern,
        lambda _, match: Cause("words", match.expand(mistake), advice),
        status=status,
    )


_BLOCK_TYPE = re.compile(r"<(\[.*\]), (\w+)>")  # <['64', '64'], fp16>


def _loop_carried(context: Context, match: re.Match[str]) -> Cause:
    """A variable that changes its type in a loop, with the line that gives its first value."""
    name, first, then = match.groups()
    one, other = _BLOCK_TYPE.fullmatch(first), _BLOCK_TYPE.fullmatch(then)
    if one and other:  # the part that changes
        part = 1 if one[1] != other[1] else 2
        first, then = (each[part].replace("'", "") for each in (one, other))
    what = f"`{name}` begins as {first}, and the loop makes it {then}: Triton keeps one type"
    start = re.compile(rf"^\s*{name}\s*=(?!=)\s*(.+)$")
    above = range((context.result.line or 1) - 1, 0, -1)
    for number in (each for each in above if each <= len(context.lines)):
        if given := start.match(context.lines[number - 1]):
            is_whole = re.fullmatch(r"-?\d+", given[1].strip()) and then.startswith(("fp", "bf"))
            begin = f": {given[1].strip()}.0" if is_whole else ""
            advice = f"Let `{name}` begin as {then}{begin}."
            return Cause("carried", what, advice, context.shown(number))
    return Cause("carried", what, f"Give `{name}` that type before the loop.")


def _constant_condition(context: Context, _: re.Match[str]) -> Cause | None:
    """A `while` whose condition is constant, since its argument is 1: it may never end."""
    if not context.line.lstrip().startswith("while "):
        return None
    loop = by_source.endless(context)
    if loop and loop.code[0].line == context.result.line:
        return loop
    what = "An argument of this condition is 1, which Triton compiles as a constant: it can't vary"
    return Cause("specialised", what, "Count in a copy that `tl.cast(n, tl.int32)` makes.")


def _specialised(context: Context, match: re.Match[str]) -> Cause | None:
    """An integer argument of 1, which Triton compiles as a constant, is used as a tensor is."""
    used = re.search(rf"\b(\w+)\.{match[1]}\b", context.line)
    if not used:
        return None
    name = used[1]
    parameters = re.search(rf"\bdef \w+\([^()]*\b{name}\b([^,()]*)[,)]", context.source)
    if parameters is None or "constexpr" in parameters[1]:
        return None
    return Cause(
        "specialised",
        f"`{name}` is 1 in this case, and Triton compiles an integer argument of 1 as a constant, "
        f"which has no `.{match[1]}`",
        f"Leave it out, write `tl.cast({name}, ...)` for `.to(...)`, or decorate the kernel with "
        f'`@triton.jit(do_not_specialize=["{name}"])`.',
    )


_OF_TWO_VALUES = {"max": "`tl.maximum(a, b)`", "min": "`tl.minimum(a, b)`", "sum": "`a + b`"}


def _second_argument(text: str) -> str:
    """The second argument of a call, of which `text` is what follows its parenthesis; or ""."""
    return [*_arguments(text), ""][1].strip()


def _arguments(text: str) -> list[str]:
    """The first arguments of a call, of which `text` is what follows its parenthesis."""
    depth, parts = 0, [""]
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if depth < 0 or len(parts) > 2:
            break
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _reduces_two_values(context: Context, match: re.Match[str]) -> Cause | None:
    """A reduction whose axis is a block: `tl.max(a, b)`."""
    second = _second_argument(context.line[match.end() :])
    if not second or re.fullmatch(r"-?\d+|\w+\s*=(?!=).*|[A-Z_]+", second):
        return None
    what = f"`tl.{match[1]}(a, b)` reduces `a` along an axis `b`: it doesn't combine two values"
    return Cause("axis", what, f"Of two values it is {_OF_TWO_VALUES[match[1]]}.")


def _noinline(context: Context, match: re.Match[str]) -> Cause:
    """A block that is passed to a function that isn't put where it is called.

    Its only call is shown, or else its declaration: the compiler doesn't say which call it refuses.
    """
    named = [n for n, line in enumerate(context.lines, 1) if re.search(rf"\b{match[1]}\(", line)]
    declared = [n for n in named if f"def {match[1]}(" in context.lines[n - 1]]
    calls = [n for n in named if n not in declared]
    what = f"`{match[1]}` is declared with `noinline=True`, and such a function takes no block"
    advice = "Declare it with `@triton.jit` alone."
    return Cause("noinline", what, advice, context.shown(*(calls if len(calls) == 1 else declared)))


# The call that is given an axis, not one around it: `tl.sqrt(tl.sum(x, axis=1))`.
_GIVEN_AXIS = r"(tl\.\w+)\((?:[^()]|\([^()]*\))*\baxis\s*=\s*(\d+)"
_AXIS = re.compile(r"invalid axis|\baxis\b.*(?:out of|range|must be)", re.IGNORECASE)


def _axis(context: Context, given: re.Match[str]) -> Cause | None:
    if not _AXIS.search(context.words) and "IndexError" not in context.words:
        return None
    what = f"`{given[1]}` is asked for axis {given[2]}, which this block doesn't have"
    return Cause("axis", what, "Axes count from 0: a block of one dimension has axis 0 alone.")


# --- CUDA --------------------------------------------------------------------------------------


def _parameter_allocated(context: Context, match: re.Match[str]) -> Cause | None:
    """cudaMalloc that overwrites a pointer that the caller passed."""
    if "never freed" not in context.words:
        return None
    name = match[1]
    if not re.search(rf"\([^(){{}};]*\*\s*{name}\b[^(){{}};]*\)\s*\{{", context.source):
        return None
    what = (
        f"`cudaMalloc` overwrites the parameter `{name}`, so the caller's memory is never written"
    )
    advice = f"Leave it out: `{name}` points to memory of the device already."
    return Cause("parameter_allocated", what, advice)


_COPIED = r"\bcudaMemcpy\w*\(\s*(?:[^,;]*,\s*)?&\s*(\w+)\s*,"


def _address_of_pointer(context: Context, match: re.Match[str]) -> Cause | None:
    """A copy to or from the variable that holds a pointer, in the place of what it points to."""
    name = match[1]
    what = f"`&{name}` is where the host keeps the pointer `{name}`, not the memory it points to"
    advice = f"Pass `{name}` itself: it is an address."
    if re.search(rf"\bvector\s*<[^;]*>\s*{name}\b", context.source):
        what = f"`&{name}` is the address of the vector itself, and its elements lie elsewhere"
        advice = f"Pass `{name}.data()`, where the first element lies."
    elif not re.search(rf"\b(?:float|double|int|char|void)\s*\*\s*{name}\b", context.source):
        return None
    marked = context.marked(match.start(1) - 1, match.end(1))
    return Cause("address_of_pointer", what, advice, marked)


def _other_memory(context: Context, match: re.Match[str]) -> Cause:
    """Memory of the device that host code accesses itself, or the other way round."""
    who = "Host code" if match[1] == "device" else "The kernel"
    what = f"{who} accesses `{match[2]}` itself, which is memory of the {match[1]}"
    advice = context.result.hint or "Copy the data there with cudaMemcpy first."
    return Cause("other_memory", what, advice)


_MOST_COPIES = 8
_TO_HOST = re.compile(
    r"\bcudaMemcpy(?:Async)?\s*\([^,;]{1,80},\s*(\w+)\b[^;]{0,200}\bcudaMemcpyDeviceToHost\b"
)


def _copied_from(context: Context, _: re.Match[str]) -> Cause | None:
    """An output that nothing uses but a copy to the host: its destination is the other one."""
    code = SourceText(context.source, False).code
    for copy in islice(_TO_HOST.finditer(code), _MOST_COPIES):
        name = copy[1]
        is_output = re.search(rf"(?<!const )\bfloat\s*\*\s*{name}\s*[,)]", code)
        if is_output and len(re.findall(rf"\b{name}\b", code)) == 2:  # its parameter and the copy
            what = f"This copy reads `{name}`, which nothing writes"
            advice = f"The destination comes first: cudaMemcpy({name}, ...), from host to device."
            number = code.count("\n", 0, copy.start()) + 1
            return Cause("copied_from", what, advice, context.shown(number))
    return None


_RESERVED = re.compile(r"\b(\w+)\.reserve\s*\(([^;]{1,80})\)\s*;")


def _only_reserved(context: Context, _: re.Match[str]) -> Cause | None:
    """A vector whose `size()` is copied, and which never gets elements."""
    code = SourceText(context.source, False).code if not context.is_triton else ""
    for reserved in islice(_RESERVED.finditer(code), _MOST_COPIES):
        name, count = reserved.groups()
        grows = rf"\b{name}\s*(?:\.(?:resize|assign|insert|push_back|emplace_back)\b|=(?!=))"
        if f"{name}.size()" in code and not re.search(grows, code):
            what = f"`{name}` has no elements: `reserve` only makes room, and `{name}.size()` is 0"
            number = code.count("\n", 0, reserved.start()) + 1
            return Cause(
                "only_reserved", what, f"Write `{name}.resize({count});`.", context.shown(number)
            )
    return None


_STORES = r"\b{0}\s*(?:\[[^\]\n]{{0,120}}\]\s*)*=(?!=)"
_ADDS = r"\batomicAdd\w*\(\s*&\s*{0}\b|\b{0}\s*(?:\[[^\]]*\]\s*)*[-+]=|\b{0}\s*(?:\+\+|--)"


def _added_to_nothing(context: Context, match: re.Match[str]) -> Cause | None:
    """A sum in shared memory without a first value."""
    name = match[1]
    adds = re.search(_ADDS.format(name), context.line)
    if not adds or re.search(_STORES.format(name), context.source):
        return None
    what = f"This line adds to `{name}`, and nothing has stored a first value there"
    advice = (
        "Shared memory holds anything at the start: store 0 in each element that is added to, with "
        "a `__syncthreads()` behind."
    )
    return Cause("added_to_nothing", what, advice, context.marked(*adds.span()))


_CONSTANT = r"(?:\bconst(?:expr)?\s+\w+\s+{0}\s*=|#define\s+{0})\s*\d+\b"


def _too_many_threads(context: Context, _: re.Match[str]) -> Cause | None:
    """A launch of too large blocks: they are made of constants alone, or their number of one."""
    launch = context.line.partition("<<<")[2].partition(">>>")[0]
    grid, block = launch.partition(",")[0].strip(), _second_argument(launch)
    if not block:
        return None
    is_constant = re.search(_CONSTANT.format(re.escape(grid)), context.source)
    if is_constant and is_exchanged_launch(context.words):
        what = f"`{grid}` and `{block}` are exchanged in this launch: the grid comes first"
        begin = context.line.index("<<<")
        marked = context.marked(begin, begin + len(launch) + 6)
        return Cause("exchanged_launch", what, f"Write <<<{block}, {grid}>>>.", marked)
    made = re.search(rf"\bdim3\s+{re.escape(block)}\s*[({{]([^;{{}}]*)", context.source)
    names = set(re.findall(r"\b[A-Za-z_]\w*", made[1] if made else block)) - {"dim3"}
    if not all(re.search(_CONSTANT.format(name), context.source) for name in names):
        return None
    threads = re.search(r"block (\([\d, ]+\))", context.words)
    what = f"`{block}` is {threads[1] if threads else 'more'}, and a block has at most 1024 threads"
    return Cause("too_many_threads", what, "Take smaller blocks, and more of them.")


def _comma_in_subscript(context: Context, match: re.Match[str]) -> Cause | None:
    """Two indices in one pair of brackets, of which C++ takes the last alone."""
    if context.is_triton:
        return None
    array, one, other = match.groups()
    what = f"`{match[0]}` is `{array}[{other}]` in C++: the comma leaves the first index out"
    return Cause("comma", what, f"Each index has its own brackets: {array}[{one}][{other}].")


def _never_released(context: Context, match: re.Match[str]) -> Cause | None:
    """A wait for a stage of a pipeline that no thread gives back."""
    if "waits for ever" not in context.words or "consumer_release" in context.source:
        return None
    what = f"`{match[0]}` waits for a stage that nothing releases"
    advice = "Each `consumer_wait()` needs a `consumer_release()`, where its stage has been read."
    return Cause("never_released", what, advice)


_ACCESS = re.compile(r"\btl\.(load|store)\(\s*([^,()\n]{1,80}?)\s*[,)]")
# Where a text has one of these, what a kernel reads may have been filled.
_FILLED = re.compile(r"\b(?:torch\.|new_)zeros|\.zero_\(|\.fill_\(|\btl\.atomic_")


def _read_before_written(context: Context, _: re.Match[str]) -> Cause | None:
    """A place that a kernel loads from before it stores there, as `beta * c` does."""
    text = SourceText(context.source, context.is_triton)
    if not context.is_triton or _FILLED.search(text.code):
        return None
    for function in text.functions.values():
        loaded: dict[str, int] = {}
        stored: set[str] = set()
        for access in _ACCESS.finditer(text.code, function.start, function.end):
            kind, place = access.groups()
            if kind == "load" and place not in stored:
                loaded.setdefault(place, access.start())
            elif kind == "store" and place in loaded:
                what = f"The kernel reads `{place}` before it stores there"
                lines = dict.fromkeys(map(text.line_at, (loaded[place], access.start())))
                advice = "An output holds NaN at first, and 0 * NaN is NaN: store the result alone."
                return Cause("read_before_written", what, advice, context.shown(*lines))
            elif kind == "store":
                stored.add(place)
    return None


_OF_GROUP = re.compile(
    r"\bmemcpy_async\s*\(\s*(\w+)\s*,\s*&\s*(\w+)\b[^,;]{0,300},[^,;]{0,300},"
    r"\s*sizeof\s*\(\s*\w+\s*\)\s*[,)]"
)


def _copied_by_a_group(context: Context, match: re.Match[str]) -> Cause | None:
    """An element in shared memory that each thread is to copy by a call that is its group's."""
    code = SourceText(context.source, context.is_triton).code
    for call in _OF_GROUP.finditer(code):
        group, array = call.groups()
        if array == match[1] and not re.search(rf"\b{group}\b[^;]{{0,99}}\bthis_thread\s*\(", code):
            what = f"`memcpy_async({group}, ...)` is one copy, which the threads of `{group}` share"
            line = context.shown(code.count("\n", 0, call.start()) + 1)
            advice = (
                "They pass the same addresses, and the size of the whole; without the group, the "
                "call copies for one thread."
            )
            return Cause("copied_by_a_group", what, advice, line)
    return None


_OF_NOTEBOOKS = r"^(%%?[a-z]\w+|!\w+)(?:\s|$)"


def _notebook_command(_: Context, match: re.Match[str]) -> Cause:
    """A line for a notebook's own commands, which an exported cell has too."""
    what = f"`{match[1]}` is a command of a notebook"
    return Cause("notebook", what, "Leave the line out: a file has code alone.")


def _size_of_a_pointer(context: Context, match: re.Match[str]) -> Cause | None:
    if "copies" not in context.words:
        return None
    what = f"`{match[0]}` is the size of a pointer, 8 bytes"
    return Cause("size_of_a_pointer", what, f"An element has `sizeof({match[1]})` bytes.")


def _power_by_caret(context: Context, match: re.Match[str]) -> Cause | None:
    power = re.search(r"((?<![\w.\[\]])[\w.\[\]]+|\))\s*\^\s*([2-4])\b", context.line)
    if power is None:
        return None
    factor = power[1] if power[1] != ")" else "x"
    product = " * ".join([factor] * int(power[2]))
    what = f"`{power[0]}` is no power: `^` is the exclusive or of whole numbers"
    return Cause(
        "caret", what, f"Write a product, as in `{product}`.", context.marked(*power.span())
    )


def _defined_twice(context: Context, match: re.Match[str]) -> Cause | None:
    name = match[1]
    kernel = re.search(rf"\b__global__\s[^;{{}}()]{{0,200}}\b{name}\s*\(", context.source)
    if kernel is None:
        return None
    what = f"A kernel and the function that launches it are both called `{name}`"
    return Cause("defined_twice", what, f"Give the kernel another name, such as `{name}_kernel`.")


_BLOCK = re.compile(r"of block (\([\d, ]+\))")
_DIFFERS_BETWEEN = {
    "programs": "does it contain the program id, and are its strides those of the output?",
    "blocks": "are row lengths those of the array stored to, and does it contain blockIdx?",
    "threads of a block": "is it unique, also where a block reaches beyond an edge? Sums need "
    "atomicAdd.",
}
_STORED = re.compile(r"(\w+)\s*\[[^=;]*\]\s*=(?!=)")


def _same_element(context: Context, _: re.Match[str]) -> Cause:
    """Two writes of different values to one element."""
    blocks = _BLOCK.findall(context.words)
    who = "programs" if context.is_triton else "blocks"
    if not context.is_triton and len(set(blocks)) == 1:
        who = "threads of a block"
    stored = _STORED.search(context.line)
    array = f" of `{stored[1]}`" if stored else ""
    what = (
        f"Several {who} store different values to the same element{array}: the index isn't unique"
    )
    advice = f"The index of the store must differ between {who}: {_DIFFERS_BETWEEN[who]}"
    return Cause("same_element", what, advice, is_unplaced=True)


_OF_ITS_OWN = re.compile(r"\[\s*threadIdx\.x\s*\]")  # a thread's own element: no other adds to it


def _lost_additions(context: Context, match: re.Match[str]) -> Cause | None:
    """Threads that read and write one element at one line, with no barrier between."""
    lines = {line for line, _ in context.result.marks}
    if len(lines) != 1 or _OF_ITS_OWN.search(match[1]):
        return None
    what = f"Several threads add to `{match[1]}` at the same time, so additions get lost"
    advice = (
        "Keep a sum of its own in a register of each thread, and put the sums together by a "
        "reduction or by atomicAdd."
    )
    return Cause("lost_additions", what, advice)


_SECOND_AXIS = re.compile(r"\bblockIdx\.[yz]\b|\bprogram_id\(\s*(?:axis\s*=\s*)?[12]\s*\)")


def _flat_grid(context: Context, _: re.Match[str]) -> Cause | None:
    """A kernel that counts blocks along y, and its launch, whose grid has x alone."""
    text = SourceText(context.source, context.is_triton)
    for kernel in (each for each in text.functions.values() if each.is_kernel):
        used = _SECOND_AXIS.search(text.code, kernel.start, kernel.end)
        launched = re.compile(rf"\b{kernel.name}\s*(?:\[([^\[\]]*)\]\(|(?:<[^<>;]*>)?<<<)")
        launch = launched.search(text.code) if used else None
        if used is None or launch is None or "gridDim" in text.code[kernel.start : kernel.end]:
            continue
        grid = launch[1] or _arguments(text.code[launch.end() :])[0].strip()
        if not _has_one_axis(text.code, grid, context.is_triton):
            continue
        what = f"`{kernel.name}` uses `{used[0]}`, which is 0: the grid of its launch has x alone"
        advice = "Launch a grid of both axes, or compute both tile numbers from the block's number."
        places = (text.line_at(each.start()) for each in (used, launch))
        return Cause("flat_grid", what, advice, context.shown(*places))
    return None


def _has_one_axis(code: str, grid: str, is_triton: bool) -> bool:
    """Whether a launch's grid, or what stands for it, is known to have x alone."""
    if grid.isidentifier():
        name = rf"\b{grid}\s*=\s*(?:lambda \w+:\s*)?" if is_triton else rf"\bdim3\s+{grid}\b\s*"
        given = re.search(rf"{name}([^;\n]+)", code)
        if given is None:  # a number of blocks, in CUDA C++
            return not is_triton
        grid = given[1] if is_triton else f"dim3{given[1]}"
    made = re.fullmatch(r"\((.+),\s*\)" if is_triton else r"dim3\s*[({](.*)[)}]", grid.strip())
    if made is None:
        return not is_triton and "dim3" not in grid
    return len(_arguments(made[1])) == 1


_TUNED = re.compile(r"@(?:\w+\.)?autotune\b[^@]{0,3000}@[\w.]+[^\n]*\n\s*def (\w+)\(")


def _fixed_grid(context: Context, _: re.Match[str]) -> Cause | None:
    """A grid of a tuned kernel that is the same for all configurations, whose blocks differ."""
    code = SourceText(context.source, context.is_triton).code
    tuned = _TUNED.search(code)
    launch = re.search(rf"\b{tuned[1]}\s*\[([^\[\]]*)\]\s*\(", code) if tuned else None
    if tuned is None or launch is None:
        return None
    grid, at = launch[1].strip(), launch.start()
    given = [*re.finditer(rf"(?m)^[ \t]+{re.escape(grid)} = (.*)$", code[:at])]
    if given:
        grid, at = given[-1][1], given[-1].start(1)
    values: dict[str, set[str]] = {}
    for name, value in re.findall(r"""["'](\w+)["']\s*:\s*(\d+)\b""", context.source):
        values.setdefault(name, set()).add(value)
    differ = [n for n, several in values.items() if len(several) > 1 and "BLOCK" in n.upper()]
    if not differ or "lambda" in grid or not re.search(r"cdiv|//", grid):
        return None
    what = f"This grid is the same for each configuration, and they differ in `{differ[0]}`"
    advice = f'Count the blocks of the chosen one: grid = lambda meta: (… meta["{differ[0]}"] …,).'
    return Cause("fixed_grid", what, advice, context.shown(code.count("\n", 0, at) + 1))


_DECLARED = re.compile(r"^(?:(?!//).)*\b__shared__\s+\w+\s+(\w+)\s*\[")


def _beyond_array(context: Context, match: re.Match[str]) -> Cause | None:
    """An array in shared memory that the line of the failure indexes too far, with both lines."""
    lines = {  # another kernel's array may have the name: the last one above the access is meant
        declared[1]: number
        for number, line in enumerate(context.lines[: context.result.line], 1)
        if (declared := _DECLARED.search(line))
        and re.search(rf"\b{declared[1]}\s*\[", context.line)
    }
    if len(lines) != 1:
        return None
    [(name, number)] = lines.items()
    what = f"`{name}` is `{match[2]}`, and this access has {match[1]}"
    shown = dict.fromkeys((context.result.line or number, number))
    code = context.shown(*shown)
    advice = "Has the block more threads, or the loop more turns, than the array has elements?"
    return Cause("beyond_array", what, advice, code, is_unplaced=True)


def _cast_pointer(context: Context, _: re.Match[str]) -> Cause | None:
    """A pointer that the source casts to another dtype than the case's."""
    cast, case = re.search(r"\bpointer_type\(tl\.(\w+)\)", context.source), context.result.case
    if cast is None or case is None or cast[1] == case.dtype:
        return None
    what = f"The kernel casts a pointer to {cast[1]}, and the tensors are {case.dtype}"
    return Cause("cast_pointer", what, "Leave the cast out: a pointer has its tensor's dtype.")


_UNDEFINED = Status.uninitialised_read
_TABLE = (
    *(_Row(words, rule, status=Status.compile_error) for words, rule in by_python.ROWS),
    _Row(r"'constexpr' object has no attribute 'handle'", _constant_condition),
    _Row(r"[‘'](__\w+)[’'] was not declared in this scope", _in_an_initialiser),
    _Row(r"\b(?:Indentation|Tab)Error\b", _mixed_indents),
    _Row(r"invalid operands of type", _power_by_caret, status=Status.compile_error),
    _Row(r"[Rr]edefinition of [‘'\"][^()]*?\b(\w+)\(", _defined_twice),
    _Row(_ODD_CHARACTER, _odd_character),
    _Row(_UNDECLARED, _missing_include, status=Status.compile_error),
    _Row(_UNKNOWN, _unknown_name),
    _Row(r"`(\w+)` was launched without (\w+)", _misnamed_configuration),
    _Row(r"Expected dtype \['fp32', 'fp64'\] but got (\w+)", _half_precision),
    _Row(r"Both operands must be same dtype. Got \w+ and \w+", _operands_differ),
    _Row(_NO_KERNEL, _launched_function),
    _Row(
        r'alling a __host__ function\("(?P<host>\w+)(?:\([^"]*)?"\) from a __(?:global|device)__'
        r'|alling a __device__ function\("[^"]+"\) from a __host__ function\("(?P<helper>\w+)',
        _called_from_device,
    ),
    _Row(_COPIED, _address_of_pointer, True, Status.wrong_memory_space),
    _Row(_COPIED, _address_of_pointer, True, Status.invalid_read),
    _Row(_COPIED, _address_of_pointer, True, Status.wrote_out_of_bounds),
    *(_in_words(*each) for each in _WORDS),
    *(_in_words(*each, Status.compile_error) for each in _WORDS_OF_KERNELS),
    _Row(r"\btl\.(max|min|sum)\(", _reduces_two_values, True, Status.compile_error),
    _Row(_GIVEN_AXIS, _axis, True, Status.compile_error),
    _Row(r"Function (\w+?)(?:_\d+)? is marked noinline, but was called with non-", _noinline),
    _Row(
        r"Loop-carried variable (\w+) has initial type (\w+|<[^<>]+>) but is re-assigned to "
        r"(\w+|<[^<>]+>)",
        _loop_carried,
    ),
    _Row(r"'(?:int|constexpr)' object has no attribute '(\w+)'", _specialised),
    _Row(r"cudaMalloc\s*\(\s*(?:\([^()]*\)\s*)?&\s*(\w+)", _parameter_allocated, True),
    _Row(
        r"uses a (device|host) pointer (?:on the host|in a kernel): [^\n]*? of (?!an? |the )(\w+)",
        _other_memory,
    ),
    _Row("a block has at most 1024 threads", _too_many_threads),
    _Row(r"\b(\w+)\[(\w+), ?(\w+)\]", _comma_in_subscript, True, Status.compile_error),
    _Row(r"\bproducer_acquire\b", _never_released, True, Status.barrier_error),
    _Row(_OF_NOTEBOOKS, _notebook_command, True, Status.import_error),
    _Row(_OF_NOTEBOOKS, _notebook_command, True, Status.compile_error),
    _Row(r"sizeof\s*\(\s*(\w+)\s*\*\s*\)", _size_of_a_pointer, True),
    _Row("", _rebound_output, status=Status.not_written),
    _Row("", _only_reserved, status=Status.not_written),
    _Row("", _read_before_written, status=Status.not_written),
    _Row("", _read_before_written, status=Status.not_finite),
    _Row("written to", _copied_from, status=Status.not_written),
    *(
        _Row(r"\bof (\w+), which has [\d,]+ bytes of shared memory", rule, status=_UNDEFINED)
        for rule in (_copied_by_a_group, _added_to_nothing)
    ),
    _Row("", lambda context, _: by_source.endless(context), status=Status.timed_out),
)
# What a race shows of itself, where no try says more.
_GENERAL = (
    _Row(
        r"(?i)(?:thread|program) \([\d, ]+\)(?: of block \([\d, ]+\))? (?:writes|stores) .*?"
        r"(?:fills with another value|stores another value)",
        _same_element,
        status=Status.data_race,
    ),
    _Row(r"(\w+(?:\s*\[[^\]]*\])*)\s*[-+*/]=(?!=)", _lost_additions, True, Status.data_race),
    _Row(
        r"an array beyond its bounds: (index \d+) of an array of type (\w+ (?:\[\d+\])+)",
        _beyond_array,
    ),
    _Row(r"^Program [^\n]*? (?:reads|writes) \d+ bytes ", _cast_pointer),
    _Row("", _flat_grid, status=Status.not_written),
    _Row("", _fixed_grid, status=Status.not_written),
    _Row("", by_source.stored_early, status=Status.wrong_values),
    _in_words(
        r"incompatible dimensions at index (\d+): (\d+) and (\d+)",
        r"Two blocks that meet here have \2 and \3 elements along axis \1",
        "They need one shape, a mask too: `[:, None]` makes a column, `[None, :]` a row.",
    ),
    _in_words(
        r"input and other must have equal reduction dimensions",
        "`tl.dot(a, b)` needs as many rows of b as a has columns",
        "Load one of them turned, or turn it by `tl.trans`.",
    ),
)
