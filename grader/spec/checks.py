"""Mistakes in a spec that involve several fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from pydantic_core import PydanticCustomError

from grader.gpu import roofline
from grader.spec import drawn_sizes
from grader.spec.blocks import (
    SHARES,
    Bound,
    Growth,
    Memory,
    MemoryPressure,
    Pattern,
    Performance,
    Scalar,
    Tensor,
    Threshold,
    Tolerance,
    least_extent,
    scalar_problem,
)
from grader.spec.formula import Formula, FormulaError
from grader.spec.possible import tried_sizes
from grader.spec.predictions import PREDICTIONS, question_mistakes
from grader.spec.values import FLOAT8, ITEMSIZE, Mistake, below, choice_problem, hint, whole

if TYPE_CHECKING:
    from grader.spec.exercise import Exercise, Variant

USUAL_DEVICE = "H100"  # for the length of cases, where the spec names no device
_PEAKS = roofline.peaks(USUAL_DEVICE)
assert _PEAKS is not None  # it has a data sheet
LEAST_SECONDS = 50e-6  # of a case at the GPU's peaks: below it, the clock is too coarse


def sms_of(gpu: str) -> int:
    """`sms` in bounds on memory: a course's GPU's SMs; an H100's where it has no data sheet."""
    peaks = (roofline.peaks(gpu) if gpu else None) or roofline.peaks(USUAL_DEVICE)
    assert peaks is not None
    return peaks.sm_count


def across(exercise: Exercise) -> Iterator[Mistake]:
    """Every mistake that involves several fields."""
    yield from _size_mistakes(exercise)
    for index, relation in enumerate(exercise.where):
        for side in (relation.left, relation.right):
            unknown = _unknown_names(side, exercise.numbers_names, "sizes")
            yield from below(("where", index), unknown)
    yield from _argument_mistakes(exercise)
    entries: dict[tuple[str, str], str] = {}
    yield from _tolerance_mistakes(exercise, exercise.tolerance, ("tolerance",))
    for key, variant in exercise.variants.items():
        path = ("variants", key)
        if variant.tolerance is not None:
            yield from _tolerance_mistakes(exercise, variant.tolerance, (*path, "tolerance"))
        if variant.name != key:
            yield Mistake((*path, "name"), f"expected {key!r}, its key, got {variant.name!r}")
        for entry in variant.all_entries:
            first = entries.setdefault((variant.file, entry), key)
            if first != key:
                yield Mistake(
                    (*path, "entry"),
                    f"expected another function than variant {first!r} has in {variant.file}, "
                    f"got {entry!r}",
                )
        yield from below(path, _variant_mistakes(exercise, variant))
    yield from _prediction_mistakes(exercise)


def _prediction_mistakes(exercise: Exercise) -> Iterator[Mistake]:
    if PREDICTIONS in exercise.variants:
        yield Mistake(("variants", PREDICTIONS), "expected another name: answers are named so")
    dtypes = {name: variant.dtypes for name, variant in exercise.variants.items()}
    for key, question in exercise.predictions.questions.items() if exercise.predictions else ():
        mistakes = question_mistakes(question, dtypes, exercise.numbers_names)
        yield from below((PREDICTIONS, "questions", key), mistakes)


def derived_mistakes(exercise: Exercise) -> Iterator[Mistake]:
    """Mistakes in `derived`: each number may use sizes, and what stands before it."""
    known = list(exercise.sizes_names)
    for name, formula in exercise.derived.items():
        path = ("derived", name)
        if name in known:
            yield Mistake(path, f"expected another name: {name!r} is a size")
        yield from below(path, _unknown_names(formula, known, "sizes"))
        known.append(name)


def _tolerance_mistakes(
    exercise: Exercise, tolerance: Tolerance, path: tuple[str, ...]
) -> Iterator[Mistake]:
    """Mistakes in the names of outputs that have a tolerance of their own."""
    outputs = [each.name for each in exercise.tensors if each.is_output]
    for name in tolerance.outputs:
        if problem := choice_problem(outputs, name):
            yield Mistake((*path, "outputs", name), problem)


