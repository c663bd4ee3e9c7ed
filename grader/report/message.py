"""A failure in words: the one place where the text that a student reads is put together.

A message has four parts: what went wrong, where, expected beside actual, and what to try. The
line that repeats it ends it, on its own, so that it can be pasted.

What comes in may have been written by the submission (exception text, compiler output), so
everything goes through `clean` first: no terminal escapes, nothing XML forbids, no text that
reads in another order than it is stored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from grader.evidence import Failure, PartEvidence, Picture, SourceLine, VariantEvidence
from grader.report.code_frame import frame
from grader.sandbox.untrusted import clean, one_line, shorten, shorten_middle
from grader.status import Status

_NO_POINTS = "at a large size, which costs no points"
DETAIL_LIMIT = 8000  # characters of a traceback or compiler output


@dataclass(frozen=True)
class Message:
    """One failure, ready to show; every field is clean text.

    `headline`, `body` and `scope` are one line each, without line breaks; `detail` may have many.
    """

    status: Status
    # "rmsnorm/triton: wrong values for rows=1, cols=1025, float16 (smallest ...).", or the cause.
    headline: str
    kind: str  # "wrong values", or "data race at silu.cu:19"
    body: str  # "out[0, 1024] is nan, expected 0.173. Every case with ...: does the kernel ...?"
    brief: str  # the body, without what the case showed where the cause or the frame says it
    scope: str  # "Fails in ragged and degenerate for float16.", or "" for a single part
    code: tuple[SourceLine, ...]  # the student's lines, with the place in each
    reproduce: str  # "grader check rmsnorm --case '...'", or ""
    detail: str  # a traceback or compiler output, or ""
    observed_by: str  # "grader" or "worker": whose word `detail` is
    picture: Picture | None = None

    @property
    def frame(self) -> str:
        """The student's lines with a mark under each place; "" without lines."""
        return frame(self.code).plain

    @property
    def paragraph(self) -> str:
        """Everything but the reproduce line and the detail, as one paragraph."""
        return " ".join(filter(None, (self.headline, self.body, self.scope)))

    @property
    def text(self) -> str:
        """The paragraph with the reproduce line as its end."""
        return self.paragraph + (f" Reproduce: {self.reproduce}" if self.reproduce else "")


@dataclass(frozen=True)
class MergedFailure:
    """Failures of several parts of a variant that differ in numbers only; the smallest stands."""

    failure: Failure
    places: tuple[tuple[str, str], ...]  # (size class, dtype) of every part it was found in
    covers_all: bool  # whether every part of the variant fails like this


def failure_text(exercise: str, variant: str, failure: Failure) -> str:
    """One failure as one paragraph that ends in its reproduce line."""
    return compose(exercise, variant, failure).text


def part_text(exercise: str, variant: str, part: PartEvidence) -> str:
    """Why a part did not pass: its first failure, or the reason it has none; "" if it passed."""
    if part.failures:
        return failure_text(exercise, variant, part.failures[0])
    if part.status is Status.passed:
        return ""
    reason = sentence(part.reason)
    return " ".join(filter(None, (f"{exercise}/{variant}: {part.status.headline}.", reason)))


def compose(
    exercise: str, variant: str, failure: Failure, scope: str = "", given: bool = False
) -> Message:
    """The Message of one failure; `given` where its case was asked for instead of searched."""
    case = case_in_words(one_line(failure.case))
    what, detail = _beside_frame(failure)
    what = _said_once(what, failure.where)
    pattern = one_line(failure.pattern)
    if failure.cause:  # what the cause explains needs no more evidence
        what = _HOW_OFTEN.sub("", what)
        pattern = "" if ALWAYS.match(pattern) else pattern
    at = f" at {one_line(failure.where)}" if failure.where else ""
    about = f" for {case}" if case else ""
    if case and not given and failure.status.is_failure:
        about += " (smallest failing case found)"
    hint = one_line(failure.hint)
    # A cause's advice doesn't follow from which cases fail, as a question about them does.
    apart = f"{sentence(pattern)} {sentence(hint)}".strip()
    advice = apart if failure.cause else _advice(pattern, hint)
    is_said = failure.occurrences in failure.what
    occurrences = "" if is_said else sentence(failure.occurrences)
    status_and_case = f"{failure.status.headline}{at}{about}"
    first = status_and_case
    is_shown = any(each.note for each in failure.code)  # in a race the frame says who did what
    if failure.cause:
        first = one_line(failure.cause).rstrip(".")
        happened = f"{_capital(status_and_case)}" + (
            "" if is_shown else f": {one_line(what).rstrip('.')}"
        )
        body = (sentence(happened), occurrences, advice)
        brief = (sentence(status_and_case), "", advice)
    else:
        body = (sentence(what), occurrences, advice)
        brief = ("" if is_shown else sentence(_HOW_OFTEN.sub("", what)), "", advice)
    stop = "" if first.endswith("?") else "."
    return Message(
        status=failure.status,
        headline=f"{one_line(exercise)}/{one_line(variant)}: {first}{stop}",
        kind=f"{failure.status.headline}{at}",
        body=" ".join(filter(None, body)),
        brief=" ".join(filter(None, brief)),
        scope=scope,
        code=failure.code,
        reproduce=shorten(clean(failure.reproduce).replace("\n", " ").strip()),
        detail=shorten_middle(_without_ours(clean(detail)).strip("\n"), DETAIL_LIMIT),
        observed_by=failure.observed_by,
        picture=failure.picture,
    )


