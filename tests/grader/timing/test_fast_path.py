"""The fast path for timed outputs: what it lets pass would pass in float64 too."""

from __future__ import annotations

import pytest
import torch

from grader.cases import oracle as oracles
from grader.cases.compare import allowed_error
from grader.cases.oracle import Oracle
from grader.spec import Tolerance
from grader.status import Status
from grader.timing.fast_path import FastPath, Run
from tests.grader.timing.test_buffer_sets import ALL, COUNT, EXERCISES, TIMED, Bench


def passes(fast_path, given, scalars, outputs):
    return fast_path.confirmed([Run(given, outputs)], scalars) == [True]


OFF = (0.0, 0.3, 0.55, 0.7, 0.85, 0.95, 1.05, 1.3, 3.0)  # of what an element may be off by


@pytest.mark.parametrize(("name", "variant", "dtype"), TIMED)
def test_nothing_passes_that_would_not_in_float64(name, variant, dtype):
    bench = Bench(name, variant, dtype)
    sets, scalars = bench.sets, bench.layout.inputs.scalars
    truths_of, tolerance = sets._oracle.truths, sets._tolerance
    sets.fill(ALL)
    first = sets._inputs_of(0)
    fast_path = FastPath(sets._oracle, tolerance, [slot.dtype for slot, _ in sets._outputs])
    own = sets._oracle.own(first, scalars)
    assert not passes(fast_path, first, scalars, own)  # nothing is known
    fast_path.learn(first, scalars, truths_of(first, scalars, tolerance.magnitude))
    as_torch = ["as torch"] if dtype == "bfloat16" else []
    assert fast_path.trusted == ["by steps", *as_torch, "in float32"]
    passed = failed = 0
    for number in range(1, COUNT):
        given = sets._inputs_of(number)
        truths = truths_of(given, scalars, tolerance.magnitude)
        for off in OFF:
            outputs = []
            for truth, (slot, _) in zip(truths, sets._outputs, strict=True):
                values = truth.expected.clone()
                place = int(torch.randint(values.numel(), (1,)))
                allowed = allowed_error(truth, slot.dtype, tolerance).flatten()[place]
                values.view(-1)[place] += off * allowed if allowed else off
                outputs.append(values.to(getattr(torch, slot.dtype)))
            right = all(
                bool((values.double() - truth.expected).abs().le(allowed_error(truth, *of)).all())
                for values, truth, of in (
                    (v, t, (slot.dtype, tolerance))
                    for v, t, (slot, _) in zip(outputs, truths, sets._outputs, strict=True)
                )
            )
            # A fast path of its own each: a comparison that fails isn't made again.
            fast_path = FastPath(sets._oracle, tolerance, [slot.dtype for slot, _ in sets._outputs])
            fast_path.learn(first, scalars, truths_of(first, scalars, tolerance.magnitude))
            if passes(fast_path, given, scalars, outputs):
                assert right, f"{off} of what is allowed"
                passed += 1
            else:
                failed += 1
    assert passed >= COUNT - 1 and failed >= COUNT - 1  # off by nothing, and by far too much


def doubtful(x: torch.Tensor) -> torch.Tensor:
    """x, but in float32 most of it is lost on the way."""
    return (x + 2.0**20) - 2.0**20


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_an_oracle_that_float32_is_not_enough_for_is_asked_in_float64(dtype):
    oracle = Oracle("doubtful", doubtful, torch.clone, None)
    x = torch.randn(1000).to(getattr(torch, dtype))
    fast_path = FastPath(oracle, Tolerance(), [dtype])
    fast_path.learn({"x": x}, {}, oracle.truths({"x": x}, {}, "expected"))
    assert fast_path.trusted == ["by steps", *(["as torch"] if dtype == "bfloat16" else [])]


