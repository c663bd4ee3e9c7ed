"""What a kernel's code shows, in sentences, each with its line.

Every sentence rests on instructions of the machine code, which are what runs; TTGIR and PTX say
why they are as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from grader.instruments.inspect import divergence, ptx, sass
from grader.instruments.inspect.accesses import WIDEST, Access, accesses
from grader.instruments.inspect.compiling import Compilers
from grader.instruments.inspect.kernels import Kernel
from grader.instruments.inspect.narrow import Reason, Reasons
from grader.instruments.inspect.statements import Place

Tone = Literal["good", "cost", "fact"]

_TENSOR_CORES = frozenset(
    f"{prefix}MMA"
    for prefix in (*"HIDBQO", *("HG", "IG", "QG", "BG"), *("UTCH", "UTCI", "UTCQ", "UTCO"))
)
_TMA_LOADS = frozenset({"UTMALDG", "UBLKCP"})
_FLOAT64 = frozenset({"DADD", "DMUL", "DFMA", "DSETP", "DMNMX"})
_DOT = re.compile(r"\b(?:tt\.dot|ttng\.warp_group_dot)\b.*-> tensor<[0-9x]+x\w+, #(\w+)")
_F32_DOT = re.compile(r"\btt\.dot\b.*: tensor<[0-9x]+xf32>")
_PRODUCT = re.compile(r"(?:wg|w)?mma\.|tcgen05\.mma")
_DIVISION = re.compile(r"(?:div|rem)\.[su](?:16|32|64)$")
_USES_FLOAT64 = re.compile(r"\b(?:ld|st)\.(?:global|param)\S*\.f64\b")


@dataclass(frozen=True)
class Finding:
    """A sentence about a kernel's code, with its line.

    `kind` is a word for tests and for the page's colours.
    """

    kind: str
    tone: Tone
    text: str
    place: Place | None = None


def findings(kernel: Kernel, compilers: Compilers) -> list[Finding]:
    """What a kernel's code shows, by line; nothing where there is no machine code."""
    if not kernel.sass:
        return []
    results = [
        *_of_accesses(kernel, compilers),
        *_of_tensor_cores(kernel),
        *_of_pipelining(kernel),
        *_of_local_memory(kernel),
        *_of_branches(kernel),
        *_of_divisions(kernel),
        *_of_float64(kernel),
    ]
    return sorted(results, key=lambda each: (each.place is None, each.place or Place("", 0)))


# --- global memory --------------------------------------------------------------------------------


def _of_accesses(kernel: Kernel, compilers: Compilers) -> Iterator[Finding]:
    reasons = Reasons(kernel, compilers)
    for each in accesses(kernel.sass):
        text = f"{_counted(each)} of {each.bytes} bytes for each thread ({each.opcode})"
        kind = each.in_background and "cp.async"
        if each.bytes >= WIDEST:
            text += f", the widest there is{_in_background(kernel, each)}."
            yield Finding(kind or "wide", "good", text, each.place)
            continue
        text += f"{_in_background(kernel, each)}."
        in_triton = kernel.language == "triton"
        why = reasons.of(each) if in_triton else Reason(_as_in_source(each))
        tone: Tone = "cost" if why.can_change else "fact"
        yield Finding(kind or "narrow", tone, f"{text} {why.text}".rstrip(), each.place)


def _counted(access: Access) -> str:
    accesses = f"{access.kind}s" if access.count > 1 else access.kind
    return f"{access.count} {accesses}" + (" into shared memory" if access.in_background else "")


def _in_background(kernel: Kernel, access: Access) -> str:
    """That a load is started before it is needed, which Triton's num_stages asks for."""
    if not access.in_background:
        return ""
    stages = kernel.options.get("num_stages")
    said = f": num_stages is {stages}" if kernel.language == "triton" else ""
    return f", in the background by cp.async{said}"