def _size_mistakes(exercise: Exercise) -> Iterator[Mistake]:
    """Mistakes in the names of size classes and of their sizes, also of those for launches."""
    names = exercise.sizes_names
    blocks: tuple[tuple[str, Mapping[str, Sequence[Mapping[str, Any]]], str], ...] = (
        ("sizes", exercise.sizes, ", as in the first class"),
        ("launches_at", exercise.launches_at, ""),
    )
    for key, classes, where in blocks:
        for name, alternatives in classes.items():
            if problem := choice_problem([*exercise.sizes], name, "the size classes "):
                yield Mistake((key, name), problem)
            for index, given in enumerate(alternatives):
                if set(given) != set(names):
                    expected = f"expected the sizes {', '.join(names)}{where}"
                    yield Mistake((key, name, index), f"{expected}, got {', '.join(given)}")


def _argument_mistakes(exercise: Exercise) -> Iterator[Mistake]:
    sizes = exercise.numbers_names
    names: set[str] = set()
    for index, argument in enumerate(exercise.arguments):
        path = ("arguments", index)
        if argument.name in sizes:
            yield Mistake((*path, "name"), f"expected another name: {argument.name!r} is a size")
        if argument.name in names:
            yield Mistake((*path, "name"), f"expected each name once, got {argument.name!r} twice")
        names.add(argument.name)
        if isinstance(argument, Tensor):
            yield from below(path, _tensor_mistakes(exercise, argument))
        elif argument.follows is not None:
            unknown = _unknown_names(argument.follows, exercise.numbers_names, "sizes")
            yield from below((*path, "follows"), unknown)
    if not any(each.is_output for each in exercise.tensors):
        yield Mistake(("arguments",), "expected an argument with role: output or inout, got none")


def _tensor_mistakes(exercise: Exercise, tensor: Tensor) -> Iterator[Mistake]:
    for index, dimension in enumerate(tensor.shape):
        path = ("shape", index)
        unknown = list(_unknown_names(dimension, exercise.numbers_names, "sizes"))
        yield from below(path, unknown)
        if not unknown and (problem := _drawn_extent_problem(exercise, dimension)):
            yield Mistake(path, problem)
    yield from _contents_mistakes(exercise, tensor)
    for index, layout in enumerate(tensor.layout):
        least = {"row_padded": 2, "padded": 3, "transposed": 2}.get(layout, 0)
        if tensor.rank < least:
            expected = f"expected {least} dimensions or more for {layout}, got {tensor.rank}"
            yield Mistake(("layout", index), expected)


def _contents_mistakes(exercise: Exercise, tensor: Tensor) -> Iterator[Mistake]:
    """Mistakes in what a tensor's elements are, besides its form."""
    if tensor.values is None:
        return
    if not tensor.is_input:
        yield Mistake(("values",), "expected values for an input alone, got them for an output")
    dtypes = {tensor.concrete_dtype(d) for each in exercise.variants.values() for d in each.dtypes}
    problems = (tensor.values.problem(dtype) for dtype in sorted(dtypes))
    if problem := next(filter(None, problems), ""):
        yield Mistake(("values",), problem)
    scalars = [e.name for e in exercise.arguments if isinstance(e, Scalar) and e.scalar == "int"]
    known = (*exercise.numbers_names, *scalars)
    for bound in filter(None, (tensor.values.low, tensor.values.high)):
        yield from below(("values",), _unknown_names(bound, known, "sizes and whole numbers"))


def _drawn_extent_problem(exercise: Exercise, dimension: Formula) -> str:
    """The first mistake of a dimension in the cases that may be drawn, or ""."""
    if dimension.text in exercise.sizes_names:  # right in each case
        return ""
    for tried in tried_sizes(exercise):
        if not dimension.names <= set(tried.sizes):  # a mistake of the class, reported elsewhere
            continue
        if problem := _extent_problem(dimension, tried.sizes):
            return f"{problem} (class {tried.size_class})"
    return ""


def _extent_problem(dimension: Formula, sizes: Mapping[str, int]) -> str:
    try:
        extent = dimension.evaluate(sizes)
    except FormulaError as error:
        return str(error)
    least = least_extent(sizes)
    if isinstance(extent, int) and extent >= least:
        return ""
    given = "".join(f", {size}={sizes[size]}" for size in sizes if size in dimension.names)
    advice = ": divide with //" if isinstance(extent, float) and "/" in str(dimension) else ""
    return f"expected a whole number >= {least}, got {dimension} = {extent}{given}{advice}"


