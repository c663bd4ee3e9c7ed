"""Hypotheses on wrong outputs: a mistake is named where it explains them, and only there."""

import math
from dataclasses import replace

import pytest
import torch

from grader import spec
from grader.cases import Space, inputs, oracle
from grader.cases.arena import Outcome, Slot
from grader.cases.compare import judge
from grader.executors.runner import CaseResult
from grader.grading import flaws, hypotheses
from grader.grading.hypotheses import NEARLY_WRONG, cause_of
from grader.spec.task import Task

EXERCISES = spec.load_all()


def named(name, kernel, variant="triton", dtype="float32", size_class="ragged", data="large"):
    """The cause that is named for a kernel in torch; None for none. The kernel has to fail."""
    exercise = EXERCISES[name]
    space = Space(Task(exercise, exercise.variants[variant]), dtype, size_class, 4)
    cases = space.edges()
    cases += [replace(case, data=data, seed=seed) for case in cases[:6] for seed in range(8)]
    results = [each for case in dict.fromkeys(cases) if (each := wrong(space, case, kernel))]
    assert results, "the kernel is right"
    smallest = min(results, key=lambda each: each.case.complexity)
    return cause_of(space, results, smallest)


def wrong(space, case, kernel):
    """The result of a case in which the kernel is wrong, else None."""
    result = run(space, case, kernel)
    return None if result.verdict.passed else result


def run(space, case, kernel):
    """The result of a case."""
    task = space.task
    made = inputs.make(space.task, case)
    truths = oracle.load(space.task.exercise.oracle).truths(
        made.tensors, made.scalars, task.tolerance.magnitude
    )
    wide = {each: tensor.double() for each, tensor in made.tensors.items()}
    outputs = kernel(**wide, **made.scalars)
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    outcomes = []
    for tensor, truth, output in zip(task.outputs, truths, outputs, strict=True):
        assert output.shape == truth.expected.shape
        kind = tensor.concrete_dtype(case.dtype)
        strides = tuple(output.stride())
        slot = Slot(tensor.name, kind, tuple(output.shape), strides, 0, "output", "device", None)
        values = output.to(getattr(torch, kind))
        outcomes.append(Outcome(slot, values, torch.zeros(output.shape, dtype=bool), (), 0, True))
    verdict = judge(outcomes, truths, task.tolerance)
    values = tuple(each.values for each in outcomes)
    return CaseResult(case, verdict, outputs=values)


