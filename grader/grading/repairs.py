"""Causes that a repair shows: a small change of the text with which failing cases become right.

The changed texts run as the submission does, in its sandbox, the likeliest (likely_edits.py) first.
Many are tried at once, as functions of one file.
"""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from grader.cases import Case, inputs, large
from grader.cases.compare import LEFT_RUNNING, RAISED, READS_RESULTS, RETURNED, USED_MEMORY
from grader.emulator.findings import HOST_CHANGES
from grader.evidence import SourceLine
from grader.executors import side_by_side
from grader.executors.runner import CaseResult, Coming, Runner
from grader.executors.source_text import Change, SourceText
from grader.grading import memory_use, source_reading
from grader.grading.diagnosis import Cause, Separation
from grader.grading.edits.edit_scope import Edit
from grader.grading.sieve import WEAK, Sieve
from grader.spec import ITEMSIZE
from grader.status import Status

MOST_CHARACTERS = 60_000  # of a source
MOST_COST_OF_LIKELY = 8  # bits: see likely_edits.RARITY
ABOUT_AS_LIKELY = 2  # bits between changes that may both be meant
# The same for exchanges: one in a kernel is undone by exchanging what its launcher passes, too.
ABOUT_AS_LIKELY_EXCHANGED = 5
MOST_TRIED = {"triton": 200, "cuda": 240}
AT_FIRST = 5  # changes in the first file: the likeliest
FILES_AT_ONCE = 2  # the edits of one are tried while the other is compiled
AT_ONCE = {"triton": 12, "cuda": 12}  # that are held against each other
IN_ONE_FILE = {"triton": 36, "cuda": 12}  # edits; each file costs the start of new processes
SIEVED = 76  # changes in one program that only refuses some
MOST_TO_PLACE = 36  # changes that may show the place of a mistake that is known
MOST_RIGHT = 4  # changes, of which the likeliest is told
FURTHER = 6  # failing cases, beside the smallest, that have to become right
PASSING = 3  # cases that have to stay right
ELSEWHERE = 5  # cases of each size class that a repair is tried on at last
ELSEWHERE_SECONDS = 6.0  # for all of them
_REPAIRABLE = frozenset(
    {
        Status.wrong_values,
        Status.not_finite,
        Status.not_written,
        Status.wrote_out_of_bounds,
        Status.invalid_read,
        Status.modified_input,
        Status.data_race,
        Status.uninitialised_read,
        Status.nondeterministic,
        Status.barrier_error,
        Status.crashed,
        Status.launch_error,
        Status.misaligned_access,
        Status.compile_error,
    }
)
_EXCHANGES = frozenset(
    ["axes", "divisor", "exchanged", "grid", "names", "quotients", "reordered", "stride"]
)
# Names of changes that say the same of one access, or of one quotient.
_ALIKE = tuple(
    map(frozenset, (["keyword", "without_mask"], ["past_filled"], ["rounded_down", "stop"]))
)
# Names of changes of an index. As many elements are read as before, but more of them may differ:
# with "per_element" those that were one for a whole block.
_INDICES = frozenset(["index", "odd_index", "per_element"])
_WRONG_NAMES = frozenset(["as_parameter", "axis_of", "derived", "name", "pair", "unused"])
NVCC = "nvcc"  # the pattern of an error that nvcc alone finds: cuda_build.Kind
_BLOCK = re.compile(r"of block (\([\d, ]+\))")
# Only seen in some of a case's runs.
_OF_SEVERAL_RUNS = frozenset({Status.data_race, Status.nondeterministic})
_NOT_SIEVED = frozenset({Status.compile_error, Status.nondeterministic})


@dataclass(frozen=True)
class Failing:
    """A failure, and the cases that a repair is tried on."""

    result: CaseResult
    failing: Sequence[Case]  # the smallest first
    passing: Sequence[Case]
    separation: Separation | None
    elsewhere: Sequence[Case] = ()  # of all size classes: a repair has to be right in them, too
    beyond: Sequence[Case] = ()  # of larger sizes than the spec's, in which it should be right
    only: frozenset[str] = frozenset()  # names of changes that are tried, where not all are
    is_known: bool = False  # whether the mistake is known, and its place is looked for
    about: str = ""  # a pattern of the lines that it may be at, if any
    seconds: float = 10.0  # for all changes


