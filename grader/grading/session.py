"""A submission being graded, a variant at a time.

A Session owns the sandbox of one submission. The file it judges is a copy taken at the start, so
that what was hashed is what ran.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from grader.cases import Case, Space, fixed_case
from grader.cases.compare import Verdict
from grader.evidence import (
    Failure,
    MemoryEvidence,
    PartEvidence,
    PerformanceEvidence,
    VariantEvidence,
)
from grader.executors import cuda_build
from grader.executors.registry import RunnerOptions, Runners
from grader.executors.runner import CaseResult, Compiled, Runner
from grader.gpu import locks, machine
from grader.gpu.devices import DeviceName
from grader.grading import memory_use, source_reading, submitted
from grader.grading import rules as violations
from grader.grading.search import Effort, check, failure_of_compile, one_case, spread
from grader.mistakes import Mistake
from grader.plan import Plan
from grader.sandbox import Sandbox, head_start
from grader.sandbox.confinement import Level
from grader.sandbox.worker_process import SandboxError
from grader.spec import Exercise, Variant
from grader.spec.task import Task
from grader.status import Status
from grader.timing.contenders import Documents
from grader.timing.submission import Stopwatch
from grader.worker.protocol import Argument

PUBLIC_SEED = 2026  # of every student's own run; a class is graded with another one
EDGES_ON_A_GPU = 2  # cases of a part that was right by plan
DIED_COMPILING = "the process that compiled the kernel for the GPU ended without an answer, twice."


class SubmissionError(Mistake, ValueError):
    """There is no such folder to grade."""


@dataclass(frozen=True)
class Step:
    """Where grading is: told before each part, and after each case with `cases` raised."""

    exercise: str
    variant: str
    part: str = ""
    cases: int = 0


Progress = Callable[[Step], None]


def selected(
    exercises: Mapping[str, Exercise], only: Sequence[str] = ()
) -> list[tuple[Exercise, Variant]]:
    """The variants that `only` names, all of them where it is empty; in the order of the specs."""
    pairs = [(e, v) for e in exercises.values() for v in e.variants.values()]
    if not only:
        return pairs
    return [(e, v) for e, v in pairs if e.name in only or f"{e.name}/{v.name}" in only]


def _sandbox(level: Level | None, required: bool) -> Sandbox:
    """The sandbox of a session's plans of Triton. Raises ConfinementError."""
    begun = None if level or required else head_start.take()
    return begun or Sandbox("interpreter", level, required, plans=True)


