"""The C++ that a build generates: the check of the signatures, and the table of entries.

An entry's arguments are words: `pointer:float32` (any dtype of the spec), `int`, `float`, `bool`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# The file name in compiler messages about the appended check.
CHECK_FILE = "warpgrade-signatures"
SIGNATURE_SYMBOL = "warpgrade_signature_"
# The reference that replaces `extern __shared__` at file scope (rewriter.py).
REFERENCE_SYMBOL = "warpgrade_dynamic_shared_reference"
# The sizes of the arrays: see include/warpgrade/signature.h.
RIGHT, OTHER, OVERLOADED, COUNT, ARGUMENT = 1, 2, 3, 64, 128

_ELEMENTS = {
    "float64": "double",
    "float32": "float",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "int64": "long long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint64": "unsigned long long",
    "uint32": "unsigned int",
    "uint16": "unsigned short",
    "uint8": "unsigned char",
    "bool": "bool",
}
_SCALARS = {"int": "int", "float": "float", "bool": "bool"}
_LETTERS = {"int": "i", "float": "f", "bool": "b"}
_MEMBERS = {"int": "integer", "float": "float32", "bool": "boolean"}
_HALF_HEADERS = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}


@dataclass(frozen=True)
class Entry:
    """A function of the submission that the grader calls.

    `arguments`: each `pointer:DTYPE`, `int`, `float` or `bool`.
    """

    name: str
    arguments: tuple[str, ...]

    def __post_init__(self) -> None:
        if not (self.name.isidentifier() and self.name.isascii()):
            raise ValueError(f"{self.name!r} is not the name of a C function")
        for argument in self.arguments:
            _cpp_type(argument)  # raises ValueError

    def types(self) -> tuple[str, ...]:
        """The C++ types, as messages write them."""
        return tuple(_cpp_type(argument) for argument in self.arguments)


def _cpp_type(argument: str) -> str:
    kind, _, dtype = argument.partition(":")
    if kind == "pointer" and dtype in _ELEMENTS:
        return _ELEMENTS[dtype] + "*"
    if argument in _SCALARS:
        return _SCALARS[argument]
    raise ValueError(f"unknown kind of argument {argument!r}")


def signature_check(entries: Sequence[Entry]) -> str:
    """The text that is appended to a submission; see include/warpgrade/signature.h.

    Messages about it have CHECK_FILE as file and the entry's place in `entries`, from 1, as line.
    """
    dtypes = {argument.partition(":")[2] for entry in entries for argument in entry.arguments}
    headers = sorted(_HALF_HEADERS[dtype] for dtype in dtypes & _HALF_HEADERS.keys())
    lines = [f'\n#line 1 "{CHECK_FILE}"', *(f"#include <{header}>" for header in headers)]
    for i, entry in enumerate(entries):
        lines += [f'#line {i + 1} "{CHECK_FILE}"', _entry_check(entry)]
    return "\n".join(lines) + "\n"


def _entry_check(entry: Entry) -> str:
    symbol = SIGNATURE_SYMBOL + entry.name
    expected = ", ".join(
        f"::warpgrade::pointer_to<{kind[:-1]}>" if kind.endswith("*") else kind
        for kind in entry.types()
    )
    named = f"warpgrade_named_{entry.name}"
    one = f"::warpgrade::signature<{expected}>::verdict(0, {entry.name})"
    every = ", ".join([named, *([expected] if expected else [])])
    size = f"::warpgrade::verdict_of<{every}>({one})"
    absent = f"::warpgrade::Absent {entry.name}(::warpgrade::Absent, ...);"
    return (
        f"namespace warpgrade_absent {{ {absent} }} using namespace warpgrade_absent; "
        f"{_NAMED.format(named=named, entry=entry.name)} "
        f'extern "C" {{ extern const char {symbol}[{size}]; const char {symbol}[{size}] = {{}}; }}'
    )


# What an entry's name means, for templates, which can't take the name of several functions. On one
# line, since lines number the entries. `::` excludes the functions for absent entries, if it can.
_NAMED = (
    "struct {named} {{ "
    "template <class One> static constexpr auto is_one(int) "
    "-> decltype(One::takes(::{entry}), true) {{ return true; }} "
    "template <class One> static constexpr bool is_one(long) {{ return false; }} "
    "template <class F> static constexpr auto mark(int) -> decltype(static_cast<F>(::{entry}), "
    "::std::size_t()) {{ return &::warpgrade::overload_mark<static_cast<F>(::{entry})> "
    "!= nullptr; }} "
    "template <class F> static constexpr ::std::size_t mark(long) {{ return 0; }} }};"
)


_DYNAMIC_SHARED = f"""\
extern "C" {{
extern __thread char warpgrade_dynamic_shared[];
void* {REFERENCE_SYMBOL};
}}
__attribute__((constructor(101))) static void refer() {{
    {REFERENCE_SYMBOL} = warpgrade_dynamic_shared;
}}
"""


def entry_table(entries: Sequence[Entry], planner: bool = False) -> str:
    """The translation unit with the table of worker/native/entries.h.

    `planner` includes the targets of dynamic shared memory at file scope.
    """
    lines = ["#include <warpgrade/entries.h>", "", _DYNAMIC_SHARED if planner else ""]
    rows = []
    for entry in entries:
        parameters = ", ".join("void*" if kind.endswith("*") else kind for kind in entry.types())
        values = ", ".join(
            f"values[{i}].{_MEMBERS.get(argument, 'pointer')}"
            for i, argument in enumerate(entry.arguments)
        )
        letters = "".join(_LETTERS.get(argument, "p") for argument in entry.arguments)
        lines += [
            f'extern "C" void {entry.name}({parameters});',
            f"static void call_{entry.name}(const warpgrade_value* values) {{",
            f"    {entry.name}({values});",
            "}",
        ]
        rows.append(f'    {{"{entry.name}", "{letters}", call_{entry.name}}},')
    rows = rows or ["    {nullptr, nullptr, nullptr},"]
    lines += [
        "",
        "const warpgrade_entry warpgrade_entries[] = {",
        *rows,
        "};",
        f"const unsigned warpgrade_entry_count = {len(entries)};",
        "",
    ]
    return "\n".join(lines)