class Repairs:
    """Tries repairs of one task, and keeps those that were right for its other parts."""

    def __init__(self) -> None:
        self._known: list[tuple[Edit, Runner]] = []
        self._is_spent = False  # a failure stays without a repair, so that no more are tried

    def close(self) -> None:
        """End the processes of repairs."""
        for _, runner in self._known:
            runner.close()
        self._known.clear()

    def again(self, runner: Runner, failure: Failing) -> Cause | None:
        """The mistake of another part, where what undoes that makes these cases right, too."""
        if runner.on_gpu or _names_its_cause(failure.result):
            return None
        for edit, changed in self._known:
            if is_right(changed, failure, edit):
                return _cause(edit, runner.source)
        return None

    def cause_of(self, runner: Runner, failure: Failing) -> Cause | None:
        """The mistake that a change undoes, where the failing cases are right with it."""
        result = failure.result
        if result.status not in _REPAIRABLE or _names_its_cause(result):
            return None
        if not 0 < len(runner.source) <= MOST_CHARACTERS or runner.on_gpu or self._is_spent:
            return None
        if failure.seconds <= 0 or len(failure.failing) < 2:
            return None  # one case may become right by chance
        try:
            proposed = proposals(runner, failure)
        except source_reading.TooInvolved:
            self._is_spent = True  # so would the same text be for each further part
            return None
        if failure.is_known:
            proposed = proposed[:MOST_TO_PLACE]
        if result.status is Status.compile_error:
            proposed = [each for each in proposed if each.cost <= MOST_COST_OF_LIKELY]
        if len(set(_BLOCK.findall(result.verdict.what))) > 1:  # which no barrier orders
            proposed = [each for each in proposed if each.name != "barrier"]
        if not proposed:
            return None
        repair = _tried(runner, failure, proposed)
        if repair is None and failure.only == {"signature"}:
            return None
        if repair is None:
            self._is_spent = True
            return None
        self._known.append(repair)
        return _cause(repair[0], runner.source)


def _names_its_cause(result: CaseResult) -> bool:
    """Whether a failure's own message says what to change, so that no change is tried.

    So do an exception, an entry that returns its result, an atomic whose order counts, and host
    code that doesn't wait, or reads results. Where nvcc alone refuses the file, every change would
    seem right: it is tried in the emulator, whose compiler accepts the file as it is.
    """
    is_ordered = result.status is Status.nondeterministic and bool(result.hint)
    is_ordered |= result.verdict.what.startswith(HOST_CHANGES)
    naming = (RAISED, RETURNED, LEFT_RUNNING, READS_RESULTS, NVCC)
    return is_ordered or result.verdict.pattern in naming


def _tried(
    runner: Runner, failure: Failing, proposed: Sequence[Edit]
) -> tuple[Edit, Runner] | None:
    """The first edit with which all cases are right, and its runner, which stays open."""
    until = time.monotonic() + failure.seconds
    right: list[tuple[Edit, Runner]] = []
    weak: list[tuple[Edit, Runner]] = []  # told where nothing else is right

    beside: list[Edit] = []  # that are tried although another one is right

    def is_wanted(edit: Edit) -> bool:
        """Of edits behind a batch with a right one, few count, and only if about as likely."""
        if not right:
            return True
        most = MOST_BESIDE * (8 if right[0][0].name in _EXCHANGES else 1)
        if edit not in beside and len(beside) < most and _may_be_meant(edit, right):
            beside.append(edit)
        return edit in beside

    for together in _changed(runner, failure, proposed, until, is_wanted):
        wanted = {id(edit) for edit, _ in together if is_wanted(edit)}
        words = _words(failure, together, wanted, until, right)
        for number, (edit, changed) in enumerate(together):
            if words.get(number) is False:
                continue
            is_tried = id(edit) in wanted and time.monotonic() < until
            is_tried = is_tried and _may_be_meant(edit, right)
            if is_tried and number not in words:  # left out for one that is no repair after all
                words[number] = is_right(changed, failure, edit)
            is_tried = is_tried and words[number]
            is_tried = is_tried and _holds(changed, failure, edit, runner)
            is_tried = is_tried and not _stores_again(changed, failure, edit)
            if is_tried and (edit.name in _INDICES or not _does_more(runner, changed, failure)):
                (weak if _is_weak(changed, failure, edit) else right).append((edit, changed))
            else:
                changed.close()
    if right:
        for _, changed in weak:
            changed.close()
        text = SourceText(runner.source, runner.task.variant.language == "triton")
        kernels = [each for each in text.reached(runner.task.variant.entry) if each.is_kernel]

        def rank(pair: tuple[Edit, Runner]) -> tuple[int, bool]:
            at = pair[0].changes[0].start
            return pair[0].cost, not any(each.start <= at < each.end for each in kernels)

        return _likeliest(sorted(right, key=rank), failure)
    for _, changed in weak[1:]:
        changed.close()
    return weak[0] if weak else None