def _as_in_source(access: Access) -> str:
    """nvcc loads as wide as the type in the source says."""
    if access.bytes != 4:
        return ""
    return f"A float4 is {WIDEST} bytes at once, where its address is a multiple of {WIDEST}."


# --- tensor cores and what loads ahead ------------------------------------------------------------


def _of_tensor_cores(kernel: Kernel) -> Iterator[Finding]:
    used = _by_place(each for each in kernel.sass if each.parts[0] in _TENSOR_CORES)
    products = {e.place for e in kernel.ptx.of(kernel.code.name) if _PRODUCT.match(e.opcode)}
    moved: Counter[str] = Counter()
    for place, counts in used.items():
        if place in products:
            yield Finding("tensor cores", "good", f"Tensor cores: {_listed(counts)}.", place)
        else:  # the assembler's table of lines isn't exact where it has moved them
            moved += counts
    if moved:
        text = (
            f"Tensor cores: {_listed(moved)} more have other lines, where the assembler put them."
        )
        yield Finding("tensor cores", "good", text)
    ttir = {each.place for each in kernel.stage("ttir") if _F32_DOT.search(each.text)}
    for each in kernel.ttgir:
        match = _DOT.search(each.text)
        if match is None or each.place is None or "mma" in match[1] or each.place in used:
            continue
        why = ' of float32 in input_precision="ieee"' if _is_ieee(kernel, each.place, ttir) else ""
        text = f"A tl.dot{why} without tensor cores: the ordinary units compute it."
        yield Finding("no tensor cores", "cost", text, each.place)


def _is_ieee(kernel: Kernel, place: Place, of_float32: set[Place | None]) -> bool:
    texts = [each.text for each in kernel.stage("ttir") if each.place == place]
    return place in of_float32 and not any("inputPrecision = tf32" in text for text in texts)


def _of_pipelining(kernel: Kernel) -> Iterator[Finding]:
    """Loads by the tensor memory accelerator; and that num_stages has started nothing ahead."""
    tma = _by_place(each for each in kernel.sass if each.parts[0] in _TMA_LOADS)
    for place, counts in tma.items():
        text = f"Loads of whole blocks by the tensor memory accelerator: {_listed(counts)}."
        yield Finding("tma", "good", text, place)
    stages = kernel.options.get("num_stages")
    is_asked = any(_DOT.search(each.text) for each in kernel.ttgir)
    is_asked |= kernel.wanted is not None and "num_stages" in kernel.wanted.options
    is_ahead = tma or any(each.parts[0] == "LDGSTS" for each in kernel.sass)
    if not is_asked or is_ahead or not isinstance(stages, int) or stages < 2:
        return
    looped = sass.in_loops(kernel.sass)
    inside = [each for each in kernel.sass if each.parts[0] == "LDG" and each.number in looped]
    if inside:
        text = f"num_stages is {stages}, and no load of the loop is started ahead: there is no "
        yield Finding("no cp.async", "fact", f"{text}cp.async and no TMA.", inside[0].place)


# --- local memory, float64 ------------------------------------------------------------------------


def _of_local_memory(kernel: Kernel) -> Iterator[Finding]:
    local = kernel.code.usage.stack
    why = "registers that were spilled" if spilled(kernel) else "an array, or spilled registers"
    local_accesses = (each for each in kernel.sass if each.parts[0] in ("LDL", "STL"))
    for place, counts in _by_place(local_accesses).items():
        text = f"Local memory, which is as slow as global memory: {_listed(counts)} ({why}; "
        yield Finding("local memory", "cost", f"{text}{local:,} bytes of each thread).", place)


def spilled(kernel: Kernel) -> int:
    """Bytes of each thread's local memory that are spilled registers: all, or none are known to be.

    A kernel with an array in local memory has a depot of that size in PTX.
    """
    depots = any(each.text.startswith(".local") for each in kernel.ptx.of(kernel.code.name))
    return 0 if depots else kernel.code.usage.stack


