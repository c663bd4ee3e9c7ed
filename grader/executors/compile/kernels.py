"""Kernels of one submission: from the text to TTIR, and from that to cubins, each made once.

The frontend and the backend are processes of their own in the submission's sandbox. The frontend
reads the submission's text, the backend nothing but TTIR.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.executors.compile import kept_builds
from grader.executors.compile.cubins import Cubins
from grader.executors.compile.frontend import (
    Budget,
    Failure,
    Frontend,
    Kernel,
    described,
    is_late,
    too_long,
)
from grader.executors.compile.kept_builds import KeptBuilds
from grader.executors.compile.warp_layouts import LayoutCompiler, Layouts
from grader.executors.encoding import DeviceKernel
from grader.plan import Specialisation
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Death, Limits, Worker
from grader.worker.compile.tuned import digest
from grader.worker.protocol import Operation, Reply

BACKEND_LIMITS = Limits(cpu_seconds=120.0, memory_bytes=4 << 30)
_SLOW = "Triton's backend needs more than the 120 s of computing that it has for one kernel."
COMPILE_SECONDS = 600.0  # by the clock, that are waited for the compilers of one variant
MOST_BACKENDS = 2  # at a time: with two jobs in a grade they share the cores as it is
MOST_ALIKE = 4  # kernels like a refused one that are compiled for a part
Waiting = tuple[Specialisation, Kernel]


@dataclass
class PendingAssembly:
    """TTIR texts on the way to being cubins: the worker that was asked, and what for."""

    worker: Worker
    kernels: Sequence[Waiting]
    keys: Sequence[str]  # by which it is kept that a kernel of `kernels` has become a cubin
    ended: Death | None  # the worker, before it could be asked


class BackendQueue:
    """The kernels of one variant that are still to be made cubins.

    Each set of constants, dtypes and options is compiled. Integers that are 1 in some launches,
    which Triton makes constants too, are compiled once each and not in every combination.
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

    def covers(self, wanted: Specialisation) -> bool:
        """Whether kernels with its constants, dtypes and options have been in line."""
        waiting = (facts(each) for each, _ in self._waiting.values())
        return facts(wanted) <= self._covered.union(*waiting)

    def take(self) -> list[Waiting]:
        """Empty the line, and return the kernels that tell the backend something new.

        Of each set of constants the one with the fewest ones comes first, as the plain case; then
        those with the most ones, which are few.
        """
        fewest = sorted(self._waiting.items(), key=lambda each: len(_ones(each[1][0])))
        plain: set[str] = set()
        chosen = []
        for name, (wanted, _) in fewest:
            if (constants := _of_all(wanted)) not in plain | self._covered:
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


class Refusals:
    """The kernels of one variant that the compilers refuse."""

    def __init__(self) -> None:
        self.passed_over: dict[str, Failure] = {}  # by Triton's autotuner; by their keys, as met
        self.made: dict[str, Failure] = {}  # by the keys of what backends were asked for
        self._suspect: set[str] = set()  # sets of constants, dtypes and options of those

    def note(self, wanted: Specialisation, failure: Failure, key: str = "") -> None:
        """Note why a kernel is refused; `key` is that of what a backend was asked for."""
        if key:
            self.made[key] = failure
            self._suspect.add(_of_all(wanted))
        if failure.fields.get("autotuner_skips") is True:
            self.passed_over.setdefault(wanted.key, failure)

    def like_one(self, ran: Sequence[Waiting]) -> list[Waiting]:
        """Those of some kernels that are like a refused one, the best aligned first."""
        alike = [each for each in ran if self._suspect and _of_all(each[0]) in self._suspect]
        return sorted(alike, key=lambda each: -len(each[0].attributes))


