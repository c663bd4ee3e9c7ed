"""A stage's code by the lines of the source that it comes from, as the views show it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grader.gpu import machine
from grader.gpu.occupancy import Occupancy, occupancy
from grader.instruments.inspect.findings import Finding, spilled
from grader.instruments.inspect.kernels import WARP, Kernel
from grader.instruments.inspect.statements import Place, Statement
from grader.report.message import listing

NO_LINE = "without a line of the source"
# What statements do whose names begin so: SASS's, PTX's and MLIR's.
_KINDS = {
    "global": "LDG STG ATOMG REDG UTMA UBLKCP ld.global st.global cp.async tt.load tt.store "
    "ttg.async_copy",
    "shared": "LDS STS ATOMS BAR ld.shared st.shared bar. ttg.local_",
    "local": "LDL STL ld.local st.local",
    "tensor": "HMMA IMMA DMMA HGMMA IGMMA QGMMA UTCHMMA wgmma mma. tt.dot ttng.warp_group_dot",
    "branch": "BRA BSSY BSYNC EXIT CALL RET bra ret scf. cf.",
}
_BEGINNINGS = {kind: tuple(names.split()) for kind, names in _KINDS.items()}


@dataclass(frozen=True)
class Row:
    """A line of the source, what the compiler made of it, and what that shows."""

    place: Place | None
    source: str
    code: tuple[Statement, ...]
    findings: tuple[Finding, ...] = ()


def rows(
    kernel: Kernel,
    stage: str,
    sources: Mapping[str, str],
    results: Sequence[Finding],
    line: int | None = None,
) -> list[Row]:
    """The lines of a kernel, from the first that has code to the last; then code without one.

    Of one `line` alone, where that is given.
    """
    by_place: dict[Place | None, list[Statement]] = {}
    for each in kernel.stage(stage):
        by_place.setdefault(each.place, []).append(each)
    made: list[Row] = []
    for name in sources:
        numbers = [place.line for place in by_place if place is not None and place.file == name]
        lines = sources[name].splitlines()
        for number in range(min(numbers, default=1), max(numbers, default=0) + 1):
            place = Place(name, number)
            source = lines[number - 1] if number <= len(lines) else ""
            shown = tuple(each for each in results if each.place == place)
            made.append(Row(place, source, tuple(by_place.get(place, ())), shown))
    if line is not None:
        return [each for each in made if each.place is not None and each.place.line == line]
    if None in by_place:
        made.append(Row(None, "", tuple(by_place[None])))
    return made


def spans(shown: Sequence[Row], own: str) -> str:
    """The lines from the first with code to the last: 'gelu.cu:13 to 31', of each file."""
    lines: dict[str, list[int]] = {}
    for each in shown:
        if each.place is not None and each.code:
            lines.setdefault(each.place.file, []).append(each.place.line)
    every = [f"{file}:{min(numbers)} to {max(numbers)}" for file, numbers in lines.items()]
    return ", ".join(every) or f"none of {own}"


def kind_of(statement: Statement) -> str:
    """What a statement does, of the kinds that the views colour; "" for any other."""
    words = [each for each in statement.text.split() if not each.startswith(("@", "%"))]
    name = next((word for word in words if word != "="), "")
    results = (kind for kind, names in _BEGINNINGS.items() if name.startswith(names))
    return next(results, "")


def occupancy_of(kernel: Kernel) -> Occupancy | None:
    """How many blocks of a kernel an SM of the GPU holds; None where that isn't known."""
    used = kernel.code.usage
    return occupancy(machine.capability(), kernel.threads, used.registers, kernel.shared_bytes)


def resources(kernel: Kernel) -> list[tuple[str, str]]:
    """What a kernel uses, as pairs of a name and words."""
    used = kernel.code.usage
    local = "none"
    if used.stack:
        is_spilled = spilled(kernel) > 0
        heading = "registers that were spilled" if is_spilled else "an array, or spilled registers"
        local = f"{used.stack:,} bytes of each thread: {heading}"
    capability = machine.capability() / 10
    return [
        ("registers", f"{used.registers} of each thread"),
        ("spills", local),
        ("shared memory", f"{kernel.shared_bytes:,} bytes of each block"),
        ("threads", f"{kernel.threads:,} in a block"),
        ("occupancy", f"{_in_words(kernel)} (compute capability {capability})"),
    ]


def _in_words(kernel: Kernel) -> str:
    """'32 of 64 warps on each SM, 4 blocks: registers allow no more'."""
    held = occupancy_of(kernel)
    if held is None:
        return "not known for this GPU"
    if not held.blocks:
        return f"no block fits on an SM: too many {' and '.join(held.limits)}"
    blocks = "1 block" if held.blocks == 1 else f"{held.blocks} blocks"
    names = ["the number of blocks" if name == "blocks" else name for name in held.limits]
    is_plural = len(names) > 1 or names[0] in ("threads", "registers")
    verb = "allow" if is_plural else "allows"
    warps = f"{held.warps} of {held.most_warps} warps on each SM"
    return f"{warps}, {blocks}: {listing(names)} {verb} no more"


def title(kernel: Kernel, count: int) -> str:
    """'Kernel 1 of 2: silu_kernel on 512 programs of 8 warps'."""
    total = math.prod(kernel.grid)
    one = "program" if kernel.language == "triton" else "block"
    many = f"{total:,} {one}" + ("" if total == 1 else "s")
    if kernel.language == "cuda":
        sizes = "x".join(map(str, kernel.block)).removesuffix("x1").removesuffix("x1")
        size = f"{sizes} threads"
    else:
        size = f"{kernel.threads // WARP} warp" + ("" if kernel.threads == WARP else "s")
    return f"Kernel {kernel.number} of {count}: {kernel.name} on {many} of {size}"
