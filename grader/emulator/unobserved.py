"""Finds a kernel's accesses to memory that the emulator's hooks don't see.

g++ calls a hook for every load and store of an assignment. It calls none for a structure in memory
that is an argument of a call, or where its result is built: `new (p) S(f(*q))`. Where the call is
inlined it becomes an assignment, and so do all calls that kernels make, but those by a pointer, of
virtual and of recursive functions. Nor does it call one for a variable that is `const`, which a
kernel may have written by a pointer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

CONSTANT = "shared memory that is declared const"
_CALLS = "where the call can't be inlined (by a pointer, virtual, recursive)"
ARGUMENT = f"a structure passed by value from memory {_CALLS}; pass a local copy"
RESULT = f"a structure returned into memory {_CALLS}; keep it in a local variable first"
# g++'s code behind its sanitizer (GIMPLE), with places and with numbers of declarations:
#   ;; Function k (_Z1kPKf, funcdef_no=3, decl_uid=2387, ...
#     [x.cu:17:22] _36 = _5 (tileD.2321, [x.cu:17:22] MEM[(const struct FiveD.2295 &)_31]);
_FUNCTION = re.compile(r"^;; Function .*? \(\*?([^\s,]+), funcdef_no=\d+, decl_uid=(\d+),.*$", re.M)
_PLACE = re.compile(r"\[([^][\n]*):(\d+):\d+(?: discrim \d+)?\] ?")
_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_CALL = re.compile(r" \((.*)\);(?: \[[^][]*\])*$")
_LOCAL = re.compile(r"^  (?!static ).*D\.(\d+)(?:\[\d+\])*;$", re.M)
_DECLARED = re.compile(r"D\.(\d+)")
_ACCESSED = re.compile(r"(?:(?<![&\w$.\\])|(?<!&)\bMEM[^;,]*?&)([\w$\\]+)D\.(\d+)(?!_)")
_NO_ASCII = re.compile(r"[^\x00-\x7f]")
_LENGTH = re.compile(r"(?=(\d{1,6}))")
_TYPE = re.compile(r"\b(?:struct|union|enum) [\w$.]*D\.\d+")
# What is no place in memory: values in registers, numbers, addresses.
_VALUE = re.compile(r"[\w$.]*_\d+|[-+]?\.?\d\S*|&.*|")
_AT_ADDRESS = re.compile(r"MEM.*?&[\w$.]*?D\.(\d+)")


def find(
    dump: str, functions: Collection[str], shared: Collection[str], file: str
) -> Iterator[tuple[str, int | None]]:
    """What these functions load or store unobserved, with the line; None: it isn't in `file`.

    `functions` and `shared`, the variables in shared memory, are symbols.
    """
    dump = _TEXT.sub("0", dump)  # first of all: a text may look like any part of a line
    heads = list(_FUNCTION.finditer(dump))
    code = {head[2] for head in heads}
    named = _names(shared)
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        if head[1] not in functions:
            continue
        text = dump[head.end() : following.start() if following else len(dump)]
        signature, _, body = text.partition("\n{\n")
        declarations, _, blocks = body.partition("\n  <bb ")
        own = {*_DECLARED.findall(signature), *_LOCAL.findall(declarations)}
        hooks = ""
        for line in blocks.splitlines():
            feature = CONSTANT if _is_constant(line, hooks, own, named) else ""
            target, arguments = _call(line)
            if any(_is_unobserved(each, own, code) for each in arguments):
                feature = ARGUMENT
            elif _is_unobserved(target, own, code):
                feature = RESULT
            if feature:
                places = [each[2] for each in _PLACE.finditer(line) if each[1] == file]
                yield feature, int(places[0]) if places else None
            hooks = hooks + line if "__builtin___tsan_" in line else ""


def _names(symbols: Collection[str]) -> set[str]:
    """The names of variables in the text: a mangled symbol has them behind their bytes' number."""
    lengths = ((each, match) for each in symbols for match in _LENGTH.finditer(each))
    behind = (
        each[match.end(1) :].encode()[: int(match[1])].decode(errors="replace")
        for each, match in lengths
    )
    return {_NO_ASCII.sub(_as_dumped, each) for each in (*symbols, *behind)}


def _as_dumped(letter: re.Match[str]) -> str:
    return f"\\U{ord(letter[0]):08x}"


def _is_constant(line: str, hooks: str, own: Collection[str], named: Collection[str]) -> bool:
    """Whether an assignment accesses shared memory without its hook; `hooks` stand before it.

    `named` has the names of what is in shared memory.
    """
    plain = _TYPE.sub("", _PLACE.sub("", line))
    target, equals, value = plain.partition(" =")
    value = value.removeprefix("{v}").strip()
    if not equals or not line.endswith(";") or "# DEBUG" in line or "{CLOBBER" in value:
        return False
    for text, hook in ((target, "write"), ("" if value[:1] == "&" else value, "read")):
        for name, number in _ACCESSED.findall(text):
            is_own = name not in named or number in own
            if not is_own and not re.search(f"tsan_[a-z]*_?{hook}", hooks):
                return True
    return False


def _call(line: str) -> tuple[str, Sequence[str]]:
    """The target and the arguments of the call that a line of the dump is, or nothing."""
    plain = _PLACE.sub("", line).replace("(D)", "").strip()
    call = _CALL.search(plain)
    if call is None or "# DEBUG" in line:
        return "", ()
    target, equals, _ = plain.partition(" = ")
    return (target if equals else ""), call[1].split(", ")


def _is_unobserved(operand: str, own: Collection[str], code: Collection[str]) -> bool:
    """Whether an operand is in memory that isn't the function's own; `code` are functions."""
    if _VALUE.fullmatch(operand):
        return False
    if address := _AT_ADDRESS.match(operand):
        return address[1] not in own
    behind_pointer = operand.startswith("*") or "->" in operand or "MEM" in operand
    declared = _DECLARED.search(operand)
    return behind_pointer or (declared is not None and declared[1] not in {*own, *code})