def _unknown_names(formula: Formula, known: Sequence[str], kind: str) -> Iterator[Mistake]:
    for name in sorted(formula.names - set(known)):
        yield Mistake((), choice_problem(known, name, f"the {kind} "))


def _variant_mistakes(exercise: Exercise, variant: Variant) -> Iterator[Mistake]:
    yield from _call_mistakes(exercise, variant)
    yield from _compile_mistakes(variant)
    yield from _float8_mistakes(exercise, variant)
    yield from _layout_mistakes(exercise, variant)
    known = point_keys(exercise)
    for key in variant.points:
        if key not in known:
            yield Mistake(
                ("points", key),
                f"expected a size class, performance or memory ({', '.join(known)}), "
                f"got {key!r}{hint(key, known)}",
            )
    for key in ("performance", "memory"):
        block = getattr(variant, key)
        if key in variant.points and block is None:
            yield Mistake(("points", key), f"expected a block {key!r} in the variant, got none")
        is_for_bench = key == "performance" and block is not None and not block.thresholds
        if block is not None and key not in variant.points and not is_for_bench:
            yield Mistake((key,), f"expected points for {key!r}, got none")
        if is_for_bench and key in variant.points:
            yield Mistake((key,), "expected thresholds, which the points are for, got none")
        if block is not None:
            checks = _performance_mistakes if key == "performance" else _memory_mistakes
            yield from below((key,), checks(exercise, variant, block))


def _layout_mistakes(exercise: Exercise, variant: Variant) -> Iterator[Mistake]:
    """A variant's layouts must leave each tensor one of its own."""
    wanted = variant.layout or ()
    for tensor in exercise.tensors if wanted else ():
        if not set(wanted) & set(tensor.layout):
            yield Mistake(
                ("layout",),
                f"expected at least one of {tensor.name}'s layouts ({', '.join(tensor.layout)}), "
                f"got {', '.join(wanted)}",
            )
            return
    for tensor in exercise.tensors if variant.language == "cuda" else ():
        kept = [each for each in tensor.layout if not wanted or each in wanted]
        if strided := [each for each in kept if each not in ("contiguous", "offset")]:
            yield Mistake(
                ("layout",),
                f"expected contiguous or offset alone, got {strided[0]} for {tensor.name}: "
                "a C function gets a pointer and no strides",
            )
            return


def _float8_mistakes(exercise: Exercise, variant: Variant) -> Iterator[Mistake]:
    """Floats of 8 bits in CUDA C++, which the emulator doesn't have."""
    dtypes = {each.concrete_dtype(d) for each in exercise.tensors for d in variant.dtypes}
    if variant.language == "cuda" and (floats := sorted(dtypes & {*FLOAT8})):
        yield Mistake(("dtypes",), f"expected {floats[0]} in Triton alone, got it in CUDA C++")


def _call_mistakes(exercise: Exercise, variant: Variant) -> Iterator[Mistake]:
    if variant.arguments is None:
        return
    known = (*(argument.name for argument in exercise.arguments), *exercise.numbers_names)
    unknown = [name for name in variant.arguments if name not in known]
    for name in unknown:
        path = ("arguments", variant.arguments.index(name))
        yield Mistake(path, choice_problem(known, name))
    if not unknown and not exercise.outputs(variant):
        yield Mistake(("arguments",), "expected an output among them, got none")


def _compile_mistakes(variant: Variant) -> Iterator[Mistake]:
    """Mistakes in the entries of dtypes, and in what is compiled besides the variant's file."""
    given, names = variant.entries, [*variant.entries.values()]
    if variant.language != "cuda":
        if given:
            yield Mistake(("entry",), "expected one name: a Triton function takes every dtype")
        if variant.compile.model_fields_set:
            yield Mistake(("compile",), "expected none: it is for CUDA C++ alone")
        return
    if given and set(given) != set(variant.dtypes):
        wanted = ", ".join(variant.dtypes)
        yield Mistake(("entry",), f"expected a name for each of {wanted}, got {', '.join(given)}")
    if len(set(names)) < len(names):
        yield Mistake(("entry",), "expected another function for each dtype, got one name twice")
    known = {variant.file}
    for key in ("files", "headers"):
        for index, name in enumerate(getattr(variant.compile, key)):
            if name in known:
                message = f"expected each file once, got {name!r} again"
                yield Mistake(("compile", key, index), message)
            known.add(name)


