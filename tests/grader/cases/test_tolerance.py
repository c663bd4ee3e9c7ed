"""The tolerance of every exercise, proved: what is wrong fails, what is honest passes.

For each exercise and dtype there are 80 cases, and 200 with pytest's option --every-submission.
Outputs that are zeros, a constant, half computed, shifted or transposed fail in every one of them;
so does, where it can be told, what was computed in the next lower precision. torch's own result
and an honest kernel's arithmetic pass.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings

from grader import spec
from grader.cases import Space, inputs, oracle
from grader.cases.arena import Outcome, Slot
from grader.cases.compare import allowed_error, judge, wrong_elements
from grader.cases.drawing import only_what_is_drawn
from grader.cases.inputs import strides_of
from grader.spec.task import Task
from grader.status import Status
from tests.support.strategies import any_case

EXERCISES = spec.load_all()
CASES = 80  # at least, of an exercise and dtype
ALL_CASES = 200
MOST = 1 << 16  # elements of what is drawn; the edges have the largest
HALVES = ("float16", "bfloat16")


def variant_for(exercise, dtype):
    """The exercise's first variant that is graded in `dtype`; the tolerances are the same."""
    return next(v for v in exercise.variants.values() if dtype in v.dtypes)


PAIRS = [
    (name, dtype)
    for name, exercise in EXERCISES.items()
    for dtype in dict.fromkeys(d for v in exercise.variants.values() for d in v.dtypes)
]


class Setting:
    """A case with its inputs and truths; judges results as if a kernel had written them."""

    def __init__(self, exercise, case):
        self.exercise, self.case = exercise, case
        variant = variant_for(exercise, case.dtype)
        self.tolerance = exercise.tolerance_of(variant)
        self.made = inputs.make(Task(exercise, variant), case)
        self.truths = oracle.load(exercise.oracle).truths(
            self.made.tensors, self.made.scalars, self.tolerance.magnitude
        )
        self.outputs = exercise.outputs(variant)
        self.kinds = [getattr(torch, each.concrete_dtype(case.dtype)) for each in self.outputs]
        self.kind = getattr(torch, case.dtype)
        self.given = {**self.made.tensors, **self.made.scalars}
        self.right = [t.expected.to(k) for t, k in zip(self.truths, self.kinds, strict=True)]
        self.allowed = [
            allowed_error(t, str(k)[6:], self.tolerance)
            for t, k in zip(self.truths, self.kinds, strict=True)
        ]

    def passes(self, index, result):
        """Whether one output would be right; `status` says the same and finds words for it."""
        outcome = self.outcome(index, result)
        return not bool(
            wrong_elements(outcome.values, self.truths[index], self.allowed[index]).any()
        )

    def status(self, results):
        return judge(self.outcomes(results), self.truths, self.tolerance).status

    def outcomes(self, results):
        return [self.outcome(index, result) for index, result in enumerate(results)]

    def outcome(self, index, result):
        """One output as a kernel would have left it."""
        kind = self.kinds[index]
        values = result.to(kind).reshape(self.truths[index].expected.shape)
        strides, first = strides_of(values.shape, "contiguous")
        dtype, name = str(kind)[6:], self.outputs[index].name
        slot = Slot(name, dtype, tuple(values.shape), strides, first, "output")
        nothing = torch.zeros(values.shape, dtype=torch.bool)
        return Outcome(slot, values, nothing, (), 0, True)

    def off(self, index, result):
        """How far the worst element is beyond what is allowed: 1 is just allowed."""
        truth, kind = self.truths[index], self.kinds[index]
        error = (result.to(kind).double() - truth.expected).abs()
        worst = (error / self.allowed[index]).nan_to_num(nan=0.0)
        return float(worst.max())


def cases_of(exercise, dtype, least):
    """At least so many cases over all classes, the same ones each time."""
    variant = variant_for(exercise, dtype)
    spaces = [Space(Task(exercise, variant), dtype, name, 21) for name in exercise.sizes]
    cases = {}
    for space in spaces:
        cases |= dict.fromkeys(space.edges()[-2 * len(exercise.data) :])
    count = least // len(spaces)
    while len(cases) < least:
        for space in spaces:
            drawn = drawn_of(exercise.name, space.size_class, count)
            drawn = [replace(case, dtype=dtype) for case in drawn]
            cases |= dict.fromkeys(case for case in drawn if elements(space, case) <= MOST)
        count += count // 3
    return list(cases)


