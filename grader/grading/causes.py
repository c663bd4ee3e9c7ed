"""The mistake behind a failure, as far as evidence or a try shows it.

In this order: an error's words; a run without TF32; what a kernel with a known mistake would
compute; a change of the text with which failing cases are right. A task's parts mostly fail for one
reason, so what explained a part is tried first on the next.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from grader.cases import Case, Space
from grader.evidence import SourceLine
from grader.executors.runner import CaseResult, Runner
from grader.executors.source_text import SourceText
from grader.grading import by_words, hypotheses
from grader.grading.diagnosis import Cause, Separation
from grader.grading.repairs import ELSEWHERE, MOST_CHARACTERS, Failing, Repairs, failing_of
from grader.spec import ITEMSIZE
from grader.status import Status

_OF_EXPONENTS = frozenset(["missing_term", "odd_function", "term", "unused"])
_OF_COMPARISONS = frozenset(["number", "off_by_one", "operator", "stop", "term"])
# By the name of a cause that outputs show, the changes that may show its place: by default any.
_PLACED = {
    "rounded": frozenset({"cast", "no_cast", "function"}),
    "formula": frozenset(
        [
            *("call", "doubled", "exchanged", "function", "missing_term", "name", "number"),
            *("numerator", "operator", "parentheses", "power", "sibling", "sign", "term"),
            *("unread", "unused"),
        ]
    ),
    "lse": _OF_EXPONENTS,
    "mask_off_by_one": _OF_COMPARISONS,
    "padding_counts": frozenset({"infinity", "without_other"}),
    "rescaling_exponent": _OF_EXPONENTS,
    "sum_over_k": frozenset(
        [
            *("axis_of", "hoisted", "name", "not_advanced", "not_moved", "number", "off_by_one"),
            *("operator", "rounded_down", "rounds", "steps", "stop", "term"),
        ]
    ),
}
# By the same name, a pattern of the lines where such a mistake stands.
_EXPONENTIAL = r"\bexp2?f?\("
_ABOUT = {"lse": r"lse\b.*=|\blog2?f?\(", "rescaling_exponent": _EXPONENTIAL}
_ABOUT["mask_off_by_one"] = r"[<>]=?"
_ABOUT["formula"] = r"\b(?:exp2?|tanh|r?sqrt|sigmoid|log2?|pow)f?\("
_ABOUT |= dict.fromkeys(("new_rescaled", "sum_not_rescaled", "acc_not_rescaled"), _EXPONENTIAL)


@dataclass(frozen=True)
class Varying:
    """How often a case failed that varies, and whether only fresh processes got it right."""

    failed: int
    total: int
    by_history: bool = False


@dataclass(frozen=True)
class Failed:
    """A failing case, and what else was run in its part."""

    space: Space
    runner: Runner
    results: Sequence[CaseResult]
    result: CaseResult
    separation: Separation | None = None
    flaky: Varying | None = None
    repair_seconds: float = 0.0  # for changes of the text


@dataclass
class Causes:
    """Explains the failures of one task, part after part."""

    explained: set[str] = field(default_factory=set)  # of earlier parts
    at_places: dict[str, Cause] = field(default_factory=dict)  # by what a change alone would say
    endless: int = 0  # line of a loop in which an earlier part's time was over; 0 for none
    _repairs: Repairs = field(default_factory=Repairs)
    _run_elsewhere: dict[Case, CaseResult] = field(default_factory=dict)  # in other size classes

    def close(self) -> None:
        """End the processes that repairs keep."""
        self._repairs.close()

    def again(self, failed: Failed) -> Cause | None:
        """The cause of a failure where it is that of an earlier part; None for any other."""
        if not self.explained:
            return None
        cause = _with_lines(self._mended(failed) or self._evident(failed), failed)
        return cause if cause is not None and cause.what in self.explained else None

    def of(self, failed: Failed, is_first: bool = True) -> Cause | None:
        """The cause of a failure. For the first one of a part changes of the text are tried."""
        by_history = failed.flaky and failed.flaky.by_history
        # Any change of the text would seem to mend it, since it is tried in a fresh process.
        if by_history or not failed.result.status.is_failure:
            return None
        cause = self._mended(failed)
        if cause is None and is_first:  # whatever it looks like: it explains all that follows
            in_order = replace(_tried_on(failed), only=frozenset({"signature"}))
            cause = self._repairs.cause_of(failed.runner, in_order)
        cause = cause or self._evident(failed)
        guess = None  # of outputs that tell little
        if cause is not None and cause.name == "no_sum":  # several mistakes have that effect
            cause, guess = None, cause
        elif cause is None and not failed.flaky:
            guess = self._computed(failed)
        shown = cause or guess
        has_no_place = shown is not None and shown.is_unplaced and not self.explained
        if is_first and (shown is None or has_no_place):
            only = _PLACED.get(shown.name, frozenset()) if shown else frozenset()
            about = _ABOUT.get(shown.name, "") if shown else ""
            tried = _tried_on(failed)
            tried = replace(tried, only=only, about=about, is_known=shown is not None)
            placed = self._repairs.cause_of(failed.runner, tried)
            if cause and placed:
                self.at_places[placed.what] = placed = _at_place(cause, placed)
            cause = placed or cause
        cause = cause or guess
        for rule in (_by_strides, _by_shape, _by_rest, _by_dtype):
            cause = cause or rule(failed)
        cause = _with_lines(cause, failed)
        if cause is None:
            language = failed.space.task.variant.language
            cause = by_words.general_cause_of(failed.result, failed.runner.source, language)
        is_known = is_first or failed.result.status is Status.timed_out
        if cause is not None and is_known and not failed.flaky:
            self.explained.add(cause.what)  # parts that it explains aren't run again
        return cause

    def _mended(self, failed: Failed) -> Cause | None:
        """The cause of an earlier part, where the change that mended that mends this one."""
        mended = self._repairs.again(failed.runner, _tried_on(failed))
        return self.at_places.get(mended.what, mended) if mended else None

    def _evident(self, failed: Failed) -> Cause | None:
        """What words, another run or a computation show."""
        result, runner = failed.result, failed.runner
        language = failed.space.task.variant.language
        if (named := by_words.cause_of(result, runner.source, language)) is not None:
            return named
        is_wrong = result.status is Status.wrong_values
        if is_wrong and (advice := runner.advice(result)):
            return Cause("rounded_inputs", "float32 inputs of `tl.dot` are rounded to TF32", advice)
        if failed.flaky or not hypotheses.is_telling(result):
            return None
        return self._computed(failed)

    def _computed(self, failed: Failed) -> Cause | None:
        """What a computation shows, held against cases of every size class.

        Nothing where the executor has seen why: zeros that host code read may look like a flaw.
        """
        if failed.result.hint:
            return None
        elsewhere = partial(self._seen_elsewhere, failed)
        cause = hypotheses.cause_of(failed.space, failed.results, failed.result, elsewhere)
        is_rounded = cause is not None and cause.name == "rounded"
        if not is_rounded:
            return cause
        # Comments and docstrings aside: assembly's text says what it computes in.
        is_triton = failed.space.task.variant.language == "triton"
        code = SourceText(failed.runner.source, is_triton).code
        if approximate := _APPROXIMATES.search(code):
            what = f"All is right but for rounding: `{approximate[0]}` has errors of up to 2^-11"
            return Cause("approximate", what, _EXACT_TANH)
        # Only `tl.dot` makes products of float32 narrower by itself.
        narrows = re.search(rf"{_NARROWS.pattern}|\btl\.dot\(", code)
        if failed.space.dtype == "float32" and not narrows:
            return None
        return cause

    def _seen_elsewhere(self, failed: Failed) -> hypotheses.Results:
        """A few cases of each other size class: those that pass, and that fail as this one does."""
        space, status = failed.space, failed.result.status
        if failed.runner.on_gpu:
            return ()
        results: list[tuple[Space, CaseResult]] = []
        for size_class in space.task.variant.size_classes:
            own = replace(space, size_class=size_class)
            for case in _general(own) if own != space else ():
                plain = replace(case, data=space.plain_data, patterns=())
                chosen = _as_failing(plain, space, failed.results)
                if chosen not in self._run_elsewhere:
                    self._run_elsewhere[chosen] = failed.runner.once(chosen)
                result = self._run_elsewhere[chosen]
                if result.verdict.passed or (result.outputs and result.status is status):
                    results.append((own, result))
        return results


_OF_TENSOR = re.compile(r"\bof (\w+), which has [\d,]+ bytes")
_OUTSIDE = frozenset({Status.invalid_read, Status.wrote_out_of_bounds})


def _by_strides(failed: Failed) -> Cause | None:
    """The tensor without whose other strides an access, of it or of another one, isn't outside."""
    case, match = failed.result.case, _OF_TENSOR.search(failed.result.verdict.what)
    layouts = dict(case.layouts) if case is not None else {}
    if case is None or match is None or len(layouts) != 1 or failed.result.status not in _OUTSIDE:
        return None
    accessed = match[1]
    plain = [e.case for e in failed.results if e.verdict.passed and e.case and not e.case.layouts]
    is_shown = any(each.sizes == case.sizes for each in plain)
    if not is_shown or accessed not in {each.name for each in failed.space.tensors}:
        return None
    if unread := _unread_strides(failed):
        return unread
    [name] = layouts
    what = f"The access of `{accessed}` is outside only if `{name}` isn't contiguous"
    advice = (
        f"Does a size or another stride stand for a stride of `{name}`, or is a factor missing?"
    )
    if name != accessed:
        advice = f"Does a stride of `{name}` stand in the index of `{accessed}`?"
    return Cause("strides", what, advice)


