"""The comparison: what is wrong must fail, what is honest must pass, and a message says where."""

import pytest
import torch

from grader import spec
from grader.cases import Space, inputs, oracle, parse
from grader.cases.arena import Outcome, Slot
from grader.cases.compare import MAX_OWN_ERROR, allowed_error, describe_index, judge, wrong_pattern
from grader.cases.inputs import strides_of
from grader.cases.oracle import Oracle, OracleError, Truth
from grader.spec import Tolerance
from grader.spec.task import Task
from grader.status import Status
from tests.grader.cases.test_tolerance import drawn_from

# These in depth; test_tolerance.py has every exercise.
COMPUTING = ("gelu", "rmsnorm", "silu")
MOVING = ("copy_first_column", "transpose")  # no arithmetic, so there is nothing to round
EXERCISES = {name: spec.load_all()[name] for name in (*COMPUTING, *MOVING)}
DTYPES = ("float32", "float16", "bfloat16")
NAN, INF = float("nan"), float("inf")


def outcome_of(values, *, name="out", layout="contiguous", role="output", **changes):
    """What the grader would have copied out, with `values` written everywhere."""
    shape = tuple(values.shape)
    strides, first = strides_of(shape, layout)
    slot = Slot(name, str(values.dtype)[6:], shape, strides, first, role)
    observed = {
        "unwritten": torch.zeros(shape, dtype=torch.bool),
        "outside": (),
        "outside_count": 0,
        "changed": True,
        **changes,
    }
    return Outcome(slot, values, **observed)


def verdict_on(values, expected, own=None, tolerance=None, **changes):
    truth = Truth(expected.double(), own, expected.double().abs())
    return judge([outcome_of(values, **changes)], [truth], tolerance or Tolerance())


def numbers(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(5)) + 3


# --- the tolerance: over cases of the exercises --------------------------------------------------


class Setting:
    """A case with its inputs and truth; judges a result as if a kernel had written it."""

    def __init__(self, exercise, case):
        self.exercise, self.case = exercise, case
        self.variant = next(iter(exercise.variants.values()))
        self.tolerance = exercise.tolerance_of(self.variant)
        self.made = inputs.make(Task(exercise, self.variant), case)
        (self.truth,) = oracle.load(exercise.oracle).truths(
            self.made.tensors, self.made.scalars, self.tolerance.magnitude
        )
        self.kind = getattr(torch, case.dtype)

    def status(self, result):
        outcome = outcome_of(result.to(self.kind).reshape(self.truth.expected.shape))
        return judge([outcome], [self.truth], self.tolerance).status


def settings_of(name, dtype):
    """The larger edge cases of every class, and some drawn ones."""
    exercise = EXERCISES[name]
    cases = set()
    for size_class in exercise.sizes:
        space = Space(Task(exercise, exercise.variants["triton"]), dtype, size_class, 21)
        cases |= {*space.edges()[-2 * len(exercise.data) :], *drawn_from(space, 12)}
    return [Setting(exercise, case) for case in sorted(cases, key=str)]


@pytest.fixture(scope="module", params=[(n, d) for n in COMPUTING for d in DTYPES], ids="-".join)
def many(request):
    found = settings_of(*request.param)
    assert len(found) >= 35  # more than 200 for all parameters together
    return found


def silu_like_a_gpu(x):
    """SiLU in float32 as fast hardware does it: exp2 of a rounded argument, two units off."""
    x = x.float()
    argument = -x * torch.tensor(1.44269504, dtype=torch.float32)
    exp = torch.exp2(argument.double()).float()
    exp = exp * (1 + 2 * 2.0**-23)
    reciprocal = (1 / (1 + exp)) * (1 + 2 * 2.0**-23)
    return x * reciprocal


def rmsnorm_in_sequence(x, weight, eps):
    """RMSNorm in float32, its sum taken one element after the other."""
    x = x.float()
    total = torch.zeros(len(x), dtype=torch.float32)
    for column in x.square().unbind(dim=1):
        total = total + column
    rstd = 1 / torch.sqrt(total / x.shape[1] + eps) * (1 + 2 * 2.0**-23)
    return x * rstd[:, None] * weight.float()


