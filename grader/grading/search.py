"""The search for a failing case: edge cases, then drawn ones, then the smallest failure.

Some of the drawn cases have sizes that the submission's text names, since a mistake that few sizes
show often has its size in the text. Hypothesis only draws the cases, unless they are few. Shrinking
is done here for three reasons: failing edge cases are shrunk too; a kernel with varying results is
reported as `nondeterministic` and is no error of hypothesis; and the same steps find the condition
under which a kernel fails.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import random
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from grader.cases import Case, Space, drawn_case, named_cases
from grader.evidence import Failure, PartEvidence, Printed
from grader.executors.runner import CaseResult, Runner
from grader.executors.source_text import numbers_of
from grader.grading import by_source
from grader.grading.causes import Causes, Failed, Varying
from grader.grading.diagnosis import Cause, Separation, hint, separate
from grader.grading.marked_lines import marked_lines, own_names
from grader.grading.pictures import picture_of
from grader.sandbox.sandbox import hurried
from grader.spec import SizeRule
from grader.spec.course import option_for
from grader.status import Status, worst

FEW_FAILING = 3  # cases of a part, so that more are run before tries
OTHER_EDGES = 12  # cases of each size class that run beside one given case
MOST_GENERAL = 2  # cases in which every size is above 1
OTHER_SEEDS = 4  # of the smallest failing case, that are run then
RERUNS = 10  # of the smallest failing case, to detect varying results
MOST_PATIENCE = 4.0  # times the seconds of a quiet machine
HURRY_SECONDS = 0.5  # for the first case, where another part was in a loop without end
SLOW = frozenset({Status.timed_out, Status.out_of_memory})
# Statuses that are the same for every case, so one case is enough.
WHOLE_FILE = frozenset({Status.import_error})
# Not the kernel's fault, and the same in another case or another run.
NOT_DECIDED = frozenset({Status.not_measured, Status.grader_error})
# Each of these ends a worker and is rerun to find its cause: a few are enough.
COSTLY = frozenset({Status.modified_input, Status.invalid_read})
ENOUGH_COSTLY = 8
# One run proves these. Another run may miss them: a stray store of equal bits goes unnoticed.
PROVEN = frozenset({Status.wrote_out_of_bounds, Status.modified_input})
CONCLUSIVE = WHOLE_FILE | NOT_DECIDED
KEPT = (
    "What the file keeps from one call to the next has to fit the next call: a buffer its sizes, "
    "a compiled kernel its dtypes, its alignments and which of its sizes are 1."
)


@dataclass(frozen=True)
class Effort:
    """The budget of a search. Seconds are wall time; exceeding them fails no kernel."""

    edges: int | None = None  # edge cases at most, spread over all of them; None: all
    drawn: int = 20  # cases, by hypothesis
    # They are drawn without hypothesis, whose start costs more than few cases.
    plain: bool = False
    seconds: float = 25.0  # for edge cases and drawn ones, from the end of the first case
    # For the same on a GPU. Compiling takes the time there: sizes and strides that divide by 16 and
    # those that don't need kernels of their own, dozens of them for a matrix product of any layout.
    gpu_seconds: float = 4.0
    shrink_seconds: float = 8.0
    shrink_runs: int = 60
    shrink_timeouts: int = 3
    probe_seconds: float = 6.0
    reruns: int = RERUNS  # of the smallest failing case
    enough: int | None = 12  # failing cases, after which the search stops; None: never
    compile_ahead: bool = True  # for the GPU, of kernels that ran without one
    repair_seconds: float = 10.0  # for changes of the text, tried on one failure; 0: for none

    def on_a_busy_machine(self) -> Effort:
        """The same work where other programs take the processor: explaining has more seconds.

        Otherwise what a message says would depend on what else runs.
        """
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
        longer = min(MOST_PATIENCE, max(1.0, load))
        names = ("shrink_seconds", "probe_seconds", "repair_seconds")
        return replace(self, **{name: getattr(self, name) * longer for name in names})


@dataclass
class _Search:
    """The state of the search in one part."""

    space: Space
    runner: Runner
    effort: Effort
    results: dict[Case, CaseResult] = field(default_factory=dict)
    smallest: dict[Status, CaseResult] = field(default_factory=dict)
    timeouts: int = 0
    causes: Causes = field(default_factory=Causes)
    again: Cause | None = None  # of another part, that explains this one's failures as well

    def run(self, case: Case) -> CaseResult:
        """Run a new case and keep its result."""
        if case in self.results:
            return self.results[case]
        result = self.runner.run(case)
        self.results[case] = result
        if result.status is Status.timed_out:
            self.timeouts += 1
        if not result.verdict.passed:
            known = self.smallest.get(result.status)
            if known is None or case.complexity < _case_of(known).complexity:
                self.smallest[result.status] = result
        return result

    def is_in_loop(self, case: Case, line: int, why: str) -> bool:
        """Whether a case is soon in a loop it won't leave; `why` is what is known of it.

        Then it has run out of time, too, and its full time isn't waited for.
        """
        self.runner.fresh_worker()
        with hurried(self.runner.starts_in, HURRY_SECONDS):
            result = self.runner.run(case)
        self.runner.fresh_worker()
        is_there = result.status is Status.timed_out and result.line == line
        if is_there and result.observed_by == "grader":
            what = f"after {HURRY_SECONDS:g} s it is still in that loop{why}."
            result = replace(result, verdict=replace(result.verdict, what=what))
        if is_there:
            self.results[case] = self.smallest[result.status] = result
        return is_there

    @property
    def loop(self) -> tuple[int, str]:
        """The line of a loop that cases may be in for ever, 0 for none, and what is known of it."""
        if self.runner.on_gpu:
            return 0, ""
        source, is_triton = self.runner.source, self.space.task.variant.language == "triton"
        if len(source) > by_source.MOST_CHARACTERS:
            return 0, ""
        if line := by_source.line_without_end(source, is_triton):
            return line, ""
        if not self.causes.endless:
            return 0, ""
        seconds = f"{self.runner.task.limits.seconds:g} s of computing"
        return self.causes.endless, f", which another part's case had not left after {seconds}"

    def expect(self, cases: Sequence[Case]) -> None:
        """Announce to the runner the next cases, in order."""
        self.runner.expect([each for each in dict.fromkeys(cases) if each not in self.results])

    @property
    def seconds(self) -> float:
        """The time limit of the search for a failure."""
        return self.effort.gpu_seconds if self.runner.on_gpu else self.effort.seconds

    @property
    def failed(self) -> int:
        """Number of cases that did not pass."""
        return sum(not result.verdict.passed for result in self.results.values())


def search_part(
    space: Space,
    runner: Runner,
    effort: Effort | None = None,
    on_case: Callable[[], None] = lambda: None,
    submission: str = "",
    chosen: Sequence[Case] | None = None,
    causes: Causes | None = None,
) -> PartEvidence:
    """Search one dtype and size class of a variant for failing cases, and explain them.

    `on_case` is called after each case, for progress. `chosen` replaces edge cases and drawn ones.
    `causes` knows what explained other parts of the task.
    """
    started = time.monotonic()
    search = _Search(space, runner, effort or Effort(), causes=causes or Causes())
    stopped = _look_until_explained(search, on_case, chosen)
    cases_run, cases_failed = len(search.results), search.failed
    failures = _explain(search, submission) if search.smallest else ()
    status = failures[0].status if failures else Status.passed
    results = search.results.values()
    worst_first = [search.smallest[worst(search.smallest)]] if failures else []
    return PartEvidence(
        space.dtype,
        space.size_class,
        status,
        cases_run,
        cases_failed,
        failures,
        reason=failures[0].what if status is Status.not_measured else stopped,
        seconds=time.monotonic() - started,
        printed=_printed([*worst_first, *results]),
        notes=_notes(results),
    )


def one_case(space: Space, runner: Runner, case: Case, submission: str = "") -> PartEvidence:
    """Run a given case, explain its failure, and compile it ahead of time."""
    started = time.monotonic()
    search = _Search(space, runner, Effort())
    result = search.run(case)
    failures: tuple[Failure, ...] = ()
    if not result.verdict.passed:
        flaky = _flakiness(search, result, RERUNS)
        if flaky is None:
            _run_others(search, result)
        failed = _failed(search, result, None, flaky)
        with contextlib.closing(search.causes):
            cause = search.causes.of(failed)
            failures = (_failure(search, result, None, flaky, submission, cause),)
    pending = runner.compile_in_background()
    compiled = runner.compiled(pending) if pending else None
    if compiled is not None and compiled.failure is not None:
        failures += (failure_of(space, compiled.failure, submission),)
    status = failures[0].status if failures else Status.passed
    reason = failures[0].what if status is Status.not_measured else ""
    return PartEvidence(
        case.dtype,
        "case",
        status,
        cases_run=1,
        cases_failed=int(bool(failures)),
        failures=failures,
        reason=reason,
        seconds=time.monotonic() - started,
        printed=_printed([result]),
        notes=result.notes,
    )


def line_in(failures: Sequence[Failure]) -> int:
    """The line of the first failure; 0 where it isn't known."""
    line = failures[0].where.rpartition(":")[2] if failures else ""
    return int(line) if line.isdigit() else 0


