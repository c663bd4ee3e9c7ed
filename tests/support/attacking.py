"""Runs an attack under one layer, or under all of them, and judges the result.

run(attack, layer, level)    with one layer on
run_all(attack)              with every layer on, as a class is graded
harm(attack)                 with none on
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from grader.cases import Space
from grader.evidence import Evidence, PartEvidence, VariantEvidence, to_json
from grader.executors.compile import frontend, kernels
from grader.executors.cuda import cuda_build, native_planner
from grader.gpu.devices import DeviceName
from grader.grading import source_rules
from grader.grading.check import check_case, check_memory, check_part
from grader.grading.search import Effort
from grader.grading.session import Options, Session
from grader.sandbox import Sandbox, confinement, worker_process
from grader.sandbox.confinement import Level
from grader.sandbox.seccomp import FilterError
from grader.scoring import memory_bounds
from grader.spec import Exercise
from grader.spec.blocks import Limits
from grader.spec.task import Task
from grader.status import Status
from tests.support.attacks import (
    EXERCISES,
    ROOT,
    Attack,
    Layer,
)
from tests.support.canaries import Canaries

SEED = 7
ESCAPED = "ESCAPED"  # the message of an attack that succeeded
# Enough calls for attacks that begin honestly, and little time after a failure.
BRIEF = Effort(
    repair_seconds=0,  # what changes would undo is told by tests of their own
    edges=8,
    drawn=3,
    shrink_runs=1,
    shrink_seconds=1.0,
    probe_seconds=0.0,
    shrink_timeouts=0,
    reruns=3,
    enough=2,
)
# They close their socket and stay: each failure waits a second for their end.
LINGERING = frozenset({"answers_nothing_at_all", "shuts_the_socket_down"})
# The compiler exceeds its time with them.
COMPILING_ON = frozenset({"compiles_for_ever"})
# They answer for the host and then wait: the rest of their time is cut.
WAITING = frozenset({"blames_the_host_cu"})
FEWEST = replace(BRIEF, shrink_runs=0, reruns=1, enough=1)
# Limits that an attack is meant to exceed; the others have the exercise's own.
SHORT = Limits(seconds=1.0)
SMALL = Limits(memory_mb=256)
COMPILE_SECONDS = 2.0  # for an attack that is meant to exceed its time
LITTLE_SECONDS = 0.5  # of the compiler, for an attack on which it would work for ever
# The same for CUDA C++, which starts sooner and has fewer of these ways.
BRIEF_CUDA = replace(BRIEF, edges=3, drawn=2, shrink_runs=0, probe_seconds=0.0, enough=None)
SHORT_COMPILE = worker_process.Limits(1.0, 1 << 30)

_Kind = tuple[DeviceName, str]  # a language
PEACEFUL = {Layer.policy, Layer.comparison, Layer.plan, Layer.boundary}
OUTWARD = {Layer.policy, Layer.sandbox}
_neighbours: dict[_Kind, Session] = {}
_sandboxes: dict[tuple[Level | None, bool], Sandbox] = {}  # and whether its attack may leave things
_last_unconfined: dict[tuple[str, DeviceName, bool], _Seen] = {}


@dataclass(frozen=True)
class Result:
    """The result of one attack under one layer."""

    status: Status | None = None
    troubles: tuple[str, ...] = ()  # why the layer did not hold it
    skipped: str = ""  # why it was not tried
    seconds: float = 0.0

    @property
    def held(self) -> bool:
        """Whether the layer did its part."""
        return not self.troubles


def run(
    attack: Attack, layer: Layer, level: Level | None = None, device: DeviceName = "cpu"
) -> Result:
    """Run one attack with one layer on. `level` is the sandbox layer's, and needed there."""
    started = time.monotonic()
    if layer is Layer.policy:
        seen = _source_read(attack)
    else:
        reason = why_not(level or Level.limits, device)
        if reason:
            return Result(skipped=reason)
        if layer is Layer.sandbox:
            seen = _observe(attack, device, level)
        elif layer is Layer.plan:
            seen = _observe(attack, device, Level.limits, watched=True, guarded=True)
        else:
            guarded = layer in (Layer.emulator, Layer.counters)
            seen = _unconfined(attack, device, guarded)
    troubles = tuple(_troubles(attack, layer, seen, device))
    return Result(seen.status, troubles, seconds=time.monotonic() - started)


def run_all(attack: Attack, device: DeviceName = "cpu") -> Result:
    """Run one attack with every layer on, as a class is graded.

    An attack on the sandbox is skipped without one: it would prove nothing.
    """
    started = time.monotonic()
    confined = [why_not(level, device) for level in Level if level is not Level.limits]
    if Layer.sandbox in attack.layers and all(confined):
        return Result(skipped=f"no sandbox here: {'; '.join(confined)}")
    seen = _observe(attack, device, None, policy=True, guarded=True)
    troubles = [*seen.touched, *seen.told]
    if seen.status is not attack.status and not _is_elsewhere(device):
        troubles.append(f"expected {attack.status.value}, got {seen}")
    if _earns(seen) and attack.status is not Status.passed:
        troubles.append(f"it earned {seen}")
    return Result(seen.status, tuple(troubles), seconds=time.monotonic() - started)


