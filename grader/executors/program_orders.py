"""Cases run again with their programs in other orders, where atomics may tell the order.

The executor reports the kernels (worker/ttir/orders.py). Each is tried in other orders once, and
again where it is launched on a much larger grid.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import pydantic
from pydantic import Field
from pydantic.dataclasses import dataclass as checked

from grader.cases import Case
from grader.cases.compare import Verdict
from grader.executors.runner import CaseResult
from grader.sandbox import untrusted
from grader.status import Status

DEPENDS = (
    "the result depends on the order in which {unit}s run, which a GPU doesn't promise: in "
    "another order than from first to last, "
)
DEPENDS_ON_THE_CLOCK = (
    "the result depends on readings of the clock, which a GPU doesn't repeat: with longer times "
    "between them, "
)
HINT = (
    "{place}: what one {unit} leaves for another here is there only if that one ran before it. A "
    "second launch comes after the first as a whole; a {unit} may also wait in a loop for another "
    "one's flag, or take its number from a counter by an atomic addition."
)
HINT_FOR_WARPS = (
    "{place}: what one {unit} leaves for another here is there only if that one ran before it. "
    "`__syncthreads()` waits for all of a block; a {unit} may also wait in a loop for the flag of "
    "another one."
)
HINT_FOR_CLOCKS = "{place}: use the clock to measure, and not to choose what is computed."
MOST_KERNELS = 256  # of one plan
MOST_SEEDS = (1 << 24) - 1
LARGER = 4  # times as many programs are reason to try a kernel again
# Groups of programs that run one after another, and what they may execute together.
LEAST_GROUPS, MOST_GROUPS = 8, 512
GROUPS_STEPS = 500_000
MOST_STEPS = 16  # times what it took from first to last: those that wait ask again and again
_Count = Annotated[int, Field(ge=0, lt=2**53)]


@checked(frozen=True, config=pydantic.ConfigDict(strict=True, extra="forbid"))
class Atomics:
    """A kernel, by its number, of which several programs used atomics whose order may matter.

    In CUDA C++ several warps did; `programs`, the number of blocks, may be 1. With `clock` no
    atomics were used, but the kernel reads the clock. `line` is that of one of the atomics. `steps`
    are the operations executed in all launches, `group_steps` those of one group of programs.
    """

    line: Annotated[int, Field(ge=0, lt=untrusted.MAX_LINE)]
    programs: _Count
    kernel: Annotated[int, Field(ge=0, lt=MOST_KERNELS)] = 0
    steps: _Count = 0
    group_steps: _Count = 0
    clock: bool = False


_ATOMICS = pydantic.TypeAdapter(tuple[Atomics, ...])


def read(fields: Mapping[str, Any]) -> Sequence[Atomics]:
    """The atomics that an executor's answer names. Raises ValueError for what can't be true."""
    text = json.dumps(fields.get("atomics", []))
    return _ATOMICS.validate_json(text)  # of JSON, strict reading takes a list for a tuple


@dataclass(frozen=True)
class Order:
    """An order that the programs of some kernels, by their numbers, run in: see ttir/orders.py."""

    seed: int
    backwards: bool
    groups: int
    steps: int
    kernels: tuple[int, ...]


def seed_of(case: Case) -> int:
    """A number that a case's text draws, above 0."""
    return zlib.crc32(str(case).encode()) % MOST_SEEDS + 1


def _others(case: Case, atomics: Sequence[Atomics]) -> list[Order]:
    """A drawn order of a case's programs and its reverse; none where there are no atomics."""
    if not atomics:
        return []
    seed = seed_of(case)
    fit = GROUPS_STEPS // max(1, sum(each.group_steps for each in atomics))
    groups = min(MOST_GROUPS, max(LEAST_GROUPS, fit))
    steps = max(max(each.steps, groups * each.group_steps) for each in atomics)
    kernels = tuple(each.kernel for each in atomics)
    return [
        Order(seed, backwards, groups, MOST_STEPS * steps + GROUPS_STEPS, kernels)
        for backwards in (False, True)
    ]


def shows_nothing(other: CaseResult) -> bool:
    """Whether a run in another order has no say: the first one need not take what it took."""
    if other.status is Status.timed_out:
        return other.observed_by == "grader"  # the executor's own limits are another thing
    return other.status in (Status.not_measured, Status.grader_error, Status.out_of_memory)


@dataclass
class Reordered:
    """The kernels that have been right in other orders, by name: with how many programs at most.

    Those that once were wrong are tried in every case, so that all cases show the same.
    """

    file: str  # the submission's
    unit: str = "program"
    right: dict[str, int] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)

    def failure(
        self,
        case: Case,
        atomics: Sequence[Atomics],
        names: Mapping[int, str],
        run: Callable[[Order], CaseResult | None],
    ) -> CaseResult | None:
        """How a case that passed fails in another order of its programs; None where it doesn't.

        `names` has kernels by number. `run` runs the case in an order, and returns None where no
        other order needs to be tried.
        """
        tried = [
            each
            for each in atomics
            if (name := names.get(each.kernel)) in self.wrong
            or (name is not None and each.programs >= LARGER * self.right.get(name, 0))
        ]
        for order in _others(case, tried):
            other = run(order)
            if other is None:
                break
            if not other.verdict.passed and not shows_nothing(other):
                self.wrong.update(names[each.kernel] for each in tried)
                is_one_block = max(each.programs for each in tried) == 1
                unit = "warp" if is_one_block else self.unit
                what, words = DEPENDS.format(unit=unit), HINT_FOR_WARPS if is_one_block else HINT
                if tried[0].clock:
                    what, words = DEPENDS_ON_THE_CLOCK, HINT_FOR_CLOCKS
                verdict = Verdict(Status.nondeterministic, what + other.verdict.what, "order")
                line = tried[0].line  # of an atomic
                hint = words.format(place=f"{self.file}:{line}", unit=unit)
                return replace(other, verdict=verdict, line=line or None, hint=hint)
        self.right.update((names[each.kernel], max(1, each.programs)) for each in tried)
        return None
