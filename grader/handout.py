"""The tables of handout.md that follow from the specs: points, bounds on memory, thresholds.

Each stands between two comments, which are all that has to be written by hand:

    <!-- points of rmsnorm: made by make handout -->
    <!-- /points of rmsnorm -->

one pair in the section `## rmsnorm` of every exercise, and one pair of `overview` anywhere. What is
between them is replaced. Exercises are listed in the order of their sections.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from grader.spec import Bound, Exercise, SizeRule, Threshold, Variant

OVERVIEW = "overview"
_OF_AN_EXERCISE = "points of "
_MADE_BY = ": made by make handout"
_MARKER = re.compile(r"<!--\s*(?P<end>/?)(?P<name>overview|points of \S+?)(?P<by>:.*)?\s*-->")

_YARDSTICKS = {
    "copy": "of a copy's speed",
    "torch": "of torch's speed",
    "compile": "of torch.compile's speed",
    "reference": "of the solution's speed",
    "roofline": "of the roofline",
}
_METRICS = {
    ("useful_bytes_per_sector", "load"): "useful bytes per sector of loads {bound} of 32",
    ("useful_bytes_per_sector", "store"): "useful bytes per sector of stores {bound} of 32",
    ("shared_bank_conflicts",): "bank conflicts {bound}",
    ("copies",): "copies between host and device {bound}",
    ("bytes_copied",): "bytes copied {bound}",
    ("scratch_bytes",): "bytes allocated {bound}",
    ("scratch_stores",): "bytes stored beside the arguments {bound}",
    ("reads",): "each element of `{argument}` read {bound} times",
    ("wave_bytes", "distinct"): "distinct bytes that {programs} consecutive programs load {bound}",
    ("wave_bytes", "to_row_major"): (
        "distinct bytes that {programs} consecutive programs load {bound} of those in row-major "
        "order"
    ),
    ("growth", "tile"): "for {grown} times 4, the largest block times {bound}",
    ("growth", "scratch"): "for {grown} times 4, the bytes allocated times {bound}",
}
WIDTH = 108  # columns of a line; tables may be wider


class HandoutError(ValueError):
    """A handout has no place for a table; the message names file, line, what was expected."""


@dataclass(frozen=True)
class _Place:
    """Where a table goes: after the line `start`, up to the line `end`, from 0."""

    name: str
    start: int
    end: int


def render(text: str, exercises: Mapping[str, Exercise], source: str = "handout.md") -> str:
    """The handout `text` with its tables as the specs have it now.

    `source` names the file in messages. Raises HandoutError where an exercise has no section, and
    where markers are missing, doubled, of no exercise, in another section or without their end.
    """
    lines = text.splitlines()
    sections = _sections(lines, exercises, source)
    places = _places(lines, source)
    _check(places, sections, exercises, source)
    tables = {_OF_AN_EXERCISE + name: points_table(exercises[name]) for name in sections}
    tables[OVERVIEW] = overview([exercises[name] for name in sections])
    made: list[str] = []
    done = 0
    for place in places:
        made += [*lines[done : place.start + 1], "", *tables[place.name], "", lines[place.end]]
        done = place.end + 1
    return "\n".join([*made, *lines[done:]]) + "\n"


def difference(text: str, exercises: Mapping[str, Exercise], source: str = "handout.md") -> str:
    """The first line in which the handout isn't what `render` makes of it; "" where it is."""
    made = render(text, exercises, source)
    if made == text:
        return ""
    want, got = made.splitlines(), text.splitlines()
    told = f"{source}: the end of the file differs"
    for number, (one, other) in enumerate(zip(want, got, strict=False), start=1):
        if one != other:
            told = f"{source}:{number}: expected {one!r}, got {other!r}"
            break
    return f"{told}; `make handout` mends it"


# --- places ---------------------------------------------------------------------------------------


def _sections(lines: Sequence[str], exercises: Iterable[str], source: str) -> dict[str, int]:
    """The line of each exercise's heading, from 0, in the order of the document."""
    known = set(exercises)
    found: dict[str, int] = {}
    for number, line in enumerate(lines):
        name = line.removeprefix("## ").rstrip()
        if not line.startswith("## ") or name not in known:
            continue
        if name in found:
            first = found[name] + 1
            raise HandoutError(
                f"{source}:{number + 1}: a second section {name}, the first is in line {first}"
            )
        found[name] = number
    for name in exercises:
        if name not in found:
            raise HandoutError(
                f"{source}: expected a section '## {name}' for the exercise of {name}.yaml, there "
                f"is none: write it, with the line '{_opening(_OF_AN_EXERCISE + name)}' and below "
                f"it '{_closing(_OF_AN_EXERCISE + name)}' where the points belong"
            )
    return found