def _words(
    failure: Failing,
    together: Sequence[tuple[Edit, Runner]],
    wanted: Collection[int],
    until: float,
    right: Sequence[tuple[Edit, Runner]],
) -> dict[int, bool]:
    """Whether edits of one file make the cases right, by their places in `together`.

    Only those whose ids are in `wanted` are tried, side by side. An edit has no entry if one before
    it is right and it can't be meant beside that. The runner of a wrong edit is closed.
    """
    words: dict[int, bool] = {}

    def judge(number: int) -> None:
        edit, changed = together[number]
        before = [pair for place, pair in enumerate(together[:number]) if words.get(place)]
        if time.monotonic() < until and _may_be_meant(edit, [*right, *before]):
            words[number] = is_right(changed, failure, edit)
            if not words[number]:
                changed.close()

    side_by_side.run(
        (changed.queue, partial(judge, number))
        for number, (edit, changed) in enumerate(together)
        if id(edit) in wanted
    )
    return words


def _changed(
    runner: Runner,
    failure: Failing,
    proposed: Sequence[Edit],
    until: float,
    is_wanted: Callable[[Edit], bool],
) -> Iterator[Sequence[tuple[Edit, Runner]]]:
    """Edits with runners of their texts, so many at once as are held against each other.

    Most mistakes are undone by one of the first edits. The others are sieved before they are built.
    While the edits of one file are tried, the next one is compiled.
    """
    language, status = runner.task.variant.language, failure.result.status
    at_once = AT_ONCE[language]
    is_sieved = language == "cuda" and status not in _NOT_SIEVED
    in_one = IN_ONE_FILE[language]
    sizes = itertools.chain([AT_FIRST, in_one], itertools.repeat(SIEVED if is_sieved else in_one))
    left, files = iter(proposed), list[_File]()
    try:
        while time.monotonic() <= until:
            files = [kept for each in files if (kept := each.of_wanted(is_wanted, in_one))]
            while len(files) < FILES_AT_ONCE:
                ahead = list(itertools.islice(filter(is_wanted, left), next(sizes)))
                if not ahead:
                    break
                sieve = Sieve(runner, failure.failing, status, until)
                files.append(_File(runner, ahead, sieve, at_once, len(ahead) > in_one))
            if not files:
                return
            yield from files[0].batches(is_wanted)
            files.pop(0).close()
    finally:
        for each in files:
            each.close()


class _File:
    """Edits that are compiled in the background, as copies, or in one program that sieves them."""

    def __init__(
        self,
        runner: Runner,
        edits: Sequence[Edit],
        sieve: Sieve,
        at_once: int,
        is_sieved: bool,
    ) -> None:
        self.runner, self.edits, self.sieve, self.at_once = runner, edits, sieve, at_once
        self.coming: Coming[Sequence[Runner | None]] | None = None
        if is_sieved:
            sieve.begin(edits)
        else:
            self.coming = _altered(runner, edits)

    def of_wanted(self, is_wanted: Callable[[Edit], bool], few: int) -> _File | None:
        """This file, or one of the wanted edits where at most `few` are left; None where none is.

        A program that sieves many takes longer to compile than the few do.
        """
        kept = [each for each in self.edits if is_wanted(each)]
        is_smaller = self.coming is None and len(kept) <= few
        if not kept or is_smaller:
            self.close()
        if not kept:
            return None
        return _File(self.runner, kept, self.sieve, self.at_once, False) if is_smaller else self

    def batches(self, is_wanted: Callable[[Edit], bool]) -> Iterator[Sequence[tuple[Edit, Runner]]]:
        """The edits with their runners, as `_changed` has them."""
        if self.coming is not None:
            coming, self.coming = self.coming, None
            firsts = range(0, len(self.edits), self.at_once)
            own = [self.edits[each : each + self.at_once] for each in firsts]
            yield from _split(own, coming.take())
            return
        for batches in _left(self.edits, self.sieve, self.at_once, is_wanted):
            if time.monotonic() > self.sieve.until:
                return
            edits = [edit for batch in batches for edit in batch]
            yield from _split(batches, _altered(self.runner, edits).take())

    def close(self) -> None:
        """End what is made or open."""
        if self.coming is not None:
            self.coming.close()
            self.coming = None
        self.sieve.close()