def _printed(results: Iterable[CaseResult]) -> Printed | None:
    """The kernels' printed output in the first case that has any."""
    printing = (each for each in results if each.printed)
    return next((Printed(str(each.case), each.printed) for each in printing), None)


def _notes(results: Iterable[CaseResult]) -> tuple[str, ...]:
    """The grader's distinct notes on the launcher."""
    return tuple(dict.fromkeys(note for each in results for note in each.notes))


def failure_of(space: Space, result: CaseResult, submission: str = "", source: str = "") -> Failure:
    """A failure that no search has found: the compiler's refusal, or that of a planned launch.

    `source` is the submission's text, for the lines that are shown.
    """
    case = result.case or space.edges()[0]
    return Failure(
        status=result.status,
        case=str(case),
        what=result.verdict.what,
        where=f"{space.task.variant.file}:{result.line}" if result.line else "",
        hint=result.hint,
        reproduce=reproduce_line(space, case, submission),
        code=marked_lines(source, result) if source else (),
        detail=result.detail,
        observed_by=result.observed_by,
    )


# --- failing cases -----------------------------------------------------------------------------


def _look_until_explained(
    search: _Search, on_case: Callable[[], None], chosen: Sequence[Case] | None
) -> str:
    """Look for failing cases: few are enough where what explained another part explains them."""
    effort = search.effort
    if not search.causes.explained or effort.enough is None or effort.enough <= FEW_FAILING:
        return _look(search, on_case, chosen)
    search.effort = replace(effort, enough=FEW_FAILING)
    stopped = _look(search, on_case, chosen)
    search.effort = effort
    if not search.smallest:
        return stopped
    search.again = search.causes.again(_failed(search, search.smallest[worst(search.smallest)]))
    return stopped if search.again is not None else _look(search, on_case, chosen)


