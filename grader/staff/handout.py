"""The tables of handout.md that follow from the specs: points, bounds on memory, thresholds.

Each stands between two comments, which are all that has to be written by hand:

    <!-- points of rmsnorm: made by make handout -->
    <!-- /points of rmsnorm -->

one pair in the section `## rmsnorm` of every exercise, and one pair of `overview` anywhere. An
exercise with predictions has a pair of `questions of rmsnorm` as well. What is between them is
replaced. Exercises are listed in the course's order, and so are their sections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from grader.mistakes import Mistake
from grader.spec import Exercise
from grader.staff.handout_tables import overview, points_table, questions_table

OVERVIEW = "overview"
_OF_AN_EXERCISE = "points of "
_QUESTIONS = "questions of "
_MADE_BY = ": made by make handout"
_MARKER = re.compile(
    r"<!--\s*(?P<end>/?)(?P<name>overview|(?:points|questions) of \S+?)(?P<by>:.*)?\s*-->"
)


@dataclass(frozen=True)
class _Place:
    """The place of a table: after the line `start`, up to the line `end`, from 0."""

    name: str
    start: int
    end: int


def render(text: str, exercises: Mapping[str, Exercise], source: str = "handout.md") -> str:
    """The handout `text` with its tables as the specs have it now.

    `source` names the file in messages. Raises Mistake where an exercise has no section, and
    where markers are missing, doubled, of no exercise, in another section or without their end.
    """
    lines = text.splitlines()
    sections = _sections(lines, exercises, source)
    places = _places(lines, source)
    _check(places, sections, exercises, source)
    tables = {_OF_AN_EXERCISE + name: points_table(exercises[name]) for name in sections}
    tables |= {_QUESTIONS + name: questions_table(exercises[name]) for name in sections}
    tables[OVERVIEW] = overview(list(exercises.values()))
    made: list[str] = []
    done = 0
    for place in places:
        made += [*lines[done : place.start + 1], "", *tables[place.name], "", lines[place.end]]
        done = place.end + 1
    return "\n".join([*made, *lines[done:]]) + "\n"


def difference(text: str, exercises: Mapping[str, Exercise], source: str = "handout.md") -> str:
    """The first line in which the handout differs from `render`'s text; "" if there is none."""
    made = render(text, exercises, source)
    if made == text:
        return ""
    pairs = enumerate(zip(made.splitlines(), text.splitlines(), strict=False), start=1)
    lines = (
        f"{source}:{n}: expected {one!r}, got {other!r}"
        for n, (one, other) in pairs
        if one != other
    )
    line = next(lines, f"{source}: the end of the file differs")
    return f"{line}; `grader handout` mends it"


def missing_sections(text: str, exercises: Iterable[str], source: str) -> dict[str, str]:
    """By exercise, what to write where the handout has no section for it."""
    lines = {line.rstrip() for line in text.splitlines()}
    return {name: _no_section(name, source) for name in exercises if f"## {name}" not in lines}


# --- places ---------------------------------------------------------------------------------------


def _sections(lines: Sequence[str], exercises: Iterable[str], source: str) -> dict[str, int]:
    """The line of each exercise's heading, from 0, in the order of the document."""
    known = set(exercises)
    headings: dict[str, int] = {}
    for number, line in enumerate(lines):
        name = line.removeprefix("## ").rstrip()
        if not line.startswith("## ") or name not in known:
            continue
        if headings.setdefault(name, number) != number:
            first = headings[name] + 1
            raise Mistake(
                f"{source}:{number + 1}: a second section {name}, the first is in line {first}"
            )
    for name in exercises:
        if name not in headings:
            raise Mistake(_no_section(name, source))
    return headings


def _no_section(name: str, source: str) -> str:
    opening, closing = (make(_OF_AN_EXERCISE + name) for make in (_opening, _closing))
    return (
        f"{source}: expected a section '## {name}' for the exercise of {name}.yaml, there is none: "
        f"write it, with the line '{opening}' and below it '{closing}' where the points belong"
    )


def _places(lines: Sequence[str], source: str) -> list[_Place]:
    places: list[_Place] = []
    started: tuple[str, int] | None = None
    for number, line in enumerate(lines):
        marker = _MARKER.fullmatch(line.strip())
        if not marker:
            continue
        name = marker["name"]
        if marker["end"]:
            if started is None or started[0] != name:
                expected = f"'{_closing(started[0])}'" if started else "a beginning before an end"
                raise Mistake(f"{source}:{number + 1}: expected {expected}, got {line!r}")
            places.append(_Place(name, started[1], number))
            started = None
        elif started is not None:
            raise Mistake(
                f"{source}:{number + 1}: expected '{_closing(started[0])}' for line "
                f"{started[1] + 1}, got {line!r}"
            )
        else:
            started = (name, number)
    if started is not None:
        raise Mistake(
            f"{source}:{started[1] + 1}: expected '{_closing(started[0])}' below, there is none"
        )
    return places


def _check(
    places: Sequence[_Place],
    sections: Mapping[str, int],
    exercises: Mapping[str, Exercise],
    source: str,
) -> None:
    wanted = [OVERVIEW, *(_OF_AN_EXERCISE + name for name in exercises)]
    wanted += [_QUESTIONS + name for name, each in exercises.items() if each.predictions]
    starts: dict[str, int] = {}
    for place in places:
        where = f"{source}:{place.start + 1}"
        if place.name not in wanted:
            expected = f"an exercise, one of {', '.join(exercises)}"
            raise Mistake(f"{where}: expected {expected}; got {place.name!r}")
        if starts.setdefault(place.name, place.start) != place.start:
            raise Mistake(
                f"{where}: expected {place.name!r} once, got it again; it is in line "
                f"{starts[place.name] + 1} already"
            )
        above = [name for name, line in sections.items() if line < place.start]
        mine = place.name.rpartition(" of ")[2]
        if place.name != OVERVIEW and above[-1:] != [mine]:
            raise Mistake(
                f"{where}: expected {place.name!r} in the section '## {mine}', which begins in "
                f"line {sections[mine] + 1}"
            )
    for name in wanted:
        if name not in starts:
            both = f"'{_opening(name)}' and '{_closing(name)}'"
            raise Mistake(f"{source}: expected the lines {both}, found none")


def _opening(name: str) -> str:
    return f"<!-- {name}{_MADE_BY} -->"


def _closing(name: str) -> str:
    return f"<!-- /{name} -->"