def _left(
    edits: Sequence[Edit], sieve: Sieve, at_once: int, is_wanted: Callable[[Edit], bool]
) -> Iterator[Sequence[Sequence[Edit]]]:
    """The batches of wanted edits without those that a sieve refuses.

    Batches that have few left come together, up to one that has an edit which is right there.
    """
    waiting: list[list[Edit]] = []
    for first in range(0, len(edits), at_once):
        places = range(first, min(first + at_once, len(edits)))
        words = sieve.words([place for place in places if is_wanted(edits[place])])
        batch = [edits[place] for place, word in words.items() if word is not False]
        if sum(map(len, waiting)) + len(batch) > at_once:
            yield waiting
            waiting = []
        waiting.append(batch)
        if True in words.values():
            yield waiting
            waiting = []
    if any(waiting):
        yield waiting


def _altered(runner: Runner, edits: Sequence[Edit]) -> Coming[Sequence[Runner | None]]:
    """Runners of edits, of which all are one program."""
    variant = runner.task.variant
    text = SourceText(runner.source, variant.language == "triton")
    reached = text.reached(variant.entry)
    numbers = range(len(edits))
    copies = [text.copy(reached, f"__{each}", edits[each].changes) for each in numbers]
    return runner.altered(copies, [f"{variant.entry}__{each}" for each in numbers])


def _split(
    batches: Sequence[Sequence[Edit]], made: Sequence[Runner | None]
) -> Iterator[Sequence[tuple[Edit, Runner]]]:
    """The edits of each batch with their runners, without those that have none."""
    edits = [edit for batch in batches for edit in batch]
    waiting = [*zip(edits, made, strict=True)]
    try:
        for batch in batches:
            own, waiting = waiting[: len(batch)], waiting[len(batch) :]
            yield [(edit, changed) for edit, changed in own if changed is not None]
    finally:
        for _, changed in waiting:
            if changed is not None:
                changed.close()


def _may_be_meant(edit: Edit, right: Sequence[tuple[Edit, Runner]]) -> bool:
    """Whether a change is tried although others are right: it has to be about as likely.

    A missing barrier may stand at several lines. The first one is told, and no other is tried.
    """
    if not right:
        return True
    first = right[0][0]
    is_same = first.name in _EXCHANGES and edit.name in _EXCHANGES | _WRONG_NAMES
    apart = ABOUT_AS_LIKELY_EXCHANGED if is_same else ABOUT_AS_LIKELY
    return first.name != "barrier" and len(right) < MOST_RIGHT and edit.cost <= first.cost + apart


def _likeliest(right: list[tuple[Edit, Runner]], failure: Failing) -> tuple[Edit, Runner]:
    """The right change with which kernels move the fewest bytes: others may do work twice.

    Where several move as few, the mistake may be at either place, and both are told.
    """
    moved = [_moved(changed, failure) for _, changed in right] if len(right) > 1 else [0]
    least = min(moved)
    kept = [each for each, bytes_ in zip(right, moved, strict=True) if bytes_ <= 1.01 * least]
    for each in right:
        if each is not kept[0]:
            each[1].close()
    (edit, changed), *others = kept
    by_line = {each.line: each for each, _ in reversed(others) if each.line != edit.line}
    named = sorted(by_line.values(), key=lambda each: each.cost)[:MOST_OTHERS]
    if not named:
        named = [each for each, _ in others if _says_more(each, edit)][:1]
    for other in named:
        where = f"at line {other.line}, " if other.line != edit.line else ""
        what = f"{edit.what}; or, {where}{other.what[0].lower()}{other.what[1:]}"
        edit = replace(edit, what=what, advice=EITHER)
    return edit, changed


def _says_more(edit: Edit, first: Edit) -> bool:
    """Whether a change of the line that the first one is of is about something else."""
    new = [(each.name, {change.new for change in each.changes}) for each in (edit, first)]
    is_alike = any({edit.name, first.name} <= each for each in _ALIKE)
    return not is_alike and edit.what != first.what and new[0] != new[1]