def _look(search: _Search, on_case: Callable[[], None], chosen: Sequence[Case] | None) -> str:
    """Run the chosen cases, or edge cases and drawn ones; why it stopped early, or ""."""
    deadline = math.inf
    costly = failed = 0
    edges = _edges(search.space, search.effort) if chosen is None else chosen
    search.expect(edges)
    line, why = search.loop
    if line and edges and search.is_in_loop(edges[0], line, why):
        return ""
    for case in edges:
        if time.monotonic() > deadline:
            return _out_of_time(search)
        result = search.run(case)
        on_case()
        # The first case includes a worker's start, which may take longer than a search on a GPU.
        deadline = min(deadline, time.monotonic() + search.seconds)
        costly += result.status in COSTLY
        if result.status in SLOW | WHOLE_FILE or costly == ENOUGH_COSTLY:
            return ""
        failed += result.status.is_failure
        if search.effort.enough is not None and failed >= search.effort.enough:
            return ""
    if search.smallest or not search.effort.drawn or chosen is not None:
        return ""
    named = _named(search)
    drawn = named + _drawn(search)[len(named) :]
    search.expect(drawn)
    for case in drawn:
        if time.monotonic() > deadline:
            return _out_of_time(search)
        result = search.run(case)
        on_case()
        if not result.verdict.passed:
            return ""
    return ""