def gelu_like_a_gpu(x):
    """GELU in float32 by a tanh that is two units off, as fast hardware's is."""
    x = x.float()
    u = 0.7978845608 * (x + 0.044715 * x * x * x)
    tanh = torch.tanh(u) * (1 + 2 * 2.0**-23)
    return 0.5 * x * (1 + tanh.clamp(-1, 1))


def honest(setting):
    if setting.exercise.name == "silu":
        return silu_like_a_gpu(**setting.made.tensors)
    if setting.exercise.name == "gelu":
        return gelu_like_a_gpu(**setting.made.tensors)
    return rmsnorm_in_sequence(**setting.made.tensors, **setting.made.scalars)


def is_trivial(setting, result):
    """Whether a wrong way of computing happens to give the right result, or next to it."""
    rounded = setting.truth.expected.to(setting.kind).double()
    allowed = allowed_error(setting.truth, setting.case.dtype, setting.tolerance)
    return bool(((result.double() - rounded).abs() <= 2 * allowed).all())


def wrong_results(setting):
    """Results of kernels that compute something else, by name."""
    right = setting.truth.expected.to(setting.kind)
    flat = right.flatten()
    half = flat.clone()
    half[flat.numel() // 2 :] = 0
    results = {
        "zeros": torch.zeros_like(flat),
        "constant": torch.full_like(flat, float(flat.double().mean())),
        "half": half,
        "shifted": flat.roll(1),
        "negated": -flat,
        "input": setting.made.tensors["x"].flatten(),
    }
    if right.dim() == 2:
        results["transposed"] = right.t().contiguous().flatten()
        results["shifted by a row"] = right.roll(1, dims=0).flatten()
    return results


def test_what_computes_something_else_fails_in_every_case(many):
    judged = dict.fromkeys(["zeros", "constant", "half", "shifted", "negated"], 0)
    for setting in many:
        for name, result in wrong_results(setting).items():
            if is_trivial(setting, result.reshape(setting.truth.expected.shape)):
                continue  # one element shifted by one, a row of zeros half zeroed
            assert setting.status(result) is not Status.passed, (name, str(setting.case))
            judged[name] = judged.get(name, 0) + 1
    assert min(judged.values()) >= 20, judged


def test_only_what_is_nearly_right_is_let_off_as_trivial(many):
    """The test above leaves hardly anything out where there are elements to be wrong."""
    for setting in many:
        if setting.truth.expected.count_nonzero() >= 16 and setting.case.data != "constant_rows":
            shape = setting.truth.expected.shape
            for name in ("zeros", "constant", "half", "negated"):
                result = wrong_results(setting)[name].reshape(shape)
                assert not is_trivial(setting, result), (name, str(setting.case))


def test_torch_passes(many):
    for setting in many:
        assert setting.status(setting.truth.own) is Status.passed, str(setting.case)


def test_an_honest_kernel_passes(many):
    for setting in many:
        assert setting.status(honest(setting)) is Status.passed, str(setting.case)


def test_half_precision_may_be_rounded_once_more_on_the_way(many):
    """x * rstd cast to the dtype before the weight; sigmoid cast before the product."""
    for setting in many:
        x = setting.made.tensors["x"]
        if setting.exercise.name == "silu":
            result = torch.sigmoid(x.float()).to(setting.kind).float() * x.float()
            small = (x.float() < -10).any()  # there the sigmoid leaves float16's normal numbers
            if setting.case.dtype == "float16" and small:
                continue
        elif setting.exercise.name == "gelu":
            if (x.float() < -2).any():  # there 1 + tanh(u) is all digits lost
                continue
            u = 0.7978845608 * (x.float() + 0.044715 * x.float() ** 3)
            result = (0.5 * (1 + torch.tanh(u))).to(setting.kind).float() * x.float()
        else:
            weight, eps = setting.made.tensors["weight"], setting.made.scalars["eps"]
            ones = torch.ones_like(weight)
            normalised = rmsnorm_in_sequence(x, ones, eps).to(setting.kind)
            result = normalised.float() * weight.float()
        assert setting.status(result) is Status.passed, str(setting.case)


def rounded_to(setting, dtype):
    return setting.truth.expected.to(getattr(torch, dtype)).to(setting.kind)


@pytest.mark.parametrize("name", COMPUTING)
@pytest.mark.parametrize(
    ("dtype", "lower"),
    [("float32", "float16"), ("float32", "bfloat16"), ("float16", "bfloat16")],
)
@pytest.mark.parametrize("size_class", ["aligned", "ragged", "degenerate"])
def test_a_result_of_the_next_lower_precision_fails(name, dtype, lower, size_class):
    exercise = EXERCISES[name]
    space = Space(Task(exercise, exercise.variants["triton"]), dtype, size_class, 21)
    cases = [*space.edges(), *sorted({*drawn_from(space, 40)}, key=str)]
    found = [Setting(exercise, case) for case in cases]
    statuses = [setting.status(rounded_to(setting, lower)) for setting in found]
    assert any(status is Status.wrong_values for status in statuses)
    if dtype == "float32":  # one in thousands of numbers looks the same in both
        for setting, status in zip(found, statuses, strict=True):
            if setting.truth.expected.count_nonzero() >= 16:
                overflows = setting.case.data == "huge" and lower == "float16"
                wanted = Status.not_finite if overflows else Status.wrong_values
                assert status is wanted, str(setting.case)


@pytest.mark.parametrize("name", MOVING)
@pytest.mark.parametrize("size_class", ["aligned", "ragged", "degenerate"])
def test_an_element_that_is_moved_must_arrive_bit_by_bit(name, size_class):
    exercise = EXERCISES[name]
    variant = next(iter(exercise.variants.values()))
    for case in Space(Task(exercise, variant), "float32", size_class, 21).edges():
        setting = Setting(exercise, case)
        expected = setting.truth.expected.float()
        assert setting.status(expected) is Status.passed
        for changed in (
            expected * (1 + 2.0**-22),
            rounded_to(setting, "bfloat16"),
            torch.zeros_like(expected),
            expected + 0.0,
            expected.clamp(-1e30, 1e30),
            expected.roll(1),
        ):
            changed = torch.where(changed.isnan() & expected.isnan(), expected, changed)
            is_same = torch.equal(changed.view(torch.int32), expected.view(torch.int32))
            assert (setting.status(changed) is Status.passed) == is_same, str(case)


def mean_square_in(kind, x):
    total = torch.zeros(len(x), dtype=kind)
    for column in x.to(kind).square().unbind(dim=1):
        total = total + column
    return total.float() / x.shape[1]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_accumulating_in_float16_fails_on_large_data(dtype):
    for cols in (64, 200, 1025):
        setting = case_of("rmsnorm", f"rows=3 cols={cols} dtype={dtype} data=large")
        x, weight = setting.made.tensors["x"], setting.made.tensors["weight"]
        rstd = torch.rsqrt(mean_square_in(torch.float16, x) + setting.made.scalars["eps"])
        result = x.float() * rstd[:, None] * weight.float()
        assert setting.status(result) is not Status.passed


def test_accumulating_in_bfloat16_fails():
    for data in ("normal", "large"):
        setting = case_of("rmsnorm", f"rows=3 cols=1025 dtype=bfloat16 data={data}")
        x, weight = setting.made.tensors["x"], setting.made.tensors["weight"]
        rstd = torch.rsqrt(mean_square_in(torch.bfloat16, x) + setting.made.scalars["eps"])
        assert setting.status(x.float() * rstd[:, None] * weight.float()) is Status.wrong_values


def test_a_wrong_eps_fails():
    for dtype in DTYPES:
        setting = case_of("rmsnorm", f"rows=3 cols=300 dtype={dtype} data=tiny")
        x, weight = setting.made.tensors["x"], setting.made.tensors["weight"]
        rms = x.float().square().mean(dim=1, keepdim=True).sqrt()
        eps = setting.made.scalars["eps"]
        assert setting.status(x.float() / (rms + eps) * weight.float()) is Status.wrong_values
        assert setting.status(x.float() / rms * weight.float()) is Status.wrong_values


def case_of(name, text):
    exercise = EXERCISES[name]
    return Setting(exercise, parse(text, Task(exercise, exercise.variants["triton"]), seed=8))


# --- the tolerance: its rule ---------------------------------------------------------------------


def test_an_element_may_be_off_by_the_factor_of_torchs_worst_error_and_the_floor():
    expected = torch.tensor([1.0, 1000.0], dtype=torch.float64)
    eps = torch.finfo(torch.float16).eps
    own = (expected * (1 + torch.tensor([0.0, eps], dtype=torch.float64))).to(torch.float16)
    tolerance = Tolerance(factor=3, floor_ulps={"float16": 2})
    truth = Truth(expected, own, expected)
    error = float((own.double() - expected)[1] / (1000 * eps))
    allowed = allowed_error(truth, "float16", tolerance) / (expected * eps)
    assert torch.allclose(allowed, torch.full((2,), 3 * error + 2, dtype=torch.float64))


def test_however_wrong_torch_is_the_allowance_is_bounded():
    expected = torch.ones(4, dtype=torch.float64)
    truth = Truth(expected, torch.full((4,), 50.0), expected)
    tolerance = Tolerance(factor=2, floor_ulps={"float32": 0})
    assert allowed_error(truth, "float32", tolerance).tolist() == [2 * MAX_OWN_ERROR] * 4


def test_without_torchs_result_only_the_floor_is_left():
    truth = Truth(torch.ones(1), None, torch.ones(1))
    eps = torch.finfo(torch.float32).eps
    assert float(allowed_error(truth, "float32", Tolerance())) == 64 * eps


def test_integers_must_be_exact():
    right = torch.tensor([1, 2, 3], dtype=torch.int32)
    assert verdict_on(right, right).passed
    assert verdict_on(right + torch.tensor([0, 0, 1]), right).status is Status.wrong_values
    smallest = torch.tensor([-128, 127], dtype=torch.int8)
    assert verdict_on(smallest, smallest).passed
    flags = torch.tensor([True, False])
    assert judge([outcome_of(flags)], [Truth(flags, flags, flags)], Tolerance()).passed
    assert not judge([outcome_of(~flags)], [Truth(flags, flags, flags)], Tolerance()).passed


def test_a_truth_of_another_shape_is_the_graders_own_mistake():
    with pytest.raises(OracleError, match=r"out: expected shape \[2, 3\], got \[2, 1\]"):
        verdict_on(torch.ones(2, 3), torch.ones(2, 1))


# --- nan and infinity ----------------------------------------------------------------------------


@pytest.mark.parametrize("special", [NAN, INF, -INF])
def test_nan_and_infinity_count_by_position(special):
    expected = numbers(6)
    expected[2] = special
    assert verdict_on(expected.clone(), expected).passed
    for other in {NAN, INF, -INF, 1.0} - {special}:
        if other != other and special != special:
            continue
        result = expected.clone()
        result[2] = other
        verdict = verdict_on(result, expected)
        assert verdict.status is Status.wrong_values
        assert verdict.what.startswith("out[2] is ")
    moved = expected.roll(1)
    assert not verdict_on(moved, expected).passed


def test_among_numbers_of_any_bits_a_moved_nan_is_a_wrong_value_and_zeros_have_signs():
    expected = torch.tensor([1.0, NAN, -0.0, INF])
    truth = Truth(expected.double(), expected, expected.double().abs(), of_any_bits=True)
    exact = Tolerance(floor_ulps=0)
    for result, status in [
        ((1.0, NAN, -0.0, INF), Status.passed),
        ((1.0, NAN, 0.0, INF), Status.wrong_values),
        ((NAN, 1.0, -0.0, INF), Status.wrong_values),
    ]:
        assert judge([outcome_of(torch.tensor(result))], [truth], exact).status is status
    left_out = outcome_of(expected, unwritten=expected.isnan())
    assert judge([left_out], [truth], exact).status is Status.not_written


@pytest.mark.parametrize("special", [NAN, INF, -INF])
def test_nan_or_infinity_where_the_result_is_finite_is_not_finite(special):
    result = numbers(3, 4)
    result[1, 2] = special
    verdict = verdict_on(result, numbers(3, 4))
    assert verdict.status is Status.not_finite
    text = {NAN: "nan", INF: "inf", -INF: "-inf"}[special]
    assert verdict.what.startswith(f"out[1, 2] is {text}, expected ")
    assert verdict.what.endswith("1 of 12 elements is not finite.")


def test_a_truth_beyond_the_dtype_is_infinity():
    expected = torch.tensor([1.0, 1e5, -1e5], dtype=torch.float64)
    right = torch.tensor([1.0, INF, -INF], dtype=torch.float16)
    assert verdict_on(right, expected).passed
    clamped = torch.tensor([1.0, 65504, -65504], dtype=torch.float16)
    assert verdict_on(clamped, expected).status is Status.wrong_values


def test_beside_the_largest_number_either_side_will_do():
    for truth in (65500.0, 65519.0, 65521.0, 65540.0):
        expected = torch.tensor([1.0, truth], dtype=torch.float64)
        for value in (65504.0, INF):
            assert verdict_on(torch.tensor([1.0, value], dtype=torch.float16), expected).passed
        assert not verdict_on(torch.tensor([1.0, -INF], dtype=torch.float16), expected).passed
        assert not verdict_on(torch.tensor([1.0, NAN], dtype=torch.float16), expected).passed


def test_where_torch_overflows_on_the_way_a_kernel_may():
    expected, own = torch.tensor([1.0, 2.0]), torch.tensor([1.0, INF])
    assert verdict_on(torch.tensor([1.0, INF]), expected, own=own).passed
    assert verdict_on(torch.tensor([1.0, 2.0]), expected, own=own).passed
    assert verdict_on(torch.tensor([INF, 2.0]), expected, own=own).status is Status.not_finite


# --- what was not written, and what was written elsewhere ----------------------------------------


def left_out(result, places, **changes):
    """The result with nan of the poison at some places."""
    unwritten = torch.zeros(result.shape, dtype=torch.bool)
    unwritten[places] = True
    values = torch.where(unwritten, torch.tensor(NAN, dtype=result.dtype), result)
    return {"values": values, "unwritten": unwritten, **changes}


def test_nothing_written():
    result = numbers(3, 4)
    everywhere = left_out(result, slice(None), changed=False)
    verdict = verdict_on(everywhere.pop("values"), result, **everywhere)
    assert (verdict.status, verdict.pattern) == (Status.not_written, "nothing")
    assert verdict.what == "nothing was written to out."


def test_an_output_is_told_apart_from_one_that_was_written():
    result = numbers(3, 4)
    everywhere = left_out(result, slice(None), changed=False)
    outcomes = [outcome_of(result), outcome_of(name="lse", **everywhere)]
    truth = Truth(result.double(), None, result.double().abs())
    verdict = judge(outcomes, [truth, truth], Tolerance())
    assert verdict.what == "nothing was written to lse, only to out."


@pytest.mark.parametrize("shape", [(1,), (7,), (2, 3)])
def test_nothing_written_is_seen_even_where_the_result_is_nan(shape):
    truth = torch.full(shape, NAN)
    unwritten = torch.ones(shape, dtype=torch.bool)
    verdict = verdict_on(truth.clone(), truth, unwritten=unwritten, changed=False)
    assert verdict.status is Status.not_written


def test_an_integer_that_was_right_before_is_right():
    one = torch.tensor([7], dtype=torch.uint8)
    unwritten = torch.ones(1, dtype=torch.bool)
    assert verdict_on(one, one, unwritten=unwritten, changed=False).passed
    verdict = verdict_on(one + 1, one, unwritten=unwritten, changed=False)
    assert verdict.status is Status.not_written


def test_a_tail_left_out():
    result = numbers(3, 10)
    parts = left_out(result, (slice(None), slice(8, None)))
    verdict = verdict_on(parts.pop("values"), result, **parts)
    assert (verdict.status, verdict.pattern) == (Status.not_written, "tail")
    assert verdict.what == (
        "out[0, 8] was never written; 6 of 30 elements were not: every column from 8 on."
    )


def test_one_element_left_out_and_another_wrong():
    result = numbers(10)
    parts = left_out(result, 9)
    parts["values"][0] += 1
    verdict = verdict_on(parts.pop("values"), result, **parts)
    assert verdict.status is Status.not_written
    assert verdict.what == (
        "out[9] was never written; 1 of 10 elements was not; 1 of the others is wrong."
    )


def test_writing_nan_that_hits_the_poison_here_and_there_is_not_leaving_out():
    result = numbers(100)
    unwritten = torch.zeros(100, dtype=torch.bool)
    unwritten[3] = True
    verdict = verdict_on(torch.full((100,), NAN), result, unwritten=unwritten)
    assert verdict.status is Status.not_finite


@pytest.mark.parametrize(
    ("shape", "layout", "outside", "what"),
    [
        ((5,), "contiguous", (5, 6), "2 elements were overwritten past the end of out [5]: the "
         "first one right behind its last element."),
        ((5,), "offset", (7,), "1 element was overwritten past the end of out [5]: the first one "
         "3 elements behind its last."),
        ((5,), "contiguous", (-2, -1), "2 elements were overwritten before the start of out [5]."),
        ((5,), "contiguous", (-1, 5), "2 elements were overwritten before the start and past the "
         "end of out [5]."),
        ((2, 3), "row_padded", (3, 4), "2 elements were overwritten between the rows of out "
         "[2, 3], whose rows are 10 elements apart: the first one at row 0, column 3."),
        ((2, 3), "row_padded", (-1, 13), "2 elements were overwritten before the start and past "
         "the end of out [2, 3]."),
        ((2, 3), "row_padded", (13,), "1 element was overwritten past the end of out [2, 3]: the "
         "first one right behind its last element."),
        ((2, 3), "transposed", (6,), "1 element was overwritten past the end of out [2, 3]: the "
         "first one right behind its last element."),
        ((2, 2, 3), "row_padded", (4,), "1 element was overwritten between the rows of out "
         "[2, 2, 3], whose rows are 10 elements apart: the first one 2 past the end of a row."),
        ((2, 2, 3), "padded", (20,), "1 element was overwritten between the rows of out "
         "[2, 2, 3], whose rows are 10 elements apart: the first one past a last row."),
    ],
)  # fmt: skip
def test_writing_outside_is_described_by_what_is_near(shape, layout, outside, what):
    result = numbers(*shape)
    verdict = verdict_on(result, result, layout=layout, outside=outside, outside_count=len(outside))
    assert (verdict.status, verdict.what) == (Status.wrote_out_of_bounds, what)


def test_an_input_that_changed_comes_first():
    x, out = numbers(2, 3), numbers(2, 3)
    kept = torch.ones(2, 3, dtype=torch.bool)
    kept[1, 1] = False
    inputs_first = [
        outcome_of(x, name="x", role="input", unwritten=kept),
        outcome_of(out + 1, outside=(6,), outside_count=1),
    ]
    verdict = judge(inputs_first, [Truth(out.double(), None, out.double())], Tolerance())
    assert verdict.status is Status.modified_input
    assert verdict.what == "x[1, 1] was overwritten (1 of 6 elements of the input x changed)."
    beside = outcome_of(x, name="x", role="input", changed=False, outside=(6,), outside_count=1)
    verdict = judge([beside], [], Tolerance())
    assert verdict.status is Status.modified_input
    assert verdict.what.startswith("the kernel wrote beside the input x: 1 element was overwritten")


def test_every_output_is_judged():
    first, second = outcome_of(numbers(3), name="a"), outcome_of(numbers(3) + 1, name="b")
    right = Truth(numbers(3).double(), None, numbers(3).double())
    verdict = judge([first, second], [right, right], Tolerance())
    assert verdict.what.startswith("b[0] is ")


# --- messages ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "places", "name", "phrase"),
    [
        ((3, 4), (slice(None), slice(None)), "all", ""),
        ((1,), (slice(None),), "all", ""),
        ((3, 4), (1, 2), "one", ""),
        ((3, 4), (1,), "row", "all of row 1 and nothing else"),
        ((3, 4), (slice(1, None),), "rows_tail", "every row from 1 on"),
        ((2, 3, 4), (1, 0), "row", "all of row [1, 0] and nothing else"),
        ((3, 4), (slice(None), slice(2, None)), "tail", "every column from 2 on"),
        ((3, 4), (slice(None), 3), "tail", "every column from 3 on"),
        ((3, 4), (slice(None), 1), "column", "all of column 1 and nothing else"),
        ((3, 9), (slice(None), slice(0, None, 4)), "every_kth", "every 4th column, from 0 on"),
        ((9, 3), (slice(1, None, 3),), "every_kth", "every 3rd row, from 1 on"),
        ((9,), (slice(6, None),), "tail", "every element from 6 on"),
        ((9,), (slice(1, None, 2),), "every_kth", "every 2nd element, from 1 on"),
        ((99,), (slice(0, None, 21),), "every_kth", "every 21st element, from 0 on"),
        ((99,), (slice(0, None, 11),), "every_kth", "every 11th element, from 0 on"),
        ((9,), ([1, 2, 5],), "scattered", ""),
        ((9,), ([1, 5],), "scattered", ""),
        ((3, 4), ([0, 1], [1, 2]), "scattered", ""),
        ((4, 4), ([0, 2],), "scattered", ""),
    ],
)
def test_patterns_have_a_name_and_a_phrase(shape, places, name, phrase):
    wrong = torch.zeros(shape, dtype=torch.bool)
    wrong[places] = True
    assert wrong_pattern(wrong) == (name, phrase)