def _is_weak(runner: Runner, failure: Failing, edit: Edit) -> bool:
    """Whether a right change is perhaps none that is meant.

    One that gives up what the variant teaches, as a tile's padding, is seldom meant; nor is one
    with which every barrier is reached, and something else is wrong.
    """
    tried = (*failure.failing, *failure.passing) if edit.name == WEAK else ()
    if not all(runner.once(case).verdict.passed for case in tried):
        return True
    return not memory_use.keeps_its_lesson(runner, failure.failing[0].seed)


def _stores_again(runner: Runner, failure: Failing, edit: Edit) -> bool:
    """Whether kernels store more than the outputs have, in the largest case.

    Programs that do each other's work give right results, and are no repair. Where only memory is
    cleared, kernels store what they stored before, to scratch as well.
    """
    if edit.name == "cleared":
        return False
    case = max(failure.failing, key=lambda each: each.complexity)
    slots = inputs.blank(runner.task, case).slots
    needed = sum(
        math.prod(each.shape) * ITEMSIZE[each.dtype] for each in slots if each.role != "input"
    )
    stored = runner.moved(case, ("store",))
    return stored is not None and stored > MOST_STORED * needed


def _does_more(runner: Runner, changed: Runner, failure: Failing) -> bool:
    """Whether a change moves more bytes, or has more programs, in a case that is right without it.

    A kernel whose loop ends at the wrong place is right, too, where it visits everything.
    """
    largest = sorted(failure.elsewhere, key=lambda case: case.complexity, reverse=True)
    beside = sorted(failure.passing, key=lambda case: case.complexity, reverse=True)
    tried = [*largest[:MOST_COMPARED], *beside]
    case = next((case for case in tried if runner.once(case).verdict.passed), None)
    if case is None:
        return False
    before, after = _work(runner, case), _work(changed, case)
    return any(a > MOST_MOVED * b for a, b in zip(after, before, strict=True) if b)


def _work(runner: Runner, case: Case) -> tuple[int, int]:
    """The bytes that a case's kernels move and the programs that they have; 0 where not known."""
    return runner.moved(case) or 0, runner.programs


MOST_COMPARED = 6  # cases, of which one that passes is looked for
MOST_MOVED = 1.1  # of the bytes that a passing case moves without a change
MOST_BESIDE = 8  # changes that are tried behind a right one
MOST_OTHERS = 2  # changes at other lines that are told beside the likeliest one
MOST_STORED = 1.25  # of the outputs' bytes, by kernels that do no work twice
EITHER = "Each of these changes alone makes the failing cases that were tried right."


def _moved(runner: Runner, failure: Failing) -> float:
    """Bytes that kernels move in the largest case; infinite where nobody counts them."""
    moved = runner.moved(max(failure.failing, key=lambda each: each.complexity))
    return math.inf if moved is None else moved


def is_right(runner: Runner, failure: Failing, edit: Edit) -> bool:
    """Whether a changed text is right in the failing cases, and still in passing ones.

    Without a `return` threads beyond the end go on: it is enough that the barrier is reached.
    """
    several = failure.result.status in _OF_SEVERAL_RUNS
    several |= failure.result.verdict.pattern == USED_MEMORY
    if edit.name == WEAK:
        statuses = {runner.once(case).status for case in failure.failing}
        return failure.result.status not in statuses
    for case in (*failure.failing, *failure.passing):
        result = runner.run(case) if several else runner.once(case)
        if not result.verdict.passed:
            return False
    return True


def _holds(runner: Runner, failure: Failing, edit: Edit, unchanged: Runner) -> bool:
    """Whether a change that is right in the tried cases is right in those of all size classes.

    A change that happens to be right in a few cases is no repair, and would mislead. Where a case
    fails in another way, with and without the change, a second mistake is behind it.
    """
    if edit.name == WEAK:
        return True
    until = time.monotonic() + ELSEWHERE_SECONDS
    for case in failure.elsewhere:
        result = runner.once(case) if time.monotonic() < until else None
        if result is None or result.verdict.passed:
            continue
        is_other = result.status not in (failure.result.status, Status.timed_out)
        if not is_other or unchanged.once(case).status is not result.status:
            return False
    # At larger sizes a right program may fail for another reason: it may be made for these.
    status = failure.result.status
    if any(runner.once(case).status is status for case in failure.beyond):
        return False
    return status is not Status.launch_error or _can_launch(runner, failure)


