"""Grading one submission: what `grader grade`, pytest and batch all call."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from grader import gpu_memory, gpu_turns, machine, pool
from grader.allowed_paths import DeviceName
from grader.correctness import Effort
from grader.evidence import (
    Evidence,
    MemoryEvidence,
    PartEvidence,
    PerformanceEvidence,
    VariantEvidence,
)
from grader.session import (
    MAX_FILE_BYTES,
    PUBLIC_SEED,
    Progress,
    Session,
    Step,
    SubmissionError,
    keys_of,
    selected,
)
from grader.spec import Exercise, Variant
from grader.status import Status

__all__ = [
    "MAX_FILE_BYTES",
    "PUBLIC_SEED",
    "Progress",
    "Session",
    "Step",
    "SubmissionError",
    "expect_files",
    "grade",
    "selected",
]

LOST = "the grader's own process was killed, twice: for want of memory?"
LOST_TIMING = "the grader's own process was killed while it timed"

_Pair = tuple[Exercise, Variant]


def grade(
    submission: Path,
    exercises: Mapping[str, Exercise],
    *,
    seed: int = PUBLIC_SEED,
    only: Sequence[str] = (),
    device: DeviceName | None = None,
    effort: Effort | None = None,
    require_sandbox: bool = False,
    lifted: Sequence[str] = (),
    jobs: int = 1,
    on_step: Progress = lambda step: None,
) -> Evidence:
    """Everything that can be observed about a submission on this machine.

    `only` and `lifted` hold names of exercises (`rmsnorm`) or variants (`rmsnorm/triton`); the
    latter may break the rules of the assignment. With `jobs` processes, variants are checked side
    by side; what needs a GPU for itself, timing above all, comes after that, in this process, or,
    where there are several GPUs, in one for each of them.
    Ctrl-C ends it with the evidence of the variants that were done, marked incomplete. Raises
    SubmissionError when the folder isn't there, ConfinementError where a sandbox is required and
    there is none.
    """
    started = time.monotonic()
    options = _Options(exercises, seed, device, effort, require_sandbox, tuple(lifted))
    asked_for = selected(exercises, only)
    checked: dict[int, VariantEvidence] = {}
    done: dict[int, VariantEvidence] = {}
    complete = True
    with options.session(submission) as session:
        options = replace(options, device=session.device)
        try:
            if jobs > 1 and len(asked_for) > 1:
                if session.device == gpu_turns.ON_GPU:  # what takes seconds, meanwhile
                    session.stopwatch.begin()
                with _compiling_ahead(session, asked_for, checked):
                    for index, seen in _side_by_side(session, options, asked_for, jobs, on_step):
                        checked[index] = seen
            for index, seen in _on_each_gpu(session, options, asked_for, checked, on_step):
                done[index] = seen
            for index, pair in enumerate(asked_for):
                if index not in checked:
                    checked[index] = session.beside(*pair, on_step)
                if index not in done:
                    done[index] = session.alone(*pair, checked[index], on_step)
        except KeyboardInterrupt:
            complete = False
            if session.device != "cuda":  # nothing more is to be run for these
                for index in checked.keys() - done.keys():
                    done[index] = session.alone(*asked_for[index], checked[index])
        variants = [done.get(i) or session.unseen(*pair) for i, pair in enumerate(asked_for)]
        sandbox = session.sandbox
        environment = machine.environment(session.device, sandbox.description)
        environment["confinement"] = sandbox.confinement.told
        if session.device == "cuda":
            environment["gpu_memory"] = how_memory_reaches_workers(session.runners.not_shared)
        if lifted:
            environment["rules_lifted"] = sorted(lifted)
    return Evidence(
        submission=_in_utf8(submission.name or str(submission)),
        seed=seed,
        variants=tuple(variants),
        environment=environment,
        seconds=round(time.monotonic() - started, 3),
        complete=complete,
    )


def how_memory_reaches_workers(refused: str) -> str:
    """How tensors come to kernels on the GPU, for the evidence; `refused` is why not shared."""
    refused = refused or gpu_memory.why_not_shared()
    return f"copied: {refused}" if refused else "shared with workers"


def expect_files(submission: Path, exercises: Mapping[str, Exercise]) -> None:
    """Raise SubmissionError for a folder with no file of any exercise: it must be the wrong one."""
    names = [v.file for exercise in exercises.values() for v in exercise.variants.values()]
    if submission.is_dir() and not any((submission / name).exists() for name in names):
        oracles = (submission / "oracles.py").exists()
        why = ": the students' release has no solutions" if oracles else ""
        raise SubmissionError(
            f"{submission}: expected a folder like assignment/, with {names[0]} or other files of "
            f"exercises; found none{why}"
        )


def _in_utf8(name: str) -> str:
    """A folder's name as text that can be written, whatever bytes it is made of."""
    return name.encode("utf-8", "replace").decode()


