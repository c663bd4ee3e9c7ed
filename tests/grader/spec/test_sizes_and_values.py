"""The keys of a spec on sizes and values: what they mean, and the line that each mistake gets."""

from __future__ import annotations

import pytest

from grader.spec import SpecError, load
from grader.spec.formula import Formula, FormulaError, Relation

SPEC = """\
title: Convolution by index
arguments:
  - {name: x, shape: [H, D], dtype: float32, values: uniform}
  - {name: w, shape: [R], dtype: $dtype, values: positive}
  - {name: index, shape: [n], dtype: int64, values: [0, H - 1]}
  - {name: rows, shape: [n + 1], dtype: int32, values: {offsets: n * D}}
  - {name: order, shape: [R], dtype: int16, values: permutation}
  - {name: out, shape: [H_out, D], dtype: $dtype, role: output}
  - {name: lse, shape: [H_out], dtype: float32, role: output}
  - {name: scale, scalar: float, follows: 1 / D ** 0.5}
  - {name: buckets, scalar: int, follows: H_out + 1}
sizes:
  few: {H: [1, 40], R: [1, 7], D: {power_of_two: [4, 64]}, n: {or_zero: [1, 9]}}
where: [H >= R]
derived:
  H_out: H - R + 1
  twice: 2 * H_out
tolerance: {factor: 3, outputs: {lse: {floor_ulps: 8, magnitude: absolute_inputs}}}
variants:
  triton: {file: conv.py, entry: conv, dtypes: [float32, float16], points: {few: 1}}
  cuda:
    file: conv.cu
    entry: conv
    arguments: [x, w, index, rows, order, out, lse, H, R, H_out, twice, scale, buckets]
    dtypes: [float32]
    points: {few: 1}
"""


@pytest.fixture
def read(tmp_path):
    """Reads the spec above with one part of its text replaced."""

    def reader(old: str = "", new: str = ""):
        assert old in SPEC
        path = tmp_path / "conv.yaml"
        path.write_text(SPEC.replace(old, new, 1) if old else SPEC, encoding="utf-8")
        return load(path)

    return reader


def test_derived_numbers_stand_for_what_they_are_in_every_formula(read):
    exercise = read()
    out = exercise.arguments[5]
    assert str(out.shape[0]) == "H_out"
    assert out.concrete_shape({"H": 9, "R": 3, "D": 4, "n": 1}) == (7, 4)
    assert exercise.numbers({"H": 9, "R": 3, "D": 4, "n": 1})["twice"] == 14
    passed = {each.name: each for each in exercise.signature(exercise.variants["cuda"])}
    assert passed["twice"].value({"H": 9, "R": 3, "D": 4, "n": 1}) == 14
    assert passed["R"].value({"H": 9, "R": 3}) == 3


def test_a_scalar_follows_sizes(read):
    exercise = read()
    scalars = {each.name: each for each in exercise.arguments}
    sizes = {"H": 9, "R": 3, "D": 16, "n": 1}
    assert scalars["scale"].followed(sizes) == 0.25
    assert scalars["buckets"].followed(sizes) == 8


def test_powers_of_two_and_zero_are_sizes_where_asked(read):
    rules = read().sizes["few"][0]
    assert rules["D"].choices == (4, 8, 16, 32, 64)
    assert [rules["n"].contains(size) for size in (0, 1, 9, 10)] == [True, True, True, False]
    assert not rules["H"].contains(0)


def test_an_output_has_a_tolerance_of_its_own(read):
    tolerance = read().tolerance
    assert (tolerance.of("out").floor("float32"), tolerance.of("lse").floor("float32")) == (64, 8)
    assert tolerance.of("lse").factor == 3
    assert tolerance.magnitude_of(["out", "lse"]) == ("expected", "absolute_inputs")