def _beside_frame(failure: Failure) -> tuple[str, str]:
    """What happened and its detail, without the lines of code that the frame shows."""
    what, detail = failure.what, failure.detail
    headline = f"{failure.status.headline}: "
    if what.lower().startswith(headline):
        what = what[len(headline) :]
    if failure.code:
        what = _QUOTED.sub("", what)
        if detail.count("\n") <= 1 and detail.rstrip().endswith("^"):
            detail = ""
    return what, detail


def _said_once(happened: str, where: str) -> str:
    """What happened, without the one place in it where the status is said to have happened."""
    places = _PLACE.findall(happened)
    is_repeated = len(places) == 1 and places[0].endswith(f" at {where}")
    return happened.replace(places[0], "") if is_repeated else happened


def merged_messages(observed: VariantEvidence, given: bool = False) -> list[Message]:
    """What to tell about a variant: one message per kind of failure, those with a cause first."""
    return [
        compose(observed.exercise, observed.variant, merged.failure, _scope(merged), given)
        for merged in sorted(merge_failures(_with_memory(observed)), key=_rank)
    ]


def _with_memory(observed: VariantEvidence) -> Sequence[PartEvidence]:
    """The parts, and the case whose use of memory is counted where the kernel is wrong there."""
    memory = observed.memory
    if memory is None or not memory.failures:
        return observed.parts
    beside = PartEvidence("", "memory", memory.status, failures=memory.failures)
    return (*observed.parts, beside)


def large_size_messages(observed: VariantEvidence) -> list[Message]:
    """What is wrong at sizes that are planned only: one message for each finding."""
    name = f"{one_line(observed.exercise)}/{one_line(observed.variant)}"
    failures = [each for each in observed.at_large_sizes if each.status.is_failure]
    messages = [compose(observed.exercise, observed.variant, each, given=True) for each in failures]
    return [
        replace(each, headline=each.headline.replace(f"{name}: ", f"{name}, {_NO_POINTS}: ", 1))
        for each in messages
    ]


def _rank(merged: MergedFailure) -> int:
    """What explains most comes first: a cause that explains outputs, then any cause."""
    if not merged.failure.cause:
        return 2
    return int(merged.failure.status not in (Status.wrong_values, Status.not_finite))


def undecided_messages(observed: VariantEvidence) -> list[Message]:
    """Why parts of a variant weren't measured: one message per reason."""
    undecided = [
        part for part in observed.parts if part.status is Status.not_measured and part.failures
    ]
    return [
        compose(observed.exercise, observed.variant, merged.failure, _scope(merged, "Not measured"))
        for merged in _merged(undecided, undecided)
    ]


def merge_failures(parts: Iterable[PartEvidence]) -> list[MergedFailure]:
    """Failures of the parts that failed, alike ones together.

    Two are alike with the same cause; or with the same status, line, pattern (however many cases it
    was tried on) and hint, and a `what` that differs in numbers and dtypes only. At one line the
    pattern doesn't matter. Wrong elements without a cause count to the only cause there is, unless
    it names dtypes that aren't theirs, or keeps only others from compiling; those with neither a
    pattern nor a hint count to another failure of their status and line.
    """
    parts = list(parts)
    return _merged([part for part in parts if part.status.is_failure], parts)