def _unread_strides(failed: Failed) -> Cause | None:
    """A kernel that gets strides and never reads them."""
    text = SourceText(failed.runner.source, failed.space.task.variant.language == "triton")
    for kernel in text.reached(failed.space.task.variant.entry):
        read = set(re.findall(r"[A-Za-z_]\w*", text.code[kernel.body : kernel.end]))
        strides = [each for each in kernel.parameters if "stride" in each.lower()]
        unread = [f"`{each}`" for each in strides if each not in read]
        if kernel.is_kernel and unread:
            what = f"`{kernel.name}` never uses {', '.join(unread)}"
            advice = (
                "Multiply an index by its stride: rows can lie further apart than they are long."
            )
            return Cause("unread_strides", what, advice)
    return None


def _by_shape(failed: Failed) -> Cause | None:
    """A tensor whose index grows with a size that its shape hasn't."""
    match = _OF_TENSOR.search(failed.result.verdict.what)
    condition = failed.separation.condition if failed.separation else None
    if match is None or condition is None or failed.result.status not in _OUTSIDE:
        return None
    shapes = {each.name: each.shape for each in failed.space.tensors}
    names = {name for dimension in shapes.get(match[1], ()) for name in dimension.names}
    if condition.kind != "above" or not names or condition.subject in names:
        return None
    what = f"The index of `{match[1]}` grows with {condition.subject}, and `{match[1]}` doesn't"
    shape = ", ".join(map(str, shapes[match[1]]))
    advice = f"`{match[1]}` has the shape ({shape}): leave {condition.subject} out of its index."
    return Cause("shape", what, advice)