MISTAKES = {
    "a relation without a comparison": (
        "[H >= R]", "[H + R]", "14: where[0]",
        "expected two formulas and one of <= >= == != < > between them, got 'H + R'",
    ),
    "a relation of an unknown size": (
        "[H >= R]", "[H >= S]", "14: where[0]",
        "expected one of the sizes H, R, D, n, H_out, twice, got 'S'",
    ),
    "a relation that few cases meet": (
        "[H >= R]", "[H == R + 33]", "13: sizes.few",
        "expected sizes of which 5% or more meet `where`",
    ),
    "a relation that none meets": (
        "[H >= R]", "[H > 40]", "13: sizes.few", "meet `where`, got 0 of 640",
    ),
    "no relation, where a shape needs one": (
        "where: [H >= R]\n", "", "8: arguments.out.shape[0]",
        "expected a whole number >= 1, got H_out = -5, H=1, R=7 (class few)",
    ),
    "a derived number of an unknown size": (
        "H - R + 1", "H - S + 1", "16: derived.H_out", "expected one of the sizes H, R, D, n, got",
    ),
    "a derived number with a size's name": (
        "  H_out: H", "  R: H", "16: derived.R", "expected another name: 'R' is a size",
    ),
    "a derived number before what it uses": (
        "  H_out: H - R + 1\n  twice: 2 * H_out\n", "  H_out: twice\n  twice: 2 * H\n",
        "16: derived.H_out", "got 'twice'",
    ),
    "a derived number that isn't whole": (
        "2 * H_out", "H_out / 2", "17: derived.twice",
        "expected a whole number >= 0 (a C int), got H_out / 2 = 0.5",
    ),
    "an argument with a derived number's name": (
        "name: lse", "name: twice", "9: arguments.twice.name", "'twice' is a size",
    ),
    "values and follows": (
        "follows: 1 /", "values: [1.0], follows: 1 /", "10: arguments.scale",
        "expected one of the keys values and follows",
    ),
    "a bool that follows": (
        "scalar: int, follows", "scalar: bool, follows", "11: arguments.buckets",
        "expected values for a bool",
    ),
    "a whole number that follows and isn't": (
        "follows: H_out + 1", "follows: H_out / 2", "11: arguments.buckets.follows",
        "expected a whole number, got H_out / 2 = 0.5",
    ),
    "no power of two": (
        "[4, 64]", "[5, 7]", "13: sizes.few.D",
        "expected a power of two between 5 and 7: there is none",
    ),
    "zero without being asked for": (
        "{or_zero: [1, 9]}", "[0, 9]", "13: sizes.few.n", "expected a whole number >= 1, got 0",
    ),
    "an unknown word": (
        "values: uniform", "values: unifrom", "3: arguments.x.values", "did you mean 'uniform'?",
    ),
    "an unknown form": (
        "{offsets: n * D}", "{ofsets: H}", "6: arguments.rows.values",
        "expected one of sorted, offsets, got 'ofsets', did you mean 'offsets'?",
    ),
    "sorted permutations": (
        "values: permutation", "values: {sorted: permutation}", "7: arguments.order.values",
        "expected values that can be sorted, got permutation",
    ),
    "an integer that is normal": (
        "dtype: int64, values: [0, H - 1]", "dtype: int64, values: normal",
        "5: arguments.index.values", "expected full_range or [lowest, highest] for int64",
    ),
    "a permutation of floats": (
        "values: positive", "values: permutation", "4: arguments.w.values",
        "expected an integer dtype for permutation, got float16",
    ),
    "a range that is empty in a case": (
        "[0, H - 1]", "[0, H - 2]", "5: arguments.index.values",
        "expected 0 <= H - 2, got 0 and -1, H=1, R=1",
    ),
    "a range beyond the dtype": (
        "dtype: int64, values: [0, H - 1]", "dtype: int8, values: [0, 4 * H]",
        "5: arguments.index.values", "expected numbers that int8 holds, got 160",
    ),
    "a range of an unknown name": (
        "[0, H - 1]", "[0, V - 1]", "5: arguments.index.values",
        "expected one of the sizes and whole numbers H, R, D, n, H_out, twice, buckets, got 'V'",
    ),
    "values of an output": (
        "shape: [H_out], dtype: float32,", "shape: [H_out], dtype: float32, values: normal,",
        "9: arguments.lse.values", "expected values for an input alone",
    ),
    "offsets without room for their total": (
        "shape: [n + 1]", "shape: [n + 1 - n]", "6: arguments.rows.values",
        "expected 2 elements or more in a row of offsets",
    ),
    "a tensor that no machine draws": (
        "H: [1, 40]", "H: [1, 40000000]", "3: arguments.x.shape",
        "expected a tensor of at most 67108864 elements",
    ),
    "a tolerance of no output": (
        "outputs: {lse", "outputs: {lsf", "18: tolerance.outputs.lsf", "did you mean 'lse'?",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_at_its_place(read, name):
    old, new, place, message = MISTAKES[name]
    with pytest.raises(SpecError) as caught:
        read(old, new)
    lines = [line for line in caught.value.mistakes if f"conv.yaml:{place}: " in line]
    assert lines, caught.value
    assert message in lines[0]
    assert "\n" not in lines[0]


def test_a_relation_holds_or_says_what_it_misses():
    relation = Relation.read("2 * H >= R + 1")
    assert relation.holds({"H": 2, "R": 3}) and not relation.holds({"H": 2, "R": 4})
    assert relation.names == {"H", "R"}
    with pytest.raises(FormulaError, match="got the name 'R'"):
        relation.holds({"H": 2})
    written_out = relation.with_definitions({"R": Formula("H + 1")})
    assert not written_out.holds({"H": 1}) and written_out.holds({"H": 2})
