"""The values of inputs: what a spec says of them, and the patterns that each one is drawn in."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from grader.cases import CaseError, Space, inputs, oracle, parse
from grader.cases.contents import draw
from grader.spec import load
from grader.spec.contents import Contents, contents_of
from grader.spec.exercise import REFERENCE
from grader.spec.task import Task
from grader.spec.values import FLOATS, INTEGERS

SPEC = """\
title: Gather
arguments:
  - {name: x, shape: [V, D], dtype: $dtype}
  - {name: y, shape: [V, D], dtype: $dtype}
  - {name: index, shape: [n], dtype: int32, values: [0, V - 1]}
  - {name: bytes, shape: [n], dtype: int8}
  - {name: out, shape: [V, D], dtype: $dtype, role: output}
  - {name: k, scalar: int, follows: "min(V, 5)"}
sizes: {few: {V: [1, 40], D: [1, 6], n: [1, 30]}}
where: [n >= D]
data: [normal, large]
variants:
  triton: {file: gather.py, entry: gather, dtypes: [float32, float16], points: {few: 1}}
"""
FORMS = (
    *("uniform", "normal", "full_range", "positive", "one_hot", "permutation", "sorted"),
    ([-2, "V"]),
    {"sorted": [0, 5]},
    {"offsets": "V * 2"},
)
DTYPES = (*FLOATS, *INTEGERS, "bool")
ENV = {"V": 12}


def forms():
    """Every form with each dtype that it fits, in each of its patterns."""
    for form, dtype in itertools.product(FORMS, DTYPES):
        contents = contents_of(form)
        is_signed = not str(form).startswith("[-2") or INTEGERS.get(dtype, (-9, 9))[0] < 0
        if not contents.problem(dtype) and is_signed:
            for pattern in contents.patterns(dtype, ("large", "tiny", "one_hot")):
                yield contents, dtype, pattern


def drawn(contents, dtype, pattern, shape=(7, 30), seed=3):
    """Values of a form."""
    generator = torch.Generator().manual_seed(seed)
    return draw(contents, shape, dtype, pattern, ENV, generator)


@pytest.fixture(scope="module")
def gather(tmp_path_factory):
    """The exercise above."""
    path = tmp_path_factory.mktemp("specs") / "gather.yaml"
    path.write_text(SPEC, encoding="utf-8")
    return load(path)


@pytest.fixture(scope="module")
def space(gather):
    """Its cases in float32."""
    return Space(Task(gather, gather.variants["triton"]), "float32", "few", 5)


def test_every_form_gives_its_shape_and_dtype_and_the_same_values_again():
    for contents, dtype, pattern in forms():
        one, again = (drawn(contents, dtype, pattern) for _ in range(2))
        assert one.shape == (7, 30) and one.dtype == getattr(torch, dtype)
        assert one.is_contiguous() and torch.equal(
            one.view(torch.uint8), again.view(torch.uint8)
        ), (contents, dtype, pattern)
        assert drawn(contents, dtype, pattern, shape=(0, 4)).shape == (0, 4)
        if one.is_floating_point():
            assert bool(one.double().isfinite().all()), (contents, dtype, pattern)
        if contents.in_order:
            for row in one[:3]:
                assert (told := [each.item() for each in row]) == sorted(told), (contents, dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_meet_the_whole_range_of_their_dtype(dtype):
    low, high = INTEGERS[dtype]
    usual = drawn(Contents(), dtype, "usual", shape=(60, 60)).double()
    assert float(usual.min()) < low * 0.9 + 0.1 * high
    assert float(usual.max()) > high * 0.9 + 0.1 * low
    assert {*drawn(Contents(), dtype, "highest").flatten().tolist()} == {high}
    assert {*drawn(Contents(), dtype, "lowest").flatten().tolist()} == {low}
    small = {int(each) for each in drawn(Contents(), dtype, "small").flatten()}
    assert small == {*range(max(low, -8), 9)}


def test_a_range_has_both_ends_and_nothing_beyond():
    values = drawn(contents_of([-2, "V"]), "int32", "usual")
    assert {int(each) for each in values.flatten()} == {*range(-2, 13)}
    floats = drawn(contents_of([-2, "V"]), "float32", "usual")
    assert -2 <= float(floats.min()) < -1.5 and 11.5 < float(floats.max()) <= 12
    assert bool((drawn(contents_of([-2, "V"]), "float32", "highest") == 12).all())


def test_rows_are_permutations_one_hot_and_offsets():
    for pattern in ("usual", "in_order", "reversed"):
        rows = drawn(contents_of("permutation"), "int64", pattern)
        assert torch.equal(rows.sort(dim=-1).values, torch.arange(30).expand(7, 30))
    assert torch.equal(
        drawn(contents_of("permutation"), "int16", "reversed")[0].int(), torch.arange(29, -1, -1)
    )
    hot = drawn(contents_of("one_hot"), "int8", "usual")
    assert hot.sum(dim=-1).tolist() == [1] * 7 and hot.count_nonzero() == 7
    offsets = contents_of({"offsets": "V * 2"})
    for pattern in ("usual", "all_first", "all_last"):
        rows = drawn(offsets, "int32", pattern)
        assert rows[:, 0].tolist() == [0] * 7 and rows[:, -1].tolist() == [24] * 7
        assert bool((rows.diff(dim=-1) >= 0).all())
    assert drawn(offsets, "int32", "all_first")[:, 1].tolist() == [24] * 7
    assert drawn(offsets, "int32", "all_last")[:, -2].tolist() == [0] * 7


def test_positive_values_are_above_zero_in_every_pattern():
    contents = contents_of("positive")
    for dtype in ("float32", "float16", "float8_e5m2", "int8", "uint8", "int64", "uint64"):
        assert "one_hot" not in contents.patterns(dtype, ("one_hot",))
        for pattern in contents.patterns(dtype, ("large", "tiny", "one_hot")):
            values = drawn(contents, dtype, pattern)
            assert all(each.item() > 0 for each in values.flatten()), (dtype, pattern)


def test_every_input_is_drawn_in_each_of_its_patterns(space):
    edges = space.edges()
    assert {case.data for case in edges} == {"normal", "large"}
    told = {pair for case in edges for pair in case.patterns}
    assert told == {
        ("y", "large"),
        *(("index", each) for each in ("lowest", "highest")),
        *(("bytes", each) for each in ("small", "lowest", "highest")),
    }
    case = next(case for case in edges if ("y", "large") in case.patterns and case.elements > 60)
    made = inputs.make(space.task, case)
    assert float(made.tensors["y"].abs().max()) > 30 > float(made.tensors["x"].abs().max())


def test_a_case_with_patterns_is_repeated_from_its_text(space):
    for case in space.edges():
        assert parse(str(case), space.task, seed=0) == case
    assert all(dict(case.sizes)["n"] >= dict(case.sizes)["D"] for case in space.edges())
    for text, message in {
        "V=3 D=4 n=3": "expected sizes with n >= D, as the spec's `where` has it",
        "V=3 D=4 n=5 index.data=large": "index.data: expected one of usual, lowest, highest",
        "V=3 D=4 n=5 k=2": "k: expected one of V, D, n",
        "V=0 D=4 n=5": "V: expected 1 to",
    }.items():
        with pytest.raises(CaseError) as caught:
            parse(text, space.task, seed=0)
        assert str(caught.value).startswith(message)


def test_indices_stay_in_the_table_and_a_scalar_follows_it(space):
    for case in space.edges():
        made = inputs.make(space.task, case)
        rows = dict(case.sizes)["V"]
        assert 0 <= int(made.tensors["index"].min()) <= int(made.tensors["index"].max()) < rows
        assert made.scalars == {"k": min(rows, 5)}
        assert made.numbers == {**dict(case.sizes), "k": min(rows, 5)}


INPUTS = '''\
import torch


def gather(x, y, index, bytes, V, k, unknown=7):
    """The inputs' sum, with what it was given."""
    return x + y + V + k + unknown