LEAST_WITHOUT_REST = 2  # cases
_CONSTANT = re.compile(r"\b(?:constexpr|const|define)\b[ \w]{0,60}?\b(\w+) {0,9}=? {0,9}(\d+)\b")
_DIVIDED = re.compile(r"(?<![\w.])(\w+)\s*(?://?|>>)\s*(\w+)\b")


def _by_rest(failed: Failed) -> Cause | None:
    """A quotient of the source that rounds down, where the rest of a size isn't written."""
    is_unwritten = failed.result.status is Status.not_written
    is_unwritten |= "a grid needs at least one block" in failed.result.verdict.what
    if not is_unwritten:
        return None
    condition = failed.separation.condition if failed.separation else None
    is_apart = condition is not None and condition.kind == "not_multiple"
    known = (
        [condition.subject] if condition and is_apart else failed.space.task.exercise.sizes_names
    )
    source = failed.runner.source
    numbers = {match[1]: match[2] for match in _CONSTANT.finditer(source)}
    for number, line in enumerate(source.split("\n"), 1):
        for match in _DIVIDED.finditer(line) if len(line) < LONGEST_LINE else ():
            divisor = numbers.get(match[2], match[2])
            sizes = [size for size in known if size in match[1]]
            if not divisor.isdecimal() or not sizes or not _is_rest(failed, sizes[0], int(divisor)):
                continue
            what = (
                f"`{match[0]}` rounds down: the last {sizes[0]} % {match[2]} elements are left out"
            )
            advice = "They need threads of their own, or a loop that takes one at a time."
            if match[2] in numbers:  # a block's size, mostly
                advice = f"Round up, and check each index: it has to be below {sizes[0]}."
            code = SourceLine(number, line.rstrip(), "", match.start(), len(match[0]))
            return Cause("rest", what, advice, (code,))
    return None


def _is_rest(failed: Failed, size: str, divisor: int) -> bool:
    """Whether those cases fail whose size isn't a multiple, and several that are right are."""
    condition = failed.separation.condition if failed.separation else None
    if condition and (condition.kind, condition.subject) == ("not_multiple", size):
        return condition.value == divisor
    has_rest = [
        (each.case.size(size) % max(divisor, 1) > 0, each.verdict.passed)
        for each in failed.results
        if each.case
    ]
    apart = all(rest != passed for rest, passed in has_rest)
    return apart and sum(passed for _, passed in has_rest) >= LEAST_WITHOUT_REST


