"""Plans made on one machine and run on another: makes and evaluates their file.

    make(session, submission, tasks)   where the submission is; needs no GPU
    run(bundle, exercises)             where the GPU is; needs no submission

The GPU runs some cases of each part, and times. All cases by plan, and the use of memory, are
checked by `grader grade` on the first machine.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from grader import __version__
from grader.cases import Case, Space, arena, inputs
from grader.cases.compare import Verdict
from grader.evidence import (
    Evidence,
    Failure,
    MemoryEvidence,
    PartEvidence,
    VariantEvidence,
)
from grader.executors import gpu
from grader.executors.compile.kernels import facts
from grader.executors.gpu import bundle as bundles
from grader.executors.gpu.bundle import (
    MAX_DETAIL,
    MAX_DOCUMENT_BYTES,
    Bundle,
    BundleRunner,
    PlannedCase,
    PlannedPart,
    PlannedVariant,
)
from grader.executors.planning import blank_arguments
from grader.executors.runner import CaseResult, Runner
from grader.gpu import machine
from grader.grading.check import any_space, own_trouble
from grader.grading.search import Effort, failure_of, search_part, spread
from grader.grading.session import Options, Progress, Session, Step, unwatched
from grader.plan import Plan, Specialisation
from grader.sandbox import untrusted
from grader.spec import Exercise
from grader.spec.task import Task
from grader.status import Status
from grader.timing.buffer_sets import Layout
from grader.timing.contenders import FromPlans
from grader.timing.failures import TimingFailed
from grader.timing.timed_variant import cases_of
from grader.worker.protocol import Argument

EDGES = 2  # cases of a part that are always included
MOST_CASES = 8  # of a part: edges, and the first ones with a set of constants, dtypes and options
MOST_PLANNED = 24  # edges of a part that are planned to find those
ENOUGH_TIMEOUTS = 3  # of a variant's parts, after which planning it stops
MAX_BYTES = 160 << 20  # of all documents, compressed or not
NO_MEMORY = "counted without a GPU, by `grader grade` where the submission is"
# A failing case is rerun; a new case would need a plan that the file lacks.
_EFFORT = Effort(shrink_runs=0, probe_seconds=-1.0)


# --- where the submission is ----------------------------------------------------------------------


def make(
    session: Session,
    submission: str,
    tasks: Sequence[Task],
    on_step: Progress = unwatched,
) -> Bundle:
    """The plans of some tasks of a session's submission; `submission` is its name."""
    making = _Making(session, on_step)
    return making.bundle(submission, [making.variant(task, task.parts) for task in tasks])


def plan_case(session: Session, task: Task, case: Case) -> Plan | Failure:
    """An entry's plan for a case, or why there is none; runs no kernel.

    Raises SandboxError.
    """
    runners = session.runners
    if reason := runners.why_none(task.variant):
        return Failure(Status.not_measured, str(case), reason)
    planned = runners.planned(task).plans.plan_of(case, blank_arguments(task, case))
    if isinstance(planned, CaseResult):
        space = any_space(session, task, case.dtype)
        failure = failure_of(space, replace(planned, case=case), session.files.called)
        return session.files.placed(task.variant, failure)
    return planned


def plans_to_time(session: Session, task: Task, on_step: Progress = unwatched) -> bytes:
    """One task's plans to be timed by another process, to be read by `documents_of`."""
    making = _Making(session, on_step)
    planned = making.variant(task, parts=())
    return bundles.to_bytes(making.bundle("", [planned]))


_Made = TypeVar("_Made", bound=PlannedCase | None)