# --- side by side -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Options:
    """What every session of one grading has in common."""

    exercises: Mapping[str, Exercise]
    seed: int
    device: DeviceName | None
    effort: Effort | None
    require_sandbox: bool
    lifted: tuple[str, ...]

    def session(self, submission: Path, files: Mapping[str, bytes | str] | None = None) -> Session:
        return Session(
            submission,
            self.exercises,
            seed=self.seed,
            device=self.device,
            effort=self.effort,
            require_sandbox=self.require_sandbox,
            lifted=self.lifted,
            files=files,
        )


def _side_by_side(
    session: Session,
    options: _Options,
    pairs: Sequence[_Pair],
    jobs: int,
    on_step: Progress,
) -> Iterator[tuple[int, VariantEvidence]]:
    """What `Session.beside` shows of each variant, by its place in `pairs`, as they come.

    Exercises worth most, which take longest, come first, so that none of them is left for last.
    """
    places = _by_worth(pairs)
    shares = [each for index in places for each in _shares(index, pairs[index][1], options.device)]
    shares.sort(key=lambda share: share.counts)  # when there is nothing else to begin with
    with pool.Pool(min(jobs, len(shares))) as processes:
        checking = _Checking(session, options, pairs, processes, on_step)
        for share in shares:
            checking.submit(share)
        while checking.waiting:
            for future in as_completed(list(checking.waiting)):
                yield from checking.take(future)


@contextmanager
def _compiling_ahead(
    session: Session, pairs: Sequence[_Pair], checked: Mapping[int, VariantEvidence]
) -> Iterator[None]:
    """Compile what will be timed, on a GPU, while nothing else is to do in this process.

    What is `checked` by then and wrong will not be timed.
    """
    if session.device != gpu_turns.ON_GPU:
        yield
        return
    over = threading.Event()

    def compile_each() -> None:
        for index in _by_worth(pairs):
            seen = checked.get(index)
            if seen is None or seen.correctness is Status.passed:
                session.compile_ahead(*pairs[index], over.is_set)

    compiling = threading.Thread(target=compile_each, daemon=True)
    compiling.start()
    try:
        yield
    except BaseException:  # nobody waits: with its sandbox ends what it waits for
        over.set()
        raise
    over.set()
    compiling.join()


def _by_worth(pairs: Sequence[_Pair]) -> list[int]:
    """Their places: exercises worth most first, and in each the variants worth most."""
    worth = [(exercise.max_points, variant.max_points) for exercise, variant in pairs]
    return sorted(range(len(pairs)), key=worth.__getitem__, reverse=True)


@dataclass(frozen=True)
class _Share:
    """Some of the work on the variant at `index`: all of it; or a few of its parts; or counting
    its accesses to memory."""

    index: int
    keys: tuple[tuple[str, str], ...] = ()
    counts: bool = False
    is_again: bool = False  # the process that had it before was lost

    @property
    def is_all(self) -> bool:
        """Whether there is no more to do on the variant than this."""
        return not self.keys and not self.counts


