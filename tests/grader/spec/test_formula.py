"""Formulas compute what Python's arithmetic computes, and nothing else."""

from __future__ import annotations

import math

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.spec.formula import (
    MAX_DEPTH,
    MAX_EXPONENT,
    MAX_LENGTH,
    MAX_VALUE,
    Formula,
    FormulaError,
)


def value(text: str, **env: int | float) -> int | float:
    return Formula(text).evaluate(env)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 * rows * cols * itemsize", 2 * 3 * 5 * 2),
        ("ceil_div(cols, 2)", 3),
        ("ceil_div(6, 2)", 3),
        ("ceil_div(-7, 2)", -3),
        ("min(rows, cols, 1)", 1),
        ("max(rows, cols)", 5),
        ("rows + cols * itemsize", 13),
        ("(rows + cols) * itemsize", 16),
        ("10 - 3 - 2", 5),
        ("64 / 8 / 4", 2.0),
        ("2 ** 3 ** 2", 512),
        ("-2 ** 2", -4),
        ("2 ** -1", 0.5),
        ("--rows", 3),
        ("7 // -2", -4),
        ("7 % cols", 2),
        ("1.5e3", 1500.0),
        (".5 * rows", 1.5),
    ],
)
def test_a_formula_has_the_value_python_gives_it(text, expected):
    got = value(text, rows=3, cols=5, itemsize=2)

    assert got == expected
    assert type(got) is type(expected)


numbers = st.integers(0, 9).map(str)
flat = st.lists(st.tuples(st.sampled_from(["+", "-", "*", "/", "//", "%"]), numbers), max_size=6)


@given(numbers, flat, st.booleans())
def test_operators_bind_and_associate_as_in_python(first, rest, negative):
    text = ("-" if negative else "") + first + "".join(f" {sign} {each}" for sign, each in rest)
    try:
        expected = eval(text, {"__builtins__": {}})  # digits and operators made above, nothing else
    except ZeroDivisionError:
        with pytest.raises(FormulaError, match="division by zero"):
            value(text)
    else:
        assert value(text) == expected


@given(st.text(alphabet="0123456789abn_+-*/%(),. eE\n'[]=", max_size=40))
def test_any_text_is_a_formula_or_a_formula_error_on_one_line(text):
    try:
        got = Formula(text).evaluate({"a": 3, "b": 0, "n": 1.5})
    except FormulaError as error:
        assert "\n" not in str(error)
    else:
        assert abs(got) <= MAX_VALUE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at character 1 of .* got the end"),
        ("rows *", "expected a number, a name or .* at character 7 "),
        ("rows cols", "expected an operator or the end at character 6 .* got 'cols'"),
        ("(rows", r"expected '\)' at character 6 "),
        ("rows)", "expected an operator or the end at character 5 "),
        ("rows ? 2", r"expected a number, a name or an operator .* got '\?'"),
        ("open(rows)", "expected one of the functions min, max, ceil_div, got 'open'"),
        ("1 + ceil_div(rows)", "expected 2 arguments of ceil_div, got 1"),
        ("max(rows)", "expected 2 or more arguments of max, got 1"),
        ("rows.numel", "got '.'"),
        ("rows[0]", r"got '\['"),
        ("rows = 1", "got '='"),
        ("+rows", r"got '\+'"),
        ("1e999", "expected at most"),
        ("9" * 30, "expected at most"),
    ],
)
def test_what_is_no_formula_is_told_with_its_place(text, message):
    with pytest.raises(FormulaError, match=message):
        Formula(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows / 0", "division by zero"),
        ("rows // (rows - rows)", "division by zero"),
        ("rows % 0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("(-1) ** 0.5", "root of a negative number"),
        ("2 ** 65", f"the exponent 65, more than {MAX_EXPONENT}"),
        ("2 ** 64 * 2", "a number beyond"),
        ("1e19 ** 64", "a number beyond"),
        ("col * 2", "expected rows in .*, got the name 'col'"),
    ],
)
def test_a_formula_without_a_value_says_why_and_which(text, message):
    with pytest.raises(FormulaError, match=message) as caught:
        value(text, rows=3)

    assert repr(text) in str(caught.value)


def test_long_and_deep_formulas_are_refused_without_exhausting_the_stack():
    assert value("+".join(["1"] * (MAX_LENGTH // 2))) == MAX_LENGTH // 2
    assert value("(" * (MAX_DEPTH - 1) + "1" + ")" * (MAX_DEPTH - 1)) == 1
    for text in ("(" * 90 + "1" + ")" * 90, "-" * 150 + "1", "1" + "**1" * 60):
        with pytest.raises(FormulaError, match=f"at most {MAX_DEPTH} levels"):
            Formula(text)
    with pytest.raises(FormulaError, match=f"at most {MAX_LENGTH} characters"):
        Formula("1" + "+1" * MAX_LENGTH)


def test_a_formula_knows_its_names_and_its_text():
    formula = Formula(" 2 * ceil_div(rows, 64) + max(cols, rows) ")

    assert formula.names == {"rows", "cols"}
    assert str(formula) == "2 * ceil_div(rows, 64) + max(cols, rows)"


def test_a_formula_is_hashable_frozen_and_equal_when_written_the_same():
    assert {Formula("n"), Formula("n"), Formula("m")} == {Formula("m"), Formula("n")}
    with pytest.raises(AttributeError):
        Formula("n").text = "m"


class Model(pydantic.BaseModel):
    amount: Formula


@pytest.mark.parametrize("given", [8, "8", 8.0, Formula("8")])
def test_a_model_takes_a_number_text_or_a_formula(given):
    model = Model(amount=given)

    assert model.amount.evaluate({}) == 8
    assert Model.model_validate_json(model.model_dump_json()) == model


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (True, "expected a number, a name or a formula, got true"),
        (None, "got nothing"),
        (["n"], "got a list"),
        ({}, "got a mapping"),
        (math.nan, "expected a finite number, got nan"),
        (math.inf, "expected a finite number, got inf"),
        ("n +", "got the end"),
    ],
)
def test_a_model_refuses_what_is_no_formula(given, message):
    with pytest.raises(pydantic.ValidationError, match=message):
        Model(amount=given)