def _edges(space: Space, effort: Effort) -> list[Case]:
    """The edge cases; where they are more than asked for, some of the leading input's alone.

    With a plain effort, each dtype has others of them, as far as there are enough.
    """
    most, leading, dtypes = effort.edges, space.leading_edges(), space.task.variant.dtypes
    if most is None or len(leading) <= most:
        edges = space.edges()
        return leading if most is not None and len(edges) > most else edges
    apart = (len(leading) - 1) // (len(dtypes) * max(most - 1, 1)) if effort.plain else 0
    return spread(leading[dtypes.index(space.dtype) * apart :], most)


def spread(cases: list[Case], most: int | None) -> list[Case]:
    """At most so many of the cases, evenly spaced, including the first and the last."""
    if most is None or len(cases) <= most:
        return cases
    return [cases[index * (len(cases) - 1) // max(most - 1, 1)] for index in range(most)]


def _out_of_time(search: _Search) -> str:
    return f"stopped after {len(search.results)} cases: {search.seconds:g} s were over"


def _named(search: _Search) -> list[Case]:
    """Cases with sizes that the submission's text names, in the place of a third of those drawn."""
    space = search.space
    numbers = numbers_of(search.runner.source, space.task.variant.language == "triton")
    chooser = random.Random(f"{space.seed} {space.dtype} {space.size_class} named")
    return named_cases(space, numbers, search.effort.drawn // 3, chooser)


def _drawn(search: _Search) -> list[Case]:
    """Drawn cases, in order; they depend on the space and its seed."""
    if search.effort.plain:
        space = search.space
        chooser = random.Random(f"{space.seed} {space.dtype} {space.size_class}")
        return [drawn_case(space, chooser) for _ in range(search.effort.drawn)]
    from grader.cases import drawing  # it imports hypothesis

    return drawing.drawn(search.space, search.effort.drawn)


# --- the smallest failure ----------------------------------------------------------------------


def _explain(search: _Search, submission: str) -> tuple[Failure, ...]:
    """A Failure for each status, the one to fix first in front."""
    primary = worst(search.smallest)
    result = search.smallest[primary]
    if search.runner.will_be_refused():  # which is told instead
        return (_failure(search, result, None, None, submission, None),)
    flaky, separation = None, None
    cause = search.again or search.causes.again(_failed(search, result))
    if cause is None and result.status in SLOW:  # smaller cases would take as long
        cause = search.causes.of(_failed(search, result), is_first=False)
    if cause is None and not _is_conclusive(result):
        flaky = _flakiness(search, result, 2, at_last_afresh=False)
        if flaky is None:
            _shrink(search, primary)
            result = search.smallest[primary]
            flaky = _flakiness(search, result, search.effort.reruns)
        if flaky is None and primary is not Status.timed_out:
            separation = _separate(search, result)
    if cause is None and result.status not in SLOW and not _is_conclusive(result):
        _fail_again(search, result)
        _run_general(search)
    cause = cause or search.causes.of(_failed(search, result, separation, flaky))
    failures = [_failure(search, result, separation, flaky, submission, cause)]
    for other in sorted(search.smallest.keys() - {primary}, key=list(Status).index):
        result = search.smallest[other]
        cause = search.causes.of(_failed(search, result), is_first=False)
        failures.append(_failure(search, result, None, None, submission, cause))
    return tuple(failures)


def _fail_again(search: _Search, result: CaseResult) -> None:
    """Run the case with other seeds where few cases fail: one may agree with a try by chance."""
    case = _case_of(result)
    if search.runner.on_gpu:
        return  # nothing is tried there, and a file of plans has no other cases
    for step in range(1, OTHER_SEEDS + 1):
        if search.failed >= FEW_FAILING:
            return
        search.run(replace(case, seed=case.seed + step))


def _run_general(search: _Search) -> None:
    """Run an edge case in which every size is above 1: at 1 many mistakes look alike."""
    if search.runner.on_gpu:
        return
    if any(_is_general(case) and not r.verdict.passed for case, r in search.results.items()):
        return
    unknown = (case for case in search.space.edges() if case not in search.results)
    for case in itertools.islice(filter(_is_general, unknown), MOST_GENERAL):
        search.run(case)


def _is_general(case: Case) -> bool:
    return all(value > 1 for _, value in case.sizes)


def _run_others(search: _Search, result: CaseResult) -> None:
    """Run some cases beside one that failed alone: a cause has to explain more than one."""
    if search.runner.on_gpu or result.status in SLOW or _is_conclusive(result):
        return
    _fail_again(search, result)
    until = time.monotonic() + search.effort.shrink_seconds
    for size_class in search.space.task.exercise.sizes:
        for case in spread(replace(search.space, size_class=size_class).edges(), OTHER_EDGES):
            if time.monotonic() > until:
                return
            search.run(case)


def _failed(
    search: _Search,
    result: CaseResult,
    separation: Separation | None = None,
    flaky: Varying | None = None,
) -> Failed:
    results = [*search.results.values()]
    seconds = search.effort.repair_seconds
    return Failed(search.space, search.runner, results, result, separation, flaky, seconds)


def _flakiness(
    search: _Search, result: CaseResult, runs: int, at_last_afresh: bool = True
) -> Varying | None:
    """How often the case failed when it fails on some runs only, else None.

    `runs` includes the first run, which failed. Once a run passes, there are RERUNS in all. With
    `at_last_afresh` the last run gets a fresh worker, so that a dependence on earlier calls shows;
    on a GPU that costs a new CUDA context.
    """
    if result.status in SLOW | PROVEN or _is_conclusive(result):
        return None
    failed, total = 1, 1
    until = time.monotonic() + search.effort.shrink_seconds
    while total < runs and time.monotonic() < until:
        is_fresh = at_last_afresh and total == runs - 1
        if is_fresh:
            search.runner.fresh_worker()
        failed += not search.runner.run(_case_of(result)).verdict.passed
        total += 1
        if is_fresh and failed == total - 1:  # by chance, unless it passes in another one, too
            search.runner.fresh_worker()
            if search.runner.run(_case_of(result)).verdict.passed:
                return Varying(failed, total + 1, by_history=True)
            failed, total = failed + 1, total + 1
        if failed < total:
            runs = RERUNS  # it varies: find out how often
    return Varying(failed, total) if failed < total else None


def _is_conclusive(result: CaseResult) -> bool:
    """Whether one run decides. Plans are compared only once for a dtype."""
    return result.status in CONCLUSIVE or result.verdict.pattern == "plans"


def _shrink(search: _Search, status: Status) -> None:
    """Replace the smallest failing case of a status by smaller ones as long as they fail."""
    until = time.monotonic() + search.effort.shrink_seconds
    budget = search.effort.shrink_runs
    timeouts_before = search.timeouts
    improved = True
    while improved:
        improved = False
        case = _case_of(search.smallest[status])
        for smaller in _smaller(search.space, case):
            if smaller in search.results or smaller.complexity >= case.complexity:
                continue
            budget -= 1
            spent = search.timeouts - timeouts_before >= search.effort.shrink_timeouts
            if budget < 0 or time.monotonic() > until or spent:
                return
            if search.run(smaller).status is status:
                improved = True
                break


def _smaller(space: Space, case: Case) -> Iterator[Case]:
    """Plainer and smaller cases of the class, the largest step first."""
    yield replace(case, layouts=(), data=space.plain_data, scalars=(), patterns=())
    yield replace(case, layouts=())
    for index in range(len(case.layouts)):
        yield replace(case, layouts=case.layouts[:index] + case.layouts[index + 1 :])
    yield replace(case, data=space.plain_data)
    yield replace(case, patterns=())
    yield replace(case, scalars=())
    for name, value in case.sizes:
        for size in _smaller_sizes([rules[name] for rules in space.alternatives], value):
            smaller = case.with_size(name, size)
            if space.allows(dict(smaller.sizes)):
                yield smaller


def _smaller_sizes(rules: list[SizeRule], value: int) -> list[int]:
    """Smaller sizes: the smallest, those near powers of two, and halfway steps up to the value."""
    sizes: set[int] = set()
    for rule in rules:
        if rule.or_zero:
            sizes.add(0)
        if rule.choices is not None:
            sizes |= {*rule.choices}
            continue
        step = rule.multiple_of
        sizes |= {rule.low, rule.low + step, rule.low + 2 * step}
        sizes |= {2**k + d for k in range(1, value.bit_length()) for d in (0, 1)}
        back = value // step // 2
        while back:
            sizes.add((value // step - back) * step)
            back //= 2
    return sorted(size for size in sizes if size < value)


def _separate(search: _Search, result: CaseResult) -> Separation | None:
    until = time.monotonic() + search.effort.probe_seconds
    outcomes = {case: not each.verdict.passed for case, each in search.results.items()}

    def fails(case: Case) -> bool | None:
        if time.monotonic() > until:
            return None
        return not search.run(case).verdict.passed

    return separate(search.space, _case_of(result), outcomes, fails)


def _failure(
    search: _Search,
    result: CaseResult,
    separation: Separation | None,
    flaky: Varying | None,
    submission: str,
    cause: Cause | None,
) -> Failure:
    space, verdict = search.space, result.verdict
    occurrences = ""
    if flaky is not None:
        occurrences = f"wrong in {flaky.failed} of {flaky.total} runs"
        headline = f"{verdict.status.headline}: {verdict.what.rstrip('.')}"
        what = f"The same case was {occurrences} ({headline})"
        if flaky.by_history:
            what = f"The case is right in a fresh process, and wrong after others ({headline})"
        verdict = replace(verdict, status=Status.nondeterministic, what=what)
    advice = KEPT if flaky is not None and flaky.by_history else result.hint
    if cause is not None:
        advice = cause.advice
    if not advice and verdict.status.is_failure:  # a fault of the grader has no hint
        advice = hint(verdict, separation)
    said = (cause.what if cause else "", verdict.what, advice)
    names = own_names(space.task, search.runner.source, *said)
    return replace(
        failure_of(space, replace(result, verdict=verdict), submission),
        pattern=separation.sentence if separation else "",
        cause=cause.what if cause else "",
        hint=f"{advice} {names if verdict.status.is_failure else ''}".strip(),
        occurrences=occurrences,
        code=(cause.code if cause else ()) or marked_lines(search.runner.source, result),
        picture=picture_of(space.task, search.runner, result),
    )


def _case_of(result: CaseResult) -> Case:
    """The case of a result, which a search always sets."""
    assert result.case is not None
    return result.case


def reproduce_line(space: Space, case: Case, submission: str = "", command: str = "check") -> str:
    """The command that runs, or only plans, one case again."""
    name = space.task.exercise.name
    if len(space.task.exercise.variants) > 1:
        name += f"/{space.task.variant.name}"
    where = f" --submission {shlex.quote(submission)}" if submission else ""
    where += option_for(space.task.exercise)
    return f"grader {command} {name} --case '{case}'{where}"
