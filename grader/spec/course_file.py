"""The course file: course.yaml in, a frozen CourseFile out.

    title: Kernels 1
    due: 2026-12-01T23:59              # with an offset (+01:00), or with `timezone` beside it
    timezone: Europe/Berlin
    late: {grace: 15m, slip_days: 5, penalty_per_day: 10, cap: 50, refuse_after: 7d}
    extensions: {ada: 2026-12-03T23:59, "30123": 2d}
    counts: last                       # or best, or last_on_time
    device: NVIDIA H100                # or cpu: where the class is graded in the end
    seed: 7
    lifted: [rmsnorm/triton]
    order: [silu, gelu]                # of the exercises; the others follow as they were

`order` of a course is the order in which exercises are listed everywhere; a class's own course.yaml
may have another. Every key may be left out: without a due date nothing is late. Whatever is wrong
becomes one line each in a SpecError:

    course.yaml:4: late.cap: expected a number from 0 to 100 (percent), got 150
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeVar, get_args
from zoneinfo import ZoneInfo

import pydantic
from pydantic import BeforeValidator, PlainValidator

from grader.gpu import kinds
from grader.spec.document import Document, read_document
from grader.spec.exercise import Exercise
from grader.spec.formula import as_written
from grader.spec.values import (
    Block,
    Mistake,
    Positive,
    hint,
    one_of,
    refusal,
    refusals,
    unexpected,
)

T = TypeVar("T")
FILE = "course.yaml"
Counts = Literal["last", "best", "last_on_time"]
Part = Literal["reference", "assignment", "wrong", "honest", "handout"]

CPU = "cpu"  # the device of results that no GPU was there for
DAY = timedelta(days=1)
LONGEST = timedelta(days=3650)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_A_DURATION = "a duration such as 15m, 36h or 2d"
_A_TIME = "a date and a time such as 2026-12-01T23:59"
_MISSING_DUE = "expected the key 'due' beside it: without a due date nothing is late"


def duration_of(value: object) -> timedelta | None:
    """'15m', '36h', '2d', also '1d 12h' as a duration; None for anything else."""
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str) or not re.fullmatch(r"\s*(\d{1,7}[smhd]\s*)+", value, re.ASCII):
        return None
    parts = re.findall(r"(\d+)([smhd])", value, re.ASCII)
    total = sum((timedelta(**{_UNITS[unit]: int(count)}) for count, unit in parts), timedelta())
    return total if total <= LONGEST else None


def time_of(value: object) -> datetime | None:
    """A date and a time as YAML read it, with or without an offset; None for anything else."""
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not re.search(r"\d[T ]\d", value):
        return None
    try:
        return datetime.fromisoformat(re.sub("[zZ]$", "+00:00", value.strip()))
    except ValueError:
        return None


def _read_by(read: Callable[[Any], object], wanted: str) -> BeforeValidator:
    """A validator: what `read` makes of a value, which is None where that isn't what is wanted."""

    def check(value: object) -> object:
        made = read(value)
        if made is None:
            raise unexpected(wanted, _shown(value))
        return made

    return BeforeValidator(check)


def _shown(value: object) -> object:
    return value.isoformat() if isinstance(value, date) else value


def _percent(value: object) -> object:
    wanted = "a number from 0 to 100 (percent)"
    if isinstance(value, str):
        advice = ": write it without %" if value.rstrip().endswith("%") else ""
        raise unexpected(wanted, value, advice)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 100:
        raise unexpected(wanted, value)
    return value


