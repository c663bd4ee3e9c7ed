"""Kernels of a submission translated to TTIR, each once, by the frontend of Triton's compiler.

It is a process of its own in the submission's sandbox, which reads the submission's text.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from grader.cases import Case
from grader.cases.compare import Verdict
from grader.executors.answers import Answers, hint_of_compiler
from grader.executors.compile import kept_builds
from grader.executors.compile.kept_builds import KeptBuilds
from grader.executors.runner import MAX_DETAIL, CaseResult
from grader.plan import Specialisation
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Cause, Death, Limits, Worker
from grader.status import Status
from grader.worker.compile.tuned import digest
from grader.worker.protocol import Code, Operation, Reply

LIMITS = Limits(cpu_seconds=60.0, memory_bytes=2 << 30)
MAX_TTIR_BYTES = 2 << 20
TOO_LONG = "its kernels take the compiler too long, all of them together."
_NO_END = (
    "Does each loop over constants end, as tl.static_range's does? Is a block too large for so few "
    "warps? The compiler writes out what every thread does."
)
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

    `fields` are those of the compiler's refusal, untrusted.
    """

    answer: Reply | Death | None
    message: str = ""
    fields: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, refused: dict[str, Any], answer: Reply | None = None) -> Failure:
        """The failure of a kernel that a compiler has refused."""
        return cls(answer, untrusted.brief(untrusted.text(refused, "message")), refused)

    def result(self, answers: Answers, case: Case | None) -> CaseResult:
        """The result of a case that needs the kernel."""
        if isinstance(self.answer, Death):
            if self.answer.cause is Cause.timed_out:  # with a limit of its own
                what = "compiling the kernel does not end in time."
                return CaseResult(case, Verdict(Status.compile_error, what), hint=_NO_END)
            died = answers.from_death(case, self.answer)
            what = f"compiling the kernel ended the compiler's process: {died.verdict.what}"
            return replace(died, verdict=Verdict(Status.compile_error, what))
        if self.answer is not None and not self.message:
            return answers.from_refusal(case, self.answer)
        return self.refusal(case, f"the kernel can't be compiled: {self.message}")

    def refusal(self, case: Case | None, what: str) -> CaseResult:
        """A compile error in these words, or not measured where the compiler lacks a model."""
        lacking = self.fields.get("kind") == "not_modelled"
        status = Status.not_measured if lacking else Status.compile_error
        detail = untrusted.text(self.fields, "excerpt")[:MAX_DETAIL]
        hint = "" if lacking else hint_of_compiler(what)
        line = untrusted.line(self.fields)
        return CaseResult(case, Verdict(status, what), line, detail, "worker", hint)


def too_long(what: str = TOO_LONG) -> Failure:
    """The failure of a kernel for which no time is left, or for which its time is not enough."""
    return Failure(None, what)


def is_late(answer: Reply | Death | None) -> bool:
    """Whether a compiler's process was ended for its time."""
    return isinstance(answer, Death) and answer.cause is Cause.timed_out