def _performance_mistakes(
    exercise: Exercise, variant: Variant, block: Performance
) -> Iterator[Mistake]:
    right: list[Mapping[str, Any]] = [{}]  # without a case, only formulas' names are checked
    for index, case in enumerate(block.every_case):
        in_case = _case_mistakes(exercise, variant, case, dtype_needed=True)
        right += [] if in_case else [case]
        for mistake in in_case:
            path = mistake.path if block.cases is None else ("cases", index, *mistake.path[1:])
            yield Mistake(path, mistake.message)
    wrong = False
    for key in ("bytes", "flops"):
        formula = getattr(block, key)
        if formula is not None:
            problems = (
                _amount_problem(exercise, variant, formula, case, above=0) for case in right
            )
            if problem := next(filter(None, problems), ""):
                wrong = True
                yield Mistake((key,), problem)
    for timed in () if wrong else filter(None, right):
        if problem := _too_short(exercise, variant, block, timed):
            path = ("cases", block.cases.index(dict(timed))) if block.cases else ("case",)
            yield Mistake(path, problem)
    points = variant.points.get("performance")
    if not block.by_gpu:
        yield from _threshold_mistakes(block.thresholds, points)
    for gpu, thresholds in block.by_gpu.items():
        for mistake in _threshold_mistakes(thresholds, points):
            yield Mistake(("thresholds", gpu, *mistake.path[1:]), mistake.message)


def _too_short(
    exercise: Exercise, variant: Variant, block: Performance, case: Mapping[str, Any]
) -> str:
    """Why a case is too short for the clock on a fast GPU, or ""."""
    dtype = case.get("dtype", variant.dtypes[0])
    env = {name: case[name] for name in exercise.sizes_names} | {"itemsize": ITEMSIZE[dtype]}
    moved, flops = block.bytes.evaluate(env), block.flops
    computed = None if flops is None else flops.evaluate(env)
    floors = {
        device: roofline.floor_seconds(peaks, moved, computed, dtype)
        for device in block.calibrated_on
        if (peaks := roofline.peaks(device)) is not None
    }
    if not floors:
        assert _PEAKS is not None
        floors = {USUAL_DEVICE: roofline.floor_seconds(_PEAKS, moved, computed, dtype)}
    device, floor = min(floors.items(), key=lambda each: each[1])
    if floor >= LEAST_SECONDS:
        return ""
    return (
        f"expected a case of {1e6 * LEAST_SECONDS:g} us or more on the {device} at its peaks, "
        f"got one of {1e6 * floor:.3g} us: make it larger, a shorter one can't be timed"
    )


def _memory_mistakes(exercise: Exercise, variant: Variant, block: Memory) -> Iterator[Mistake]:
    in_case = _case_mistakes(exercise, variant, block.case, dtype_needed=len(variant.dtypes) > 1)
    yield from in_case
    case: Mapping[str, Any] = {} if in_case else block.case
    inputs = [each.name for each in exercise.tensors if each.is_input]
    inputs = [each for each in inputs if each in (variant.arguments or inputs)]
    for name in block.reads or {}:
        if problem := choice_problem(inputs, name):
            yield Mistake(("reads", name), problem)
    yield from _uncounted_mistakes(variant, block)
    if block.growth is not None:
        yield from _growth_mistakes(exercise, block, block.growth, case)
    if block.memory_pressure is not None:
        yield from _pressure_mistakes(exercise, variant, block.memory_pressure)
    bounds = list(block.bounds())
    if not bounds:
        yield Mistake((), "expected a target beside the case, got none")
    for path, bound in bounds:
        yield from below(path, _bound_mistakes(exercise, variant, path[0], bound, case))