MOST_WIDENED = 3  # failing cases, run in float32 as well


def _by_dtype(failed: Failed) -> Cause | None:
    """What half precision loses, where such cases are right in float32, with all kinds of data."""
    is_wrong = failed.result.status in (Status.wrong_values, Status.not_finite)
    has_both = "float32" in failed.space.task.variant.dtypes and ITEMSIZE[failed.space.dtype] == 2
    if not is_wrong or not has_both or failed.flaky or failed.runner.on_gpu:
        return None
    if failed.repair_seconds <= 0:  # nothing else may be run
        return None
    failing = [each.case for each in failed.results if each.case and not each.verdict.passed]
    failing = sorted(failing, key=lambda each: each.complexity)[:MOST_WIDENED]
    for case in [*failing, *_with_each_data(failed.space)]:
        if not failed.runner.once(replace(case, dtype="float32")).verdict.passed:
            return None
    what = "The same cases are right in float32: a step is computed in half precision"
    advice = "Convert right behind the load, and keep products and sums in float32 to the end."
    return Cause("narrow", what, advice)


def _with_each_data(space: Space) -> Iterable[Case]:
    """The smallest edge case of a size class with each kind of its leading input's data."""
    by_data: dict[str, Case] = {}
    for case in sorted(space.edges(), key=lambda each: each.complexity):
        by_data.setdefault(case.data, case)
    return by_data.values()


def _at_place(cause: Cause, placed: Cause) -> Cause:
    """What outputs show, with the change that mends it; the change alone where it says as much."""
    if cause.name in _SAID_BY_CHANGES:
        return placed
    return replace(cause, advice=f"{placed.what}.", code=placed.code, is_unplaced=False)


_SAID_BY_CHANGES = frozenset(
    ["factor", "transposed", "first_row", "exchanged", "scalar", "rounded", "formula"]
)
_HALF = re.compile(r"\.to\(tl\.b?float16\)|float16|__float2half|\bhalf\b")
# An operand of a product has to have the other one's dtype.
_NARROWS = re.compile(rf"\.to\((?!tl\.(?:float32|u?int)|(\w+)\.dtype\), \1\b)|{_HALF.pattern}|tf32")
# By PTX's manual. Other approximations have nearly all bits of float32.
_APPROXIMATES = re.compile(r"\btanh\.approx(?:\.\w+)?|\b__tanhf\b|\bfast_tanhf\b")
_EXACT_TANH = "tanh(u) is 1 - 2 / (1 + exp(2 * u)), by an exponential of float32."
_ADDED = r"^\s*(\w+)(?:\[[^\]]*\])?\s*(?:\+=|=(?=.*\b\1\b)).*"  # to what the line has so far
_OF_PRODUCT = re.compile(rf"{_ADDED}\btl\.dot\(")
_CAUSAL = re.compile(  # keys against queries, whichever stand first
    r"\w+\[None, :\][\w *+-]* [<>]=? [\w *+-]*\w+\[:, None\]"
    r"|\w+\[:, None\][\w *+-]* [<>]=? [\w *+-]*\w+\[None, :\]"
)
# By the name of a cause, a pattern of the few lines that it is about.
_SHOWN_AT = {
    "acc_and_new_rescaled": _OF_PRODUCT,
    "approximate": _APPROXIMATES,
    "acc_not_rescaled": _OF_PRODUCT,
    "lse": re.compile(r"\btl\.log2?\("),
    "mask_from_the_start": _CAUSAL,
    "mask_off_by_one": _CAUSAL,
    "overflow": re.compile(_EXPONENTIAL),
    "narrow": re.compile(rf"{_NARROWS.pattern}|\bdtype=(?!tl\.(?:float32|int))[\w.]+"),
    "rounded": _NARROWS,
    "sum_over_k": re.compile(r"\bK\s*//?\s*\w+"),  # which rounds down
    "rounded_inputs": re.compile(r"\btl\.dot\((?!.*\bieee\b)"),
    "sum_of_warp": re.compile(r"__shfl\w*\("),
    "sum_not_rescaled": re.compile(rf"{_ADDED}(?:\btl\.sum\(|{_EXPONENTIAL})"),
    "unshifted": re.compile(_EXPONENTIAL),
}
MOST_SHOWN = 4  # lines
LONGEST_LINE = 300  # characters