@dataclass
class Budget:
    """The time that is left for compiling a variant, whose kernels may be many and slow."""

    seconds: float

    @contextlib.contextmanager
    def spending(self) -> Iterator[None]:
        """Count the time that is spent in here."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds -= time.monotonic() - started

    def has_ended(self, answer: Reply | Death | None) -> bool:
        """Whether a compiler was ended because no time is left for the variant."""
        return is_late(answer) and self.seconds <= 0

    def within(self, limits: Limits) -> Limits:
        """Limits of one request, cut down to the time that is left, at least a second."""
        return replace(limits, cpu_seconds=max(1.0, min(limits.cpu_seconds, self.seconds)))


class Compiler:
    """Asks one process at a time, which answers one request after another."""

    def __init__(
        self, spawn: Callable[[Limits], Worker], limits: Limits, kept: KeptBuilds | None
    ) -> None:
        """`spawn` starts a process; its requests have `limits`, unless they name others."""
        self._spawn = spawn
        self._limits = limits
        self._kept = kept or KeptBuilds(None)
        self._worker: Worker | None = None

    def ask(
        self, operation: Operation, request: dict[str, Any], limits: Limits | None = None
    ) -> Reply | Death:
        """Send a request as JSON and wait for its answer; after its end a process is replaced."""
        if self._worker is None:
            self._worker = self._spawn(self._limits)
        document = json.dumps(request).encode()
        answer = self._worker.ask_at_length(operation, limits=limits, document=document)
        if isinstance(answer, Death):
            self._worker = None
        return answer

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None


class Frontend(Compiler):
    """Translates the kernels of one variant, each once, within a budget.

    Kernels that use up the budget are not kept: each run would get further than the one before.
    """

    def __init__(
        self,
        spawn: Callable[[Limits], Worker],
        folder: Path,
        kept: KeptBuilds | None,
        budget: Budget,
    ) -> None:
        """`spawn` starts a compiler process, in the `folder` of the submission's files."""
        super().__init__(spawn, LIMITS, kept)
        self._folder = folder
        self._budget = budget
        self._translated: dict[str, Kernel | Failure] = {}
        self._digests: dict[str, str] = {}  # of files, by name
        self._put: list[str] = []  # keys of what this run has kept

    def translate(self, wanted: Specialisation) -> Kernel | Failure:
        """The TTIR of a specialisation, whatever its arguments' alignment; or why there is none."""
        key = digest({**described(wanted), "attributes": {}})
        return self._of(key, replace(wanted, attributes={}))

    def translate_aligned(self, wanted: Specialisation) -> Kernel | Failure:
        """The TTIR that the backend takes: it says what is known of arguments' alignment."""
        return self._of(digest(described(wanted)), wanted)

    def keep(self, key: str, text: str) -> None:
        """Keep a text for later runs, as long as there is time left."""
        if self._budget.seconds > 0:
            self._put.append(key)
            self._kept.put(key, text)

    def close(self) -> None:
        super().close()
        if self._budget.seconds <= 0:
            self._kept.forget(self._put)

    def _of(self, key: str, wanted: Specialisation) -> Kernel | Failure:
        if (made := self._translated.get(key)) is not None:
            return made
        files = self._files_of(wanted)
        name = digest(["ttir", kept_builds.compilers(), files, described(wanted)])
        if files is not None and (ttir := self._kept.get(name)):
            made = Kernel(key, ttir)
        else:
            made = self._ask(key, wanted)
            if files is not None and isinstance(made, Kernel):
                self.keep(name, made.ttir)
        self._translated[key] = made
        return made

    def _files_of(self, wanted: Specialisation) -> dict[str, str] | None:
        """Digests of the files that a specialisation names; None where one isn't there."""
        names = set(_named_files(described(wanted)))
        if not self._digests:  # the grader has put the files there, and nobody else can
            for path in self._folder.rglob("*.py"):
                name = str(path.relative_to(self._folder))
                self._digests[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        known = names <= set(self._digests)
        return {name: self._digests[name] for name in names} if known else None

    def _ask(self, key: str, wanted: Specialisation) -> Kernel | Failure:
        if len(self._translated) >= MAX_SPECIALISATIONS:
            return Failure(
                None,
                f"its cases need more than {MAX_SPECIALISATIONS:,} specialisations of kernels, the "
                "most that are compiled here: which constants differ from case to case?",
                {"kind": "not_modelled"},  # a GPU may well run them all
            )
        if self._budget.seconds <= 0:
            return too_long()
        with self._budget.spending():
            limits = self._budget.within(LIMITS)
            answer = self.ask(Operation.translate, described(wanted), limits)
        if self._budget.has_ended(answer):
            return too_long()
        if isinstance(answer, Death) or answer.code is not Code.ok:
            return Failure(answer)
        fields = untrusted.fields(answer)
        if isinstance(refused := fields.get("error"), dict):
            return Failure.of(refused, answer)
        ttir = fields.get("ttir")
        if not isinstance(ttir, str) or not 0 < len(ttir) <= MAX_TTIR_BYTES:
            return Failure(answer, "the compiler's frontend gave no code that can be used.")
        return Kernel(key, ttir)


def _named_files(value: Any) -> Iterator[str]:
    """The files that the kernels of a specialisation lie in."""
    if isinstance(value, dict):
        if isinstance(file := value.get("file"), str):
            yield file
        value = list(value.values())
    for each in value if isinstance(value, list | tuple) else ():
        yield from _named_files(each)


def described(wanted: Specialisation) -> dict[str, Any]:
    """The fields of a specialisation by their names."""
    return {each.name: getattr(wanted, each.name) for each in fields(wanted)}