def gather_inputs(sizes, scalars, generator, data, dtype):
    """x of halves; y is left to the spec."""
    if sizes["V"] == 2:
        return {"x": torch.zeros(1)}
    if sizes["V"] == 3:
        return {"z": torch.zeros(1)}
    if sizes["V"] == 4:
        return [1]
    if sizes["V"] == 5:
        raise ValueError("no such size")
    assert scalars == {"k": min(sizes["V"], 5)} and data == "normal" and dtype is torch.float32
    return {"x": torch.randint(9, (sizes["V"], sizes["D"]), generator=generator) / 2}
'''


@pytest.fixture
def own_inputs(tmp_path, space):
    """Oracles with a function for inputs."""
    path = tmp_path / "oracles.py"
    path.write_text(INPUTS, encoding="utf-8")
    space.task.exercise.belongs_to(tmp_path)
    yield
    space.task.exercise.belongs_to(REFERENCE)


def test_a_function_beside_the_oracle_makes_inputs(own_inputs, space):
    case = parse("V=9 D=3 n=4", space.task, seed=1)
    one, again = (inputs.make(space.task, case) for _ in range(2))
    x, y = one.tensors["x"], one.tensors["y"]
    assert torch.equal(x, again.tensors["x"]) and x.dtype is torch.float32
    assert bool((x * 2 == (x * 2).round()).all()) and x.unique().numel() > 4
    assert not bool((y * 2 == (y * 2).round()).all())
    other = inputs.make(space.task, replace(case, seed=2))
    assert not torch.equal(x, other.tensors["x"])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (2, "gather_inputs: x: expected shape [2, 3], got [1]"),
        (3, "gather_inputs: expected inputs among x, y, index, bytes, got 'z'"),
        (4, "gather_inputs: expected a mapping of names to tensors, got list"),
        (5, "gather_inputs: ValueError: no such size"),
    ],
)
def test_a_mistake_of_that_function_is_told_in_a_line(own_inputs, space, rows, message):
    case = parse(f"V={rows} D=3 n=4", space.task, seed=1)
    with pytest.raises(oracle.OracleError) as caught:
        inputs.make(space.task, case)
    assert str(caught.value) == message


def test_an_oracle_gets_the_sizes_and_scalars_that_it_names(own_inputs, space):
    case = parse("V=9 D=3 n=4", space.task, seed=1)
    made = inputs.make(space.task, case)
    [truth] = oracle.of(space.task.exercise).truths(made.tensors, made.numbers, "expected")
    right = made.tensors["x"].double() + made.tensors["y"].double() + 9 + 5 + 7
    assert torch.equal(truth.expected, right)