class Session:
    """One submission being graded. A context manager."""

    def __init__(
        self,
        submission: Path,
        exercises: Mapping[str, Exercise],
        *,
        seed: int = PUBLIC_SEED,
        device: DeviceName | None = None,
        effort: Effort | None = None,
        level: Level | None = None,
        require_sandbox: bool = False,
        lifted: Sequence[str] = (),
        policy: bool = True,
        check_with_nvcc: bool = True,
        backends: tuple[cuda_build.Backend, ...] | None = None,
        guarded: bool = True,
        sandbox: Sandbox | None = None,
        files: Mapping[str, bytes | str] | None = None,
        keeps_builds: bool = True,
    ) -> None:
        """`files` are another session's of the same submission, which is then not looked for.

        `keeps_builds`: what Triton's compilers made is kept in the user's cache, for the next run.
        Not so where a sandbox is required: what one stranger has compiled serves no other.

        `level` and what follows `lifted` are for tests: one confinement; the source left unread;
        nvcc not asked; CUDA C++ in one place only; its object neither looked at nor watched; a
        sandbox for Triton kernels, which its owner starts and closes.

        Raises SubmissionError when there is no such folder, ConfinementError where a sandbox is
        required and there is none.
        """
        if files is None and not submission.is_dir():
            raise SubmissionError(f"{submission}: expected a folder like assignment/, found none")
        torch.set_num_threads(1)  # the tensors are small; threads would only wait for each other
        self.submission = submission
        self.exercises = exercises
        self.seed = seed
        self.device: DeviceName = device or machine.device()
        self.effort = effort or Effort()
        self.sandbox = sandbox or _sandbox(level, require_sandbox)
        self._owns_sandbox = sandbox is None
        self.policy = policy
        self.lifted = frozenset(lifted)
        self._files: dict[str, bytes | str] = dict(files or {})
        self.runners = Runners(
            exercises,
            self.sandbox,
            self.device,
            self._file,
            lambda task: policy and not self._is_lifted(task.exercise, task.variant),
            RunnerOptions(
                modules=self._modules,
                level=level,
                required=require_sandbox,
                check_with_nvcc=check_with_nvcc,
                backends=backends,
                guarded=guarded,
                keeps_builds=keeps_builds and not require_sandbox,
            ),
        )
        self.stopwatch = Stopwatch(self.device, seed, exercises, self.runners)
        self.runners.begin()
        self._timed_out_parts: dict[tuple[str, str], int] = {}
        self._found_violations: dict[tuple[str, str], tuple[Failure, ...]] = {}

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.stopwatch.close()
        self.runners.close()
        if self._owns_sandbox:
            self.sandbox.close()

    def not_attempted(self, variant: Variant) -> str:
        """Why there is nothing to run for a variant, or "". Runs nothing."""
        data = self._file(variant.file)
        if isinstance(data, str):
            return data
        return source_reading.is_untouched(data, variant.entry, variant.language)

    @property
    def files(self) -> dict[str, bytes | str]:
        """The contents of every file that a variant names; or, as text, why there are none."""
        variants = [v for each in self.exercises.values() for v in each.variants.values()]
        return {variant.file: self._file(variant.file) for variant in variants}

    def variant(
        self, exercise: Exercise, variant: Variant, on_step: Progress = lambda step: None
    ) -> VariantEvidence:
        """All there is to observe about one variant."""
        evidence = self.beside(exercise, variant, on_step)
        return self.alone(exercise, variant, evidence, on_step)

    def beside(
        self, exercise: Exercise, variant: Variant, on_step: Progress = lambda step: None
    ) -> VariantEvidence:
        """What can be observed of a variant while others are observed beside it.

        Between two cases, way is made for whoever times something on the same GPU.
        """
        on_step(Step(exercise.name, variant.name))
        if variant.performance is not None:
            self.stopwatch.begin()
        evidence = self.unseen(exercise, variant)
        parts = self.parts(exercise, variant, keys_of(variant), on_step)
        return self.counted(exercise, variant, replace(evidence, parts=parts), on_step)

    def expect(self, pairs: Iterable[tuple[Exercise, Variant]]) -> None:
        """Have the CUDA C++ of these compiled while others of them are judged.

        Only what is to be run and keeps the rules, which are read first.
        """
        for exercise, variant in pairs:
            is_there = variant.language == "cuda" and not self.not_attempted(variant)
            if is_there and not self.violations(exercise, variant):
                self.runners.begin_building(variant.file)

    def parts(
        self,
        exercise: Exercise,
        variant: Variant,
        keys: Sequence[tuple[str, str]],
        on_step: Progress = lambda step: None,
    ) -> tuple[PartEvidence, ...]:
        """Some of a variant's parts, named by dtype and size class; none where it has no file.

        Between two cases, way is made for whoever times something on the same GPU.
        """
        if self.not_attempted(variant):
            return ()
        with self._share(on_step) as stepped:
            found = tuple(self._checked(exercise, variant, keys, stepped))
        self.runners.close_variant(Task(exercise, variant))
        return found

    def counted(
        self,
        exercise: Exercise,
        variant: Variant,
        evidence: VariantEvidence,
        on_step: Progress = lambda step: None,
    ) -> VariantEvidence:
        """The evidence of a variant, all of whose parts were checked, with its use of memory."""
        if variant.memory is None or evidence.correctness is not Status.passed:
            return evidence
        return replace(evidence, memory=self.count(exercise, variant, on_step))

    def count(
        self, exercise: Exercise, variant: Variant, on_step: Progress = lambda step: None
    ) -> MemoryEvidence:
        """How a variant with a `memory` block uses memory, as far as that is seen on a CPU.

        It says something of a variant that is right only; whether it is, another process may still
        be finding out.
        """
        with self._share(on_step) as stepped:
            stepped(Step(exercise.name, variant.name, "memory"))
            seen = self._counted(exercise, variant)
        self.runners.close_variant(Task(exercise, variant))
        return seen

    def alone(
        self,
        exercise: Exercise,
        variant: Variant,
        evidence: VariantEvidence,
        on_step: Progress = lambda step: None,
        documents: Documents | None = None,
    ) -> VariantEvidence:
        """The evidence with what takes the whole GPU: the clock's.

        `documents` are the plans to be timed, where another process has made them already.
        """
        if variant.performance is not None:
            on_step(Step(exercise.name, variant.name, "timing"))
            performance = self._performance(exercise, variant, evidence, on_step, documents)
            evidence = replace(evidence, performance=performance)
        self.runners.close_variant(Task(exercise, variant))
        return evidence

    def compile_ahead(
        self, exercise: Exercise, variant: Variant, is_over: Callable[[], bool]
    ) -> None:
        """Compile what the clock will time, while others check it; until `is_over`."""
        if variant.performance is None or variant.language != "triton":
            return
        if not self.not_attempted(variant) and not self.violations(exercise, variant):
            with self._share(lambda step: None) as stepped:

                def is_over_by_now() -> bool:
                    stepped(Step(exercise.name, variant.name, "timing"))
                    return is_over()

                self.stopwatch.compile_ahead(exercise, variant, is_over_by_now)

    def unseen(self, exercise: Exercise, variant: Variant) -> VariantEvidence:
        """The evidence of a variant before anything of it has run."""
        data = self._file(variant.file)
        return VariantEvidence(
            exercise.name,
            variant.name,
            variant.file,
            sha256=hashlib.sha256(data).hexdigest() if isinstance(data, bytes) else "",
            not_attempted=self.not_attempted(variant),
            rules_lifted=self._is_lifted(exercise, variant),
        )

    def part(
        self, exercise: Exercise, variant: Variant, dtype: str, size_class: str
    ) -> PartEvidence:
        """One dtype and size class, compiled ahead of time too before it answers."""
        with self._share(lambda step: None) as stepped:
            [part] = self._checked(exercise, variant, [(dtype, size_class)], stepped)
        return part

    def case(self, exercise: Exercise, variant: Variant, case: Case) -> PartEvidence:
        """One given case, of whatever size: what `grader check --case` shows."""
        if found := self.violations(exercise, variant):
            status = Status.policy_violation
            return PartEvidence(case.dtype, "case", status, failures=found)
        space = self._space(exercise, variant, case.dtype, next(iter(exercise.sizes)))
        space = replace(space, seed=case.seed)
        with self._share(lambda step: None):
            return self._asked(
                exercise,
                variant,
                (case.dtype, "case"),
                lambda runner, _: one_case(space, runner, case, self._shown()),
            )

    def plan(
        self, exercise: Exercise, variant: Variant, case: Case, arguments: Sequence[Argument]
    ) -> Plan | Failure:
        """What the entry asks of the device for a case, or why there is no plan; runs no kernel.

        Raises SandboxError.
        """
        if reason := self.runners.why_none(variant):
            return Failure(Status.not_measured, str(case), reason)
        in_cuda = variant.language == "cuda"
        task = Task(exercise, variant)
        runner = self.runners.planned_native(task) if in_cuda else self.runners.planned(task)
        planned = runner.plans.plan_of(case, arguments)
        if isinstance(planned, CaseResult):
            space = self._space(exercise, variant, case.dtype, next(iter(exercise.sizes)))
            return failure_of_compile(space, replace(planned, case=case), self._shown())
        return planned

    def memory(self, exercise: Exercise, variant: Variant) -> MemoryEvidence:
        """How a variant that is right uses memory, on the case its spec names."""
        return self._counted(exercise, variant)

    def _counted(self, exercise: Exercise, variant: Variant) -> MemoryEvidence:
        """What one call's accesses show of a variant's use of memory."""
        if found := self.violations(exercise, variant):
            return MemoryEvidence(Status.policy_violation, found[0].what)
        in_cuda = variant.language == "cuda"
        if in_cuda and (reason := cuda_build.why_not("emulator")):
            return MemoryEvidence(Status.not_measured, reason)
        case = fixed_case(exercise, variant, variant.memory.case, self.seed)
        task = Task(exercise, variant)
        try:
            if in_cuda:
                runner = self.runners.native(task, "emulator")
                runs: memory_use.Runs = memory_use.NativeRuns(task, runner)
            else:
                data = self._file(variant.file)
                source = data.decode("utf-8", "replace") if isinstance(data, bytes) else ""
                planned = self.runners.planned(task)
                runs = memory_use.TritonRuns(task, planned, source.splitlines())
            return memory_use.measure(runs, self.seed)
        except Exception:
            reason = traceback.format_exc(limit=-6)
            return MemoryEvidence(Status.grader_error, reason, str(case))

    # --- parts ---------------------------------------------------------------------------------

    def _checked(
        self,
        exercise: Exercise,
        variant: Variant,
        keys: Sequence[tuple[str, str]],
        on_step: Progress,
    ) -> list[PartEvidence]:
        """Check parts one after the other; each is compiled while the next one runs."""
        if found := self.violations(exercise, variant):
            status = Status.policy_violation
            return [PartEvidence(*key, status, failures=found) for key in keys]
        parts: list[PartEvidence] = []
        pending = None
        for dtype, size_class in keys:
            step = Step(exercise.name, variant.name, f"{dtype} {size_class}")
            on_step(step)
            parts.append(self._check(exercise, variant, dtype, size_class, step, on_step))
            # Before the last part's is waited for: should that have to run again, it is alone.
            following = self._compile_in_background(exercise, variant)
            if pending:
                parts[-2] = self._with_compiled(exercise, variant, parts[-2], pending)
            pending = following
        if pending:
            parts[-1] = self._with_compiled(exercise, variant, parts[-1], pending)
        return parts

    def _compile_in_background(self, exercise: Exercise, variant: Variant):
        """Start compiling ahead of time what ran, where the kernels are Triton's."""
        runner = self.runners.opened(Task(exercise, variant))
        return runner.compile_in_background() if runner and self.effort.compile_ahead else None

    def _check(self, exercise, variant, dtype, size_class, step, on_step) -> PartEvidence:
        key = (exercise.name, variant.name)
        if self._timed_out_parts.get(key, 0) >= 3:
            reason = "not run: three other parts of this variant had run out of time"
            return PartEvidence(dtype, size_class, Status.timed_out, reason=reason)
        effort = self.effort
        if self._timed_out_parts.get(key):
            effort = replace(effort, shrink_timeouts=0)
        cases = 0

        def on_case() -> None:
            nonlocal cases
            cases += 1
            on_step(replace(step, cases=cases))

        space = self._space(exercise, variant, dtype, size_class)

        def look(runner: Runner, is_right_by_plan: bool) -> PartEvidence:
            chosen = self._chosen(exercise, variant, space) if is_right_by_plan else None
            return check(space, runner, effort, on_case, self._shown(), chosen)

        part = self._asked(exercise, variant, (dtype, size_class), look)
        if part.status is Status.timed_out:
            self._timed_out_parts[key] = self._timed_out_parts.get(key, 0) + 1
        return part

    def _chosen(self, exercise: Exercise, variant: Variant, space: Space) -> list[Case] | None:
        """The cases of a part that was right by plan to be run on the GPU; None: all there are.

        For Triton, that is each case that was the first with its set of constants, dtypes and
        options, and a few at the edges.
        """
        planned = self.runners.opened(Task(exercise, variant))
        if planned is None:
            return None
        edges = spread(space.edges(), EDGES_ON_A_GPU)
        return list(dict.fromkeys([*planned.take_first_met(), *edges]))

    def _with_compiled(self, exercise, variant, part: PartEvidence, pending) -> PartEvidence:
        """The part with what compiling ahead of time adds to it."""
        runner = self.runners.planned(Task(exercise, variant))
        compiled = runner.compiled(pending)
        space = self._space(exercise, variant, part.dtype, part.size_class)
        if compiled is None and part.status is Status.passed:
            again = runner.compile_in_background()
            compiled = runner.compiled(again) if again else None
            if compiled is None:  # as it would on a GPU, where it compiles in the same process
                died = Verdict(Status.compile_error, DIED_COMPILING)
                compiled = Compiled(CaseResult(None, died))
        if compiled is None:
            return part
        if compiled.failure is None:
            return replace(part, reason=part.reason or compiled.note)
        failure = failure_of_compile(space, compiled.failure, self._shown())
        if part.status is not Status.passed:
            return replace(part, failures=(*part.failures, failure))
        return replace(part, status=failure.status, failures=(failure,))

    def _asked(
        self,
        exercise: Exercise,
        variant: Variant,
        key: tuple[str, str],
        look: Callable[[Runner, bool], PartEvidence],
    ) -> PartEvidence:
        """What a look at one part shows: by plan and then on the GPU, where there is one.

        The first fault is the verdict; what one can't decide, the other may.
        """
        if reason := self.runners.why_none(variant):
            return PartEvidence(*key, Status.not_measured, reason=reason)

        def look_at_each() -> PartEvidence:
            seen: list[PartEvidence] = []
            for runner in self.runners.of(Task(exercise, variant)):
                seen.append(look(runner, any(part.status is Status.passed for part in seen)))
                if seen[-1].status.is_failure:
                    return self._with_folder_named(variant, seen[-1])
            decided = [part for part in seen if part.status is Status.passed]
            last = (decided or seen)[-1]
            return replace(
                last,
                cases_run=sum(part.cases_run for part in decided) if decided else last.cases_run,
                seconds=sum(part.seconds for part in seen),
            )

        return self._guarded(*key, look_at_each)

    def _with_folder_named(self, variant: Variant, part: PartEvidence) -> PartEvidence:
        """A part that failed, with a hint where an import misses a folder beside the file."""
        told = []
        for failure in part.failures:
            name = submitted.missing_folder(self.submission, failure.what)
            if name and failure.status is Status.import_error:
                hint = (
                    "Folders aren't handed in with a file: move the modules of "
                    f"{name} beside {variant.file}."
                )
                failure = replace(failure, hint=hint)
            told.append(failure)
        return replace(part, failures=tuple(told))

    def _guarded(self, dtype: str, size_class: str, work: Callable) -> PartEvidence:
        """The part's evidence; trouble of our own becomes grader_error and costs no points."""
        try:
            return work()
        except SandboxError as error:
            reason = f"no worker could be started: {error}"
        except Exception:
            reason = traceback.format_exc(limit=-6)
        return PartEvidence(dtype, size_class, Status.grader_error, reason=reason)

    # --- timing --------------------------------------------------------------------------------

    @contextmanager
    def _share(self, on_step: Progress) -> Iterator[Progress]:
        """Hold the GPU beside others; each step makes way for whoever wants it alone."""
        with locks.beside_on(self.device) as make_way:

            def stepped(step: Step) -> None:
                make_way()
                on_step(step)

            yield stepped

    def _turn(
        self, exercise: Exercise, variant: Variant, on_step: Progress
    ) -> AbstractContextManager[None]:
        """Nobody else checks or times anything on this GPU meanwhile."""
        waiting = Step(exercise.name, variant.name, "waiting for the GPU")
        return locks.alone_on(self.device, lambda: on_step(waiting))

    def _performance(
        self,
        exercise: Exercise,
        variant: Variant,
        evidence: VariantEvidence,
        on_step: Progress,
        documents: Documents | None,
    ) -> PerformanceEvidence | None:
        if self.device != "cuda":
            return PerformanceEvidence(Status.not_measured, "timing needs an NVIDIA GPU")
        if reason := self.stopwatch.why_not(variant):
            return PerformanceEvidence(Status.not_measured, reason)
        if evidence.correctness is not Status.passed:
            return None
        return self.stopwatch.time(
            exercise, variant, lambda: self._turn(exercise, variant, on_step), documents
        )

    # --- rules -----------------------------------------------------------------------------------

    def violations(self, exercise: Exercise, variant: Variant) -> tuple[Failure, ...]:
        """What breaks the rules in the variant's file: nothing of it is run then."""
        data = self._file(variant.file)
        if not self.policy or self._is_lifted(exercise, variant) or isinstance(data, str):
            return ()
        key = (exercise.name, variant.name)
        if key not in self._found_violations:
            self._found_violations[key] = violations.find(exercise, variant, data)
        return self._found_violations[key]

    def _is_lifted(self, exercise: Exercise, variant: Variant) -> bool:
        return bool({exercise.name, f"{exercise.name}/{variant.name}"} & self.lifted)

    # --- what is opened on the way ---------------------------------------------------------------

    def _space(self, exercise, variant, dtype: str, size_class: str) -> Space:
        return Space(exercise, variant, dtype, size_class, self.seed)

    def _file(self, name: str) -> bytes | str:
        """The file's contents, read once; or, as text, why there are none."""
        if name not in self._files:
            self._files[name] = submitted.contents(self.submission / name)
        return self._files[name]

    def _modules(self) -> dict[str, bytes]:
        """The submission's Python files, which one that is graded may import."""
        return submitted.modules(self.submission)

    def _shown(self) -> str:
        """The submission as a reproduce line names it; "" for the default folder."""
        default = Path("assignment")
        return "" if self.submission.resolve() == default.resolve() else str(self.submission)


def keys_of(variant: Variant) -> list[tuple[str, str]]:
    """Its parts' names, dtype and size class, in their order."""
    return [(dtype, name) for dtype in variant.dtypes for name in variant.size_classes]
