"""The kinds of findings of the emulator: each has a status, a sentence and advice."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Parts:
    """The parts of a sentence: the thread, the other thread, the place, and the details."""

    who: str  # "thread (1,0,0) of block (0,0,0)" or "the host code"
    other: str
    at: str  # " at transpose.cu:63", or ""
    other_at: str
    text: str  # the runtime's words: "4 bytes at offset 4000 of input, which has 4000 bytes"
    same_block: bool  # whether both are threads of one block

    def details(self, before: str = ": ") -> str:
        """The runtime's words behind `before`, or nothing."""
        return f"{before}{self.text}" if self.text else ""


HOST_CHANGES = "The host code changes"  # the first words of _changes, where that did it


@dataclass(frozen=True)
class Kind:
    """One kind of finding. `status` is the name of a member of grader/status.py."""

    status: str
    sentence: Callable[[Parts], str]
    hint: str
    between_blocks: str = ""  # the hint where threads of two blocks are concerned
    on_host: str = ""  # the hint where it is the host code
    by_first_thread: str = ""  # the hint where a later block's first thread did it first
    in_warp: str = ""  # the hint where both are threads of one warp


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_Sentence = Callable[[Parts], str]
_Verb = Callable[[str], _Sentence]


def _does(verb: str) -> _Sentence:
    """'Thread (1,0,0) of block (0,0,0) reads 4 bytes at offset 8 of input, at silu.cu:12.'"""

    def sentence(parts: Parts) -> str:
        at = f",{parts.at}" if parts.at else ""
        return f"{_capital(parts.who)} {verb}{parts.details(' ')}{at}."

    return sentence


def _says(clause: str) -> _Sentence:
    """'Thread ... <clause> at silu.cu:12: details.'"""
    return lambda parts: f"{_capital(parts.who)} {clause}{parts.at}{parts.details()}."


_OF_BLOCK = "changes by an atomic of block scope"
# The runtime's words for a race, behind the place in memory: the access of the later thread, and
# that of the earlier one.
_RACES = {
    "a read after a write": ("reads", "writes"),
    "a write after a read": ("writes", "reads"),
    "two writes of different values": ("writes", "fills with another value"),
    "a read after an atomic write": ("reads", "changes atomically"),
    "a write after an atomic write": ("writes", "changes atomically"),
    "an atomic write after a read": ("changes atomically", "reads"),
    "an atomic write after a plain one": ("changes atomically", "writes"),
    "two block-scoped atomics": (_OF_BLOCK, _OF_BLOCK),
    "a block-scoped atomic after an atomic": (_OF_BLOCK, "changes atomically"),
    "an atomic after a block-scoped one": ("changes atomically", _OF_BLOCK),
    "a block-scoped atomic after a read": (_OF_BLOCK, "reads"),
    "a read after a block-scoped atomic": ("reads", _OF_BLOCK),
}


def is_of_block_scope(text: str) -> bool:
    """Whether a race is that of an atomic of block scope, by the runtime's words for it."""
    return _OF_BLOCK in race_verbs(text)


def race_verbs(text: str) -> tuple[str, str]:
    """What the later and the earlier thread do, by the runtime's words for a race; "" unknown."""
    _, _, kind = text.strip().rstrip(".").removesuffix(")").rpartition(" (")
    return _RACES.get(kind, ("", ""))


def _race(parts: Parts) -> str:
    """'Data race: thread ... reads 4 bytes at offset 128 of tile, which thread ... writes'."""
    place, _, kind = parts.text.removesuffix(")").rpartition(" (")
    later, earlier = _RACES.get(kind, ("uses", "uses too"))
    memory = place.partition(", which has")[0] if kind in _RACES else parts.text or "memory"
    between = "no barrier between" if parts.same_block else "nothing that orders the two"
    return (
        f"Data race: {parts.who} {later} {memory}{parts.at}, which {parts.other} {earlier}"
        f"{parts.other_at}, with {between}."
    )


def _changes(parts: Parts) -> str:
    """'The host code changes 64 bytes that a copy at silu.cu:12 may still be reading.'"""
    memory = parts.text or "memory"
    return f"{_capital(parts.who)} changes {memory} that a copy{parts.at} may still be reading."


def _read_only(parts: Parts) -> str:
    memory = parts.text.partition(", which has")[0] or "memory"
    return (
        f"{_capital(parts.who)} reads {memory} by __ldg{parts.at}, which the same kernel "
        f"writes{parts.other_at}."
    )


def _divergent(parts: Parts) -> str:
    return (
        f"{_capital(parts.who)} waits at the barrier{parts.at}, while {parts.other} waits at "
        f"another one{parts.other_at}."
    )


def _missing(parts: Parts) -> str:
    return (
        f"{_capital(parts.who)} waits at the barrier{parts.at}, which {parts.other} never reaches"
        f"{parts.details()}."
    )


def _waits_for_ever(parts: Parts) -> str:
    who = _capital(parts.who)
    return f"{who} waits for ever{parts.at}{parts.details()}{parts.other_at}."