def _of_float64(kernel: Kernel) -> Iterator[Finding]:
    """Arithmetic in float64 by a kernel that neither takes nor gives float64."""
    wanted = kernel.wanted
    kinds = [str(kind) for kind in wanted.signature.values()] if wanted else []
    if any("fp64" in kind for kind in kinds):
        return
    if any(_USES_FLOAT64.search(each.text) for each in kernel.ptx.of(kernel.code.name)):
        return
    computed = (e for e in kernel.sass if e.parts[0] in _FLOAT64 or "F64" in e.parts[1:])
    for place, counts in _by_place(computed).items():
        text = f"Computed in float64, though no argument is: {_listed(counts)}. "
        literal = (
            "A literal without an f, as 0.5, is a double." if kernel.language == "cuda" else ""
        )
        yield Finding("float64", "cost", f"{text}{literal}".strip(), place)


# --- branches and divisions -----------------------------------------------------------------------


def _of_branches(kernel: Kernel) -> Iterator[Finding]:
    """Branches that threads of a warp may take differently, and that are branches in SASS too."""
    instructions = kernel.ptx.of(kernel.code.name)
    differing = divergence.differing(instructions, kernel.block)
    kept = {each.ptx for each in kernel.sass if each.parts[0] == "BRA" and _is_own(each.guard)}
    labels = {each.text.rstrip(":"): each.number for each in instructions if each.text[-1:] == ":"}
    known: set[tuple[Place, bool]] = set()
    for each, target in ptx.branches(instructions):
        depends = differing.get(each.guard, frozenset()) & {divergence.THREAD, divergence.DATA}
        place = each.place
        if not depends or each.number not in kept or place is None:
            continue
        goes_back = labels.get(target, each.number + 1) <= each.number
        if (place, goes_back) in known:
            continue
        known.add((place, goes_back))
        on = " and ".join(sorted(depends, reverse=True))
        text = "Threads of a warp may part here" if not goes_back else _ROUNDS
        yield Finding("divergence", "cost", f"{text}: it depends on {on}.", place)


_ROUNDS = "Threads of a warp may go round this loop different numbers of times"


def _is_own(guard: str) -> bool:
    """Whether a predicate is each thread's own; UP0 is the whole warp's."""
    return guard.lstrip("!").startswith("P")


def _of_divisions(kernel: Kernel) -> Iterator[Finding]:
    """Divisions by what only the run knows, of integers, in the innermost loops."""
    instructions = kernel.ptx.of(kernel.code.name)
    inner = ptx.innermost(ptx.loops(instructions))
    looped = sass.in_loops(kernel.sass)
    repeated = Counter(each.ptx for each in kernel.sass if each.number in looped)
    divisions = [
        each
        for each in instructions
        if _DIVISION.match(each.opcode)
        and repeated[each.number]
        and any(loop.has(each.number) for loop in inner)
        and "%" in each.operands.rpartition(",")[2]
    ]
    for place, counts in _by_place(divisions).items():
        cost = sum(repeated[each.number] for each in divisions if each.place == place)
        text = f"A division of integers in the innermost loop ({_listed(counts)} in PTX), by what "
        more = f"only the run knows: {cost} instructions each time round."
        yield Finding("division", "cost", text + more, place)


# --- helpers --------------------------------------------------------------------------------------


def _by_place(
    instructions: Iterable[sass.Instruction | ptx.Instruction],
) -> dict[Place, Counter[str]]:
    """How many of some instructions each line has, by their names."""
    results: dict[Place, Counter[str]] = {}
    for each in instructions:
        if each.place is not None:
            results.setdefault(each.place, Counter())[each.opcode] += 1
    return dict(sorted(results.items()))


def _listed(counts: Counter[str]) -> str:
    """'64 HGMMA.64x256x16.F32.BF16, 2 LDGSTS.E.128'."""
    shown = [f"{count} {name}" for name, count in counts.most_common(3)]
    return ", ".join(shown) + (f" and {len(counts) - 3} other kinds" if len(counts) > 3 else "")
