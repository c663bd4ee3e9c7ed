"""A function `<name>_check` decides on outputs of which several may be right."""

from __future__ import annotations

import pytest
import torch

from grader.cases import oracle
from grader.cases.compare import judge
from grader.cases.oracle import OracleError, Truth
from grader.grading.check import own_trouble
from grader.spec import Tolerance
from grader.status import Status
from tests.grader.cases.test_compare import outcome_of

ORACLES = '''\
import torch


def topk(x, k):
    """The k largest of each row, and their places."""
    return torch.topk(x, k, dim=-1)


def topk_check(x, values, index, expected, k):
    """Equal numbers may come from any of their places, each of them once."""
    cols = x.shape[-1]
    inside = (index >= 0) & (index < cols)
    came = x.gather(-1, index.clamp(0, cols - 1))
    twice = (index.unsqueeze(-1) == index.unsqueeze(-2)).sum(dim=-1) > 1
    index_wrong = ~inside | twice | (came != values)
    return {"values": values != expected[0].to(values.dtype), "index": index_wrong}


def solve(a, b):
    """x with a x = b."""
    return torch.linalg.solve(a, b)


def solve_check(a, b, x, dtype):
    """The residual decides."""
    x.zero_() if b.numel() == 1 else None
    residual = (a.double() @ x.double() - b.double()).abs().amax()
    return "" if residual < 1e-3 else f"the residual is {residual:.3g}, more than 0.001"


def shift(x):
    return x + 1


def shift_check(x, x_before, expected):
    assert int(expected[0][0]) != 7, "no sevens"
    return {"x": x != x_before + 1} if len(x) > 1 else 5
'''
X = torch.tensor([[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, 0.0, 5.0]])


@pytest.fixture(scope="module")
def oracles(tmp_path_factory):
    """The functions above, as oracles by name."""
    path = tmp_path_factory.mktemp("oracles") / "oracles.py"
    path.write_text(ORACLES, encoding="utf-8")
    return {name: oracle.load(name, path) for name in ("topk", "solve", "shift")}


def verdict_on(own, inputs, numbers, outputs, **changes):
    """The verdict on outputs by name, as if a kernel had written them."""
    outcomes = [outcome_of(each, name=name, **changes) for name, each in outputs.items()]
    truths = own.truths(inputs, numbers, "expected")
    return judge(outcomes, truths, Tolerance(), own.checker(inputs, numbers))


def topk_of(oracles, values, index, **changes):
    outputs = {"values": torch.tensor(values), "index": torch.tensor(index)}
    return verdict_on(oracles["topk"], {"x": X}, {"k": 2, "cols": 4}, outputs, **changes)


@pytest.mark.parametrize("index", [[[1, 2], [3, 0]], [[2, 1], [3, 2]]])
def test_each_of_several_right_answers_passes(oracles, index):
    assert topk_of(oracles, [[3.0, 3.0], [5.0, 0.0]], index).passed


def test_a_wrong_element_is_named_with_the_check(oracles):
    verdict = topk_of(oracles, [[3.0, 3.0], [5.0, 0.0]], [[1, 1], [3, 900]])
    assert verdict.status is Status.wrong_values
    assert verdict.what == (
        "index[0, 0] is 1, which topk_check refuses, as it does 3 of 4 elements."
    )


def test_nothing_written_is_told_before_the_check_is_asked(oracles):
    values, index = [[3.0, 3.0], [5.0, 0.0]], [[1, 2], [3, 0]]
    verdict = topk_of(oracles, values, index, changed=False)
    assert (verdict.status, verdict.what) == (Status.not_written, "nothing was written to values.")


def test_a_sentence_is_the_message_and_the_contents_are_copies(oracles):
    inputs = {"a": torch.eye(2), "b": torch.tensor([[1.0], [2.0]])}
    wrong = verdict_on(oracles["solve"], inputs, {}, {"x": torch.tensor([[1.0], [3.0]])})
    assert wrong.what == "the residual is 1, more than 0.001."
    near = verdict_on(oracles["solve"], inputs, {}, {"x": torch.tensor([[1.0], [2.0001]])})
    assert near.passed
    nan = verdict_on(oracles["solve"], inputs, {}, {"x": torch.full((2, 1), float("nan"))})
    assert nan.status is Status.wrong_values
    one, made = {"a": torch.eye(1), "b": torch.zeros(1, 1)}, torch.tensor([[4.0]])
    assert verdict_on(oracles["solve"], one, {}, {"x": made}).passed
    assert made.tolist() == [[4.0]]


def test_an_inout_is_given_as_it_was_before_too(oracles):
    before = {"x": torch.tensor([1, 2])}
    assert verdict_on(oracles["shift"], before, {}, {"x": torch.tensor([2, 3])}).passed
    wrong = verdict_on(oracles["shift"], before, {}, {"x": torch.tensor([2, 4])})
    assert wrong.what.startswith("x[1] is 4, which shift_check refuses, as it does 1 of 2")


def test_a_check_that_fails_on_the_right_result_too_is_the_staffs_mistake(oracles):
    with pytest.raises(OracleError, match="shift_check: AssertionError: no sevens"):
        verdict_on(oracles["shift"], {"x": torch.tensor([6, 2])}, {}, {"x": torch.tensor([0, 0])})
    with pytest.raises(OracleError, match="expected None, a sentence, or outputs' names with"):
        verdict_on(oracles["shift"], {"x": torch.tensor([1])}, {}, {"x": torch.tensor([0])})


def test_whole_numbers_of_64_bits_are_compared_exactly():
    expected = torch.tensor([2**62 + 1, -5])
    truth = Truth(expected, None, expected)
    assert judge([outcome_of(expected.clone())], [truth], Tolerance()).passed
    near = judge([outcome_of(expected - 1)], [truth], Tolerance())
    assert near.status is Status.wrong_values


def test_an_output_without_elements_is_right():
    empty = torch.zeros(0, 3)
    truth = Truth(empty.double(), empty, empty.double())
    assert judge([outcome_of(empty, changed=False)], [truth], Tolerance()).passed


def test_an_error_in_a_function_of_the_oracles_has_its_line(tmp_path):
    path = tmp_path / "oracles.py"
    path.write_text("def halve(x):\n    return nothing\n\ndef halve_torch(x):\n    return x / 2\n")
    with pytest.raises(OracleError) as raised:
        oracle.load("halve", path).truths({"x": X}, {}, "expected")
    assert raised.value.line == 2
    said = own_trouble(raised.value)
    assert said.startswith("oracles.py:2: halve: NameError:") and "Traceback" not in said