class Kernels:
    """The kernels of one variant, as TTIR and as cubins, within a budget of time."""

    def __init__(
        self,
        spawn: Callable[[Limits], Worker],
        folder: Path,
        kept: KeptBuilds | None = None,
        cubins: dict[str, DeviceKernel | Failure] | None = None,
    ) -> None:
        """`spawn` starts a compiler process, in the `folder` of the submission's files.

        `kept` has results of earlier runs, `cubins` those of other runners of the submission.
        """
        self._spawn = spawn
        self._kept = kept = kept or KeptBuilds(None)
        self.budget = Budget(COMPILE_SECONDS)
        self._refusals = Refusals()
        self.passed_over = self._refusals.passed_over
        self._frontend = Frontend(spawn, folder, kept, self.budget)
        self._layouts = LayoutCompiler(spawn, kept)
        self._device_code = Cubins(spawn, kept, cubins)
        self._queue = BackendQueue()
        self._idle: list[Worker] = []  # backends that have answered
        self._assembled: set[str] = set()  # keys of what has become a cubin in this run
        self._fitting: set[str] = set()  # tuned kernels, whatever is 1 in them

    def translate(self, wanted: Specialisation) -> Kernel | Failure:
        """The TTIR of a specialisation, or why there is none; it is put in line for the backend."""
        made = self._frontend.translate(wanted)
        if isinstance(made, Kernel):
            self._queue.add(wanted, made)
        else:
            self._refusals.note(wanted, made)
        return made

    def text_of(self, wanted: Specialisation) -> Kernel | Failure:
        """The TTIR of a specialisation that won't be launched on data, or why there is none."""
        return self._frontend.translate(wanted)

    def layouts(
        self, specialisations: Sequence[Specialisation], numbers: Iterable[int]
    ) -> dict[int, Layouts]:
        """How some compiled kernels' warps access memory, by number; without those not known.

        How many bytes an instruction takes depends on arguments' alignment.
        """
        known: dict[int, Layouts] = {}
        for number in numbers:
            options = specialisations[number].options
            text = self._frontend.translate_aligned(specialisations[number])
            if isinstance(text, Kernel):
                key = _of_backend(text.ttir, options)
                if (layouts := self._layouts.of(key, text.ttir, options)) is not None:
                    known[number] = layouts
        return known

    def cubin(self, wanted: Specialisation) -> DeviceKernel | Failure:
        """The compiled kernel of a specialisation with its arguments' alignment, or why not."""
        text = self._frontend.translate_aligned(wanted)
        if isinstance(text, Failure):
            return text
        if self.budget.seconds <= 0:
            return too_long()
        key = _of_backend(text.ttir, wanted.options)
        with self.budget.spending():
            limits = self.budget.within(BACKEND_LIMITS)
            made = self._device_code.of(key, text.ttir, wanted.options, limits)
        if isinstance(made, Failure) and is_late(made.answer):
            # The frontend has ended, so no loop is endless: the text is long, or the machine slow.
            return too_long() if self.budget.seconds <= 0 else too_long(_SLOW)
        if isinstance(made, Failure):
            self._refusals.note(wanted, made)
        return made

    def refusal_of(self, wanted: Specialisation) -> Failure | None:
        """Why the backend refuses a specialisation; None for one like those that it has met."""
        if self._queue.covers(wanted):
            return None
        made = self.cubin(wanted)
        return made if isinstance(made, Failure) else None

    def cubin_of_ours(self, ttir: str) -> DeviceKernel:
        """The compiled kernel of a text that isn't the submission's. Raises NotExecutable."""
        return self._device_code.of_ours(ttir)

    def assemble(self) -> list[PendingAssembly]:
        """Have what is new compiled to cubins in the background (see BackendQueue)."""
        return self._begin(self._queue.take())

    def _begin(self, waiting: Sequence[Waiting]) -> list[PendingAssembly]:
        """Ask backends for the cubins of these, but for what is known to become one."""
        asked = []
        for each, kernel in waiting:
            ttir, key = _asked(self._frontend, each, kernel)
            cubin = self._device_code.made.get(key)
            is_made = key in self._assembled or isinstance(cubin, DeviceKernel)
            if not is_made and key not in self._refusals.made and self._kept.get(key) is None:
                asked.append(({"ttir": ttir, "options": each.options}, (each, kernel), key))
        shares = min(len(os.sched_getaffinity(0)), MOST_BACKENDS, len(asked))
        begun = []
        for share in range(shares):
            documents, kernels, keys = zip(*asked[share::shares], strict=True)
            worker = self._idle.pop() if self._idle else self._spawn(BACKEND_LIMITS)
            document = json.dumps({"kernels": documents}).encode()
            ended = worker.post(Operation.assemble, document=document)
            begun.append(PendingAssembly(worker, kernels, keys, ended))
        return begun

    def settled(
        self, pending: PendingAssembly
    ) -> list[tuple[Specialisation, Kernel, Failure]] | None:
        """Wait for an assembly: the kernels that the backend refuses, None for a senseless answer.

        The others have become cubins, which is kept for later runs with their layouts.
        """
        answer: Reply | Death | None = pending.ended
        if answer is None:
            with self.budget.spending():
                answer = pending.worker.wait_at_length(self.budget.within(BACKEND_LIMITS))
        fields = {} if isinstance(answer, Death) else untrusted.fields(answer)
        answers = untrusted.dicts(fields.get("kernels"))
        if len(answers) != len(pending.kernels):
            self._end([pending.worker, *self._idle])  # what has ended it may have ended others
            return None
        self._idle.append(pending.worker)
        refused = []
        for each, (wanted, kernel), key in zip(answers, pending.kernels, pending.keys, strict=True):
            if isinstance(error := each.get("error"), dict):
                failure = Failure.of(error)
                self._refusals.note(wanted, failure, key)
                refused.append((wanted, kernel, failure))
            else:
                self._assembled.add(key)
                self._frontend.keep(key, "")
                self._layouts.learn(key, each.get("layouts"))
        return refused

    def refused_among(self, ran: Sequence[Waiting]) -> Iterator[tuple[Specialisation, Failure]]:
        """Those of some kernels that the backend refuses, where it has refused one like them.

        No other kernel stands for these: each is asked for by itself, the best aligned first.
        """
        made = self._refusals.made
        alike = self._refusals.like_one(ran)[:MOST_ALIKE]
        keyed = [(_asked(self._frontend, *each)[1], each) for each in alike]
        for key, each in sorted(keyed, key=lambda pair: pair[0] not in made):
            for pending in self._begin([each]):
                self.settled(pending)
            if key in made:
                yield each[0], made[key]

    def _end(self, backends: Sequence[Worker]) -> None:
        for each in backends:
            each.close()
        self._idle = []

    def is_passed_over(self, wanted: Specialisation) -> bool:
        """Whether Triton's autotuner passes over a kernel, which the compilers are asked now.

        Of kernels that differ in integers that are 1, one that compiles is enough.
        """
        key = wanted.key
        alike = digest([_of_all(wanted), wanted.attributes])
        if key in self.passed_over or alike in self._fitting or self.budget.seconds <= 0:
            return key in self.passed_over
        made = self.translate(wanted)
        if isinstance(made, Kernel):
            for pending in self._begin([(wanted, made)]):
                self.settled(pending)
        if key not in self.passed_over:
            self._fitting.add(alike)
        return key in self.passed_over

    def again(self, pending: PendingAssembly) -> None:
        """Put kernels that got no answer in line once more."""
        for wanted, kernel in pending.kernels:
            self._queue.add_again(wanted, kernel)

    def close(self) -> None:
        """End the compilers' processes."""
        self._end(self._idle)
        self._layouts.close()
        self._device_code.close()
        self._frontend.close()