def _can_launch(runner: Runner, failure: Failing) -> bool:
    """Whether the launches are possible at the sizes at which the spec says that they must be."""
    if failure.result.case is None or not isinstance(runner, memory_use.PLANNED):
        return True
    dtype, seed = failure.result.case.dtype, failure.result.case.seed
    classes = runner.task.variant.size_classes
    cases = [case for each in classes for case in large.named_cases(runner.task, dtype, each, seed)]
    with runner.large_sizes() as sizes:
        return not any(map(sizes.launch_fault, dict.fromkeys(cases)))


def failing_of(
    result: CaseResult, results: Sequence[CaseResult], separation: Separation | None
) -> Failing:
    """A failure with the cases to try repairs on: of those run, the smallest and large ones."""
    assert result.case is not None

    def spread(chosen: list[Case], most: int) -> list[Case]:
        chosen.sort(key=lambda case: case.complexity, reverse=True)
        return chosen[:: max(1, -(-len(chosen) // most))] if chosen else []

    failing = [
        each.case
        for each in results
        if each.case not in (None, result.case) and not each.verdict.passed
    ]
    passing = [each.case for each in results if each.case is not None and each.verdict.passed]
    cases = [result.case, *spread([each for each in failing if each is not None], FURTHER)]
    return Failing(result, cases, spread(passing, PASSING), separation)


def proposals(runner: Runner, failure: Failing) -> list[Edit]:
    """Changes of the submission's text, the likeliest first. Raises TooInvolved."""
    from grader.grading.edits import likely_edits  # only a failure needs its many modules

    lines = [line for line, _ in failure.result.marks] or [failure.result.line or 0]
    if failure.about:
        texts = enumerate(runner.source.split("\n"), 1)
        lines = [number for number, text in texts if re.search(failure.about, text)]
    variant = runner.task.variant
    read = source_reading.limited(
        likely_edits.ranked,
        runner.source,
        variant.language == "triton",
        f"{variant.entry}({', '.join(each.name for each in runner.task.signature)})",
        failure.result.status.value,
        [line for line in lines if line],
        _in_common(failure),
        MOST_TRIED[variant.language],
        sorted(failure.only),
    )
    return [_read(each) for each in read]


def _in_common(failure: Failing) -> tuple[str, str]:
    """The kind and subject of what failing cases have in common, as far as it is known."""
    condition = failure.separation.condition if failure.separation else None
    if condition is not None:
        return condition.kind, condition.subject
    layouts = failure.failing[0].layouts  # a plain case with the same sizes passes, mostly
    return ("layout", layouts[0][0]) if layouts else ("", "")


def _read(fields: dict[str, Any]) -> Edit:
    changes = tuple(Change(**each) for each in fields["changes"])
    return Edit(**{**fields, "changes": changes})


def _cause(edit: Edit, source: str) -> Cause:
    """The cause with the lines that are changed; of a barrier the two that race say more.

    Where another change may be meant, one line is enough: the message has to stay short.
    """
    lines = source.split("\n")
    marked = []
    moved_from = [each for each in edit.changes if each.start < each.end]  # and not where to
    for change in (moved_from or edit.changes)[: 1 if edit.advice == EITHER else 2]:
        is_one = len(edit.changes) == 1 or edit.name == "constant"
        number = edit.line if is_one else source.count("\n", 0, change.start) + 1
        text = lines[number - 1] if number <= len(lines) else ""
        begin = sum(len(line) + 1 for line in lines[: number - 1])
        start = max(0, change.start - begin)
        length = max(1, min(change.end - change.start, len(text) - start))
        if change.start == change.end or not text[start : start + length].strip():
            behind = re.search(r"[\w.\[\]]*$", text[:start])  # what something is put behind
            start, length = (behind.start(), len(behind[0])) if behind else (0, 0)
        marked.append(SourceLine(number, text.rstrip(), "", start, length))
    one_each = {each.line: each for each in marked}
    advice = edit.advice
    if not advice:
        advice = "With that mended the failing cases that were tried are right."
    code = () if edit.name == "barrier" else tuple(one_each.values())
    return Cause(edit.name, edit.what, advice, code)
