"""Kernels in line for Triton's backend: of those that were launched, the ones that tell it more."""

from __future__ import annotations

from grader.executors.compile.frontend import Kernel, described, digest
from grader.plan import Specialisation

Waiting = tuple[Specialisation, Kernel]


class BackendQueue:
    """The kernels of one variant that are still to be made cubins.

    Each set of constants, dtypes and options is compiled; and of integers that are 1 in some
    launches, which Triton makes constants too, each once and not in every combination.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._taken: set[str] = set()  # kernels that are in line no more
        self._covered: set[str] = set()  # what of them the backend has met

    def add(self, wanted: Specialisation, made: Kernel) -> None:
        """Put a kernel in line, with the most that is known of its alignment."""
        if made.name in self._taken:
            return
        before = self._waiting.get(made.name)
        if before is None or len(before[0].attributes) < len(wanted.attributes):
            self._waiting[made.name] = (wanted, made)

    def add_again(self, wanted: Specialisation, made: Kernel) -> None:
        """Put a kernel in line once more that got no answer."""
        self._taken.discard(made.name)
        self._covered -= facts(wanted)
        self._waiting[made.name] = (wanted, made)

    def take(self) -> list[Waiting]:
        """Empty the line: those that tell the backend something new.

        Of each set of constants the one with the fewest ones comes first, as the plain case; then
        those with the most ones, which are few.
        """
        fewest = sorted(self._waiting.items(), key=lambda each: len(_ones(each[1][0])))
        plain: set[str] = set()
        chosen = []
        for name, (wanted, _) in fewest:
            if (constants := of_all(wanted)) not in plain | self._covered:
                plain.add(constants)
                chosen.append(name)
        self._covered.update(*(facts(self._waiting[name][0]) for name in chosen))
        for name, (wanted, _) in reversed(fewest):
            if not (new := facts(wanted)) <= self._covered:
                self._covered |= new
                chosen.append(name)
        self._taken.update(self._waiting)
        taken = [self._waiting[name] for name in chosen]
        self._waiting.clear()
        return taken


def _ones(wanted: Specialisation) -> list[str]:
    """The parameters that are constants of the value 1: by themselves, or for being 1."""
    return [name for name, value in wanted.constants.items() if type(value) is int and value == 1]


def facts(wanted: Specialisation) -> set[str]:
    """What compiling a kernel shows: its set of constants, and each parameter that is 1 in it.

    The type of an integer parameter is no part of the set, since it is none where that is 1.
    """
    single = (f"{wanted.line} {wanted.hash} {name} is 1" for name in _ones(wanted))
    return {of_all(wanted), *single}


def of_all(wanted: Specialisation) -> str:
    """A digest of a kernel with its set of constants, dtypes and options."""
    ones = _ones(wanted)
    parts = described(wanted)
    constants = {k: v for k, v in parts["constants"].items() if k not in ones}
    signature = {
        name: kind for name, kind in parts["signature"].items() if kind not in ("i32", "constexpr")
    }
    kernel = {name: parts[name] for name in ("file", "line", "hash", "bindings", "options")}
    return digest({**kernel, "constants": constants, "signature": signature})