@dataclass
class _Making:
    """The plans of one submission; each document once, in the order of their making."""

    session: Session
    on_step: Progress
    documents: dict[bytes, int] = field(default_factory=dict)
    _met: set[str] = field(default_factory=set)  # specialisations of the variant's kernels

    def bundle(self, submission: str, variants: Sequence[PlannedVariant]) -> Bundle:
        """The bundle of variants that were planned by this object."""
        return Bundle(
            submission=untrusted.clean(submission)[:400],
            seed=self.session.seed,
            warpgrade=__version__,
            capability=machine.capability(),
            versions={name: machine.version_of(name) for name in ("triton", "torch")},
            variants=tuple(variants),
            documents=tuple(self.documents),
        )

    def variant(self, task: Task, parts: Sequence[tuple[str, str]]) -> PlannedVariant:
        """A task's plans: cases of some parts, and the cases to time."""
        exercise, variant = task.exercise, task.variant
        evidence = self.session.blank_evidence(task)
        planned: list[PlannedPart] = []
        timed: list[PlannedCase] = []
        failed: list[Status] = []
        if not evidence.not_attempted:
            self._met.clear()
            for dtype, size_class in parts:
                self.on_step(Step.at(task, f"{dtype} {size_class}"))
                space = Space(task, dtype, size_class, self.session.seed)
                planned.append(PlannedPart(dtype, size_class, tuple(self._cases(task, space))))
                failed += [case.status for case in planned[-1].cases if case.status.is_failure]
                if failed.count(Status.timed_out) == ENOUGH_TIMEOUTS:
                    break
            is_timed = variant.is_graded_on_speed and not failed
            for case in cases_of(task, self.session.seed) if is_timed else ():
                self.on_step(Step.at(task, "what is timed"))
                timed.append(self._guarded(task, case, self._timed))
        self.session.runners.close_variant(task)
        return PlannedVariant(
            exercise.name,
            variant.name,
            variant.file,
            evidence.sha256,
            bundles.spec_hash(exercise),
            evidence.not_attempted[:MAX_DETAIL],
            tuple(planned),
            tuple(timed),
        )

    def _cases(self, task: Task, space: Space) -> Iterator[PlannedCase]:
        """Cases of a part: two edge cases, and each that is the first with its constants."""
        edges = space.edges()
        always = spread(edges, EDGES)
        count = 0
        for case in dict.fromkeys([*always, *spread(edges, MOST_PLANNED)]):
            made = self._guarded(task, case, partial(self._run, always=case in always))
            if made is not None:
                yield made
                count += 1
            if count == MOST_CASES or (made is not None and made.status.is_failure):
                return

    def _run(self, task: Task, case: Case, always: bool) -> PlannedCase | None:
        """A case to be judged; unless `always`, None where its kernels are included already."""
        plans = self.session.runners.plans_of(task)
        with contextlib.ExitStack() as opened:
            planned = plans.planned(case, *_placed(task, case, opened))
            if isinstance(planned, CaseResult):
                return _refused(case, planned)
            kernels = [k for k in planned.specialisations if isinstance(k, Specialisation)]
            new = {fact for kernel in kernels for fact in facts(kernel)} - self._met
            if not always and not new:
                return None
            self._met |= new
            made = gpu.document(plans, case, planned)
        return self._kept(case, [made]) if isinstance(made, bytes) else _refused(case, made)

    def _timed(self, task: Task, case: Case) -> PlannedCase:
        """A case to be timed, with each configuration of a tuned kernel."""
        plans = FromPlans(self.session.runners.plans_of(task))
        arguments = Layout.of(task, case).arguments(0)
        return self._kept(case, plans.documents(case, arguments))

    def _guarded(
        self, task: Task, case: Case, make: Callable[[Task, Case], _Made]
    ) -> PlannedCase | _Made:
        """The result of `make`, or why it failed; the grader's own errors have their status."""
        try:
            for violation in self.session.rules.violations(task):
                verdict = Verdict(violation.status, violation.what)
                return _refused(case, CaseResult(case, verdict, hint=violation.hint))
            return make(task, case)
        except TimingFailed as failed:
            return _refused(case, CaseResult(case, Verdict(failed.status, str(failed))))
        except Exception as error:
            verdict = Verdict(Status.grader_error, own_trouble(error))
            return _refused(case, CaseResult(case, verdict))

    def _kept(self, case: Case, made: Sequence[bytes]) -> PlannedCase:
        more = sum(len(each) for each in made if each not in self.documents)
        if more > MAX_DOCUMENT_BYTES or sum(map(len, self.documents)) + more > MAX_BYTES:
            size = f"{MAX_DOCUMENT_BYTES >> 20} MiB for a case, {MAX_BYTES >> 20} MiB in all"
            what = f"its kernels have {more >> 20} MiB, and a file of plans has room for {size}."
            return _refused(case, CaseResult(case, Verdict(Status.not_measured, what)))
        numbers = [self.documents.setdefault(each, len(self.documents)) for each in made]
        return PlannedCase(str(case), tuple(numbers))


def _placed(
    task: Task, case: Case, opened: contextlib.ExitStack
) -> tuple[list[Argument], Sequence[tuple[int, int, bool]]]:
    """A case's arguments as they will lie in an arena, and the memory that a planner may read.

    Only host memory has data here, since the entry may read that.
    """
    made = inputs.blank(task, case)
    if all(slot.space == "device" for slot in made.slots):
        return made.arguments(arena.described(made.slots)), ()
    made = inputs.make(task, case)
    size = arena.required_bytes(made.slots)
    memory = opened.enter_context(arena.Arena(size, size))
    return made.arguments([each.argument for each in memory.place(made.slots)]), memory.buffers


def _refused(case: Case, why: CaseResult) -> PlannedCase:
    status = Status.not_measured if why.status is Status.passed else why.status
    what, hint, detail = (
        untrusted.clean(text)[:MAX_DETAIL] for text in (why.verdict.what, why.hint, why.detail)
    )
    return PlannedCase(str(case), (), status, what, hint, detail, why.line)


# --- where the GPU is -----------------------------------------------------------------------------


