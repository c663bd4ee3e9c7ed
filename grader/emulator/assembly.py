"""Changes a submission's assembly, and renames functions that its object calls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator

# Zeros behind every __shared__ variable, so that an overrun of one never hits the next.
SHARED_GAP_BYTES = 1024
# The start of a function's __shared__ variable: its section, alignment, function and size.
_SHARED = re.compile(
    rb"(?m)^(\t\.section\t\.tbss.*\n)(?:\t\.align (\d+)\n)?(?=\t\.type\t(_ZZ\w+E)\d+\w+, @\w+\n"
    rb"\t\.size\t\w+, (\d+)\n\w+:\n\t\.zero\t)"
)
SHARED_ALIGNMENT = 16  # no access needs more
# The observing hooks. In a build that is not guarded, their calls go to an empty function.
_HOOK = re.compile(
    rb"\b(?:__tsan_(?:unaligned_|volatile_)?(?:read|write)\w*|__tsan_(?:func|vptr)_\w+"
    rb"|__sanitizer_cov_trace_pc|__ubsan_handle_\w+)"
)
IGNORED = "warpgrade_ignored"
# Library functions that the runtime replaces: hooks see no access inside the library's.
ACCESSES = (
    *("memcpy", "memmove", "memset", "mempcpy", "memcmp", "bcmp", "bcopy", "bzero"),
    *("strcpy", "strncpy", "stpcpy", "stpncpy", "strcat", "strncat", "strcmp", "strncmp"),
    *("modf", "modff", "frexp", "frexpf", "remquo", "remquof", "sincos", "sincosf"),
)
_OUTPUT = ("printf", "puts", "putchar")
_ONCE = ("_ZSt15__once_callable", "_ZSt11__once_call", "__once_proxy")  # of std::call_once


def with_gaps(text: bytes) -> bytes:
    """Put zeros behind every variable of the thread-local segment: the shared memory."""
    pieces = re.split(rb"(?m)^(?=\t\.(?:section|text|data|bss)\b)", _aligned_as_on_gpus(text))
    for i, piece in enumerate(pieces):
        if piece.startswith((b"\t.section\t.tbss", b"\t.section\t.tdata")):
            pieces[i] = re.sub(
                rb"(?m)^(\t\.zero\t\d+)$", rb"\1\n\t.zero\t%d" % SHARED_GAP_BYTES, piece
            )
    return b"".join(pieces)


def _aligned_as_on_gpus(text: bytes) -> bytes:
    """Each __shared__ variable at the distance from a multiple of 16 that ptxas gives it.

    ptxas places a kernel's variables as they are declared, each at the next multiple of its type's
    alignment. So halves behind whole rows can be read by rows, and those behind three floats can't.
    Those of device functions follow the kernel's there, and begin anew here. g++ writes a
    function's last variable first.
    """
    ends: Counter[bytes] = Counter()
    starts: list[bytes] = []
    for section, aligned, function, size in reversed(_SHARED.findall(text)):
        alignment = int(aligned or 1)
        start = -(-ends[function] // alignment) * alignment
        ends[function] = start + int(size)
        beyond = start % SHARED_ALIGNMENT
        zeros = b"\t.zero %d\n" % beyond if beyond else b""
        starts.append(b"%s\t.align %d\n%s" % (section, max(alignment, SHARED_ALIGNMENT), zeros))
    return _SHARED.sub(lambda _: starts.pop(), text)


def without_hooks(text: bytes) -> bytes:
    """Redirect the observing hooks to an empty function."""
    return _HOOK.sub(IGNORED.encode(), text)


def redirected(provided: Collection[str], guarded: bool) -> Iterator[str]:
    """The symbols that give way to the runtime's of that name with `warpgrade_` before it."""
    for name in (*(ACCESSES if guarded else ()), *_OUTPUT, *_ONCE):
        if f"warpgrade_{name}" in provided:
            yield name