def _merged(failing: Sequence[PartEvidence], parts: Sequence[PartEvidence]) -> list[MergedFailure]:
    """Failures of some parts, alike ones together; `parts` are all of the variant."""
    groups: dict[Kind, list[tuple[PartEvidence, Failure]]] = {}
    for part in failing:
        for failure in part.failures or (Failure(part.status, "", part.reason),):
            groups.setdefault(kind_of(failure), []).append((part, failure))
    told_by: dict[Kind, list[Kind]] = {}
    for kind in groups:
        told_by.setdefault(_teller(kind, groups), []).append(kind)
    order = {(part.size_class, part.dtype): index for index, part in enumerate(failing)}
    merged = []
    for kind in (kind for kind in groups if kind in told_by):
        matched = {(p.size_class, p.dtype) for echo in told_by[kind] for p, _ in groups[echo]}
        places = tuple(sorted(matched, key=order.__getitem__))
        as_good = [
            each for echo in told_by[kind] if echo.worth == kind.worth for each in groups[echo]
        ]
        smallest = _of_dtypes(min((failure for _, failure in as_good), key=_volume), as_good, parts)
        merged.append(MergedFailure(smallest, places, len(places) == len(failing) > 1))
    return merged


def sentence(text: str) -> str:
    """`one_line` text as a sentence: a capital where it starts with a word, a stop at its end."""
    text = one_line(text)
    return _capital(text) + ("" if text.endswith((".", "?", "!")) else ".") if text else ""