def _places(lines: Sequence[str], source: str) -> list[_Place]:
    places: list[_Place] = []
    started: tuple[str, int] | None = None
    for number, line in enumerate(lines):
        found = _MARKER.fullmatch(line.strip())
        if not found:
            continue
        name = found["name"]
        if found["end"]:
            if started is None or started[0] != name:
                expected = f"'{_closing(started[0])}'" if started else "a beginning before an end"
                raise HandoutError(f"{source}:{number + 1}: expected {expected}, got {line!r}")
            places.append(_Place(name, started[1], number))
            started = None
        elif started is not None:
            raise HandoutError(
                f"{source}:{number + 1}: expected '{_closing(started[0])}' for line "
                f"{started[1] + 1}, got {line!r}"
            )
        else:
            started = (name, number)
    if started is not None:
        raise HandoutError(
            f"{source}:{started[1] + 1}: expected '{_closing(started[0])}' below, there is none"
        )
    return places


def _check(
    places: Sequence[_Place], sections: Mapping[str, int], exercises: Iterable[str], source: str
) -> None:
    wanted = [OVERVIEW, *(_OF_AN_EXERCISE + name for name in exercises)]
    seen: dict[str, int] = {}
    for place in places:
        where = f"{source}:{place.start + 1}"
        if place.name not in wanted:
            there_are = ", ".join(exercises)
            raise HandoutError(
                f"{where}: expected an exercise, one of {there_are}; got {place.name!r}"
            )
        if place.name in seen:
            raise HandoutError(
                f"{where}: expected {place.name!r} once, got it again; it is in line "
                f"{seen[place.name] + 1} already"
            )
        seen[place.name] = place.start
        above = [name for name, line in sections.items() if line < place.start]
        mine = place.name.removeprefix(_OF_AN_EXERCISE)
        if place.name != OVERVIEW and (not above or above[-1] != mine):
            raise HandoutError(
                f"{where}: expected {place.name!r} in the section '## {mine}', which begins in "
                f"line {sections[mine] + 1}"
            )
    for name in wanted:
        if name not in seen:
            raise HandoutError(
                f"{source}: expected the lines '{_opening(name)}' and '{_closing(name)}', found "
                "none"
            )


def _opening(name: str) -> str:
    return f"<!-- {name}{_MADE_BY} -->"


def _closing(name: str) -> str:
    return f"<!-- /{name} -->"


# --- tables ---------------------------------------------------------------------------------------


def overview(exercises: Sequence[Exercise]) -> list[str]:
    """Points by exercise and language, and how many of them need a GPU: lines of Markdown."""
    counted = [
        [_sum(each, "triton"), _sum(each, "cuda"), each.max_points, _sum(each, key="performance")]
        for each in exercises
    ]
    python, cuda, points, timed = (math.fsum(column) for column in zip(*counted, strict=True))
    rows = [
        [f"[{exercise.name}](#{exercise.name})", *map(_number, numbers)]
        for exercise, numbers in zip(exercises, counted, strict=True)
    ]
    rows.append(["**all**", *(f"**{_number(each)}**" for each in (python, cuda, points, timed))])
    lines = _table(["exercise", "Python", "CUDA", "points", "need a GPU"], rows)
    told = (
        f"{_number(points)} points in all. {_number(timed)} of them are for speed and need a GPU; "
        f"{_number(points - timed)} can be earned and seen on any laptop."
    )
    for exercise in exercises:
        if exercise.max_bonus:
            told += f" {exercise.name} has a bonus of {_number(exercise.max_bonus)} on top."
    return [*lines, "", *_wrapped(told, indent="")]