def test_torch_is_no_measure_where_it_is_off_itself():
    oracle = Oracle("scaled", torch.clone, lambda x: x * 1.5, None)
    x = torch.randn(1000).bfloat16()
    fast_path = FastPath(oracle, Tolerance(), ["bfloat16"])
    fast_path.learn({"x": x}, {}, oracle.truths({"x": x}, {}, "expected"))
    assert fast_path.trusted == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_never_passed_by_the_fast_path(value):
    oracle = oracles.load("silu")
    tolerance = EXERCISES["silu"].tolerance_of(EXERCISES["silu"].variants["triton"])
    x = torch.randn(1000).bfloat16()
    fast_path = FastPath(oracle, tolerance, ["bfloat16"])
    fast_path.learn({"x": x}, {}, oracle.truths({"x": x}, {}, tolerance.magnitude))
    out = torch.nn.functional.silu(x)
    assert passes(fast_path, {"x": x}, {}, [out])
    out[17] = value
    assert not passes(fast_path, {"x": x}, {}, [out])
    assert fast_path.trusted == ["in float32"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("steps", [0, 1, 2, 1000])
def test_steps_are_counted_as_the_dtype_counts(dtype, steps):
    """Around a power of two, where steps below it are half as long, and in the smallest numbers."""
    kind, bits = getattr(torch, dtype), torch.int32 if dtype == "float32" else torch.int16
    oracle = Oracle("kept", torch.clone, torch.clone, None)
    x = torch.tensor([1.0, -1.0, 0.0, torch.finfo(kind).smallest_normal, 3.0], dtype=kind)
    fast_path = FastPath(oracle, Tolerance(floor_ulps={dtype: 2}), [dtype])
    fast_path.learn({"x": x}, {}, oracle.truths({"x": x}, {}, "expected"))
    fast_path._trusted = fast_path._trusted[:1]
    for place in range(len(x)):
        for sign in (1, -1) if x[place] else (1,):  # there is no number below 0's bits
            out = x.clone()
            out.view(bits)[place] += sign * steps
            assert passes(fast_path, {"x": x}, {}, [out]) == (steps <= 1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_no_steps_lead_from_or_to_what_is_not_finite(dtype):
    """As integers the bits of -0 and of a nan, and of infinity and the largest number, are near."""
    kind, largest = getattr(torch, dtype), torch.finfo(getattr(torch, dtype)).max
    bits = torch.int32 if dtype == "float32" else torch.int16
    oracle = Oracle("kept", torch.clone, torch.clone, None)
    finite = torch.tensor([1.0, 2.0, 3.0], dtype=kind)
    fast_path = FastPath(oracle, Tolerance(floor_ulps={dtype: 2}), [dtype])
    fast_path.learn({"x": finite}, {}, oracle.truths({"x": finite}, {}, "expected"))
    fast_path._trusted = fast_path._trusted[:1]
    nan = torch.tensor(torch.iinfo(bits).max, dtype=bits).view(kind)
    of = [[-0.0, nan], [nan, -0.0], [largest, float("inf")], [float("inf"), largest], [nan, nan]]
    for expected, got in of:
        x, out = finite.clone(), finite.clone()
        x[1], out[1] = expected, got
        assert not passes(fast_path, {"x": x}, {}, [out])
    assert passes(fast_path, {"x": finite}, {}, [finite])


def test_integers_are_for_float64_alone():
    oracle = Oracle("doubled", lambda x: x * 2, lambda x: x * 2, None)
    x = torch.arange(50, dtype=torch.int32)
    fast_path = FastPath(oracle, Tolerance(), ["int32"])
    fast_path.learn({"x": x}, {}, oracle.truths({"x": x}, {}, "expected"))
    assert not passes(fast_path, {"x": x}, {}, [x * 2])


def test_a_judged_run_learns_and_still_tells_what_is_wrong():
    bench = Bench("silu", "triton", "bfloat16")
    for wrong in (None, 3):
        bench.sets.fill(ALL)
        bench.compute()
        if wrong is not None:
            bench.tensors(wrong)[1][0][4321] += 0.5
        verdict = bench.sets.judge(ALL)
        expected = Status.passed if wrong is None else Status.wrong_values
        assert verdict.status is expected
    assert "out[4321]" in verdict.what