def test_every_pattern_reads_well_in_its_message():
    def what(places, shape=(3, 4)):
        result = torch.ones(shape)
        result[places] = 2.5
        return verdict_on(result, torch.ones(shape)).what

    assert what(...) == "out[0, 0] is 2.5, expected 1; all 12 elements are wrong."
    assert what((1, 2)) == "out[1, 2] is 2.5, expected 1; the other 11 are right."
    assert what(1, (2,)) == "out[1] is 2.5, expected 1; the other one is right."
    assert what(0, (1,)) == "out[0] is 2.5, expected 1."
    assert what(2) == (
        "out[2, 0] is 2.5, expected 1; 4 of 12 elements are wrong: all of row 2 and nothing else."
    )
    assert what(([0, 1], [1, 2])) == "out[0, 1] is 2.5, expected 1; 2 of 12 elements are wrong."


def test_the_first_wrong_element_is_named_with_enough_digits_to_see_it():
    expected = torch.tensor([1.0, 2.0, 3.0])
    result = torch.tensor([1.0, 2.0001, 3.1])
    verdict = verdict_on(result, expected)
    assert verdict.what == (
        "out[1] is 2.0001, expected 2; 2 of 3 elements are wrong: every element from 1 on."
    )
    verdict = verdict_on(torch.tensor([123457.0]), torch.tensor([123458.9]))
    assert verdict.what == "out[0] is 123457, expected 123458.9."