def _bound_mistakes(
    exercise: Exercise, variant: Variant, metric: str, bound: Bound, case: Mapping[str, Any]
) -> Iterator[Mistake]:
    """Mistakes in a bound on a metric; `case` is empty where it is wrong itself.

    Only a bound in the good direction: a kernel that does better must not lose points. Of blocks
    there can be too few or too many.
    """
    good, bad = "at_most", "at_least"
    is_upward = metric in ("useful_bytes_per_sector", "simt_efficiency")
    if is_upward or (metric == "blocks" and bound.at_least is not None):
        good, bad = bad, good
    if getattr(bound, bad) is not None:
        wanted = "one of at_least and at_most" if metric == "blocks" else good
        yield Mistake((bad,), f"expected {wanted} for {metric}, got {bad}")
        return
    formula, most = getattr(bound, good), 1.0 if metric in SHARES else None
    more = {"sms": sms_of(exercise.gpu)}
    problem = _amount_problem(exercise, variant, formula, case, more=more, most=most)
    if problem:
        yield Mistake((good,), problem)


def _uncounted_mistakes(variant: Variant, block: Memory) -> Iterator[Mistake]:
    """Bounds on metrics that don't exist in the variant's language."""
    of = {
        "cuda": ("scratch_bytes", "wave_bytes", "growth", "memory_pressure"),
        "triton": ("shared_bank_conflicts", "copies", "bytes_copied", "scratch_stores"),
    }
    keys = [key for key in of[variant.language] if getattr(block, key) is not None]
    if keys:
        language = {"cuda": "CUDA C++", "triton": "Triton"}[variant.language]
        message = f"expected what is counted in {language} alone, got {' and '.join(keys)}"
        yield Mistake((keys[0],), message)


def _growth_mistakes(
    exercise: Exercise, block: Memory, growth: Growth, case: Mapping[str, Any]
) -> Iterator[Mistake]:
    """Mistakes in the sizes that grow; `case` is empty where it is wrong itself."""
    known = exercise.sizes_names
    unknown = False
    for index, name in enumerate(growth.sizes):
        if name not in known:
            unknown = True
            yield Mistake(("growth", "sizes", index), choice_problem(known, name))
    if case and not unknown:
        for mistake in _case_shape_mistakes(exercise, block.grown_case()):
            yield Mistake(("growth", "sizes"), mistake.message)


def _pressure_mistakes(
    exercise: Exercise, variant: Variant, block: MemoryPressure
) -> Iterator[Mistake]:
    """Mistakes in the case under memory pressure, and in the memory that is left to it."""
    in_case = _case_mistakes(exercise, variant, block.case, dtype_needed=len(variant.dtypes) > 1)
    yield from below(("memory_pressure",), in_case)
    case = {} if in_case else block.case
    if problem := _amount_problem(exercise, variant, block.leaves, case, above=0):
        yield Mistake(("memory_pressure", "leaves"), problem)


def _amount_problem(
    exercise: Exercise,
    variant: Variant,
    formula: Formula,
    case: Mapping[str, Any],
    *,
    above: int = -1,
    most: float | None = None,
    more: Mapping[str, int] | None = None,
) -> str:
    """The mistake in a formula over sizes, itemsize and `more`; not evaluated for an empty case."""
    known = (*exercise.numbers_names, "itemsize", *(more or ()))
    unknown = next(_unknown_names(formula, known, "names"), None)
    if unknown is not None or not case:
        return unknown.message if unknown else ""
    env = {**(more or {}), **{name: case[name] for name in exercise.sizes_names}}
    env["itemsize"] = ITEMSIZE[case.get("dtype", variant.dtypes[0])]
    try:
        amount = formula.evaluate(env)
    except FormulaError as error:
        return str(error)
    if amount <= above:
        return f"expected a number > {above}, got {formula} = {amount}"
    if most is not None and amount > most:
        return f"expected a share from 0 to {most:g}, got {formula} = {amount}"
    return ""


def _case_mistakes(
    exercise: Exercise, variant: Variant, case: Mapping[str, Any], dtype_needed: bool
) -> list[Mistake]:
    """Mistakes in the fixed case of a performance or memory block: in its keys, or in its sizes."""
    in_keys = list(_case_key_mistakes(exercise, variant, case, dtype_needed))
    return in_keys or list(_case_shape_mistakes(exercise, case))