def rms(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def scores_of(q, k, sm_scale, causal, shift=0):
    scores = q @ k.mT * sm_scale
    n_ctx, n_kv = scores.shape[-2:]
    visible = torch.ones(n_ctx, n_kv, dtype=torch.bool).tril(n_kv - n_ctx + shift)
    return scores.masked_fill(~visible, -math.inf) if causal else scores


def attention(q, k, v, sm_scale, causal, shift=0, factor=1.0, scale=1.0):
    scores = scores_of(q, k, sm_scale * scale, causal, shift)
    lse = scores.logsumexp(-1)
    weights = torch.exp(scores - lse.nan_to_num(neginf=0.0)[..., None])
    return weights @ v, lse * factor


def online(x, rescales=True, block=64, start=-math.inf, keeps=True, first=0):
    m = torch.full((x.shape[0], 1), start, dtype=x.dtype)
    total = torch.zeros_like(m)
    for part in x.split(block, dim=1)[first:]:
        new = torch.maximum(m, part.amax(1, keepdim=True))
        total = total * (torch.exp(m - new) if rescales else 1) * keeps
        total = total + torch.exp(part - new).sum(1, keepdim=True)
        m = new
    return torch.exp(x - m) / total


def rms_of(part):
    """RMSNorm whose sum of squares takes in only a part of a row."""

    def kernel(x, weight, eps):
        mean = part(x).square().sum(-1, keepdim=True) / x.shape[-1]
        return x * torch.rsqrt(mean + eps) * weight

    return kernel


def rms_by_warps(has_total):
    """RMSNorm of 8 warps, each with its own sum; the first one `has_total`."""

    def kernel(x, weight, eps):
        mean = torch.empty_like(x)
        for column in range(x.shape[1]):
            own = [c for c in range(x.shape[1]) if c // 32 % 8 == column // 32 % 8]
            part = x if has_total and column // 32 % 8 == 0 else x[:, own]
            mean[:, column] = part.square().sum(1) / x.shape[1]
        return x * torch.rsqrt(mean + eps) * weight

    return kernel


def attention_rescaled_last(q, k, v, sm_scale, causal):
    """Attention by blocks of 64 keys, whose product is added before acc is rescaled."""
    scores = scores_of(q, k, sm_scale, causal)
    m = scores.new_full((*scores.shape[:-1], 1), -math.inf)
    acc = torch.zeros_like(q)
    for first in range(0, k.shape[2], 64):
        part = scores[..., first : first + 64]
        new = torch.maximum(m, part.amax(-1, keepdim=True))
        base = new.nan_to_num(neginf=0.0)
        acc = (acc + torch.exp(part - base) @ v[..., first : first + 64, :]) * torch.exp(m - base)
        m = new
    lse = scores.logsumexp(-1)
    return (acc / torch.exp(lse[..., None] - m)).nan_to_num(), lse


def attention_of_the_last_block(q, k, v, sm_scale, causal):
    """Attention whose accumulator, but not its sum, begins anew in each block of keys."""
    scores = scores_of(q, k, sm_scale, causal)
    lse = scores.logsumexp(-1)
    weights = torch.exp(scores - lse.nan_to_num(neginf=0.0)[..., None])
    first = (k.shape[2] - 1) // 64 * 64
    return weights[..., first:] @ v[..., first:, :], lse


def rescaled_by(factor, step=lambda p: p):
    """Attention whose sums are rescaled by an exponent that is a factor times too far."""

    def kernel(q, k, v, sm_scale, causal):
        scores = scores_of(q, k, sm_scale, causal)
        m = scores.new_full((*scores.shape[:-1], 1), -math.inf)
        total, acc = torch.zeros_like(m), torch.zeros_like(q)
        for first in range(0, k.shape[2], 32):
            part = scores[..., first : first + 32]
            new = torch.maximum(m, part.amax(-1, keepdim=True))
            base = new.nan_to_num(neginf=0.0)
            alpha = torch.exp((m - base) * factor(sm_scale))
            p = torch.exp(part - base)
            total = total * alpha + p.sum(-1, keepdim=True)
            acc = acc * alpha + step(p) @ v[..., first : first + 32, :]
            m = new
        return (acc / total).nan_to_num(), (m + total.log())[..., 0]

    return kernel


@pytest.mark.parametrize(
    ("factor", "text"),
    [(lambda sm_scale: sm_scale, "sm_scale times"), (lambda sm_scale: math.log(2), "ln 2 times")],
)
def test_sums_that_are_rescaled_by_another_exponent_are_named(factor, text):
    cause = named("flash_attention", rescaled_by(factor))
    assert cause is not None and text in cause.what and "rescales the sums" in cause.what


@pytest.mark.parametrize("share", [NEARLY_WRONG, 1.0])
def test_a_mistake_explains_elements_that_are_barely_wrong_too(share, monkeypatch):
    """Of many elements some are wrong by little more than is allowed, and rounding adds that."""
    kernel = rescaled_by(lambda sm_scale: sm_scale, step=lambda p: p.half().double())
    monkeypatch.setattr(hypotheses, "NEARLY_WRONG", share)
    cause = named("flash_attention", kernel, dtype="float16", size_class="aligned")
    assert (cause is not None and "rescales the sums" in cause.what) == (share < 1)


def padded_softmax(x):
    width = 1 << (x.shape[1] - 1).bit_length()
    return torch.softmax(torch.nn.functional.pad(x, (0, width - x.shape[1])), 1)[:, : x.shape[1]]


def lse_of_mixed_bases(**given):
    """(m in powers of two + the natural logarithm of the sum) * ln 2."""
    out, lse = attention(**given)
    m = scores_of(*(given[n] for n in ("q", "k", "sm_scale", "causal"))).amax(-1)
    return out, m + (lse - m) * math.log(2)


def chunked_softmax(x):
    """Every 16th element has a sum of its own, relative to its own maximum."""
    total = torch.zeros(x.shape[0], 1, dtype=x.dtype)
    for first in range(16):
        own = x[:, first::16]
        if own.shape[1]:
            total += torch.exp(own - own.amax(1, keepdim=True)).sum(1, keepdim=True)
    return torch.exp(x - x.amax(1, keepdim=True)) / total


def softmax_of_powers_of_two(x):
    e = torch.exp2(x - x.amax(1, keepdim=True))
    return e / e.sum(1, keepdim=True)


def softmax_scaled_first(x):
    scaled = x.float() * math.log2(math.e)
    e = torch.exp2(scaled - scaled.amax(1, keepdim=True))
    return e / e.sum(1, keepdim=True)


def softmax_by_logarithm(x):
    return torch.exp(x.float() - torch.logsumexp(x.float(), -1, keepdim=True))


def half_of_gelu(x):
    return x * torch.sigmoid(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def gelu_of(x, factor):
    return x * torch.sigmoid(2 * factor * (x + 0.044715 * x**3))


def rounded_sum(a, b):
    total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype)
    for k in range(a.shape[1]):
        total = (total + a[:, k : k + 1] * b[k : k + 1]).half().double()
    return total


def no_key_is_nan(**given):
    out, lse = attention(**given)
    hidden = lse.isinf()
    return out.masked_fill(hidden[..., None], math.nan), lse.masked_fill(hidden, math.nan)


MISTAKES = [
    ("rmsnorm", lambda x, weight, eps: -rms(x, weight, eps), "wrong sign"),
    ("rmsnorm", lambda x, weight, eps: 2 * rms(x, weight, eps), "2 times"),
    ("rmsnorm", lambda x, weight, eps: rms(x, torch.ones_like(weight), eps), "`weight` is left"),
    ("rmsnorm", lambda x, weight, eps: rms(x, weight, 0.0), "`eps` has no effect"),
    ("rmsnorm", lambda x, weight, eps: rms(x, weight, 1e-6), "`eps` counts as 1e-06"),
    ("rmsnorm", lambda x, weight, eps: rms(x - x.mean(-1, keepdim=True), weight, eps), "mean is"),
    (
        "rmsnorm",
        lambda x, weight, eps: x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps) * weight,
        "`sum` stands where `mean`",
    ),
    ("rmsnorm", lambda x, weight, eps: rms(x, weight, eps)[:1].expand(x.shape), "first row"),
    ("softmax", padded_softmax, "count in the maximum or in the sum"),
    ("gemm", lambda a, b: a[:, :1024] @ b[:1024], "only the first 1024 products count"),
    ("flash_attention", lse_of_mixed_bases, "natural logarithm of the sum by ln 2"),
    ("softmax", lambda x: online(x, rescales=False), "sum isn't rescaled"),
    ("softmax", lambda x: online(x, keeps=False), "only the last block counts"),
    ("rmsnorm", rms_of(lambda x: x.split(256, 1)[-1]), "only the last block of 256 counts"),
    ("rmsnorm", rms_of(lambda x: x[:, 512:]), "the first block is missing"),
    ("rmsnorm", rms_of(lambda x: 0 * x), "The mean of the squares is 0"),
    ("gemm", lambda a, b: a.split(64, 1)[-1] @ b.split(64)[-1], "only the last block of 64"),
    ("gemm", lambda a, b: a[:, 128:] @ b[128:], "the first block is missing"),
    ("rmsnorm", rms_by_warps(False), "Each warp takes its own elements' sum"),
    ("rmsnorm", rms_by_warps(True), "Each warp but the first takes"),
    ("flash_attention", attention_rescaled_last, "product is rescaled together with"),
    ("flash_attention", attention_of_the_last_block, "In the accumulator only the last block"),
    ("softmax", lambda x: online(x.float(), start=0.0), "as is one that begins at 0"),
    ("softmax", chunked_softmax, "relative to different maxima"),
    ("softmax", softmax_of_powers_of_two, "powers of 2"),
    ("softmax", softmax_scaled_first, "rounded before the maximum is subtracted"),
    ("gelu", half_of_gelu, "`2.0` is left out"),
    ("gemm", lambda a, b: a[:, 1:] @ b[1:], "first product"),
    ("gemm", lambda a, b: a.reshape(a.shape[::-1]).T @ b, "`a` is read as if it lay column after"),
    ("gemm", lambda a, b: (a @ b) / a.shape[1], "1/K times"),
    ("flash_attention", lambda **given: attention(**given, factor=1.4426950408889634), "powers of"),
    ("flash_attention", lambda **given: attention(**given, scale=math.log(2)), "ln 2"),
    ("flash_attention", lambda **given: attention(**{**given, "causal": False}), "`causal` counts"),
    ("flash_attention", lambda **given: attention(**given, shift=1), "off by one"),
    ("flash_attention", no_key_is_nan, "sees no key"),
    (
        "flash_attention",
        lambda **given: attention(**{**given, "sm_scale": given["q"].shape[-1] ** -0.5}),
        "`sm_scale` counts as 1 / sqrt(HEAD_DIM)",
    ),
    (
        "flash_attention",
        lambda **given: attention(**{**given, "sm_scale": 1.0}),
        "`sm_scale` has no effect",
    ),
]
# Similar outputs, other causes: nothing must be named.
OTHERS = [
    ("rmsnorm", lambda x, weight, eps: rms(x, weight, eps) * 1.7),
    ("rmsnorm", lambda x, weight, eps: rms(x, weight, 3e-4)),
    ("rmsnorm", lambda x, weight, eps: -rms(x, weight, eps) + x.sign()),
    ("rmsnorm", lambda x, weight, eps: rms(x, weight.flip(0), eps)),
    ("softmax", lambda x: torch.softmax(x * 0.9, -1)),
    ("softmax", lambda x: online(x) + 0.01),
    ("gelu", lambda x: half_of_gelu(x) * 1.01),
    ("gemm", lambda a, b: a[:, ::2] @ b[::2]),
    ("flash_attention", lambda **given: attention(**given, factor=1.3)),
    ("flash_attention", lambda **given: attention(**given, shift=5)),
]


def softmax_in_half(x):
    e = torch.exp(x - x.amax(1, keepdim=True)).half().double()
    return e / e.sum(1, keepdim=True)


def test_a_result_that_is_lost_isnt_told_to_be_off_by_a_factor() -> None:
    cause = named("silu", lambda x: x * 1e-30)
    assert cause is not None and cause.what == "`out` is 0 or nearly 0 everywhere"
    assert "factor" not in cause.advice


def test_a_step_in_half_precision_is_named_and_a_small_factor_is_not():
    cause = named("softmax", softmax_in_half)
    assert cause is not None
    assert "but for rounding" in cause.what
    assert named("softmax", lambda x: torch.softmax(x, 1) * 1.002) is None


def test_digits_that_cancel_in_few_elements_are_no_step_in_half_precision():
    """1 + tanh(x / 2) in float32 loses digits where x is far below 0, and only there."""

    def by_tanh(x):
        x = x.float()
        return (x * (0.5 * (1 + torch.tanh(x / 2)))).double()

    assert named("silu", by_tanh, dtype="float16") is None


@pytest.mark.parametrize(("name", "kernel", "words"), MISTAKES)
def test_a_mistake_that_explains_the_outputs_is_named(name, kernel, words):
    cause = named(name, kernel, "triton_v2" if name == "gemm" else "triton")
    assert cause is not None
    assert words in cause.what


def test_a_logarithm_that_is_added_to_a_large_maximum_is_named():
    far_below = named("softmax", softmax_by_logarithm, dtype="bfloat16", data="far_below_zero")
    assert far_below and "rounded away" in far_below.what


def test_a_result_of_bfloat16_that_passes_through_float16_is_told():
    given = {"dtype": "bfloat16", "size_class": "many_tiles", "data": "tiny"}
    through = named("gemm", lambda a, b: (a @ b).half().double(), "triton_v3", **given)
    assert through is not None and through.name == "through_half"
    nothing = named("gemm", lambda a, b: a @ b * 0, "triton_v3", **given)
    assert nothing is None or nothing.name != "through_half"


@pytest.mark.parametrize(("name", "kernel"), OTHERS)
def test_another_mistake_with_similar_outputs_is_not_named(name, kernel):
    assert named(name, kernel, "triton_v2" if name == "gemm" else "triton") is None


@pytest.mark.parametrize("turned", [True, False])
def test_a_transposed_output_and_a_copy_are_told_apart(turned):
    def kernel(input):
        return input.t().flip(0).contiguous() if turned else input.reshape(input.t().shape)

    cause = named("transpose", kernel, "triton_v2")
    assert (cause.name if cause else None) == (None if turned else "copied")


def test_a_copy_of_the_wrong_elements_is_named_by_where_they_lie():
    def kernel(h_A):
        return h_A.flatten()[: h_A.shape[0]].clone()

    cause = named("copy_first_column", kernel, "cuda")
    assert (cause.name if cause else None) == "beginning"


def test_half_precision_is_no_room_for_another_mistake():
    """A few units of bfloat16 are as much as wrong rescaling may make, and as a wrong sum does."""
    cause = named(
        "softmax", lambda x: torch.softmax(x, 1) / 1.03, "online", "bfloat16", "long_rows"
    )
    assert cause is None


def test_a_constant_that_is_a_little_wrong_is_no_rounding():
    assert named("gelu", lambda x: gelu_of(x, 0.7071)) is None


def test_sums_that_begin_at_the_second_block_are_named():
    exercise = EXERCISES["softmax"]
    space = Space(Task(exercise, exercise.variants["online"]), "float32", "ragged", 4)
    cases = [each for each in space.edges() if each.size("cols") > 64]
    results = [run(space, case, lambda x: online(x.float(), first=1)) for case in cases]
    smallest = next(each for each in results if hypotheses.is_telling(each))
    cause = cause_of(space, results, smallest)
    assert cause is not None
    assert "first block of each row is missing" in cause.what


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (lambda x: x[:, 512:], "the first block is missing"),
        (lambda x: x[:, : x.shape[1] // 512 * 512], "the last, partly filled block is missing"),
    ],
)
def test_cases_elsewhere_decide_between_mistakes_that_look_alike_in_short_rows(part, words):
    exercise = EXERCISES["rmsnorm"]
    space = Space(Task(exercise, exercise.variants["triton"]), "float32", "ragged", 4)
    results = {case: run(space, case, rms_of(part)) for case in space.edges()}
    short = [each for case, each in results.items() if 1 < case.size("cols") < 512]
    long = [(space, each) for case, each in results.items() if case.size("cols") >= 512]
    cause = cause_of(space, short, short[0], lambda: long)
    assert cause is not None
    assert words in cause.what


def test_what_is_wrong_in_bits_alone_is_no_mistake_of_a_formula():
    exercise = EXERCISES["transpose"]
    space = Space(Task(exercise, exercise.variants["triton_v1"]), "float32", "ragged", 4)
    cases = [replace(case, data="any_bits") for case in space.edges()]
    results = [each for case in cases if (each := wrong(space, case, lambda input: input.t() + 0))]
    assert len(results) > 2  # there -0 became 0
    assert cause_of(space, results, results[0]) is None


def test_what_is_right_where_the_output_is_wrong_explains_nothing():
    cause = named("gemm", rounded_sum, "triton_v2")
    assert cause is None or "transposed" not in cause.what


def test_of_outputs_without_a_number_no_one_mistake_is_told():
    assert named("softmax", lambda x: x * math.inf) is None


@pytest.mark.parametrize("passes_at", [64, math.inf])
def test_of_nan_a_mistake_is_told_only_if_it_leaves_passing_cases_right(passes_at):
    """Where all is nan, wrong rescaling would explain it, and leave no case right."""
    exercise = EXERCISES["softmax"]
    space = Space(Task(exercise, exercise.variants["online"]), "float32", "ragged", 4)

    def nan_in_short_rows(x):
        return torch.softmax(x, -1) if x.shape[1] >= passes_at else torch.full_like(x, math.nan)

    results = [run(space, case, nan_in_short_rows) for case in space.edges()]
    assert any(each.verdict.passed for each in results) == (passes_at == 64)
    failed = [each for each in results if not each.verdict.passed]
    smallest = min(failed, key=lambda each: each.case.complexity)
    assert cause_of(space, results, smallest) is None


def test_one_failing_case_is_not_enough():
    exercise = EXERCISES["rmsnorm"]
    space = Space(Task(exercise, exercise.variants["triton"]), "float32", "ragged", 4)
    case = max(space.edges(), key=lambda each: each.elements)
    result = wrong(space, case, lambda x, weight, eps: -rms(x, weight, eps))
    assert cause_of(space, [result], result) is None


@pytest.mark.parametrize("only_one_key", [True, False])
def test_a_mistake_is_told_only_if_cases_of_other_size_classes_agree(only_one_key):
    """A loop over the keys that ends early looks like a mask off by one where there is one key."""
    exercise = EXERCISES["flash_attention"]
    here, there = (
        Space(Task(exercise, exercise.variants["triton"]), "float32", each, 4)
        for each in ("degenerate", "ragged")
    )
    right = oracle.load(exercise.oracle).definition

    def kernel(q, k, v, sm_scale, causal):
        if only_one_key and k.shape[2] > 1:
            return right(q, k, v, sm_scale, causal)
        return flaws._attention(flaws._Given(q, k, v, sm_scale, causal), shift=-1)

    def results(space):
        cases = [each for each in space.edges() if dict(each.scalars).get("causal")]
        return [run(space, case, kernel) for case in cases]

    own = results(here)
    failed = [each for each in own if not each.verdict.passed]
    smallest = min(failed, key=lambda each: each.case.complexity)
    assert "off by one" in cause_of(here, own, smallest).what
    told = cause_of(here, own, smallest, lambda: [(there, each) for each in results(there)[:4]])
    assert (told is None) == only_one_key


def test_of_formulas_that_half_precision_cannot_tell_apart_the_nearest_is_told(monkeypatch):
    def kernel(x, weight, eps):
        mean = (x.square().sum(-1, keepdim=True) + eps) / x.shape[-1]
        return x * torch.rsqrt(mean) * weight

    exercise = EXERCISES["rmsnorm"]
    space = Space(Task(exercise, exercise.variants["triton"]), "float16", "ragged", 4)
    long = [case for case in space.edges() if dict(case.sizes)["cols"] >= 64]
    cases = [replace(case, data="tiny", seed=seed) for case in long for seed in range(6)]
    results = [each for case in dict.fromkeys(cases) if (each := wrong(space, case, kernel))]
    smallest = min(results, key=lambda each: each.case.complexity)
    told = cause_of(space, results, smallest)
    assert "`eps` is added before the mean's division, not after" in told.what
    monkeypatch.setattr(hypotheses, "CLEARLY", math.inf)
    assert "added to the root" in cause_of(space, results, smallest).what


def test_a_mistake_that_some_shapes_do_not_allow_for_may_be_told_among_several():
    exercise = EXERCISES["rmsnorm"]
    space = Space(Task(exercise, exercise.variants["triton"]), "float32", "ragged", 4)
    one, other = (hypotheses._as_seen(space, run(space, case, rms)) for case in space.edges()[:2])

    def once(each):
        if each is other:
            raise RuntimeError("shapes")
        return each.outputs

    causes = [hypotheses.Cause(name, name, "") for name in ("first", "second")]
    attempts = [(causes[0], once), (causes[1], lambda each: each.outputs)]
    assert hypotheses._nearest(attempts, [one, other]) is causes[1]
    assert hypotheses._nearest(attempts[:1], [one, other]) is causes[0]


COUNTING = """\
title: Counting
arguments:
  - {name: out, shape: [n], dtype: int32, role: output}
  - {name: step, scalar: int, values: [1, 3]}
sizes: {ragged: {n: [1, 90]}}
variants:
  triton: {file: counting.py, entry: counting, dtypes: [int32], points: {ragged: 1}}
"""


def test_outputs_of_a_kernel_without_inputs_are_looked_at_too(tmp_path, monkeypatch):
    (tmp_path / "counting.yaml").write_text(COUNTING, encoding="utf-8")
    own = spec.load_all(tmp_path)
    monkeypatch.setitem(EXERCISES, "counting", own["counting"])

    def counting(n, step):
        return step * torch.arange(n)

    functions = oracle.Oracle("counting", counting, counting, None)
    monkeypatch.setattr(oracle, "load", lambda *_: functions)
    monkeypatch.setattr(oracle, "of", lambda *_: functions)
    space = Space(Task(own["counting"], own["counting"].variants["triton"]), "int32", "ragged", 4)
    results = []
    for case in space.edges():
        made = inputs.make(space.task, case)
        [truth] = functions.truths(made.tensors, made.numbers, "expected")
        values = (truth.expected + 7).to(torch.int32)
        slot = replace(made.slots[0], values=None)
        seen = Outcome(slot, values, torch.zeros(values.shape, dtype=bool), (), 0, True)
        verdict = judge([seen], [truth], space.task.tolerance)
        results.append(CaseResult(case, verdict, outputs=(values,)))
    assert cause_of(space, results, results[0]) is None


def test_a_row_wise_result_of_columns_is_named():
    told = named("softmax", lambda x: torch.softmax(x, 0))
    assert told is not None and told.name == "other_axis"
    apart = named("softmax", lambda x: torch.softmax(x.flatten(), 0).reshape(x.shape))
    assert apart is None or apart.name != "other_axis"


def test_a_formula_s_quoted_code_is_said_to_be_the_oracle_s():
    def without_root(x, weight, eps):
        return x / (x.square().mean(-1, keepdim=True) + eps) * weight

    told = named("rmsnorm", without_root)
    assert told is not None and told.what.startswith("Held against `rmsnorm` in reference/oracles")


def test_a_scale_that_is_applied_twice_is_named():
    right = oracle.of(EXERCISES["flash_attention"]).definition

    def twice(q, k, v, sm_scale, causal):
        return right(q, k, v, sm_scale**2, causal)

    told = named("flash_attention", twice, data="normal")
    assert told is not None and told.what.startswith("`sm_scale` is applied twice")


@pytest.mark.parametrize("block", [64, 256])
def test_blocks_that_each_take_their_own_sum_of_a_row_are_named(block):
    def by_blocks(x, weight, eps):
        return flaws._rms_by_blocks(x, weight, eps, block)[0]

    told = named("rmsnorm", by_blocks, data="normal")
    assert told is not None and told.what.startswith(f"Each {block} elements of a row")
