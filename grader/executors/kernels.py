"""Kernels of one submission: from the text to TTIR, and from that to cubins, each made once.

The frontend and the backend are processes of their own in the submission's sandbox. The frontend
reads the submission's text, the backend nothing but TTIR.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from grader.executors import configurations, kept
from grader.executors.cubins import Cubins, NoCubin
from grader.executors.gpu_document import DeviceKernel
from grader.executors.kept import KeptBuilds
from grader.executors.layouts import LayoutCompiler, Layouts
from grader.plan import Specialisation
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Death, Limits, Worker
from grader.worker.protocol import Code, Operation, Reply

FRONTEND_LIMITS = Limits(cpu_seconds=60.0, memory_bytes=2 << 30)
BACKEND_LIMITS = Limits(cpu_seconds=120.0, memory_bytes=4 << 30)
COMPILE_SECONDS = 600.0  # by the clock, that are waited for the compilers of one variant
MOST_BACKENDS = 2  # at a time: with two jobs in a grade they share the cores as it is
MAX_TTIR_BYTES = 2 << 20
TOO_LONG = "its kernels take the compiler too long, all of them together."
MAX_SPECIALISATIONS = 2000  # of one variant, all cases together
# In a tt.dot of float32; of others TTIR says it too, and it has no effect.
_TF32 = re.compile(r"inputPrecision = tf32(?=[ ,][^:\n]{0,100}: tensor<[0-9x]{1,60}xf32>)")


@dataclass(frozen=True)
class Kernel:
    """One specialisation as an executor takes it: TTIR, and a name for it."""

    name: str
    ttir: str

    @property
    def rounds_to_tf32(self) -> bool:
        """Whether a tl.dot of it rounds float32 inputs."""
        return _TF32.search(self.ttir) is not None

    def in_ieee(self) -> Kernel:
        """The kernel as it would be with input_precision="ieee"."""
        return Kernel(f"{self.name}-ieee", _TF32.sub("inputPrecision = ieee", self.ttir))


@dataclass(frozen=True)
class Failure:
    """Why there is no kernel: the compiler's answer, its end, or a limit.

    `fields` are what the compiler says about its refusal, hostile.
    """

    answer: Reply | Death | None
    message: str = ""
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class Budget:
    """The time that is left for compiling a variant: many slow kernels are to end, too."""

    seconds: float

    @contextlib.contextmanager
    def spending(self) -> Iterator[None]:
        """What is done here takes of it."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds -= time.monotonic() - started

    def within(self, limits: Limits) -> Limits:
        """Limits of one request, cut down to what is left; a second always is."""
        return replace(limits, cpu_seconds=max(1.0, min(limits.cpu_seconds, self.seconds)))


@dataclass
class PendingAssembly:
    """TTIR texts on the way to being cubins: the worker that was asked, and what for."""

    worker: Worker
    kernels: Sequence[tuple[Specialisation, Kernel]]
    keys: Sequence[str]  # by which it is kept that a kernel of `kernels` has become a cubin
    budget: Budget
    ended: Death | None = None  # the worker, before it could be asked

    def wait(self) -> Reply | Death:
        """The answer, or the process's end."""
        if self.ended is not None:
            return self.ended
        with self.budget.spending():
            answer = self.worker.wait_at_length(self.budget.within(BACKEND_LIMITS))
        self.worker.close()
        return answer


