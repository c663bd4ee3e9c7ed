"""Causes that cases beside the failing one show."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from grader.cases import Case, Space
from grader.cases.compare import Verdict
from grader.executors.runner import CaseResult
from grader.grading import by_python, causes, hypotheses
from grader.grading.causes import (
    Causes,
    Failed,
    _as_failing,
    _by_dtype,
    _by_rest,
    _by_shape,
    _by_strides,
    _with_lines,
)
from grader.grading.diagnosis import Cause, Condition, Separation
from grader.grading.edits import cuda_edits
from grader.grading.repairs import Repairs
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status
from tests.support import work

EXERCISE = load_all()["flash_attention"]
SPACE = Space(Task(EXERCISE, EXERCISE.variants["triton"]), "float16", "aligned", 1)
PLAIN = replace(SPACE.edges()[0], layouts=())
NO_BLOCK = "k: grid (0, 1, 1), block (256, 1, 1): a grid needs at least one block"
OUTSIDE = Verdict(
    Status.invalid_read, "It reads 2 bytes at offset 16,384 of v, which has 16,384 bytes."
)


def cause(
    layouts: tuple[tuple[str, str], ...], beside: Case, passed: bool, verdict: Verdict = OUTSIDE
) -> str:
    """What is told of an access, of v outside; another case beside it passed or not."""
    failing = CaseResult(replace(PLAIN, layouts=layouts), verdict)
    other = CaseResult(beside, Verdict(Status.passed if passed else Status.wrong_values))
    runner = SimpleNamespace(source="")
    failed = Failed(SPACE, runner, [failing, other], failing)  # type: ignore[arg-type]  # not run
    found = _by_strides(failed)
    return found.what if found else ""


LARGER = replace(PLAIN, sizes=tuple((name, value + 1) for name, value in PLAIN.sizes))


@pytest.mark.parametrize(
    ("layouts", "beside", "passed", "told"),
    [
        (
            (("k", "row_padded"),),
            PLAIN,
            True,
            "The access of `v` is outside only if `k` isn't contiguous",
        ),
        (
            (("v", "row_padded"),),
            PLAIN,
            True,
            "The access of `v` is outside only if `v` isn't contiguous",
        ),
        ((("k", "row_padded"), ("q", "row_padded")), PLAIN, True, ""),
        ((("k", "row_padded"),), PLAIN, False, ""),
        ((("k", "row_padded"),), LARGER, True, ""),  # a size may be the cause
    ],
)
def test_a_tensors_strides_are_told_where_a_case_without_them_passes(
    layouts: tuple[tuple[str, str], ...], beside: Case, passed: bool, told: str
) -> None:
    assert cause(layouts, beside, passed) == told


@pytest.mark.parametrize(
    ("status", "what"),
    [
        (Status.uninitialised_read, OUTSIDE.what),
        (Status.invalid_read, OUTSIDE.what.replace("of v", "of tile")),  # shared memory
    ],
)
def test_of_other_failures_and_other_memory_nothing_is_told(status: Status, what: str) -> None:
    assert cause((("k", "row_padded"),), PLAIN, True, Verdict(status, what)) == ""


class Runner:
    """A submission that is right in one size class alone, and counts its runs."""

    on_gpu = False

    def __init__(self) -> None:
        self.run: list[Case] = []

    def once(self, case: Case) -> CaseResult:
        self.run.append(case)
        status = Status.passed if dict(case.sizes)["N_CTX"] % 16 == 0 else Status.wrong_values
        return CaseResult(case, Verdict(status), outputs=(torch.zeros(1),))


def test_cases_of_each_other_size_class_are_run_once_whether_they_pass_or_fail() -> None:
    runner, causal = Runner(), (("causal", True),)
    failing = CaseResult(replace(PLAIN, scalars=causal), Verdict(Status.wrong_values))
    failed = Failed(SPACE, runner, [failing], failing)  # type: ignore[arg-type]
    causes = Causes()
    seen = causes._seen_elsewhere(failed)
    assert {space.size_class for space, _ in seen} == {"ragged", "degenerate"}
    assert {result.status for _, result in seen} == {Status.passed, Status.wrong_values}
    assert all({*causal} <= {*case.scalars} for case in runner.run)
    assert {case.data for case in runner.run} == {SPACE.plain_data}
    assert causes._seen_elsewhere(failed) == seen and len(runner.run) == len(seen) == 4


def test_a_case_elsewhere_gets_what_all_failing_cases_have_beside_the_spec_s_first_choices() -> (
    None
):
    causal, padded = (("causal", True),), (("k", "row_padded"),)
    wrong = Verdict(Status.wrong_values)
    failing = [
        CaseResult(replace(PLAIN, scalars=causal, layouts=padded), wrong),
        CaseResult(replace(LARGER, scalars=(*causal, ("sm_scale", 0.3)), layouts=padded), wrong),
    ]
    passing = CaseResult(PLAIN, Verdict(Status.passed))
    given = replace(LARGER, layouts=(("q", "row_padded"),))
    chosen = _as_failing(given, SPACE, [*failing, passing])
    assert chosen.sizes == given.sizes and chosen.scalars == causal
    assert chosen.layouts == (("q", "row_padded"), ("k", "row_padded"))
    assert _as_failing(given, SPACE, [passing]) == given


def is_told_as_rounded(space: Space, source: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether outputs that look rounded are said to be, with this source."""
    rounded = Cause("rounded", "All is right but for rounding", "Keep sums in float32.")
    monkeypatch.setattr(hypotheses, "cause_of", lambda *given: rounded)
    runner = SimpleNamespace(source=source)
    failed = Failed(space, runner, [], CaseResult(PLAIN, OUTSIDE))  # type: ignore[arg-type]
    return Causes()._computed(failed) is rounded


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("sum += a[i] * b[i];", False),
        ("sum += __half2float(__float2half(a[i]));", True),
        ("fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> a;", True),
    ],
)
def test_cuda_of_float32_computes_in_less_only_where_it_says_so(
    source: str, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gemm = load_all()["gemm"]
    space = Space(Task(gemm, gemm.variants["cuda_tiled"]), "float32", "ragged", 1)
    assert is_told_as_rounded(space, source, monkeypatch) == told


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("r = tl.rsqrt(s)  # in float16", False),
        ('"""One dtype of float32, float16."""', False),
        ("r = tl.rsqrt(s).to(tl.float16)", True),
        ("acc = tl.dot(a, b, acc)", True),
    ],
)
def test_triton_of_float32_computes_in_less_only_by_products_or_where_it_says_so(
    step: str, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"@triton.jit\ndef k(x_ptr):\n    {step}\n"
    assert is_told_as_rounded(replace(SPACE, dtype="float32"), source, monkeypatch) == told


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ('asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));', "`tanh.approx.f32` has errors"),
        ("y = __tanhf(x);", "`__tanhf` has errors"),
        ("y = libdevice.fast_tanhf(x)", "`fast_tanhf` has errors"),
        ("y = __float2half(tanhf(x));", "a step is computed in half precision"),
    ],
)
def test_an_approximation_that_misses_float32s_digits_is_named(
    source: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    what = "All is right but for rounding: a step is computed in half precision"
    monkeypatch.setattr(hypotheses, "cause_of", lambda *given: Cause("rounded", what, "Widen."))
    gelu = load_all()["gelu"]
    space = Space(Task(gelu, gelu.variants["cuda"]), "float32", "ragged", 1)
    failed = Failed(space, SimpleNamespace(source=source), [], CaseResult(PLAIN, OUTSIDE))  # type: ignore[arg-type]
    cause = Causes()._computed(failed)
    assert cause is not None and named in cause.what


@pytest.mark.parametrize(
    ("kind", "value", "status", "told", "words"),
    [
        ("not_multiple", 4, Status.not_written, "`n / 4` rounds down: the last n % 4", ""),
        ("not_multiple", 8, Status.not_written, "", ""),
        ("above", 4, Status.not_written, "", ""),
        ("not_multiple", 4, Status.wrong_values, "", ""),
        ("not_multiple", 4, Status.launch_error, "`n / 4` rounds down", NO_BLOCK),
        ("not_multiple", 4, Status.launch_error, "", "a block has at most 1024 threads"),
    ],
)
def test_a_quotient_that_leaves_the_rest_out_is_told(
    kind: str, value: int, status: Status, told: str, words: str
) -> None:
    runner = SimpleNamespace(source="int i = 0;\nif (i < n / 4) out[i] = 0;")
    condition = Condition("", "", lambda case: True, kind, "n", value)
    result = CaseResult(PLAIN, Verdict(status, words))
    failed = Failed(SPACE, runner, [result], result, Separation(condition, 3, 3))  # type: ignore[arg-type]
    cause = _by_rest(failed)
    assert (cause.what if cause else "").startswith(told) and bool(cause) == bool(told)


@pytest.mark.parametrize(
    ("unwritten", "written", "told"),
    [
        ([64, 300], [256, 512], "`cols / BLOCK` rounds down: the last cols % BLOCK elements"),
        ([64, 512], [256, 1024], ""),  # a multiple fails, too
        ([64, 300], [128, 512], ""),  # what is no multiple passes
        ([64, 300], [256], ""),  # that may be chance
    ],
)
def test_a_quotient_by_a_constant_is_told_where_just_the_multiples_are_right(
    unwritten: list[int], written: list[int], told: str
) -> None:
    rmsnorm = load_all()["rmsnorm"]
    space = Space(Task(rmsnorm, rmsnorm.variants["cuda_vector"]), "float32", "row_aligned", 1)
    source = "constexpr int BLOCK = 256;\nint turns = cols / BLOCK;\n"
    plain = space.edges()[0]
    results = [
        CaseResult(plain.with_size("cols", cols), Verdict(status))
        for status, sizes in ((Status.not_written, unwritten), (Status.passed, written))
        for cols in sizes
    ]
    failed = Failed(space, SimpleNamespace(source=source), results, results[0])  # type: ignore[arg-type]
    cause = _by_rest(failed)
    assert (cause.what if cause else "").startswith(told) and bool(cause) == bool(told)


@pytest.mark.parametrize(
    ("right", "wrong_data", "told"),
    [("float32", "", True), ("", "", False), ("float32", "large", False)],
)
def test_a_case_that_is_right_in_float32_alone_tells_of_a_step_in_half_precision(
    right: str, wrong_data: str, told: bool
) -> None:
    def once(case: Case) -> CaseResult:
        is_right = case.dtype == right and case.data != wrong_data
        return CaseResult(case, Verdict(Status.passed if is_right else Status.wrong_values))

    runner = SimpleNamespace(source="", on_gpu=False, once=once)
    result = once(PLAIN)
    failed = Failed(SPACE, runner, [result], result, repair_seconds=1.0)  # type: ignore[arg-type]
    assert bool(_by_dtype(failed)) == told
    assert _by_dtype(replace(failed, repair_seconds=0.0)) is None
    wide = replace(SPACE, dtype="float32")
    assert _by_dtype(replace(failed, space=wide)) is None  # there is nothing wider


@pytest.mark.parametrize(
    ("name", "change"), [("padding_counts", "infinity"), ("mask_off_by_one", "operator")]
)
def test_only_changes_that_undo_a_known_mistake_are_tried_for_its_place(
    name: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Cause(name, "What outputs show", "", is_unplaced=True)
    monkeypatch.setattr(Causes, "_evident", lambda *given: known)
    tried = []
    monkeypatch.setattr(Repairs, "again", lambda *given: None)
    monkeypatch.setattr(Repairs, "cause_of", lambda self, runner, failing: tried.append(failing))
    failing = CaseResult(PLAIN, Verdict(Status.wrong_values))
    runner = SimpleNamespace(source="", on_gpu=False)
    Causes().of(Failed(SPACE, runner, [failing], failing))  # type: ignore[arg-type]
    assert change in tried[-1].only and "missing_term" not in tried[-1].only


OUTSIDE_OF_WEIGHT = Verdict(
    Status.invalid_read, "Program (1, 0, 0) reads 4 bytes at offset 4 of weight, which has 4 bytes."
)


@pytest.mark.parametrize(
    ("kind", "subject", "told"),
    [
        ("above", "rows", "The index of `weight` grows with rows, and `weight` doesn't"),
        ("above", "cols", ""),
        ("below", "rows", ""),
    ],
)
def test_a_size_that_a_tensor_hasn_t_is_told_where_its_index_grows_with_it(
    kind: str, subject: str, told: str
) -> None:
    rmsnorm = load_all()["rmsnorm"]
    space = Space(Task(rmsnorm, rmsnorm.variants["triton"]), "float32", "aligned", 1)
    result = CaseResult(space.edges()[0], OUTSIDE_OF_WEIGHT)
    condition = Condition("", "", lambda case: True, kind, subject, 1)
    failed = Failed(space, None, [result], result, Separation(condition, 3, 3))  # type: ignore[arg-type]
    cause = _by_shape(failed)
    assert (cause.what if cause else "") == told
    assert cause is None or "has the shape (cols)" in cause.advice


@pytest.mark.parametrize(
    ("offset", "told"),
    [
        ("n", "`k` never uses `stride_xm`"),
        ("stride_xm", "The access of `v` is outside only if `k` isn't contiguous"),
    ],
)
def test_strides_that_a_kernel_never_reads_are_told(offset: str, told: str) -> None:
    source = (
        "@triton.jit\ndef k(p, n, stride_xm):\n"
        f"    tl.store(p + tl.program_id(0) * {offset}, 0)\n\n\n"
        "def flash_attention(q):\n    k[(1,)](q, 4, q.stride(0))\n"
    )
    failing = CaseResult(replace(PLAIN, layouts=(("k", "row_padded"),)), OUTSIDE)
    other = CaseResult(PLAIN, Verdict(Status.passed))
    runner = SimpleNamespace(source=source)
    found = _by_strides(Failed(SPACE, runner, [failing, other], failing))  # type: ignore[arg-type]
    assert found is not None and found.what == told


LINES = {
    "rounded": ("y = (x * 2).to(p.dtype.element_ty)", "x = tl.load(p).to(tl.float32)"),
    "rounded_inputs": ("s = tl.dot(a, b)", 's = tl.dot(a, b, input_precision="ieee")'),
    "overflow": ("e = tl.exp(x)", "e = x + 1"),
    "sum_not_rescaled": ("l = l + tl.sum(p, axis=0)", "l = tl.sum(p, axis=0)"),
    "acc_not_rescaled": ("acc = tl.dot(p, v, acc)", "s = tl.dot(q, k)"),
    "acc_and_new_rescaled": ("acc = tl.dot(p, v, acc) * alpha", "s = tl.dot(q, k)"),
    "sum_of_warp": ("v += __shfl_xor_sync(-1, v, d)", "v += w"),
    "lse": ("lse = m + tl.log(l)", "l = l + tl.sum(p, axis=0)"),
    "narrow": ("acc = tl.zeros([8], dtype=p.dtype.element_ty)", "a = tl.zeros([8], tl.float32)"),
    "sum_over_k": ("steps = K // BLOCK_K", "steps = tl.cdiv(K, BLOCK_K)"),
    "mask_off_by_one": ("t = m[:, None] + S > n[None, :]", "t = m[:, None] * S + n[None, :]"),
    "mask_from_the_start": (
        "t = n[None, :] <= m[:, None]",
        "t = (m[:, None] < M) & (n[None, :] < N)",
    ),
}


@pytest.mark.parametrize(("name", "lines"), LINES.items())
def test_a_cause_that_outputs_show_is_told_with_the_lines_it_is_about(
    name: str, lines: tuple[str, str]
) -> None:
    head = "@triton.jit\ndef k(p):\n"
    launcher = "\n\ndef other(x):\n    {}\n\n\ndef flash_attention(q):\n    k[(1,)](q)\n"

    def shown(body: list[str]) -> list[tuple[int, str]]:
        text = "".join(f"    {line}\n" for line in body)
        runner = SimpleNamespace(source=head + text + launcher.format(lines[0]))
        failed = Failed(SPACE, runner, [], CaseResult(PLAIN, OUTSIDE))  # type: ignore[arg-type]
        placed = _with_lines(Cause(name, "", ""), failed)
        assert placed is not None
        return [(each.line, each.text.strip()) for each in placed.code]

    assert shown([lines[1], lines[0]]) == [(4, lines[0])]
    assert shown([lines[0]] * 9) == []


@pytest.mark.parametrize(("dtype", "numbers"), [("float32", [3]), ("float16", [3, 5])])
def test_a_conversion_that_rounds_nothing_is_no_line_of_a_rounded_sum(
    dtype: str, numbers: list[int]
) -> None:
    source = (
        "@triton.jit\ndef k(p, v):\n    l = tl.sum(p.to(tl.float16), axis=1)\n"
        "    acc = tl.dot(p.to(v.dtype), v)\n    l = tl.sum(p.to(v.dtype), axis=1)\n\n\n"
        "def flash_attention(q):\n    k[(1,)](q)\n"
    )
    runner = SimpleNamespace(source=source)
    result = CaseResult(PLAIN, OUTSIDE)
    failed = Failed(replace(SPACE, dtype=dtype), runner, [], result)  # type: ignore[arg-type]
    placed = _with_lines(Cause("rounded", "", ""), failed)
    assert placed is not None and [each.line for each in placed.code] == numbers


@pytest.mark.parametrize(
    ("pattern", "start"),
    [
        (causes._CONSTANT, "const int x"),
        (cuda_edits._LEFT, "if (x)"),
        (cuda_edits._GUARDED, "if (x)"),
        (by_python._AS_CONSTANT, "x"),
    ],
    ids=["constant", "return", "guard", "parameter"],
)
def test_a_run_of_blanks_or_letters_is_read_once(pattern: re.Pattern[str], start: str) -> None:
    with work.ending():
        for more in (" ", "a"):
            assert not pattern.search(start + more * (1 << 19))