def listing(words: Iterable[str]) -> str:
    """'float32, float16 and bfloat16'."""
    *first, last = list(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def case_in_words(case: str) -> str:
    """'rows=1 cols=1025 dtype=float16 seed=7' -> 'rows=1, cols=1025, float16'."""
    items = [item for item in case.split() if not item.startswith("seed=")]
    return ", ".join(item.removeprefix("dtype=") for item in items)


_PLACE = re.compile(r",? at [^\s:,]+\.(?:py|cu):\d+\b")
_QUOTED = re.compile(r" \(`[^`]*`\)")  # a line of code behind its number
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?", re.IGNORECASE)
_SIZE = re.compile(r"(?<!\S)([^\s=]+)=(\d{1,19})(?!\S)", re.ASCII)  # of a case
_DTYPE = re.compile(r"\bb?float\d+\b|\b[bf]p?(?:16|32|64)\b")
_HOW_OFTEN = re.compile(
    r" (?:The same happened [\d,]+ times|[\d,]+ elements (?:did so|are contended)) there; "
    r"this was the first\."
)
_OUR_LINES = re.compile(
    r'^ *File "[^"\n]*/grader/worker/[^"\n]*", line \d+.*\n?(?: {4,}(?!File ").*\n?)?'
    r"|^Extension modules: .*\n?",
    re.MULTILINE,
)
_SUBMITTED = re.compile(r'"[^"\n]*/submission/([^"/\n]+\.(?:py|cu))"')
TRIED = re.compile(r" \(\d+ tried\)")
# Where `what` counts elements; of an exception or a compiler's words each is worth reading.
_ABOUT_ELEMENTS = frozenset({"wrong_values", "not_finite", "not_written", "wrote_out_of_bounds"})
ALWAYS = re.compile(r"every ((?:\w+ )?case) fails\b", re.IGNORECASE)


def _without_ours(detail: str) -> str:
    """A traceback without the frames of the grader, with the submission's file by its name."""
    return _SUBMITTED.sub(r'"\1"', _OUR_LINES.sub("", detail))


def _advice(pattern: str, hint: str) -> str:
    pattern = pattern.rstrip(".")
    if pattern and hint[:1].islower():  # a question about what the cases have in common
        return f"{_capital(pattern)}: {hint}" + ("" if hint.endswith((".", "?", "!")) else ".")
    return f"{sentence(pattern)} {sentence(hint)}".strip()


def _capital(text: str) -> str:
    """A capital, unless the first word is code (`out[0]`, `x_ptr`, `cudaFree`): then as it is."""
    first = text.split(" ", 1)[0].rstrip(",.:;?!")
    is_word = first.isalpha() and first.islower() and first not in _CODE_WORDS
    return text[:1].upper() + text[1:] if is_word else text


# Names of arguments that are also plain letters: "out holds nan" must not become "Out holds nan".
_CODE_WORDS = frozenset({"out", "x", "y", "nan", "inf", "weight", "rows", "cols", "n", "eps"})


def without_numbers(text: str) -> str:
    """A text in which neither a number nor a dtype tells two failures apart."""
    return _NUMBER.sub("#", _DTYPE.sub("dtype", text))


class Kind(NamedTuple):
    """What tells a failure from others: with one cause or at one line in one way, it is the same.

    A field is "" where it doesn't matter.
    """

    status: str = ""
    where: str = ""  # file and line
    pattern: str = ""
    hint: str = ""
    what: str = ""  # without numbers
    cause: str = ""

    @property
    def worth(self) -> tuple[bool, bool, bool]:
        """How much it explains: a cause, a pattern that tells cases apart, at least a hint."""
        separates = bool(self.pattern) and not ALWAYS.match(self.pattern)
        return bool(self.cause), separates, bool(self.hint or self.pattern)


def kind_of(failure: Failure) -> Kind:
    """The kind of a failure."""
    if failure.cause:
        return Kind(cause=failure.cause)
    kind = Kind(failure.status.value, failure.where, hint=failure.hint)
    if failure.where:
        return kind._replace(what=without_numbers(_HOW_OFTEN.sub("", failure.what)))
    pattern = ALWAYS.sub("Every case fails", TRIED.sub("", failure.pattern))  # in whichever dtype
    return kind._replace(pattern=pattern, what=without_numbers(failure.what))


def _of_dtypes(
    failure: Failure, alike: Sequence[tuple[PartEvidence, Failure]], parts: Sequence[PartEvidence]
) -> Failure:
    """A failure of every case, told of all dtypes in which every case fails like this.

    The pattern is that of one part: if others pass, the size classes are named.
    """
    always = ALWAYS.match(failure.pattern)
    if always is None:
        return failure
    own = [part for part, each in alike if ALWAYS.match(each.pattern)]
    dtypes, which = dict.fromkeys(part.dtype for part in own), always[1]
    if len(dtypes) > 1:
        is_all = dtypes.keys() == {part.dtype for part in parts}
        which = "case" if is_all else f"{listing(dtypes)} case"
    if any(part.status is Status.passed and part.dtype in dtypes for part in parts):
        which += f" of {listing(dict.fromkeys(part.size_class for part in own))}"
    if which == always[1]:
        return failure
    return replace(failure, pattern=ALWAYS.sub(f"Every {which} fails", failure.pattern))


def _teller(kind: Kind, groups: Mapping[Kind, Sequence[tuple[PartEvidence, Failure]]]) -> Kind:
    """The kind of failure that explains most, of those that explain what this one does."""
    if kind.cause or kind.status not in (*_ABOUT_ELEMENTS, "timed_out"):
        return kind
    causes = [each for each in groups if each.cause]
    if len(causes) == 1 and not kind.where:
        named = set(_DTYPE.findall(causes[0].cause))
        own, others = ({part.dtype for part, _ in groups[each]} for each in (causes[0], kind))
        # Elements are wrong only where a kernel compiles.
        if all(failure.status is Status.compile_error for _, failure in groups[causes[0]]):
            named |= own
        return kind if own <= named and not others <= named else causes[0]
    _, separates, _ = kind.worth
    if separates:
        return kind
    place = kind.status, kind.where
    same = [
        each
        for each in groups
        if (each.status, each.where) == place and kind.hint in ("", each.hint)
    ]
    return max(same, key=lambda each: each.worth)


def _volume(failure: Failure) -> int:
    """How big a case is: the product of its sizes."""
    sizes = _SIZE.findall(failure.case)
    return math.prod(int(value) for name, value in sizes if name != "seed")


def _scope(merged: MergedFailure, does: str = "Fails") -> str:
    if len(merged.places) == 1:
        return ""
    if merged.covers_all and not merged.failure.case:
        return "Every failing check fails like this."
    classes: dict[str, list[str]] = {}
    for size_class, dtype in merged.places:
        classes.setdefault(size_class, []).append(dtype)
    dtypes = {tuple(matched) for matched in classes.values()}
    if len(dtypes) == 1:
        return f"{does} in {listing(classes)} for {listing(dtypes.pop())}."
    return f"{does} in {listing(f'{c} ({listing(each)})' for c, each in classes.items())}."