@dataclass
class Kernels:
    """The kernels of one variant. `spawn` starts a compiler process, in the `folder` of files.

    What earlier runs have made of the same texts is taken from `kept`. Of kernels that use up the
    budget nothing is kept: else each run would get further than the one before it.
    """

    spawn: Callable[[Limits], Worker]
    folder: Path
    kept: KeptBuilds | None = None
    cubins: dict[str, DeviceKernel | NoCubin] = field(default_factory=dict)
    budget: Budget = field(default_factory=lambda: Budget(COMPILE_SECONDS))
    # Refusals over which Triton's autotuner passes, by tuned.key_of, in the order of their finding.
    passed_over: dict[str, Failure] = field(default_factory=dict)
    _frontend: Worker | None = None
    _layouts: LayoutCompiler = field(init=False)
    _device_code: Cubins = field(init=False)
    _translated: dict[str, Kernel | Failure] = field(default_factory=dict)
    _assembled: set[str] = field(default_factory=set)
    _waiting: dict[str, tuple[Specialisation, Kernel]] = field(default_factory=dict)
    _covered: set[str] = field(default_factory=set)  # what of them the backend has met
    _files: dict[str, str] = field(default_factory=dict)  # digests by name
    _put: list[str] = field(default_factory=list)  # keys of what this run has kept
    _cubins: set[str] = field(default_factory=set)  # keys of what has become one in this run
    _fitting: set[str] = field(default_factory=set)  # tuned kernels, whatever is 1 in them

    def __post_init__(self) -> None:
        self._layouts = LayoutCompiler(self.spawn, self.kept)
        self._device_code = Cubins(self.spawn, self.kept, self.cubins)

    def translate(self, wanted: Specialisation) -> Kernel | Failure:
        """The TTIR of a specialisation, or why there is none; asked of the frontend once.

        What is known of arguments' alignment changes no meaning: one text serves them all.
        """
        key = _digest({**_told(wanted), "attributes": {}})
        if key not in self._translated:
            self._translated[key] = self._kept_or_asked(key, replace(wanted, attributes={}))
        made = self._translated[key]
        if isinstance(made, Kernel):
            self._note(wanted, made)
        else:
            self._note_refusal(wanted, made)
        return made

    def layouts(
        self, specialisations: Sequence[Specialisation], numbers: Iterable[int]
    ) -> dict[int, Layouts]:
        """How some compiled kernels' warps access memory, by number; without those not known.

        What is known of alignment matters: how many bytes an instruction takes depends on it.
        """
        found = {}
        for number in numbers:
            wanted = specialisations[number]
            if isinstance(text := self._text_of(wanted), Kernel):
                key = _of_backend(text.ttir, wanted.options)
                found[number] = self._layouts.of(key, text.ttir, wanted.options)
        return {number: each for number, each in found.items() if each is not None}

    def cubin(self, wanted: Specialisation) -> DeviceKernel | Failure:
        """The compiled kernel of a specialisation with its arguments' alignment, or why not."""
        text = self._text_of(wanted)
        if isinstance(text, Failure):
            return text
        if self.budget.seconds <= 0:
            return Failure(None, TOO_LONG)
        key = _of_backend(text.ttir, wanted.options)
        with self.budget.spending():
            limits = self.budget.within(BACKEND_LIMITS)
            made = self._device_code.of(key, text.ttir, wanted.options, limits)
        if not isinstance(made, NoCubin):
            return made
        failure = Failure(made.answer, made.message, dict(made.fields))
        self._note_refusal(wanted, failure)
        return failure

    def cubin_of_ours(self, ttir: str) -> DeviceKernel:
        """The compiled kernel of a text that isn't the submission's. Raises NotExecutable."""
        return self._device_code.of_ours(ttir)

    def _text_of(self, wanted: Specialisation) -> Kernel | Failure:
        key = _digest(_told(wanted))
        if key not in self._translated:
            self._translated[key] = self._kept_or_asked(key, wanted)
        return self._translated[key]

    def _kept_or_asked(self, key: str, wanted: Specialisation) -> Kernel | Failure:
        if self.kept is None or (files := self._files_of(wanted)) is None:
            return self._ask(key, wanted)
        name = _digest(["ttir", kept.compilers(), files, _told(wanted)])
        if ttir := self.kept.get(name):
            return Kernel(key, ttir)
        made = self._ask(key, wanted)
        if isinstance(made, Kernel):
            self._keep(name, made.ttir)
        return made

    def _keep(self, key: str, text: str) -> None:
        if self.kept is not None and self.budget.seconds > 0:
            self._put.append(key)
            self.kept.put(key, text)

    def _files_of(self, wanted: Specialisation) -> dict[str, str] | None:
        """Digests of the files that a specialisation names; None where one isn't there."""
        names = set(_named_files(_told(wanted)))
        if not self._files:  # the grader has put them there, and nobody else can
            for path in self.folder.rglob("*.py"):
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                self._files[str(path.relative_to(self.folder))] = digest
        return {name: self._files[name] for name in names} if names <= set(self._files) else None

    def assemble(self) -> list[PendingAssembly]:
        """Have what is new compiled to cubins in the background, by as many processes as is wise.

        That is each set of constants, dtypes and options; and of integers that are 1 in some
        launches, which Triton makes constants too, each once and not in every combination.
        """
        self._choose()
        waiting = [*self._waiting.values()]
        self._assembled.update(self._waiting)
        self._waiting.clear()
        return self._begin(waiting)

    def _begin(self, wanted: Sequence[tuple[Specialisation, Kernel]]) -> list[PendingAssembly]:
        """Ask backends for the cubins of these, but for what is known to become one."""
        # For the GPU alignment matters: what can be loaded ahead of time, and into what.
        texts = [(each, kernel, self._text_of(each)) for each, kernel in wanted]
        asked = []
        for each, kernel, text in texts:
            ttir = (text if isinstance(text, Kernel) else kernel).ttir
            key = _of_backend(ttir, each.options)
            is_made = key in self._cubins or isinstance(self.cubins.get(key), DeviceKernel)
            if not is_made and (self.kept is None or self.kept.get(key) is None):
                asked.append(({"ttir": ttir, "options": each.options}, (each, kernel), key))
        shares = min(len(os.sched_getaffinity(0)), MOST_BACKENDS, len(asked))
        return [self._begun(asked[share::shares]) for share in range(shares)]

    def _begun(
        self, asked: Sequence[tuple[dict[str, Any], tuple[Specialisation, Kernel], str]]
    ) -> PendingAssembly:
        documents, kernels, keys = zip(*asked, strict=True)
        worker = self.spawn(BACKEND_LIMITS)
        document = json.dumps({"kernels": documents}).encode()
        ended = worker.post(Operation.assemble, document=document)
        return PendingAssembly(worker, kernels, keys, self.budget, ended)

    def settled(
        self, pending: PendingAssembly
    ) -> list[tuple[Specialisation, Kernel, Failure]] | None:
        """Wait for an assembly: what the backend refuses of it, where it says something sensible.

        That others have become cubins is kept, for runs to come, and what was told of each.
        """
        answer = pending.wait()
        told = {} if isinstance(answer, Death) else untrusted.fields(answer)
        answers = untrusted.dicts(told.get("kernels"))
        if len(answers) != len(pending.kernels):
            return None
        refused = []
        for each, (wanted, kernel), key in zip(answers, pending.kernels, pending.keys, strict=True):
            if isinstance(error := each.get("error"), dict):
                failure = Failure(None, untrusted.brief(untrusted.text(error, "message")), error)
                self._note_refusal(wanted, failure)
                refused.append((wanted, kernel, failure))
            else:
                self._cubins.add(key)
                self._keep(key, "")
                self._layouts.learn(key, each.get("layouts"))
        return refused

    def is_passed_over(self, wanted: Specialisation) -> bool:
        """Whether Triton's autotuner passes over a kernel, if the compilers say so.

        They are asked now, about this kernel with its arguments' alignment. Integers that are 1
        take nothing from the GPU: of kernels that differ in them, one that compiles is enough.
        """
        key = configurations.key_of(wanted)
        alike = _digest([_of_all(wanted), wanted.attributes])
        if key in self.passed_over or alike in self._fitting or self.budget.seconds <= 0:
            return key in self.passed_over
        made = self.translate(wanted)
        if isinstance(made, Kernel):
            for pending in self._begin([(wanted, made)]):
                self.settled(pending)
        if key not in self.passed_over:
            self._fitting.add(alike)
        return key in self.passed_over

    def _note_refusal(self, wanted: Specialisation, failure: Failure) -> None:
        if failure.fields.get("autotuner_skips") is True:
            self.passed_over.setdefault(configurations.key_of(wanted), failure)

    def again(self, pending: PendingAssembly) -> None:
        """Put kernels that got no answer in line once more."""
        for wanted, kernel in pending.kernels:
            self._assembled.discard(kernel.name)
            self._covered -= facts(wanted)
            self._waiting[kernel.name] = (wanted, kernel)

    def _choose(self) -> None:
        """Take those out of the line that tell the backend nothing new.

        Of each set of constants the one with the fewest ones comes first, as the plain case; then
        those with the most ones, which are few.
        """
        fewest = sorted(self._waiting.items(), key=lambda each: len(_ones(each[1][0])))
        plain, chosen = set(), []
        for name, (wanted, _) in fewest:
            if (constants := _of_all(wanted)) not in plain | self._covered:
                plain.add(constants)
                chosen.append(name)
        self._covered.update(*(facts(self._waiting[name][0]) for name in chosen))
        for name, (wanted, _) in reversed(fewest):
            if not (told := facts(wanted)) <= self._covered:
                self._covered |= told
                chosen.append(name)
        self._assembled.update(self._waiting)
        self._waiting = {name: self._waiting[name] for name in chosen}

    def close(self) -> None:
        """End the compilers' processes."""
        self._layouts.close()
        self._device_code.close()
        if self.kept is not None and self.budget.seconds <= 0:
            self.kept.forget(self._put)
        if self._frontend is not None:
            self._frontend.close()
            self._frontend = None

    def _ask(self, key: str, wanted: Specialisation) -> Kernel | Failure:
        if len(self._translated) >= MAX_SPECIALISATIONS:
            return Failure(
                None,
                f"its cases need more than {MAX_SPECIALISATIONS:,} specialisations of kernels, the "
                "most that are compiled here: which constants differ from case to case?",
                {"kind": "not_modelled"},  # a GPU may well run them all
            )
        if self.budget.seconds <= 0:
            return Failure(None, TOO_LONG)
        if self._frontend is None:
            self._frontend = self.spawn(FRONTEND_LIMITS)
        document = json.dumps(_told(wanted)).encode()
        with self.budget.spending():
            limits = self.budget.within(FRONTEND_LIMITS)
            answer = self._frontend.ask_at_length(
                Operation.translate, limits=limits, document=document
            )
        if isinstance(answer, Death):
            self._frontend = None
            return Failure(answer)
        if answer.code is not Code.ok:
            return Failure(answer)
        fields = untrusted.fields(answer)
        if isinstance(refused := fields.get("error"), dict):
            return Failure(answer, untrusted.brief(untrusted.text(refused, "message")), refused)
        ttir = fields.get("ttir")
        if not isinstance(ttir, str) or not 0 < len(ttir) <= MAX_TTIR_BYTES:
            return Failure(answer, "the compiler's frontend gave no code that can be used.")
        return Kernel(key, ttir)

    def _note(self, wanted: Specialisation, made: Kernel) -> None:
        """Put a kernel in line for the backend, with the most that is known of its alignment."""
        if made.name in self._assembled:
            return
        before = self._waiting.get(made.name)
        if before is None or len(before[0].attributes) < len(wanted.attributes):
            self._waiting[made.name] = (wanted, made)