def _shares(index: int, variant: Variant, device: str | None) -> list[_Share]:
    """How the parts of a variant are shared out.

    On a GPU, where checking is compiling, the size classes of a Triton variant are checked side by
    side, each with all its dtypes: to start a worker there takes seconds. Its accesses are counted
    in the interpreter meanwhile: that takes an idle core, and of a variant that turns out to be
    wrong they are forgotten. In the interpreter and of CUDA C++, which is compiled once, a variant
    is one process's work.
    """
    if device == gpu_turns.ON_GPU and variant.language == "triton":
        keys = keys_of(variant)
        classes = dict.fromkeys(size_class for _, size_class in keys)
        parts = [_Share(index, tuple(k for k in keys if k[1] == each)) for each in classes]
        return parts + [_Share(index, counts=True)] * (variant.memory is not None)
    return [_Share(index)]


class _Checking:
    """The variants of one grading being checked in processes, and what came of them so far."""

    def __init__(
        self,
        session: Session,
        options: _Options,
        pairs: Sequence[_Pair],
        processes: pool.Pool,
        on_step: Progress,
    ) -> None:
        self.waiting: dict[Future[Any], _Share] = {}
        self._session, self._pairs, self._processes = session, pairs, processes
        self._on_step = on_step
        self._given = (uuid4().hex, session.submission, session.files, options)
        self._parts: dict[int, dict[tuple[str, str], PartEvidence]] = {}
        self._memory: dict[int, MemoryEvidence | None] = {}

    def submit(self, share: _Share) -> None:
        """Have a share done."""
        exercise, variant = self._pairs[share.index]
        arguments = (*self._given, exercise.name, variant.name)
        if share.is_all:
            work = (_check_all, *arguments)
        else:
            work = (_count, *arguments) if share.counts else (_check, *arguments, share.keys)
        self.waiting[self._processes.submit(*work, told=self._on_step)] = share

    def take(self, future: Future[Any]) -> Iterator[tuple[int, VariantEvidence]]:
        """Take in what a process found; the variant's evidence, where that was the last of it."""
        share = self.waiting.pop(future)
        try:
            found = future.result()
        except pool.Lost:
            if not share.is_again:
                self.submit(replace(share, is_again=True))
                return
            found = self._lost(share)
        if share.is_all:
            yield share.index, found
            return
        if share.counts:
            self._memory[share.index] = found
        else:  # none where there is no file
            parts = self._parts.setdefault(share.index, {})
            parts.update(((part.dtype, part.size_class), part) for part in found)
        if all(each.index != share.index for each in self.waiting.values()):
            yield share.index, self._put_together(share.index)

    def _put_together(self, index: int) -> VariantEvidence:
        """A variant's evidence from that of its shares."""
        exercise, variant = self._pairs[index]
        parts = self._parts.get(index, {})
        ordered = tuple(parts[key] for key in keys_of(variant) if key in parts)
        evidence = replace(self._session.unseen(exercise, variant), parts=ordered)
        if evidence.correctness is not Status.passed:
            return evidence
        return replace(evidence, memory=self._memory.get(index))

    def _lost(self, share: _Share) -> VariantEvidence | MemoryEvidence | list[PartEvidence]:
        """In place of what a process would have found that was lost twice."""
        if share.counts:
            return MemoryEvidence(Status.grader_error, LOST)
        exercise, variant = self._pairs[share.index]
        keys = share.keys or keys_of(variant)
        parts = [PartEvidence(*key, Status.grader_error, reason=LOST) for key in keys]
        if not share.is_all:
            return parts
        return replace(self._session.unseen(exercise, variant), parts=tuple(parts))


_kept: dict[str, Session] = {}  # in a process of the pool: the session of the grading it works for


def _check(
    kept_as: str,
    submission: Path,
    files: Mapping[str, bytes | str],
    options: _Options,
    exercise: str,
    variant: str,
    keys: Sequence[tuple[str, str]],
) -> tuple[PartEvidence, ...]:
    """Some parts of a variant, in a process of a pool, whose session and sandbox stay."""
    session, spec = _opened(kept_as, submission, files, options), options.exercises[exercise]
    pool.tell(Step(exercise, variant))
    return session.parts(spec, spec.variants[variant], keys, pool.tell)