def _case_key_mistakes(
    exercise: Exercise, variant: Variant, case: Mapping[str, Any], dtype_needed: bool
) -> Iterator[Mistake]:
    scalars = {
        each.name: each
        for each in exercise.arguments
        if isinstance(each, Scalar) and each.follows is None
    }
    known = (*exercise.sizes_names, "dtype", "data", *scalars)
    needed = (*exercise.sizes_names, *(["dtype"] if dtype_needed else []))
    missing = [key for key in needed if key not in case]
    if missing:
        yield Mistake(("case",), f"expected {', '.join(needed)}, got no {' and no '.join(missing)}")
    for key, value in case.items():
        if key in exercise.sizes_names:
            problem = _problem(partial(whole, value, "a size >= 1"))
        elif key == "dtype":
            problem = choice_problem(variant.dtypes, value)
        elif key == "data":
            problem = choice_problem(get_args(Pattern), value)
        elif key in scalars:
            problem = scalar_problem(scalars[key].scalar, value)
        else:
            problem = choice_problem(known, key)
        if problem:
            yield Mistake(("case", key), problem)


def _case_shape_mistakes(exercise: Exercise, case: Mapping[str, Any]) -> Iterator[Mistake]:
    """Tensors to which the case gives an impossible shape that no size class gives."""
    sizes = {name: case[name] for name in exercise.sizes_names}
    for relation in exercise.where:
        if not drawn_sizes.meet([relation], sizes):
            yield Mistake(("case",), f"expected sizes with {relation}, as `where` has it")
    for tensor in exercise.tensors:
        for dimension in tensor.shape:
            if not dimension.names <= set(sizes) or _drawn_extent_problem(exercise, dimension):
                continue  # reported elsewhere
            if problem := _extent_problem(dimension, sizes):
                yield Mistake(("case",), f"{problem} (a dimension of {tensor.name})")


def _problem(check: Callable[[], object]) -> str:
    """The message that a validator raises, or ""."""
    try:
        check()
    except PydanticCustomError as error:
        return error.message()
    return ""


def _threshold_mistakes(
    thresholds: tuple[Threshold, ...], points: float | None
) -> Iterator[Mistake]:
    """The first threshold that holds counts, so later ones must ask and give less."""
    if points is not None and thresholds and thresholds[0].points != points:
        yield Mistake(
            ("thresholds", 0, "points"),
            f"expected {points:g}, the variant's points for performance, "
            f"got {thresholds[0].points:g}",
        )
    asked: dict[str, float] = {}
    key: tuple[str, ...]
    for index, threshold in enumerate(thresholds):
        path = ("thresholds", index)
        if threshold.from_ is not None and index + 1 < len(thresholds):
            yield Mistake(
                (*path, "from"),
                "expected linear points in the last threshold alone, since the least of them hold "
                f"before any after it, got {len(thresholds) - index - 1} more after it",
            )
        if index and threshold.points >= thresholds[index - 1].points:
            yield Mistake(
                (*path, "points"),
                f"expected fewer points than the threshold before gives "
                f"({thresholds[index - 1].points:g}), got {threshold.points:g}",
            )
        if threshold.milliseconds is not None:
            key, baseline = ("milliseconds", "at_most"), f"on {threshold.milliseconds.gpu}"
            now, wanted, hardness = threshold.milliseconds.at_most, "more", -1.0
        else:
            key, baseline = ("at_least",), f"against {threshold.speed_vs}"
            now, wanted, hardness = threshold.at_least or 0.0, "less", 1.0
        twice = {each for each in threshold.missed_by if threshold.missed_by.count(each) > 1}
        if twice:
            yield Mistake((*path, "missed_by"), f"expected each name once, got {min(twice)} again")
        before = asked.get(baseline)
        if before is not None and now * hardness >= before * hardness:
            yield Mistake(
                (*path, *key),
                f"expected {wanted} than {before:g}, which an earlier threshold asks {baseline}, "
                f"got {now:g}: this one would never count",
            )
        asked[baseline] = now


def point_keys(exercise: Exercise) -> tuple[str, ...]:
    return (*exercise.sizes, "memory", "performance")