_HOST_INDEX = (
    "The host code itself goes past the end: where does each row start (row * cols), and how many "
    "elements does the array have?"
)
_IN_64_BITS = (
    "An index that is computed in 32 bits wraps beyond 2,147,483,647. Compute it in 64 bits: "
    "static_cast<size_t>(row) * cols + col."
)
_PART_OF_BLOCK = (
    "The block's first thread is outside already: where does a block's part of this array begin, "
    "how many elements has each part, and are there more blocks than parts?"
)
_EXTENT = re.compile(r"(\d+) bytes at offset (\d+) of .*?(\d+) bytes")
ACROSS_THE_END = (
    "The first bytes of the access are inside, the last ones are not. Either the memory was made "
    "for a smaller type, floats where doubles are kept (sizeof), or a vector such as a float4 "
    "reaches past the last elements, which need single accesses."
)
PAST_A_VARIABLE = (
    "A copy writes as many bytes as it is told to: give it the size of what it writes to, by "
    "sizeof, or make that larger."
)
ACROSS_BLOCKS = (
    "An atomic whose name ends in _block orders threads of one block only. Between blocks use the "
    "one without: atomicAdd instead of atomicAdd_block."
)
_LAUNCHED = re.compile(r"grid \(([\d, ]+)\), block \(([\d, ]+)\)")
# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
WARP = 32  # threads
MOST_THREADS = 1024  # of a block
MOST_THREADS_Z = 64  # of a block, along z
MOST_BLOCKS_YZ = 65_535  # of a grid, along y and along z
EXCHANGED_LAUNCH = (
    "The grid comes first, then the block: <<<grid, block>>>. In the other order this launch could "
    "run."
)
OF_THE_HOST = (
    "A kernel sees its arguments and variables that are `__device__` or `__constant__`. One that "
    "is `static` in a kernel counts as the host's here: write `static __device__`."
)
EMPTY_GRID = (
    "A quotient of integers is rounded down, so a size below its divisor gives no block: write "
    "(n + BLOCK - 1) / BLOCK."
)


def is_across_the_end(text: str) -> bool:
    """Whether an access begins in the memory that the runtime's words name, and ends behind it."""
    match = _EXTENT.match(text)
    size, offset, length = map(int, match.groups()) if match else (0, 0, 0)
    return offset < length < offset + size


def is_past_a_variable(text: str) -> bool:
    """Whether a copy went past a local variable (fail_overrun in runtime/access.cpp)."""
    return "local memory: the variable there has fewer" in text


def is_exchanged_launch(text: str) -> bool:
    """Whether a launch with too many threads in a block could run with its grid as the block."""
    match = _LAUNCHED.search(text)
    if match is None:
        return False
    grid, block = ([*map(int, each.split(","))] for each in match.groups())
    threads = math.prod(grid)  # mostly chosen as whole warps
    is_a_block = 0 < threads <= MOST_THREADS and grid[-1] <= MOST_THREADS_Z and not threads % WARP
    return is_a_block and math.prod(block) > MOST_THREADS and max(block[1:]) <= MOST_BLOCKS_YZ


def _of_both(name: str, reads: str, writes: str, hint: str, verb: _Verb = _does) -> dict[str, Kind]:
    """A mistake of a read and of a write, with one piece of advice.

    In `name`, {0} stands for read or write, and {1} for reads or writes.
    """
    return {
        name.format("read", "reads"): Kind("invalid_read", verb(reads), hint),
        name.format("write", "writes"): Kind("wrote_out_of_bounds", verb(writes), hint),
    }