@dataclass(frozen=True)
class FromBundle:
    """Plans to be timed, from a file."""

    bundle: Bundle
    planned: PlannedVariant

    def documents(self, case: Case, arguments: Sequence[Argument]) -> Sequence[bytes]:
        """As timing's Documents says."""
        case_plan = {each.case: each for each in self.planned.timed}.get(str(case))
        if case_plan is None or not case_plan.documents:
            why = bundles.refusal(case_plan, case)
            raise TimingFailed(why.verdict.what, why.status)
        return [self.bundle.documents[number] for number in case_plan.documents]


def documents_of(data: bytes) -> FromBundle:
    """The plans that `plans_to_time` made in another process."""
    bundle = bundles.from_bytes(data)
    return FromBundle(bundle, bundle.variants[0])


def run(
    bundle: Bundle,
    exercises: Mapping[str, Exercise],
    on_step: Progress = unwatched,
) -> Evidence:
    """The evidence of running a bundle on this machine's GPU. Ctrl-C keeps finished tasks'."""
    started = time.monotonic()
    done: list[VariantEvidence] = []
    files = {v.file: "planned elsewhere" for e in exercises.values() for v in e.variants.values()}
    options = Options(seed=bundle.seed, device="cuda")
    with Session(Path("assignment"), exercises, options, files=files) as session:
        try:
            for planned in bundle.variants:
                done.append(_variant(session, bundle, planned, on_step))
        except KeyboardInterrupt:
            pass
        environment = session.environment()
    environment["planned"] = {**bundle.versions, "capability": bundle.capability}
    left = bundle.variants[len(done) :]
    return Evidence(
        submission=untrusted.brief(bundle.submission),
        seed=bundle.seed,
        variants=(*done, *map(_blank_evidence, left)),
        environment=environment,
        seconds=round(time.monotonic() - started, 3),
        complete=not left,
    )


def origin(observed: Evidence) -> str:
    """What the report of a run is based on, and what the submission's machine has to check."""
    run = sum(part.cases_run for variant in observed.variants for part in variant.parts)
    return (
        f"Planned elsewhere: {run} cases were run on this GPU. All cases and the use of memory are "
        "checked by `grader grade` where the submission is."
    )


def _blank_evidence(planned: PlannedVariant) -> VariantEvidence:
    reason = untrusted.clean(planned.not_attempted)
    return VariantEvidence(planned.exercise, planned.variant, planned.file, planned.sha256, reason)


def _variant(
    session: Session, bundle: Bundle, planned: PlannedVariant, on_step: Progress
) -> VariantEvidence:
    """One variant: its cases, judged against the oracle, and its times where they are right."""
    exercise = session.exercises[planned.exercise]
    task = Task(exercise, exercise.variants[planned.variant])
    evidence = _blank_evidence(planned)
    if planned.not_attempted:
        return evidence
    memory = MemoryEvidence(Status.not_measured, NO_MEMORY) if task.variant.memory else None
    parts = tuple(_parts(session, bundle, planned, task, on_step))
    evidence = replace(evidence, parts=parts, memory=memory)
    if not task.variant.is_graded_on_speed or evidence.correctness is not Status.passed:
        return evidence
    on_step(Step.at(task, "timing"))
    documents = FromBundle(bundle, planned)
    timed = session.stopwatch.time(task, documents=documents)
    return replace(evidence, performance=timed)


def _parts(
    session: Session, bundle: Bundle, planned: PlannedVariant, task: Task, on_step: Progress
) -> Iterator[PartEvidence]:
    """Every part of a task."""
    here = {(part.dtype, part.size_class): part.cases for part in planned.parts}
    cases = {each.case: each for part in planned.parts for each in part.cases}
    sandbox = session.runners.sandbox_of("cuda")
    with BundleRunner(sandbox, task, bundle, cases) as runner:
        for dtype, size_class in task.parts:
            on_step(Step.at(task, f"{dtype} {size_class}"))
            space = Space(task, dtype, size_class, bundle.seed)
            given = {each.case for each in here.get((dtype, size_class), ())}
            chosen = [case for case in space.edges() if str(case) in given]  # no others are made
            yield _part(space, runner, chosen)


def _part(space: Space, runner: Runner, chosen: list[Case]) -> PartEvidence:
    key = space.dtype, space.size_class
    if not chosen:
        reason = "the file has no case of it"
        return PartEvidence(*key, Status.not_measured, reason=reason)
    lacking = [case for case in spread(space.edges(), EDGES) if case not in chosen]
    try:
        part = search_part(space, runner, _EFFORT, chosen=chosen)
        if part.status is Status.passed and lacking:
            reason = f"the file lacks {lacking[0]}, which `grader plan` always includes"
            return PartEvidence(*key, Status.not_measured, reason=reason)
        return part
    except Exception as error:
        return PartEvidence(*key, Status.grader_error, reason=own_trouble(error))