def elements(space, case):
    """How many the largest output has."""
    outputs = space.task.exercise.outputs(space.task.variant)
    return max(math.prod(each.concrete_shape(dict(case.sizes))) for each in outputs)


@functools.lru_cache
def drawn_of(name, size_class, count):
    """Drawn once for all dtypes, of which sizes and data don't depend."""
    variant = next(iter(EXERCISES[name].variants.values()))
    task = Task(EXERCISES[name], variant)
    return drawn_from(Space(task, variant.dtypes[0], size_class, 21), count)


def drawn_from(space, count):
    """Cases that hypothesis draws, the same ones each time."""
    cases = []

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(any_case(space))
    def draw(case):
        cases.append(case)

    with only_what_is_drawn():
        draw()
    return cases


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def many(request):
    name, dtype = request.param
    every = request.config.getoption("every_submission")
    cases = cases_of(EXERCISES[name], dtype, ALL_CASES if every else CASES)
    assert len(cases) >= CASES
    return [Setting(EXERCISES[name], case) for case in cases]


# --- what computes something else ----------------------------------------------------------------


def wrong_results(setting, index):
    """By name, what a kernel that computes something else may write to one output."""
    right = setting.right[index]
    flat = right.flatten()
    half = flat.clone()
    half[flat.numel() // 2 :] = 0
    finite = flat[flat.isfinite()].double()
    results = {
        "zeros": torch.zeros_like(flat),
        "constant": torch.full_like(flat, float(finite.mean()) if len(finite) else 1.0),
        "half": half,
        "shifted": flat.roll(1),
        "negated": -flat,
    }
    if right.dim() >= 2:
        results["transposed"] = right.transpose(-1, -2).contiguous().flatten()
        results["shifted by a row"] = right.roll(1, dims=-2).flatten()
    for name in setting.made.tensors:
        if setting.made.tensors[name].shape == right.shape:
            results[f"copy of {name}"] = setting.made.tensors[name].flatten()
    return {name: result.reshape(right.shape) for name, result in results.items()}


def is_nearly_right(setting, index, result):
    """Whether a wrong way of computing happens to give the right result, or next to it."""
    right = setting.right[index].double()
    close = (result.double() - right).abs() <= 2 * setting.allowed[index]
    same = (result.double() == right) | (result.isnan() & right.isnan())
    return bool((close | same).all())


def test_what_computes_something_else_fails_in_every_case(many):
    judged = {}
    for setting in many:
        for index in range(len(setting.outputs)):
            for name, result in wrong_results(setting, index).items():
                if setting.passes(index, result):  # one element shifted by one, half of a row of 0
                    assert is_nearly_right(setting, index, result), (name, str(setting.case))
                else:
                    judged[name] = judged.get(name, 0) + 1
    assert min(judged.values()) >= CASES // 10, judged
    assert min(judged[name] for name in ("zeros", "half")) >= CASES // 2, judged


def test_only_what_is_nearly_right_is_let_off(many):
    """The test above leaves hardly anything out where there are elements to be wrong."""
    for setting in many:
        if setting.case.data != "normal":  # softmax of large numbers has a 1 and zeros
            continue
        for index, truth in enumerate(setting.truths):
            different = truth.expected[truth.expected.isfinite()].unique()
            if len(different) < 16:
                continue
            for name in ("zeros", "constant", "half", "negated"):
                result = wrong_results(setting, index)[name]
                assert not is_nearly_right(setting, index, result), (name, str(setting.case))


# --- what is honest ------------------------------------------------------------------------------


def test_torch_passes(many):
    for setting in many:
        assert setting.status([truth.own for truth in setting.truths]) is Status.passed, str(
            setting.case
        )


def test_the_truth_itself_passes(many):
    for setting in many:
        assert setting.status(setting.right) is Status.passed, str(setting.case)


ROUGH = 1 + 2 * 2.0**-23  # a fast reciprocal or exponential: two units off


def fast_exp(x):
    """exp in float32 as hardware does it: exp2 of a rounded product; that of 0 is exactly 1."""
    product = x.float() * torch.tensor(math.log2(math.e), dtype=torch.float32)
    rough = torch.exp2(product.double()).float() * ROUGH
    return rough.masked_fill(product == 0, 1.0)


def silu_like_a_gpu(setting, x):
    return [x.float() * ((1 / (1 + fast_exp(-x.float()))) * ROUGH)]


def gelu_like_a_gpu(setting, x):
    x = x.float()
    return [x / (1 + fast_exp(-2 * 0.7978845608 * (x + 0.044715 * x * x * x))) * ROUGH]


def in_sequence(x):
    """Sums along the last dimension in float32, one element after the other."""
    sums = np.add.accumulate(x.float().numpy(), axis=-1)  # torch.cumsum accumulates in float64
    return torch.from_numpy(sums[..., -1].copy()) if x.shape[-1] else x.new_zeros(x.shape[:-1])


def rmsnorm_in_sequence(setting, x, weight, eps):
    x = x.float()
    rstd = 1 / torch.sqrt(in_sequence(x.square()) / x.shape[1] + eps) * ROUGH
    return [x * rstd[:, None] * weight.float()]


def softmax_online(setting, x):
    """Block by block, the sum corrected as the maximum grows."""
    x = x.float()
    m_i, l_i = torch.full((len(x),), -math.inf), torch.zeros(len(x))
    for block in x.split(32, dim=1):
        m_new = torch.maximum(m_i, block.amax(dim=1))
        l_i = l_i * fast_exp(m_i - m_new) + in_sequence(fast_exp(block - m_new[:, None]))
        m_i = m_new
    return [fast_exp(x - m_i[:, None]) * (1 / l_i * ROUGH)[:, None]]


def blocked_product(a, b, kind=torch.float32, block=32):
    """a @ b, a block of K at a time, the sum so far kept in `kind`."""
    acc = torch.zeros(*a.shape[:-1], b.shape[-1], dtype=kind)
    for left, right in zip(a.split(block, -1), b.split(block, -2), strict=True):
        acc = (acc.float() + left.float() @ right.float()).to(kind)
    return acc


def gemm_in_sequence(setting, a, b):
    return [blocked_product(a, b, block=1)]


def attention(setting, q, k, v, sm_scale, causal, **changes):
    """Flash attention's arithmetic in blocks of 32 keys; `changes` are what a student may do."""
    cast = changes.get("inputs", lambda x: x)
    narrow = changes.get("scores", lambda x: x)
    sums = changes.get("sums", lambda x: x)
    visible = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
    visible = visible.tril(k.shape[-2] - q.shape[-2]) if causal else visible
    m_i = torch.full(q.shape[:-1], -math.inf)
    l_i, acc = torch.zeros(q.shape[:-1]), torch.zeros(q.shape)
    for start in range(0, k.shape[-2], 32):
        keys, values = k[..., start : start + 32, :], v[..., start : start + 32, :]
        if changes.get("scale_q"):
            scores = (q * sm_scale).float() @ keys.float().mT
        else:
            scores = (cast(q).float() @ cast(keys).float().mT) * sm_scale
        scores = narrow(scores).masked_fill(~visible[:, start : start + 32], -math.inf)
        m_new = torch.maximum(m_i, scores.amax(dim=-1))
        base = m_new.masked_fill(m_new == -math.inf, 0.0)
        p = fast_exp(scores - base[..., None])
        alpha = fast_exp(m_i - base)
        l_i = sums(l_i * alpha + p.sum(dim=-1))
        p = p.to(changes.get("weights", v.dtype))
        acc = acc * alpha[..., None] + cast(p).float() @ cast(values).float()
        m_i = m_new
    some = l_i > 0
    lse = torch.where(some, m_i + torch.log(l_i), -math.inf)
    return [acc / torch.where(some, l_i, 1.0)[..., None], lse]


HONEST = {
    "silu": silu_like_a_gpu,
    "gelu": gelu_like_a_gpu,
    "rmsnorm": rmsnorm_in_sequence,
    "softmax": softmax_online,
    "gemm": gemm_in_sequence,
    "flash_attention": attention,
}


def test_an_honest_kernel_passes(many):
    compute = HONEST.get(many[0].exercise.name)
    if compute is None:
        pytest.skip("it moves numbers and computes none")
    for setting in many:
        results = compute(setting, **setting.given)
        worst = [setting.off(index, result) for index, result in enumerate(results)]
        assert setting.status(results) is Status.passed, (worst, str(setting.case))


def test_every_exercise_that_computes_has_an_honest_kernel_here():
    moving = {"transpose", "copy_first_column"}
    assert set(EXERCISES) <= set(HONEST) | moving


# --- the next lower precision --------------------------------------------------------------------


@pytest.mark.parametrize(("name", "dtype"), [pair for pair in PAIRS if pair[1] != "bfloat16"])
def test_a_result_of_the_next_lower_precision_fails(name, dtype):
    exercise = EXERCISES[name]
    for lower in ("float16", "bfloat16") if dtype == "float32" else ("bfloat16",):
        variant = variant_for(exercise, dtype)
        for size_class in exercise.sizes:
            space = Space(Task(exercise, variant), dtype, size_class, 21)
            failed = most = 0
            for case in space.edges()[::2]:
                setting = Setting(exercise, case)
                rounded = [right.to(getattr(torch, lower)) for right in setting.right]
                passed = setting.status(rounded) is Status.passed
                failed += not passed
                numbers = setting.truths[0].expected.unique()
                telling = int((numbers.abs() > 2.0**-10).count_nonzero())
                most = max(most, telling)
                if dtype == "float32" and telling >= 16:  # of fewer, all may be short ones
                    assert not passed, (lower, str(case))
            assert failed or most < 16, (lower, size_class)


def to_tf32(x):
    """The 10 bits of mantissa that tensor cores look at, unless asked for more."""
    if x.dtype is not torch.float32:
        return x
    return (x.contiguous().view(torch.int32) & -8192).view(torch.float32)


def rounded_to(kind):
    return lambda x: x.to(kind).float()


def lower_precision(setting):
    """By name, results of the exercise's arithmetic with something kept in too few bits."""
    name, given, kind = setting.exercise.name, setting.given, setting.kind
    if name == "softmax":
        x = given["x"]
        lower = torch.float16 if kind is torch.float32 else kind
        total = torch.zeros(len(x), dtype=lower)
        powers = torch.exp(x.float() - x.float().amax(dim=1, keepdim=True))
        for column in powers.unbind(dim=1):
            total = total + column.to(lower)
        return {f"a sum in {lower}": [powers / total.float()[:, None]]}
    if name == "gemm":
        a, b = given["a"], given["b"]
        if kind is torch.float32:
            return {
                "TF32": [to_tf32(a) @ to_tf32(b)],
                "float16 inputs": [a.half().float() @ b.half().float()],
                "a sum in float16": [blocked_product(a, b, torch.float16)],
            }
        return {f"a sum in {kind}": [blocked_product(a, b, kind)]}
    if name == "flash_attention":
        if kind is torch.float32:
            return {
                "TF32": attention(setting, **given, inputs=to_tf32),
                "float16 weights": attention(setting, **given, weights=torch.float16),
                "float16 scores": attention(setting, **given, scores=rounded_to(torch.float16)),
            }
        results = {
            "scores in the dtype": attention(setting, **given, scores=rounded_to(kind)),
            "sums in the dtype": attention(setting, **given, sums=rounded_to(kind)),
        }
        if math.frexp(given["sm_scale"])[0] != 0.5:  # times a power of two is exact
            results["q times sm_scale"] = attention(setting, **given, scale_q=True)
        return results
    return {}


def tells(setting):
    """Whether the case has enough to go wrong: long sums of numbers that are no powers of two."""
    sizes = dict(setting.case.sizes)
    data = {setting.case.data, *(pattern for _, pattern in setting.case.patterns)}
    if data & {"one_hot", "tiny", "constant_rows"}:
        return False
    if setting.exercise.name == "softmax":
        return data == {"normal"} and sizes["cols"] >= max(1024, 4096 / sizes["rows"])
    if setting.exercise.name == "gemm":
        return sizes["K"] >= 64 and sizes["M"] * sizes["N"] >= 1024
    if setting.given["causal"] and sizes["N_CTX"] >= sizes["N_KV"] + 16:
        return False
    return data == {"normal"} and sizes["N_KV"] >= 48 and sizes["N_CTX"] >= 16


def test_computing_in_the_next_lower_precision_fails(many):
    if many[0].exercise.name not in ("softmax", "gemm", "flash_attention"):
        pytest.skip("test_compare.py has its own")
    judged = {}
    for setting in filter(tells, many):
        for name, results in lower_precision(setting).items():
            worst = [setting.off(index, result) for index, result in enumerate(results)]
            assert setting.status(results) is not Status.passed, (name, worst, str(setting.case))
            judged[name] = judged.get(name, 0) + 1
    assert min(judged.values()) >= 5, judged