KINDS: dict[str, Kind] = {
    "out_of_bounds_read": Kind(
        "invalid_read",
        _does("reads"),
        "Is every index checked against the size before it is used? The last block has threads "
        "beyond the end: if (i < n).",
        on_host=_HOST_INDEX,
        by_first_thread=_PART_OF_BLOCK,
    ),
    "out_of_bounds_write": Kind(
        "wrote_out_of_bounds",
        _does("writes"),
        "Is every store guarded by the size, in each dimension? Rows and columns need a check "
        "each: an index past a row's end is the start of the next row.",
        on_host=_HOST_INDEX,
        by_first_thread=_PART_OF_BLOCK,
    ),
    **_of_both(
        "use_after_free_{0}",
        "reads memory that was freed:",
        "writes memory that was freed:",
        "Free a buffer only after the last kernel and copy that use it.",
    ),
    **_of_both(
        "index_out_of_range_{0}",
        "indexes an array beyond its bounds:",
        "writes an array beyond its bounds:",
        "Is the array as large as the loop or the block that fills it? The last index is its size "
        "minus one.",
    ),
    **_of_both("far_{0}", "reads", "writes", _IN_64_BITS),
    "write_to_input": Kind(
        "modified_input",
        _does("writes to an input:"),
        "Are source and destination swapped? Declare inputs const: then the compiler finds it.",
    ),
    "uninitialised_read": Kind(
        "uninitialised_read",
        _does("reads what nothing has written:"),
        "Does every thread that should fill this element do so, before the barrier, at the edges "
        "of the data too? Shared memory and a cudaMalloc hold anything at the start.",
    ),
    "race": Kind(
        "data_race",
        _race,
        "Put __syncthreads() between the writes and the reads of other threads (within a warp "
        "__syncwarp() will do), and one more before the next round of a loop writes again.",
        "Blocks run in any order: give each block its own elements, or use atomics.",
        in_warp="The threads of a warp don't run in step with each other: put __syncthreads() "
        "between writes and reads, or __syncwarp() where only threads of one warp share the data.",
    ),
    "changed_while_copied": Kind(
        "data_race",
        _changes,
        "An asynchronous copy from pinned memory goes on while the host does: wait for it by "
        "cudaStreamSynchronize or an event before you write there again, or use two buffers.",
    ),
    "read_only_read": Kind(
        "data_race",
        _read_only,
        "__ldg goes through a cache that may keep what was there before: use it for data that no "
        "thread of the kernel writes, and a plain load for the rest.",
    ),
    "divergent_barrier": Kind(
        "barrier_error",
        _divergent,
        "All threads of a block must meet at the same __syncthreads(): take it out of branches "
        "and loops whose condition differs between threads.",
    ),
    "missing_barrier": Kind(
        "barrier_error",
        _missing,
        "Every thread of the block has to reach every __syncthreads(), in no branch and behind no "
        "early return: threads beyond the end only skip the loads and stores.",
    ),
    "misused_barrier": Kind(
        "barrier_error",
        _says("misuses a barrier"),
        "Each thread arrives once in a phase, and waits before it arrives again or comes to "
        "another barrier; a cuda::barrier is made for as many threads as arrive.",
    ),
    "grid_barrier": Kind(
        "barrier_error",
        _says("waits for the whole grid"),
        "Only the blocks of a launch by cudaLaunchCooperativeKernel can wait for each other, and "
        "all of them must reach every grid.sync(): no block may return early.",
    ),
    "deadlock": Kind(
        "barrier_error",
        _waits_for_ever,
        "What is it waiting for, and can the thread that is to provide it get there? Blocks run "
        "in no order, and a thread that waits may keep the rest of its warp from going on.",
    ),
    "shuffle_absent_lane": Kind(
        "barrier_error",
        _says("takes a value from a lane that takes no part in the shuffle"),
        "Every lane that is read must execute the same shuffle and be named in its mask "
        "(0xffffffff names all 32): keep it out of branches, and give threads beyond the end a "
        "neutral value instead of an early return.",
    ),
    "bad_warp_mask": Kind(
        "barrier_error",
        _says("uses a warp mask that doesn't fit the lanes that come"),
        "The mask names exactly the lanes that execute the call, the caller among them: 0xffffffff "
        "needs all 32.",
    ),
    "misaligned": Kind(
        "misaligned_access",
        _does("accesses an address that is no multiple of the access's size:"),
        "An access of 16 bytes, such as a float4 or a row of a matrix load, needs an address "
        "divisible by 16. Rows begin there only if their length is a multiple of 4 floats, or 8 "
        "halves: check, and use single elements otherwise.",
    ),
    "host_pointer_on_device": Kind(
        "wrong_memory_space",
        _does("uses a host pointer in a kernel:"),
        "Copy the data into a cudaMalloc first, and pass that pointer.",
    ),
    "device_pointer_on_host": Kind(
        "wrong_memory_space",
        _does("uses a device pointer on the host:"),
        "Host code can't look into device memory: use cudaMemcpy.",
    ),
    "wrong_copy_direction": Kind(
        "wrong_memory_space",
        _says("copies in another direction than it says"),
        "cudaMemcpy takes destination, source, bytes, kind: the kind says where source and "
        "destination are.",
    ),
    **_of_both(
        "copy_{1}_outside",
        "copies from beyond the end of the source",
        "copies beyond the end of the destination",
        "Sizes of copies are in bytes, of one row in cudaMemcpy2D; a pitch is the distance between "
        "rows in bytes.",
        _says,
    ),
    "launch_error": Kind(
        "launch_error",
        _says("launches a kernel that can't run"),
        "A launch that CUDA refuses runs nothing: check cudaGetLastError() after it.",
    ),
    "bad_free": Kind(
        "launch_error",
        _says("frees what it must not"),
        "Free each pointer that cudaMalloc gave once, and no other: the arguments belong to the "
        "caller.",
    ),
    "leak": Kind(
        "out_of_memory",
        _says("returns without freeing what it allocated"),
        "Every cudaMalloc needs a cudaFree before the function returns: a benchmark calls it a "
        "thousand times.",
    ),
    "stray_host_store": Kind(
        "crashed",
        _says("writes where it has no business"),
        "Does a pointer or an index of the host code go astray? It may write its own variables "
        "and what it allocated.",
    ),
    "undefined_arithmetic": Kind(
        "nondeterministic",
        _says("computes what C++ leaves undefined"),
        "A GPU's result differs from a CPU's. Shift by less than the number of bits, and convert "
        "only what the integer type can hold: compare first, or use fminf and fmaxf.",
    ),
    "device_assert": Kind(
        "crashed",
        _says("fails an assert"),
        "The condition of the assert doesn't hold for this case.",
    ),
}
