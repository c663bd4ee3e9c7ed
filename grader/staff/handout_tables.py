"""The tables that handout.md shows of an exercise, as lines of Markdown, from its spec alone."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from grader.spec import OF_BASELINE, Bound, Exercise, SizeRule, Threshold, Variant

_METRICS = {
    ("useful_bytes_per_sector", "load"): "useful bytes per sector of loads {bound} of 32",
    ("useful_bytes_per_sector", "store"): "useful bytes per sector of stores {bound} of 32",
    ("shared_bank_conflicts",): "bank conflicts {bound}",
    ("copies",): "copies between host and device {bound}",
    ("bytes_copied",): "bytes copied {bound}",
    ("largest_share",): "the busiest {one}'s share of the bytes {bound}",
    ("requests",): "requests to global memory {bound}",
    ("blocks",): "{one_of_grid}s of the largest launch {bound}",
    ("simt_efficiency",): "share of {parts} in accesses to memory {bound}",
    ("scratch_bytes",): "bytes allocated {bound}",
    ("scratch_stores",): "bytes stored beside the arguments {bound}",
    ("reads",): "each element of `{argument}` read {bound} times",
    ("wave_bytes", "distinct"): "distinct bytes that {programs} consecutive programs load {bound}",
    ("wave_bytes", "to_row_major"): (
        "distinct bytes that {programs} consecutive programs load {bound} of those in row-major "
        "order"
    ),
    ("growth", "tile"): "for {grown} times 4, the largest block times {bound}",
    (
        "growth",
        "scratch",
    ): "for {grown} times 4, the bytes of scratch memory, and those stored to it, times {bound}",
}
_WORDS = {
    "cuda": {"one": "thread", "one_of_grid": "block", "parts": "a warp's threads"},
    "triton": {"one": "program", "one_of_grid": "program", "parts": "a block's elements"},
}
WIDTH = 108  # columns of a line; tables may be wider


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
    sentences = (
        f"{_number(points)} points in all. {_number(timed)} of them are for speed and need a GPU; "
        f"{_number(points - timed)} can be earned and seen on any laptop."
    )
    return [*lines, "", *_wrapped(sentences + _bonuses(exercises), indent="")]


def _bonuses(exercises: Sequence[Exercise]) -> str:
    """What earns points on top, and how many."""
    variants = [
        f"for `{each.name}/{variant.name}` {_number(variant.max_points)}"
        for each in exercises
        for variant in each.variants.values()
        if variant.bonus
    ]
    answers = [
        f"{each.name} {_number(each.predictions.points)}"
        for each in exercises
        if each.predictions is not None
    ]
    if answers:
        asked = "for right answers to the questions that an exercise asks first"
        variants.append(f"{asked}, {', '.join(answers)}")
    return f" On top there is a bonus: {'; '.join(variants)}." if variants else ""


def points_table(exercise: Exercise) -> list[str]:
    """The points of each variant, its bounds on memory and its thresholds: lines of Markdown."""
    variants = list(exercise.variants.values())
    every = (*exercise.sizes, "memory", "performance")
    keys = [key for key in every if any(key in variant.points for variant in variants)]
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
    for title, listed in (
        ("Sizes are drawn from:", _sizes(exercise)),
        ("Memory, counted on one case:", [line for each in variants for line in _memory(each)]),
        ("Speed, on a GPU:", [line for each in variants for line in _performance(each)]),
        (f"Timed by `grader bench {exercise.name}`, for no points:", _for_bench(variants)),
    ):
        if listed:
            lines += ["", title, "", *listed]
    return lines


def questions_table(exercise: Exercise) -> list[str]:
    """What to answer before the code is written: lines of Markdown, none without questions.

    The numbers, which are drawn for each student, are shown by their names.
    """
    if exercise.predictions is None:
        return []
    rows = [
        [
            f"`{key}`",
            re.sub(r"\{(\w+)\}", r"*\1*", question.ask),
            " or ".join(question.choices) or question.unit,
        ]
        for key, question in exercise.predictions.questions.items()
    ]
    points = _points(exercise.predictions.points)
    title = (
        f"**Before you write it**, answer these with `grader predict {exercise.name}`, which draws "
        f"your numbers from your name. Right answers earn {points} on top, all alike:"
    )
    return [*_wrapped(title, indent=""), "", *_table(["question", "text", "answer"], rows)]


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
        rules_text = "; or ".join(
            ", ".join(f"{size} {_rule(rule)}" for size, rule in rules.items())
            for rules in alternatives
        )
        lines += _wrapped(f"- {name}: {rules_text}{_launches(exercise, name)}")
    return lines


def _launches(exercise: Exercise, size_class: str) -> str:
    """The sizes at which the launches of a class must be possible, too."""
    cases = "; ".join(map(_case, exercise.launches_at.get(size_class, ())))
    return f"; launches must be possible for {cases}" if cases else ""


def _rule(rule: SizeRule) -> str:
    if rule.or_zero:
        return f"0, or {_rule(rule.model_copy(update={'or_zero': False}))}"
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
    words = _WORDS[variant.language]
    bounds = [
        _METRICS[("reads",) if path[0] == "reads" else path].format(
            bound=_bound(bound), argument=path[-1], programs=programs, grown=grown, **words
        )
        for path, bound in memory.bounds()
    ]
    if memory.most_traffic and memory.limited_traffic():
        bounds.append(f"traffic at most {_number(memory.most_traffic)} times what is needed")
    lines = _bullet(variant, [memory.case], bounds)
    if memory.memory_pressure is not None:
        left = f"it allocates at most {_formula(str(memory.memory_pressure.leaves))} bytes"
        lines += _bullet(variant, [memory.memory_pressure.case], [left])
    return lines


def _performance(variant: Variant) -> list[str]:
    performance = variant.performance
    if performance is None or not performance.thresholds:
        return []
    several = len(performance.by_gpu) > 1
    of_gpus = performance.by_gpu if several else {"": performance.thresholds}
    lines = [
        f"{f'on an {gpu}: ' * several}{_threshold(each)}"
        for gpu, thresholds in of_gpus.items()
        for each in thresholds
    ]
    return _bullet(variant, performance.every_case, lines)


def _for_bench(variants: Sequence[Variant]) -> list[str]:
    """A line for each case that variants without points for speed have."""
    by_case: dict[str, list[str]] = {}
    for variant in variants:
        if variant.performance is not None and not variant.is_graded_on_speed:
            case = "; ".join(map(_case, variant.performance.every_case))
            by_case.setdefault(case, []).append(f"`{variant.name}`")
    return [
        line
        for case, names in by_case.items()
        for line in _wrapped(f"- {', '.join(names)}: {case}")
    ]


def _bullet(
    variant: Variant, cases: Sequence[Mapping[str, object]], bounds: Iterable[str]
) -> list[str]:
    of = "; ".join(map(_case, cases))
    of = of if len(cases) == 1 else f"the slowest of {len(cases)} cases ({of})"
    return _wrapped(f"- `{variant.name}`, {of}: {'; '.join(bounds)}")


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    """Lines of WIDTH at most. None breaks within a formula: `* n` would begin a list."""
    whole = re.sub(r"`[^`]*`", lambda formula: formula[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(
        whole, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace("\0", " ") for line in lines]


def _threshold(threshold: Threshold) -> str:
    if threshold.milliseconds is not None:
        at_most = threshold.milliseconds
        return f"{_points(threshold.points)} for {at_most.at_most:g} ms on an {at_most.gpu}"
    assert threshold.speed_vs is not None  # it has one or the other
    speed = f"{threshold.limit:.2f} {OF_BASELINE[threshold.speed_vs]}"
    if threshold.from_ is not None:
        steps = len(threshold.steps)
        speed += f", in {steps} step{'' if steps == 1 else 's'} from 0 at {threshold.from_:.2f}"
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