def _with_lines(cause: Cause | None, failed: Failed) -> Cause | None:
    """A cause with the lines of the entry and its kernels that it is about, unless too many are."""
    if cause is None or cause.code or cause.name not in _SHOWN_AT:
        return cause
    if len(failed.runner.source) > MOST_CHARACTERS:
        return cause
    variant = failed.space.task.variant
    text = SourceText(failed.runner.source, variant.language == "triton")
    is_whole = cause.name == "rounded" and failed.space.dtype == "float32"
    pattern = _HALF if is_whole else _SHOWN_AT[cause.name]  # other tensors are float32, too
    shown = []
    for function in text.reached(variant.entry):
        for number in range(text.line_at(function.start), text.line_at(function.end - 1) + 1):
            begin, line = text.starts[number - 1], text.lines[number - 1]
            match = pattern.search(text.code[begin : begin + min(len(line), LONGEST_LINE)])
            if match:
                length = len(match[0].rstrip())
                shown.append(SourceLine(number, line.rstrip(), "", match.start(), length))
    return replace(cause, code=tuple(shown)) if len(shown) <= MOST_SHOWN else cause


def _tried_on(failed: Failed) -> Failing:
    failing = failing_of(failed.result, failed.results, failed.separation)
    elsewhere = [
        _as_failing(case, failed.space, failed.results) for case in _elsewhere(failed.space)
    ]
    beyond = _beyond(failed.space, elsewhere)
    return replace(failing, seconds=failed.repair_seconds, elsewhere=elsewhere, beyond=beyond)


def _general(space: Space) -> Sequence[Case]:
    """Two edge cases of a size class, of middle size, with as many sizes above 1 as there are."""
    edges = sorted(space.edges(), key=lambda case: case.complexity)
    above = [sum(value > 1 for _, value in case.sizes) for case in edges]
    general = [case for case, sizes in zip(edges, above, strict=True) if sizes == max(above)]
    if len(general) < 3:
        return general
    return [general[len(general) // 2], general[3 * len(general) // 4]]


def _as_failing(case: Case, space: Space, results: Sequence[CaseResult]) -> Case:
    """A case with the scalars and layouts that all failing cases have: a repair shows there."""
    failing = [each.case for each in results if each.case and not each.verdict.passed]

    def shared(of: Callable[[Case], Pairs], names: Sequence[str]) -> Pairs:
        common = set.intersection(*(set(of(each)) for each in failing)) if failing else set()
        chosen = dict(of(case)) | dict(common)
        return tuple((name, chosen[name]) for name in names if name in chosen)

    scalars = shared(lambda each: each.scalars, [each.name for each in space.scalars])
    layouts = shared(lambda each: each.layouts, [each.name for each in space.tensors])
    return replace(case, scalars=scalars, layouts=layouts)


def _elsewhere(space: Space) -> list[Case]:
    """Edge cases of every size class, the smallest and the largest among them."""
    chosen = []
    for size_class in space.task.variant.size_classes:
        edges = Space(space.task, space.dtype, size_class, space.seed).edges()
        last = len(edges) - 1
        places = {last * step // (ELSEWHERE - 1) for step in range(ELSEWHERE)} if edges else set()
        chosen += [edges[place] for place in sorted(places)]
        chosen += [
            max(edges, key=partial(_share_of, name))
            for name in space.task.exercise.sizes_names
            if edges
        ]
        # A wrong change may reach a short tail by chance, so the largest odd sizes are tried, too.
        odd = [case for case in edges if all(value % 2 for _, value in case.sizes)]
        chosen += [max(odd, key=lambda case: case.complexity)] if odd else []
    return list(dict.fromkeys(chosen))


Pairs = tuple[tuple[str, Any], ...]
TIMES = 4  # the largest size of the spec's edge cases


def _beyond(space: Space, cases: Sequence[Case]) -> list[Case]:
    """Plain cases in which one size at a time is larger than the spec's, and the others small."""
    if not cases:
        return []
    plain = min(cases, key=lambda case: case.complexity)
    plain = replace(plain, layouts=(), data=space.plain_data, scalars=(), patterns=())
    free = [
        name
        for name in space.task.exercise.sizes_names
        if all(rules[name].choices is None for rules in space.alternatives)
    ]
    return [plain.with_size(n, TIMES * max(case.size(n) for case in cases) + 1) for n in free]


def _share_of(name: str, case: Case) -> float:
    """How large one size of a case is beside the others: a change may be right for few of it."""
    others = math.prod(value for each, value in case.sizes if each != name)
    return case.size(name) / max(others, 1)