@pytest.mark.parametrize(
    ("shape", "flat", "text"),
    [((5,), 3, "[3]"), ((2, 1025), 1024, "[0, 1024]"), ((2, 3, 4), 23, "[1, 2, 3]")],
)
def test_a_flat_index_is_described_by_dimension(shape, flat, text):
    assert describe_index(shape, flat) == text


# --- the oracle ----------------------------------------------------------------------------------


def twice(x):
    return 2 * x


def unavailable(x):
    raise NotImplementedError("\"twice\" not implemented for 'Half'")


def broken(x):
    raise RuntimeError("no such thing")


def test_an_oracle_computes_in_float64_and_torch_in_the_dtype():
    x = torch.tensor([0.1], dtype=torch.float16)
    (truth,) = Oracle("twice", twice, twice, None).truths({"x": x}, {}, "expected")
    assert truth.expected.dtype is torch.float64 and truth.own.dtype is torch.float16
    assert float(truth.expected) == 2 * float(x.double())


def test_where_torch_has_no_such_operator_its_own_result_is_missing():
    oracle_of_two = Oracle("twice", lambda x: (x, x), unavailable, None)
    truths = oracle_of_two.truths({"x": torch.ones(2)}, {}, "expected")
    assert [truth.own for truth in truths] == [None, None]