def harm(attack: Attack) -> list[str]:
    """The effects of an attack on the sandbox without one; none would mean that it is lame."""
    seen = _unconfined(attack, "cpu")
    return [*seen.touched, *seen.told]


def _neighbour(kind: _Kind) -> Session:
    """An honest submission that is graded in this process meanwhile (see `end_neighbours`)."""
    if kind not in _neighbours:
        _neighbours[kind] = Session(
            ROOT / "reference",
            EXERCISES,
            Options(
                seed=SEED,
                device=kind[0],
                effort=replace(BRIEF, compile_ahead=False),
                level=Level.limits,
                check_with_nvcc=False,
                backends=("emulator",),
            ),
        )
    return _neighbours[kind]


def end_neighbours() -> None:
    """End the honest submissions that were graded meanwhile."""
    while _neighbours:
        _neighbours.popitem()[1].__exit__()
    while _sandboxes:
        _sandboxes.popitem()[1].close()


def _neighbours_status(kind: _Kind) -> Status:
    """The status of the next case of the honest submission in the attack's language."""
    exercise = EXERCISES["silu"]
    variant = exercise.variants[kind[1]]
    case = Space(Task(exercise, variant), "float32", "ragged", SEED).edges()[7]
    return check_case(_neighbour(kind), Task(exercise, variant), case).status


def why_not(level: Level, device: DeviceName = "cpu") -> str:
    """Why a level isn't available on this machine; "" where it is."""
    offer = next(each for each in confinement.probe(device) if each.level is level)
    return "" if offer.works else f"no {level.value} here: {offer.reason}"


def _is_elsewhere(device: DeviceName) -> bool:
    """Whether the same failure may show at another step on a GPU, under another name."""
    return device != "cpu"


@dataclass(frozen=True)
class _Seen:
    """The observations of a run."""

    status: Status
    reason: str = ""
    touched: tuple[str, ...] = ()  # canaries
    told: tuple[str, ...] = ()  # secrets
    after: Status = Status.passed  # of the neighbour's next case

    def __str__(self) -> str:
        return f"{self.status.value} ({self.reason})" if self.reason else self.status.value


def _troubles(attack: Attack, layer: Layer, seen: _Seen, device: DeviceName) -> Iterator[str]:
    """Why the layer alone did not stop the attack."""
    expected = attack.layers[layer]
    yield from seen.touched
    if layer is Layer.sandbox:
        yield from seen.told
    elif _earns(seen) and (expected or attack.status) is not Status.passed:
        yield f"it earned {seen}"  # where all layers let it pass, its kernels have earned that
    if layer is Layer.boundary and seen.after is not Status.passed:
        yield f"another submission got {seen.after.value}"
    if expected is not None and seen.status is not expected and not _is_elsewhere(device):
        yield f"expected {expected.value}, got {seen}"


def _source_read(attack: Attack) -> _Seen:
    data = attack.source.encode("utf-8", "surrogateescape")
    found = source_rules.violations_of(Task(attack.exercise, attack.variant), data)
    return _Seen(Status.policy_violation if found else Status.passed)


def _earns(seen: _Seen) -> bool:
    """Whether it would be worth points, or an excuse for another try.

    A result that can't be judged without a GPU is worth nothing here.
    """
    return not seen.status.is_failure and seen.status is not Status.not_measured


def _unconfined(attack: Attack, device: DeviceName, guarded: bool = False) -> _Seen:
    """A run with neither policy nor sandbox; the last one is cached, as two layers judge it."""
    key = (attack.name, device, guarded)
    if key not in _last_unconfined:
        _last_unconfined.clear()
        seen = _observe(attack, device, Level.limits, guarded=guarded)
        after = _neighbours_status((device, attack.variant.language))
        _last_unconfined[key] = replace(seen, after=after)
    return _last_unconfined[key]


def _observe(
    attack: Attack,
    device: DeviceName,
    level: Level | None,
    policy: bool = False,
    watched: bool = False,
    guarded: bool = False,
) -> _Seen:
    if attack.variant.language == "triton":
        _sandbox_for(attack, level)  # started now, so that it isn't taken for what is left
    with Canaries() as canaries:
        if attack.variant.language == "cuda":
            part = _grade_cuda(attack, canaries, level, policy, guarded, watched)
        else:
            part = _grade(attack, canaries, device, level, policy, watched)
        told = tuple(_leaks(part, canaries))
        return _Seen(part.status, _reason(part), tuple(canaries.touched()), told)


def _limited(attack: Attack) -> Exercise:
    """The exercise, with limits that an attack on them soon exceeds."""
    statuses = {attack.status, *attack.layers.values()}
    exercise = attack.exercise
    for status, limits in ((Status.timed_out, SHORT), (Status.out_of_memory, SMALL)):
        if status in statuses or (limits == SHORT and attack.name in WAITING):
            exercise = exercise.model_copy(update={"limits": limits})
    return exercise


