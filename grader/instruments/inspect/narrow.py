"""Why a Triton kernel's access to global memory is narrow, found by compiling it otherwise.

Each guess is tried: what an argument or a mask is made out to be, and whether the access becomes
wider then. Only what does make it wider is given as a reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from grader.instruments.inspect import statements
from grader.instruments.inspect.accesses import WIDEST, Access, Key, blocks, widths
from grader.instruments.inspect.compiling import Compilers, NotCompiled, Text
from grader.instruments.inspect.kernels import Kernel
from grader.plan import Specialisation
from grader.report.message import listing

MOST_TRIALS = 20  # of one kernel: each is a compilation
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
        reasons = (self._by_multiples, self._by_mask, self._by_one)
        answers = (words for reason in reasons if (words := reason(access)))
        words = next(answers, "")
        return Reason(words, True) if words else Reason(_NO_REASON)

    def _by_multiples(self, access: Access) -> str:
        """Which arguments would have to be multiples of 16: as few of them as will do."""
        wanted = self.kernel.wanted
        assert wanted is not None  # of Triton
        kept = [name for name in _runtime(wanted) if wanted.attributes.get(name) != _BY_16]
        wider = self._width(_multiples(wanted, kept), access) if kept else 0
        if wider <= access.bytes:
            return ""
        for name in list(kept):
            fewer = [each for each in kept if each != name]
            if fewer and self._width(_multiples(wanted, fewer), access) >= wider:
                kept = fewer
        return _wider(wider, _multiples(wanted, kept))

    def _by_mask(self, access: Access) -> str:
        """That the mask of the line is the reason, where it is."""
        unmasked = self._without_mask(access)
        if unmasked is None:
            return ""
        words = f"its mask were the same for elements side by side (line {access.place.line})"
        trial = _Trial(words, text=unmasked)
        wider = self._width(trial, access)
        return _wider(wider, trial) if wider > access.bytes else ""

    def _by_one(self, access: Access) -> str:
        """Which integer would have to be 1, as a stride is whose elements are neighbours."""
        wanted = self.kernel.wanted
        assert wanted is not None  # of Triton
        for name in _runtime(wanted):
            if str(wanted.signature[name]).startswith("*"):
                continue
            trial = _Trial(f"{name} were known to be 1", _with_one(wanted, name))
            if (wider := self._width(trial, access)) > access.bytes:
                return _wider(wider, trial)
        return ""

    def _width(self, trial: _Trial, access: Access) -> int:
        """The bytes of an access as a trial has it; 0 where that isn't known."""
        return self._widths(trial).get((access.place, access.kind), 0)

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

    def _without_mask(self, access: Access) -> Text | None:
        """The kernel without the masks of a line; None where it has none."""
        text = self.kernel.text
        assert text is not None
        lines = text.ttir.splitlines()
        pattern = _MASKED_LOAD if access.kind == "load" else _MASKED_STORE
        for each in statements.read_mlir(text.ttir, self.kernel.files):
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


def _multiples(wanted: Specialisation, names: Sequence[str]) -> _Trial:
    known = {**wanted.attributes, **dict.fromkeys(names, _BY_16)}
    kind = "multiples" if len(names) > 1 else "a multiple"
    pointers = all(str(wanted.signature[name]).startswith("*") for name in names)
    unit = " bytes" if pointers else ""
    words = f"{listing(names)} were known to be {kind} of 16{unit}"
    return _Trial(words, replace(wanted, attributes=known))


def _wider(bytes_at_once: int, trial: _Trial) -> str:
    return f"It would be {bytes_at_once} bytes at once if {trial.words}."


def _with_one(wanted: Specialisation, name: str) -> Specialisation:
    """The kernel for launches where an integer is 1, as Triton specialises it."""
    return replace(
        wanted,
        signature={**wanted.signature, name: "constexpr"},
        constants={**wanted.constants, name: 1},
        attributes={n: known for n, known in wanted.attributes.items() if n != name},
    )