def test_magnitudes():
    x = torch.tensor([1.0, -4.0])
    total = Oracle("sum", lambda x: x.sum(0, True), lambda x: x.sum(0, True), lambda x: 10 * x[:1])
    sizes = {
        how: float(total.truths({"x": x}, {}, how)[0].magnitude)
        for how in ("expected", "absolute_inputs", "oracle")
    }
    assert sizes == {"expected": 3.0, "absolute_inputs": 5.0, "oracle": 10.0}


def test_an_operator_of_torch_written_in_c_can_be_the_magnitude():
    of_torch = Oracle("neg", torch.neg, torch.neg, torch.abs)
    [truth] = of_torch.truths({"input": torch.tensor([1.0, -4.0])}, {"n": 2}, "oracle")
    assert truth.magnitude.tolist() == [1.0, 4.0]


@pytest.mark.parametrize(
    ("functions", "how", "message"),
    [
        ((broken, twice, None), "expected", "broken: RuntimeError: no such thing"),
        ((twice, broken, None), "expected", "broken: RuntimeError: no such thing"),
        ((twice, twice, None), "oracle", "t: its tolerance says `magnitude: oracle`, which needs "
         "a function t_magnitude"),
        ((twice, lambda x: (x, x), None), "expected", "t: its functions return different numbers "
         "of outputs: t 1, its magnitude 1, torch's own 2"),
        ((twice, twice, lambda x: x[:1]), "oracle", "t: its functions return outputs of different "
         "shapes: t [3], t_magnitude [1]"),
    ],
)  # fmt: skip
def test_an_oracle_that_fails_says_how(functions, how, message):
    with pytest.raises(OracleError) as caught:
        Oracle("t", *functions).truths({"x": torch.ones(3)}, {}, how)
    assert str(caught.value) == message


def test_a_file_of_oracles_that_can_not_be_used_says_why(tmp_path):
    with pytest.raises(OracleError, match=r"none\.py: not found"):
        oracle.load("silu", tmp_path / "none.py")
    (tmp_path / "bad.py").write_text("1 +")
    with pytest.raises(OracleError, match=r"bad\.py: SyntaxError"):
        oracle.load("silu", tmp_path / "bad.py")
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(OracleError, match=r"empty\.py: expected a function silu, found none"):
        oracle.load("silu", tmp_path / "empty.py")


@pytest.mark.parametrize("kind", [torch.float32, torch.int32])
def test_what_is_input_and_output_may_be_right_as_it_is(kind):
    x = numbers(6).to(kind)
    as_before = {"role": "inout", "changed": False, "unwritten": torch.ones(6, dtype=torch.bool)}
    assert verdict_on(x, x, **as_before).passed
    assert verdict_on(x, x + 1, **as_before).status is Status.not_written
    if kind.is_floating_point:
        poisoned = {**as_before, "role": "output"}
        assert verdict_on(x, x, **poisoned).status is Status.not_written