def _grade(
    attack: Attack,
    canaries: Canaries,
    device: DeviceName,
    level: Level | None,
    policy: bool,
    watched: bool,
) -> PartEvidence:
    """One part. `watched` has the rules on plans on though the policy is off."""
    exercise = _limited(attack)
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="warpgrade-attack-")))
        attack.write(root / "submission", canaries.known)
        if exercise.limits == SHORT or attack.name in COMPILING_ON:
            seconds = LITTLE_SECONDS if attack.name in COMPILING_ON else COMPILE_SECONDS
            brief = worker_process.Limits(seconds, 2 << 30)
            for module, name in ((frontend, "LIMITS"), (kernels, "BACKEND_LIMITS")):
                stack.enter_context(mock.patch.object(module, name, brief))
            stack.enter_context(mock.patch.object(kernels, "COMPILE_SECONDS", 2 * seconds))
        if watched:
            stack.enter_context(mock.patch.object(source_rules, "violations_of", return_value=()))
        sandbox = _sandbox_for(attack, level)
        stack.callback(_emptied, attack, level, sandbox)
        session = stack.enter_context(
            Session(
                root / "submission",
                EXERCISES,
                Options(
                    seed=SEED,
                    device=device,
                    effort=replace(
                        FEWEST if attack.name in LINGERING else BRIEF,
                        compile_ahead=_is_for_the_compiler(attack),
                    ),
                    level=level,
                    policy=policy or watched,
                    keeps_builds=False,
                ),
                sandbox=sandbox,
            )
        )
        return check_part(session, Task(exercise, attack.variant), "float32", "ragged")


def _is_for_the_compiler(attack: Attack) -> bool:
    """Whether compiling ahead, half of the time, affects the result."""
    statuses = {attack.status, *attack.layers.values()}
    return "compile" in attack.name or Status.compile_error in statuses


def _may_leave_things(attack: Attack) -> bool:
    """Whether an attack is on the sandbox itself, its other processes or its space.

    Others touch nothing outside their worker, or reach only for things outside of the sandbox. A
    submission of several files would stay there, too.
    """
    return bool(attack.others) or not any({*attack.layers} <= kind for kind in (PEACEFUL, OUTWARD))


def _sandbox_for(attack: Attack, level: Level | None) -> Sandbox:
    """A sandbox that goes on with the next attack: to start one takes longer than most run."""
    key = (level, _may_leave_things(attack))
    if key not in _sandboxes:
        _sandboxes[key] = Sandbox("cpu", level, kind="plans")
        _sandboxes[key].start()
    return _sandboxes[key]


def _emptied(attack: Attack, level: Level | None, sandbox: Sandbox) -> None:
    """Empty the sandbox of an attack that may leave things, as between two hand-ins of a class."""
    if _may_leave_things(attack) and not sandbox.empty():
        sandbox.close()
        del _sandboxes[level, True]


def _grade_cuda(
    attack: Attack,
    canaries: Canaries,
    level: Level | None,
    policy: bool,
    guarded: bool,
    watched: bool,
) -> PartEvidence:
    """One part in the emulator; where that passes, the memory points decide if there are any."""
    exercise, variant = _limited(attack), attack.variant
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="warpgrade-attack-")))
        attack.write(root / "submission", canaries.known)
        if Status.compile_error in {attack.status, *attack.layers.values()}:
            patch = mock.patch.object(cuda_build, "COMPILE_LIMITS", SHORT_COMPILE)
            stack.enter_context(patch)
        if watched:
            stack.enter_context(mock.patch.object(source_rules, "violations_of", return_value=()))
        if level is Level.limits:  # the filter is the sandbox's, though the program installs it
            none = mock.patch.object(
                native_planner, "compile_emulator_filter", side_effect=FilterError
            )
            stack.enter_context(none)
        stack.enter_context(mock.patch.object(worker_process, "FORK_SECONDS", SHORT.seconds))
        session = stack.enter_context(
            Session(
                root / "submission",
                EXERCISES,
                Options(
                    seed=SEED,
                    device="cpu",
                    effort=BRIEF_CUDA,
                    level=level,
                    policy=policy or watched,
                    check_with_nvcc=False,
                    backends=("emulator",),
                    guarded=guarded,
                ),
            )
        )
        part = check_part(session, Task(exercise, variant), "float32", "ragged")
        if part.status is Status.passed and variant.memory is not None:
            seen = check_memory(session, Task(exercise, variant))
            status = seen.status
            if status is Status.passed and memory_bounds.shortfalls(seen, variant):
                status = Status.target_missed
            part = replace(part, status=status, reason=seen.reason)
        return part


def _leaks(part: PartEvidence, canaries: Canaries) -> Iterator[str]:
    """Secrets in the evidence, and the message of a success."""
    variant = VariantEvidence("x", "y", "z", parts=(part,))
    text = to_json(Evidence(submission="x", seed=SEED, variants=(variant,)))
    if canaries.token in text:
        yield "a secret is in the evidence"
    if ESCAPED in text:
        said = text[text.index(ESCAPED) :].partition("\\n")[0].partition('"')[0]
        yield f"it says {said[:100]}"


def _reason(part: PartEvidence) -> str:
    return (part.failures[0].what if part.failures else part.reason)[:300]
