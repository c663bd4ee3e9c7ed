"""Why a Triton kernel's access to global memory is narrow, found by compiling it otherwise.

Each guess is tried: what an argument or a mask is made out to be, and whether the access becomes
wider then. Only what does make it wider is given as a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from grader.instruments.inspect import mlir
from grader.instruments.inspect.accesses import WIDEST, Access, Key, blocks, widths
from grader.instruments.inspect.compiling import Compilers, NotCompiled, Text
from grader.instruments.inspect.kernels import Kernel
from grader.plan import Specialisation

MOST_TRIALS = 12  # of one kernel: each is a compilation
_BY_16 = {"divisibility": 16}
_MASKED_LOAD = re.compile(r"(tt\.load %[\w#]+)(?:, %[\w#]+){1,2}")
_MASKED_STORE = re.compile(r"(tt\.store %[\w#]+, %[\w#]+), %[\w#]+")
_NO_REASON = (
    "The compiler can't tell that the elements of a thread lie beside each other in memory."
)


@dataclass(frozen=True)
class Reason:
    """A sentence; `can_change` where what it names was tried, and makes the access wider."""

    text: str = ""
    can_change: bool = False


@dataclass(frozen=True)
class _Trial:
    """A guess: what would have to be so, in words, and the kernel for which it is."""

    words: str
    wanted: Specialisation | None = None
    text: Text | None = None


@dataclass
class Reasons:
    """Reasons for one kernel's narrow accesses; what was compiled is kept."""

    kernel: Kernel
    compilers: Compilers
    _known: dict[str, dict[Key, int]] = field(default_factory=dict)

    def of(self, access: Access) -> Reason:
        """Why an access isn't wider; no words where it is as wide as can be."""
        block = blocks(self.kernel.ttgir).get((access.place, access.kind))
        if access.bytes >= WIDEST or block is None:
            return Reason()
        if not block.elements:
            return Reason("It is a single value, for the whole program.")
        own = block.of_thread(self.kernel.threads)
        if own * block.bytes <= access.bytes:
            elements = "1 element" if own == 1 else f"{own} elements"
            shared = f"{block.elements} among {self.kernel.threads} threads"
            return Reason(f"A thread has no more: {elements} of {block.bytes} bytes ({shared}).")
        for trial in self._trials(access):
            wider = self._widths(trial).get((access.place, access.kind), 0)
            if wider > access.bytes:
                return Reason(f"It would be {wider} bytes at once if {trial.words}.", True)
        return Reason(_NO_REASON)

    def _widths(self, trial: _Trial) -> dict[Key, int]:
        """The widths of the kernel as a trial has it; {} where it doesn't compile."""
        if trial.words not in self._known:
            if len(self._known) >= MOST_TRIALS:
                return {}
            self._known[trial.words] = self._compiled(trial)
        return self._known[trial.words]

    def _compiled(self, trial: _Trial) -> dict[Key, int]:
        wanted = trial.wanted or self.kernel.wanted
        assert wanted is not None  # of Triton
        try:
            text = trial.text or self.compilers.text(wanted)
            return widths(self.kernel.instructions(self.compilers.code(wanted, text)))
        except NotCompiled:
            return {}

    def _trials(self, access: Access) -> Iterator[_Trial]:
        """Guesses in the order of their likelihood."""
        wanted = self.kernel.wanted
        if wanted is None or self.kernel.text is None:
            return
        unknown = [n for n in _runtime(wanted) if wanted.attributes.get(n) != _BY_16]
        pointers = [name for name in unknown if _is_pointer(wanted, name)]
        integers = [name for name in unknown if not _is_pointer(wanted, name)]
        for names in _alone_and_together(pointers):
            yield _multiples(wanted, names, " bytes")
        for names in _alone_and_together(integers):
            yield _multiples(wanted, names, "")
        if pointers and integers:
            yield _multiples(wanted, [*pointers, *integers], "")
        if (unmasked := self._without_mask(access)) is not None:
            words = "its mask were the same for elements side by side"
            yield _Trial(f"{words} (line {access.place.line})", text=unmasked)
        for name in _runtime(wanted):
            if not _is_pointer(wanted, name):
                yield _Trial(f"{name} were known to be 1", _with_one(wanted, name))

    def _without_mask(self, access: Access) -> Text | None:
        """The kernel without the masks of a line; None where it has none."""
        text = self.kernel.text
        assert text is not None
        lines = text.ttir.splitlines()
        pattern = _MASKED_LOAD if access.kind == "load" else _MASKED_STORE
        for each in mlir.read(text.ttir, self.kernel.files):
            if each.place == access.place:
                lines[each.number - 1] = pattern.sub(r"\1", lines[each.number - 1])
        changed = "\n".join(lines)
        return None if changed == "\n".join(text.ttir.splitlines()) else replace(text, ttir=changed)


def _runtime(wanted: Specialisation) -> list[str]:
    """The pointers and integers among the parameters that aren't constants."""
    return [
        name
        for name, kind in wanted.signature.items()
        if name not in wanted.constants
        and isinstance(kind, str)
        and (kind.startswith("*") or kind in ("i32", "i64", "u64"))
    ]


def _is_pointer(wanted: Specialisation, name: str) -> bool:
    return str(wanted.signature[name]).startswith("*")


def _alone_and_together(names: Sequence[str]) -> Iterator[list[str]]:
    yield from ([name] for name in names)
    if len(names) > 1:
        yield list(names)


def _multiples(wanted: Specialisation, names: Sequence[str], unit: str) -> _Trial:
    known = {**wanted.attributes, **dict.fromkeys(names, _BY_16)}
    listed = ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
    kind = "multiples" if len(names) > 1 else "a multiple"
    words = f"{listed} were known to be {kind} of 16{unit}"
    return _Trial(words, replace(wanted, attributes=known))


def _with_one(wanted: Specialisation, name: str) -> Specialisation:
    """The kernel for launches where an integer is 1, as Triton specialises it."""
    return replace(
        wanted,
        signature={**wanted.signature, name: "constexpr"},
        constants={**wanted.constants, name: 1},
        attributes={n: known for n, known in wanted.attributes.items() if n != name},
    )