def _check_all(
    kept_as: str,
    submission: Path,
    files: Mapping[str, bytes | str],
    options: _Options,
    exercise: str,
    variant: str,
) -> VariantEvidence:
    """All of a variant but what needs a GPU for itself."""
    session, spec = _opened(kept_as, submission, files, options), options.exercises[exercise]
    return session.beside(spec, spec.variants[variant], pool.tell)


def _count(
    kept_as: str,
    submission: Path,
    files: Mapping[str, bytes | str],
    options: _Options,
    exercise: str,
    variant: str,
) -> MemoryEvidence | None:
    """What a variant does to memory, whether or not it is right; None where it has no file."""
    session, spec = _opened(kept_as, submission, files, options), options.exercises[exercise]
    if session.not_attempted(spec.variants[variant]):
        return None
    return session.count(spec, spec.variants[variant], pool.tell)


def _opened(
    kept_as: str, submission: Path, files: Mapping[str, bytes | str], options: _Options
) -> Session:
    """In a process of a pool that shares its GPU: its session."""
    if options.device == gpu_turns.ON_GPU:  # before anything here uses CUDA
        gpu_turns.settle(alone=False)
    return _session(kept_as, submission, files, options)


def _session(
    kept_as: str, submission: Path, files: Mapping[str, bytes | str], options: _Options
) -> Session:
    """In a process of a pool: its session, opened once."""
    if not _kept:
        _kept[kept_as] = options.session(submission, files)
        pool.at_end(_kept[kept_as].__exit__)
    return _kept[kept_as]


# --- on each GPU ----------------------------------------------------------------------------------


def _on_each_gpu(
    session: Session,
    options: _Options,
    pairs: Sequence[_Pair],
    checked: Mapping[int, VariantEvidence],
    on_step: Progress,
) -> Iterator[tuple[int, VariantEvidence]]:
    """What `Session.alone` adds, where several GPUs can time; by place in `pairs`, as they come.

    Nothing where there is one GPU, or one variant to be timed.
    """
    right = [index for index, seen in checked.items() if seen.correctness is Status.passed]
    timed = sorted(index for index in right if pairs[index][1].performance is not None)
    gpus = len(gpu_turns.visible()) if session.device == gpu_turns.ON_GPU else 1
    if gpus > 1 and len(timed) > 1:
        yield from _timed_in_pool(session, options, pairs, checked, timed, gpus, on_step)


def _timed_in_pool(
    session: Session,
    options: _Options,
    pairs: Sequence[_Pair],
    checked: Mapping[int, VariantEvidence],
    timed: Sequence[int],
    width: int,
    on_step: Progress,
) -> Iterator[tuple[int, VariantEvidence]]:
    """One process for each of `width` GPUs. What kills one of them costs its own variant."""
    files = session.files
    kept_as = uuid4().hex
    with pool.Pool(min(width, len(timed))) as processes:
        waiting = {}
        for index in timed:
            names = (pairs[index][0].name, pairs[index][1].name)
            arguments = (kept_as, session.submission, files, options, *names, checked[index])
            waiting[processes.submit(_alone, *arguments, told=on_step)] = index
        for future in as_completed(waiting):
            index = waiting[future]
            try:
                yield index, future.result()
            except pool.Lost:
                lost = PerformanceEvidence(Status.grader_error, LOST_TIMING)
                yield index, replace(checked[index], performance=lost)


def _alone(
    kept_as: str,
    submission: Path,
    files: Mapping[str, bytes | str],
    options: _Options,
    exercise: str,
    variant: str,
    checked: VariantEvidence,
) -> VariantEvidence:
    """One variant on a GPU of this process's own; where other commands own them all, in turns."""
    if options.device == gpu_turns.ON_GPU:  # before anything here uses CUDA
        try:
            gpu_turns.settle(alone=True)
        except gpu_turns.GpuError:
            gpu_turns.settle(alone=False)
    session = _session(kept_as, submission, files, options)
    spec = options.exercises[exercise]
    return session.alone(spec, spec.variants[variant], checked, pool.tell)