def _asked(frontend: Frontend, wanted: Specialisation, made: Kernel) -> tuple[str, str]:
    """The text that a backend gets of a kernel, and its key.

    For the GPU alignment matters: what can be loaded ahead of time, and into what.
    """
    text = frontend.translate_aligned(wanted)
    ttir = (text if isinstance(text, Kernel) else made).ttir
    return ttir, _of_backend(ttir, wanted.options)


def _of_backend(ttir: str, options: Mapping[str, Any]) -> str:
    """A digest of all that the backend's work follows from."""
    return digest(["cubin", kept_builds.compilers(), ttir, options])


def _ones(wanted: Specialisation) -> list[str]:
    """The parameters that are constants of the value 1: by themselves, or for being 1."""
    return [name for name, value in wanted.constants.items() if type(value) is int and value == 1]


def facts(wanted: Specialisation) -> set[str]:
    """Keys of a kernel's facts: its set of constants, and each parameter that is 1 in it."""
    return {_of_all(wanted), *(f"{wanted.line} {wanted.hash} {n} is 1" for n in _ones(wanted))}


def _of_all(wanted: Specialisation) -> str:
    """A digest of a kernel with its set of constants, dtypes and options.

    The type of an integer parameter is no part of the set, since it has none where it is 1.
    """
    ones = _ones(wanted)
    parts = described(wanted)
    constants = {k: v for k, v in parts["constants"].items() if k not in ones}
    types = parts["signature"].items()
    signature = {name: kind for name, kind in types if kind not in ("i32", "constexpr")}
    kernel = {name: parts[name] for name in ("file", "line", "hash", "bindings", "options")}
    return digest({**kernel, "constants": constants, "signature": signature})
