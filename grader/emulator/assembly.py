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
# Calls of the hooks of objects: of 16 bytes, or of a size that isn't their alignment.
_OF_OBJECT = re.compile(rb"\tcall\t__tsan_(read|write)(16|_range)\b")
# g++'s last intermediate code (RTL): a step without its notes, and what an operand in memory is, as
# in [4 *_7+8 S8 A64]: a place in an object, its bytes, its aligned bits.
_STEP = re.compile(r"^\((insn|call_insn|jump_insn|code_label)\b.*(?:\n {7,}.*)*", re.MULTILINE)
_CALL_OF_OBJECT = re.compile(r'\("__tsan_(read|write)(?:16|_range)"\)')
_OPERAND = re.compile(r"\[\d+ (.*?) S(\d+) A(\d+)\b")
_BEHIND_POINTER = re.compile(r"\W*\*|.*->|MEM")
# A copy of a class with padding at its end, and of what memcpy copies: by bytes, whatever they are.
_AS_BYTES = ("unsigned char[", "{ref-all}")
_OF_STACK = re.compile(r"\(reg/f:DI [67] [bs]p\)")
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


def with_alignments(text: bytes, rtl: str) -> bytes:
    """Tell the hooks of objects how these are aligned: nvcc makes no piece larger than that.

    g++ calls one hook for 16 bytes that are aligned to 8 or to 16, and one for all other objects.
    Its `rtl` has the same calls in the same order, with the alignment of the access behind each.
    """
    alignments, calls = _alignments(rtl), len(_OF_OBJECT.findall(text))
    left = iter(alignments if len(alignments) == calls else [0] * calls)

    def with_alignment(call: re.Match[bytes]) -> bytes:
        alignment = next(left)
        if call[2] == b"16" and alignment in (0, 16):
            return call[0]
        size = b"\tmovl\t$16, %esi\n" if call[2] == b"16" else b""
        return b"%s\tmovl\t$%d, %%edx\n\tcall\t__tsan_%s_range" % (size, alignment, call[1])

    return _OF_OBJECT.sub(with_alignment, text)


def _alignments(rtl: str) -> list[int]:
    """For each call of an object's hook the alignment, up to 16 bytes; 0 where it isn't known."""
    alignments: list[int] = []
    pending: dict[str, list[int]] = {"read": [], "write": []}
    for step in _STEP.finditer(rtl):
        if hook := _CALL_OF_OBJECT.search(step[0]):
            pending[hook[1]].append(len(alignments))
            alignments.append(0)
        elif step[1] != "insn":
            pending = {"read": [], "write": []}
        elif any(pending.values()):
            is_target = "(set (mem" in step[0]
            for place, size, bits in _OPERAND.findall(step[0]):
                calls = pending["write" if is_target else "read"]
                if calls and not _OF_STACK.search(step[0]) and _is_beginning(place, int(size)):
                    has_type = not any(each in place for each in _AS_BYTES)
                    alignments[calls.pop(0)] = min(16, int(bits) // 8) if has_type else 0
                is_target = False
    return alignments


def _is_beginning(place: str, size: int) -> bool:
    """Whether an operand is an object or its beginning.

    What is small may be something else, which no hook sees, unless it lies behind a pointer.
    """
    least = 4 if _BEHIND_POINTER.match(place) else 8
    return size >= 16 or (size >= least and place.endswith("+0"))


def without_hooks(text: bytes) -> bytes:
    """Redirect the observing hooks to an empty function."""
    return _HOOK.sub(IGNORED.encode(), text)


def redirected(provided: Collection[str], guarded: bool) -> Iterator[str]:
    """The symbols that give way to the runtime's of that name with `warpgrade_` before it."""
    for name in (*(ACCESSES if guarded else ()), *_OUTPUT, *_ONCE):
        if f"warpgrade_{name}" in provided:
            yield name