def points_table(exercise: Exercise) -> list[str]:
    """The points of each variant, and what memory and speed are held to: lines of Markdown."""
    variants = list(exercise.variants.values())
    keys = [
        key
        for key in (*exercise.sizes, "memory", "performance")
        if any(key in variant.points for variant in variants)
    ]
    rows = [
        [
            f"`{variant.name}`{' (bonus)' if variant.bonus else ''}",
            f"`{variant.file}`",
            ", ".join(variant.dtypes),
            *(_number(variant.points[key]) if key in variant.points else "" for key in keys),
            _number(variant.max_points),
        ]
        for variant in variants
    ]
    lines = _table(["variant", "file", "dtypes", *keys, "points"], rows)
    lines += ["", "Sizes are drawn from:", "", *_sizes(exercise)]
    bounds = [line for variant in variants for line in _memory(variant)]
    if bounds:
        lines += ["", "Memory, counted on one case:", "", *bounds]
    speeds = [line for variant in variants for line in _performance(variant)]
    if speeds:
        lines += ["", "Speed, on a GPU:", "", *speeds]
    return lines


def _sum(exercise: Exercise, language: str = "", key: str = "") -> float:
    """Points of one language or of all, for one key of `points` or for all; without a bonus."""
    return math.fsum(
        points
        for variant in exercise.variants.values()
        if not variant.bonus and language in ("", variant.language)
        for each, points in variant.points.items()
        if key in ("", each)
    )


def _sizes(exercise: Exercise) -> list[str]:
    lines = []
    for name, alternatives in exercise.sizes.items():
        told = "; or ".join(
            ", ".join(f"{size} {_rule(rule)}" for size, rule in rules.items())
            for rules in alternatives
        )
        lines += _wrapped(f"- {name}: {told}")
    return lines


def _rule(rule: SizeRule) -> str:
    if rule.choices is not None:
        *most, last = map(str, rule.choices)
        return f"{', '.join(most)} or {last}" if most else last
    if rule.low == rule.high:
        return str(rule.low)
    if rule.multiple_of > 1:
        start = f"from {rule.low} " if rule.low > rule.multiple_of else ""
        return f"a multiple of {rule.multiple_of} {start}up to {rule.high}"
    return f"{rule.low} to {rule.high}"


def _memory(variant: Variant) -> list[str]:
    memory = variant.memory
    if memory is None:
        return []
    grown = " and ".join(f"`{name}`" for name in memory.growth.sizes) if memory.growth else ""
    programs = memory.wave_bytes.programs if memory.wave_bytes else 0
    told = []
    for path, bound in memory.bounds():
        words = _METRICS[("reads",) if path[0] == "reads" else path]
        told.append(
            words.format(bound=_bound(bound), argument=path[-1], programs=programs, grown=grown)
        )
    return _bullet(variant, memory.case, told)


def _performance(variant: Variant) -> list[str]:
    performance = variant.performance
    if performance is None:
        return []
    return _bullet(variant, performance.case, map(_threshold, performance.thresholds))


def _bullet(variant: Variant, case: Mapping[str, object], told: Iterable[str]) -> list[str]:
    text = f"- `{variant.name}`, {_case(case)}: {'; '.join(told)}"
    return _wrapped(text)


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    """Lines of WIDTH at most, where none ends within a formula: `2 * n` would begin a list."""
    whole = re.sub(r"`[^`]*`", lambda found: found[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(
        whole, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace("\0", " ") for line in lines]


def _threshold(threshold: Threshold) -> str:
    if threshold.milliseconds is not None:
        at_most = threshold.milliseconds
        return f"{_points(threshold.points)} for {at_most.at_most:g} ms on an {at_most.gpu}"
    speed = f"{threshold.at_least:.2f} {_YARDSTICKS[threshold.speed_vs]}"
    return f"{_points(threshold.points)} for {speed}"


def _points(points: float) -> str:
    return f"{_number(points)} point{'' if points == 1 else 's'}"


def _bound(bound: Bound) -> str:
    said = [("at least", bound.at_least), ("at most", bound.at_most)]
    return " and ".join(f"{words} {_formula(str(value))}" for words, value in said if value)


def _formula(text: str) -> str:
    return text if re.fullmatch(r"[\d.]+", text) else f"`{text}`"


def _case(case: Mapping[str, object]) -> str:
    return ", ".join(
        str(value) if name == "dtype" else f"{name} = {value}" for name, value in case.items()
    )


def _number(value: float) -> str:
    return f"{round(value, 6):g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table whose columns of numbers are aligned to the right."""
    rule = [
        "--:" if all(re.fullmatch(r"\**[\d.]*\**", cell) for cell in column) else "---"
        for column in zip(*rows, strict=True)
    ]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]