def _ones(wanted: Specialisation) -> list[str]:
    """The parameters that are constants of the value 1: by themselves, or for being 1."""
    return [name for name, value in wanted.constants.items() if type(value) is int and value == 1]


def facts(wanted: Specialisation) -> set[str]:
    """What compiling a kernel shows: its set of constants, and each parameter that is 1 in it.

    The type of an integer parameter is no part of the set, since it is none where that is 1.
    """
    alone = (f"{wanted.line} {wanted.hash} {name} is 1" for name in _ones(wanted))
    return {_of_all(wanted), *alone}


def _of_all(wanted: Specialisation) -> str:
    """A digest of a kernel with its set of constants, dtypes and options."""
    ones = _ones(wanted)
    told = _told(wanted)
    constants = {k: v for k, v in told["constants"].items() if k not in ones}
    signature = {
        name: kind for name, kind in told["signature"].items() if kind not in ("i32", "constexpr")
    }
    kernel = {name: told[name] for name in ("file", "line", "hash", "bindings", "options")}
    return _digest({**kernel, "constants": constants, "signature": signature})


def _named_files(described: Any) -> Iterator[str]:
    """The files that the kernels of a specialisation lie in."""
    if isinstance(described, dict):
        if isinstance(file := described.get("file"), str):
            yield file
        for each in described.values():
            yield from _named_files(each)
    elif isinstance(described, list | tuple):
        for each in described:
            yield from _named_files(each)


def _told(wanted: Specialisation) -> dict[str, Any]:
    """The fields of a specialisation by their names."""
    return {each.name: getattr(wanted, each.name) for each in fields(wanted)}


def _of_backend(ttir: str, options: Mapping[str, Any]) -> str:
    """A digest of all that the backend's work follows from."""
    return _digest(["cubin", kept.compilers(), ttir, options])


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:24]