def _gpu(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise unexpected("the name of a GPU", value)
    name = str(value).strip()
    name = f"RTX {name}" if re.fullmatch(r"\d{4}.*", name) else name
    if wrong := kinds.problem(name):
        raise refusal(wrong)
    return name


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 63 else None


def _place(value: object) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return None
    path = PurePosixPath(value)
    return None if path.is_absolute() or ".." in path.parts else value


def _zone(value: object) -> str | None:
    with contextlib.suppress(KeyError, ValueError, OSError):
        return ZoneInfo(value).key if isinstance(value, str) else None
    return None


Duration = Annotated[timedelta, _read_by(duration_of, _A_DURATION)]
Time = Annotated[datetime, _read_by(time_of, _A_TIME)]
# A time, or a duration after the due date, which `_finish` makes a time.
_either = _read_by(lambda v: time_of(v) or duration_of(v), f"{_A_TIME}, or {_A_DURATION}")
Extension = Annotated[datetime, PlainValidator(_either.func)]
Percent = Annotated[float, BeforeValidator(_percent)]
Text = Annotated[str, _read_by(lambda v: v.strip() or None if type(v) is str else None, "text")]
# Any names: `names_mistakes` checks them.
Named = Annotated[str, _read_by(lambda v: v if type(v) is str else None, "the name of an exercise")]
Whole = Annotated[int, _read_by(_whole, "a whole number >= 0")]
Gpu = Annotated[str, BeforeValidator(_gpu)]
Place = Annotated[str, _read_by(_place, "a path inside the course's folder")]
Zone = Annotated[str, _read_by(_zone, "the name of a time zone such as Europe/Berlin")]


class Late(Block):
    """The cost of lateness. Without a key, nothing: no grace, no slip days, no penalty.

    Grace and days are counted from a student's own due date. `penalty_per_day` and `cap`, the most
    that lateness takes, are percent of the score. What is later than the grace and `refuse_after`
    scores 0.
    """

    grace: Duration = timedelta()
    slip_days: Whole = 0
    penalty_per_day: Percent = 0.0
    cap: Percent = 100.0
    refuse_after: Duration | None = None

    def penalty(self, days: int) -> Fraction:
        """The share of the score that `days` late take, slip days already taken off."""
        taken = Fraction(repr(self.penalty_per_day)) * days
        return min(taken, Fraction(repr(self.cap))) / 100


class CourseFile(Block):
    """The settings of a course, or of one class of it, as a course.yaml has them.

    Times have an offset; `extensions` are due dates, by a student's id. `due_dates` are those of
    exercises that are due at another time than the rest; an extension moves them by as much.
    `weights` multiply an exercise's points. `gpu` is what kernels are compiled for without a GPU.
    `folders` says where a part of the course lies in its folder.

    `device` is where the class is graded in the end: "cpu", or a part of a GPU's name. `seed`,
    where it isn't given, is drawn once and stored with the results. `lifted` names what may break
    the rules of the assignment, for everybody. `order` names exercises as the class has them in
    its reports; those it doesn't name follow, in the order of the specs.
    """

    title: Text = ""
    due: Time | None = None
    timezone: Zone | None = None
    late: Late = Late()
    extensions: dict[str, Extension] = pydantic.Field(default_factory=dict)
    counts: Annotated[Counts, one_of(get_args(Counts))] = "last"
    device: Text | None = None
    seed: Whole | None = None
    lifted: tuple[Text, ...] = ()
    order: tuple[Named, ...] = ()
    gpu: Gpu = "H100"
    weights: dict[str, Positive] = pydantic.Field(default_factory=dict)
    due_dates: dict[str, Time] = pydantic.Field(default_factory=dict)
    folders: dict[Annotated[Part, one_of(get_args(Part))], Place] = pydantic.Field(
        default_factory=dict
    )

    @pydantic.model_validator(mode="after")
    def _finish(self) -> CourseFile:
        if self.due is None:
            needing = [
                key for key in ("late", "extensions", "due_dates") if key in self.model_fields_set
            ]
            if needing:
                raise refusals([Mistake((key,), _MISSING_DUE) for key in needing])
            return self
        due = self._placed(self.due)
        if due.tzinfo is None:
            message = (
                "expected an offset from UTC, such as +01:00 at its end, or the key 'timezone' "
                f"beside it; got {_shown(self.due)} without either"
            )
            raise refusals([Mistake(("due",), message)])
        as_written: Mapping[str, datetime | timedelta] = self.extensions
        extensions, mistakes = {}, []
        for student, given in as_written.items():
            time = due + given if isinstance(given, timedelta) else given
            until = self._placed(time, due.tzinfo)
            if until.astimezone(timezone.utc) < due.astimezone(timezone.utc):
                message = (
                    f"expected a time after the due date, {time_text(due)}, got {_shown(given)}"
                )
                mistakes.append(Mistake(("extensions", student), message))
            extensions[student] = until
        if mistakes:
            raise refusals(mistakes)
        object.__setattr__(self, "due", due)
        object.__setattr__(self, "extensions", extensions)
        dates = {name: self._placed(each, due.tzinfo) for name, each in self.due_dates.items()}
        object.__setattr__(self, "due_dates", dates)
        return self

    def _placed(self, time: datetime, otherwise: tzinfo | None = None) -> datetime:
        """A time with an offset: its own, the course's time zone's, or that of `otherwise`.

        Where clocks are turned, an hour has two meanings; the later one is meant.
        """
        if time.tzinfo is not None:
            return time
        if self.timezone is None:
            return time.replace(tzinfo=otherwise)
        zone = ZoneInfo(self.timezone)
        both = [time.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
        return max(both, key=lambda each: each.astimezone(timezone.utc))

    def why_not_final(self, device: str) -> str:
        """Why results of a device aren't the class's final ones, in a line, or "" if they are."""
        if self.device is None or self.device.lower() in device.lower():
            return ""
        return f"graded on {device}: the course's final device is {self.device}"


def load(path: Path, exercises: Mapping[str, Exercise] | None = None) -> CourseFile:
    """Read a course file. Raises SpecError, with a line for every mistake found.

    With `exercises`, `lifted` must name one of them, or one of their variants, and `order` some of
    them, each once.
    """
    document = read_document(Path(path))
    course = document.as_a(CourseFile)
    if unknown := list(names_mistakes(course, exercises, document)):
        raise document.report(unknown)
    return course


def names_mistakes(
    course: CourseFile, exercises: Mapping[str, Exercise | None] | None, document: Document
) -> Iterator[Mistake]:
    """The names of exercises and variants in a course file that there are none of.

    An exercise whose spec is wrong is None; without `exercises`, every name is taken for one.
    """
    for index, name in enumerate(course.order):
        if exercises is not None and name not in exercises:
            yield Mistake(("order", index), _no_exercise(name, exercises))
        elif (first := course.order.index(name)) < index:
            line = document.lines.get(("order", first), 0)
            message = f"expected each exercise once, got {name!r} again; line {line} has it"
            yield Mistake(("order", index), message)
    if exercises is None:
        return
    for key in ("weights", "due_dates"):
        for name in getattr(course, key):
            if name not in exercises:
                yield Mistake((key, name), _no_exercise(name, exercises))
    if None in exercises.values():
        return
    every = [
        str(task)
        for each in exercises.values()
        if each
        for task in (each.name, *(f"{each.name}/{v}" for v in each.variants))
    ]
    for index, name in enumerate(course.lifted):
        if name not in every:
            wanted = "the name of an exercise or variant, such as rmsnorm or rmsnorm/triton"
            message = f"expected {wanted}, got {as_written(name)}{hint(name, every)}"
            yield Mistake(("lifted", index), message)


def _no_exercise(name: str, known: Collection[str]) -> str:
    wanted = f"the name of an exercise, one of {', '.join(known)}"
    return f"expected {wanted}, got {as_written(name)}{hint(name, known)}"


def in_order(exercises: Mapping[str, T], order: Sequence[str]) -> dict[str, T]:
    """The exercises with those that `order` names first, and the others as they were."""
    named = [name for name in order if name in exercises]
    return {name: exercises[name] for name in dict.fromkeys((*named, *exercises))}


def time_text(time: datetime) -> str:
    """'2026-12-01 23:59 +01:00', with the time zone's name where it is known."""
    seconds = ":%S" if time.second else ""
    text = time.strftime(f"%Y-%m-%d %H:%M{seconds}")
    if isinstance(time.tzinfo, ZoneInfo):
        return f"{text} {time.tzinfo.key}"
    offset = time.strftime("%z")
    return f"{text} {offset[:3]}:{offset[3:]}" if offset else text
