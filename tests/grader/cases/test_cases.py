"""Cases: what is always tried, what may be drawn, and cases as text."""

from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from grader import spec
from grader.cases import Case, CaseError, Space, drawing, inputs, parse
from grader.cases.case import MAX_SIZE
from grader.spec import SizeRule, drawn_sizes
from grader.spec.drawn_sizes import edge_sizes
from grader.spec.task import Task
from tests.support.strategies import any_case

EXERCISES = spec.load_all()
QUIET = settings(
    max_examples=40,
    database=None,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
MIXED = """\
title: Mixed
arguments:
  - {name: x, shape: [n - 1], dtype: $dtype}
  - {name: out, shape: [n], dtype: $dtype, role: output}
  - {name: causal, scalar: bool, values: [false, true]}
  - {name: steps, scalar: int, values: [1, 7, 9]}
sizes:
  few: {n: {one_of: [2, 8, 16]}}
data: [large, normal]
variants:
  triton: {file: mixed.py, entry: mixed, dtypes: [float16, float32], points: {few: 1}}
"""


def spaces():
    """Every dtype and size class of every variant there is."""
    return [
        pytest.param(
            Space(Task(exercise, variant), dtype, size_class, 11),
            id=f"{exercise.name}-{variant.name}-{dtype}-{size_class}",
        )
        for exercise in EXERCISES.values()
        for variant in exercise.variants.values()
        for dtype in variant.dtypes
        for size_class in exercise.sizes
    ]


def space_of(name, size_class="ragged", dtype="float32", seed=11):
    """Of the exercise's first variant."""
    exercise = EXERCISES[name]
    return Space(Task(exercise, first_variant(exercise)), dtype, size_class, seed)


def first_variant(exercise):
    return next(iter(exercise.variants.values()))


@pytest.fixture
def mixed(tmp_path):
    """An exercise with every kind of scalar, chosen sizes, and no pattern `normal` in front."""
    path = tmp_path / "mixed.yaml"
    path.write_text(MIXED)
    return spec.load(path)


# --- edges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        SizeRule(low=1, high=2049),
        SizeRule(low=1, high=20000),
        SizeRule(low=5, high=130),
        SizeRule(low=64, high=2048, multiple_of=64),
        SizeRule(low=3, high=99, multiple_of=3),
        SizeRule(low=1, high=1),
    ],
    ids=str,
)
def test_edge_sizes_surround_every_power_of_two_and_the_ends(rule):
    edges = edge_sizes(rule)
    wanted = {1, 2, 3, rule.low, rule.high}
    wanted |= {2**k + d for k in range(1, 20) for d in (-1, 0, 1)}
    assert {size for size in wanted if rule.contains(size)} <= {*edges}
    assert all(rule.contains(size) for size in edges)
    assert edges == sorted(set(edges))


def test_edge_sizes_of_a_choice_are_the_choice():
    assert edge_sizes(SizeRule(low=2, high=16, choices=(2, 8, 16))) == [2, 8, 16]


@pytest.mark.parametrize("space", spaces())
def test_every_edge_size_of_every_rule_is_tried(space):
    tried = [dict(case.sizes) for case in space.edges()]
    for rules in space.alternatives:
        within = [s for s in tried if all(rule.contains(s[n]) for n, rule in rules.items())]
        for name, rule in rules.items():
            assert {*edge_sizes(rule)} <= {sizes[name] for sizes in within}


@pytest.mark.parametrize("space", spaces())
def test_edges_are_of_their_class_and_smallest_first(space):
    edges = space.edges()
    assert len(edges) == len(set(edges))
    assert all(space.allows(dict(case.sizes)) for case in edges)
    assert {(case.dtype, case.seed) for case in edges} == {(space.dtype, space.seed)}
    elements = [case.elements for case in edges]
    assert elements == sorted(elements)


@pytest.mark.parametrize("space", spaces())
def test_every_pattern_layout_and_scalar_is_among_the_edges(space):
    edges = space.edges()
    assert {case.data for case in edges} == {*space.task.exercise.data}
    for tensor in space.tensors:
        assert {case.layout_of(tensor) for case in edges} == {*tensor.layout}
    for scalar in space.scalars:
        assert {case.scalar(scalar) for case in edges} == {*scalar.values}


@pytest.mark.parametrize("name", EXERCISES)
def test_every_pattern_meets_every_layout_where_there_are_many_edges(name):
    space = space_of(name)
    edges = space.edges()
    for tensor in space.tensors:
        met = {(case.data, case.layout_of(tensor)) for case in edges}
        assert met == {(d, layout) for d in space.task.exercise.data for layout in tensor.layout}


def test_a_class_with_few_sizes_still_tries_every_choice(mixed):
    space = Space(Task(mixed, mixed.variants["triton"]), "float16", "few", 1)
    edges = space.edges()
    assert {case.data for case in edges} == {"large", "normal"}
    assert {dict(case.scalars).get("causal", False) for case in edges} == {True, False}
    assert {dict(case.scalars).get("steps", 1) for case in edges} == {1, 7, 9}


# --- drawing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize("size_class", ["aligned", "ragged", "degenerate"])
def test_drawn_cases_are_of_their_class(name, size_class):
    space = space_of(name, size_class)
    drawn = set()

    @QUIET
    @given(any_case(space))
    def draw(case):
        drawn.add(case)
        assert space.allows(dict(case.sizes))
        assert tuple(n for n, _ in case.sizes) == space.task.exercise.sizes_names
        assert case.data in space.task.exercise.data
        assert all(case.layout_of(t) in t.layout for t in space.tensors)
        assert all(case.scalar(s) in s.values for s in space.scalars)

    draw()
    assert len(drawn) > 5


def test_sizes_that_edge_cases_have_in_full_are_not_drawn() -> None:
    """A few large cases take no drawn ones away from the other sizes of their class."""
    space = space_of("softmax", "degenerate")
    many = [each for each in space.edges() if each.size("rows") > 16]
    assert [(each.size("rows"), each.size("cols")) for each in many] == [
        (2200, 1),
        (2200, 2),
        (2200, 3),
    ]
    assert all(each.size("rows") <= 16 for each in drawing.drawn(space, 40))
    assert not drawn_sizes.is_exhausted({"n": SizeRule(low=1, high=9)})  # edges have no 5 and no 6
    assert drawn_sizes.is_exhausted({"n": SizeRule(low=64, high=192, multiple_of=64, or_zero=True)})


def test_spaces_with_the_same_choices_are_drawn_once():
    drawing._drawn.cache_clear()
    halves, floats = (space_of("rmsnorm", dtype=dtype) for dtype in ("float16", "float32"))
    cases = drawing.drawn(floats, 20)
    assert drawing.drawn(halves, 20) == [replace(case, dtype="float16") for case in cases]
    assert drawing._drawn.cache_info().misses == 1
    assert drawing.drawn(replace(floats, seed=12), 20) != cases
    assert drawing._drawn.cache_info().misses == 2


def test_scalars_of_equal_values_are_drawn_as_their_kind(tmp_path):
    numbers = MIXED.replace("scalar: bool, values: [false, true]", "scalar: int, values: [0, 1]")
    for text, kind in ((MIXED, bool), (numbers, int)):
        path = tmp_path / "mixed.yaml"
        path.write_text(text)
        exercise = spec.load(path)
        cases = drawing.drawn(
            Space(Task(exercise, exercise.variants["triton"]), "float16", "few", 1), 20
        )
        found = [dict(case.scalars)["causal"] for case in cases if "causal" in dict(case.scalars)]
        assert found and {type(value) for value in found} == {kind}


def test_a_class_does_not_allow_what_its_rules_exclude():
    assert space_of("rmsnorm", "aligned").allows({"rows": 3, "cols": 128})
    assert not space_of("rmsnorm", "aligned").allows({"rows": 3, "cols": 127})
    degenerate = space_of("rmsnorm", "degenerate")
    assert degenerate.allows({"rows": 1, "cols": 5}) and degenerate.allows({"rows": 5, "cols": 1})
    assert not degenerate.allows({"rows": 2, "cols": 2})


# --- text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXERCISES)
def test_text_and_case_are_the_same(name):
    exercise = EXERCISES[name]
    variant = first_variant(exercise)

    @QUIET
    @given(st.sampled_from(variant.dtypes), st.sampled_from([*exercise.sizes]), st.data())
    def there_and_back(dtype, size_class, data):
        case = data.draw(any_case(Space(Task(exercise, variant), dtype, size_class, 2**40 + 3)))
        assert parse(str(case), Task(exercise, variant), seed=0) == case

    there_and_back()


def test_text_and_case_are_the_same_for_every_kind_of_scalar(mixed):
    variant = mixed.variants["triton"]
    for case in Space(Task(mixed, variant), "float16", "few", 1).edges():
        assert parse(str(case), Task(mixed, variant), seed=5) == case


def test_a_case_as_text_is_short_and_complete():
    exercise = EXERCISES["rmsnorm"]
    text = "rows=1 cols=1025 dtype=float16 data=tiny x.layout=row_padded eps=1e-05 seed=7"
    case = parse(text, Task(exercise, exercise.variants["triton"]), seed=0)
    assert str(case) == text
    assert case.size("cols") == 1025 and case.elements == 1025
    assert str(replace(case, data="normal", layouts=(), scalars=())) == (
        "rows=1 cols=1025 dtype=float16 seed=7"
    )


def test_what_a_text_leaves_out_has_the_first_choice():
    exercise = EXERCISES["rmsnorm"]
    case = parse("cols=5 rows=2", Task(exercise, exercise.variants["triton"]), seed=9)
    assert case == Case((("rows", 2), ("cols", 5)), "float32", 9)


def test_the_first_choice_written_out_is_the_same_case():
    exercise = EXERCISES["rmsnorm"]
    variant = exercise.variants["triton"]
    long = parse(
        "rows=2 cols=5 x.layout=contiguous eps=1e-6 data=normal", Task(exercise, variant), 9
    )
    assert long == parse("rows=2 cols=5", Task(exercise, variant), 9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows 17", "expected words like rows=17, got 'rows'"),
        ("rows=", "expected words like rows=17, got 'rows='"),
        ("rows='1", "can't be read: No closing quotation"),
        ("rows=1,cols=2", "rows: expected blanks between words like rows=17, got 'rows=1,cols=2'"),
        ("row=1 cols=2", "row: expected one of rows, cols, dtype, data, seed, eps, x.layout, "
         "out.layout, weight.data; did you mean 'rows'?"),
        ("zzz=1", "zzz: expected one of rows, cols, dtype, data, seed, eps, x.layout, out.layout, "
         "weight.data"),
        ("rows=1", "expected a value for cols, as in cols=17"),
        ("", "expected a value for rows and cols, as in rows=17"),
        ("rows=1 cols=2 rows=3", "rows: expected one value, got another one: '3'"),
        ("rows=many cols=2", "rows: expected a whole number, got 'many'"),
        ("rows=-1 cols=2", f"rows: expected 1 to {MAX_SIZE}, got -1"),
        ("rows=--1 cols=2", "rows: expected a whole number, got '--1'"),
        ("rows=1.5 cols=2", "rows: expected a whole number, got '1.5'"),
        ("rows=0 cols=2", f"rows: expected 1 to {MAX_SIZE}, got 0"),
        (f"rows={MAX_SIZE + 1} cols=2", f"rows: expected 1 to {MAX_SIZE}, got {MAX_SIZE + 1}"),
        (f"rows={'9' * 5000} cols=2", f"rows: expected a whole number, got '{'9' * 5000}'"),
        (f"rows={MAX_SIZE} cols={MAX_SIZE}",
         f"expected at most {1 << 26} elements in all, got {MAX_SIZE**2}"),
        ("rows=1 cols=2 dtype=float8", "dtype: expected one of float32, float16, bfloat16, got "
         "'float8'"),
        ("rows=1 cols=2 data=odd", "data: expected one of normal, large, tiny, constant_rows, "
         "one_hot, got 'odd'"),
        ("rows=1 cols=2 x.layout=offset", "x.layout: expected one of contiguous, row_padded, got "
         "'offset'"),
        ("rows=1 cols=2 eps=small", "eps: expected a number, got 'small'"),
        ("rows=1 cols=2 eps=nan", "eps: expected a finite number, got nan"),
        ("rows=1 cols=2 seed=-1", f"seed: expected 0 to {1 << 63}, got -1"),
    ],
)  # fmt: skip
def test_a_wrong_text_gets_one_line_that_names_the_word(text, message):
    exercise = EXERCISES["rmsnorm"]
    with pytest.raises(CaseError) as caught:
        parse(text, Task(exercise, exercise.variants["triton"]), seed=0)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n=4 causal=1", "causal: expected true or false, got '1'"),
        ("n=4 steps=1.5", "steps: expected a whole number, got '1.5'"),
        (f"n=4 steps={2**63}", f"steps: expected a whole number of 64 bits, got {2**63}"),
        ("n=1", "the shape of x: expected a whole number >= 1, got n - 1 = 0"),
    ],
)
def test_a_wrong_scalar_or_an_empty_tensor_gets_one_line(mixed, text, message):
    with pytest.raises(CaseError) as caught:
        parse(text, Task(mixed, mixed.variants["triton"]), seed=0)
    assert str(caught.value) == message


# --- data ----------------------------------------------------------------------------------------


def made(text, name="rmsnorm"):
    exercise = EXERCISES[name]
    variant = exercise.variants["triton"]
    return inputs.make(Task(exercise, variant), parse(text, Task(exercise, variant), seed=3))


def test_the_same_case_has_the_same_data():
    text = "rows=3 cols=50 dtype=float16 data=large seed=12"
    one, other = made(text).tensors, made(text).tensors
    assert {n: t.tolist() for n, t in one.items()} == {n: t.tolist() for n, t in other.items()}


@pytest.mark.parametrize("change", ["seed=13", "seed=12 dtype=bfloat16", "seed=12 eps=1e-5"])
def test_another_seed_dtype_or_scalar_has_other_data(change):
    base = made("rows=3 cols=50 seed=12").tensors["x"].double()
    assert not torch.isclose(base, made(f"rows=3 cols=50 {change}").tensors["x"].double()).any()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_patterns_are_what_they_say(dtype):
    x = {}
    for data in EXERCISES["rmsnorm"].data:
        tensors = made(f"rows=40 cols=500 dtype={dtype} data={data}").tensors
        assert {t.dtype for t in tensors.values()} == {getattr(torch, dtype)}
        assert abs(float(tensors["weight"].double().std()) - 1) < 0.2  # the leading input only
        x[data] = tensors["x"].double()
    for data, scale in {"normal": 1.0, "large": 300.0, "tiny": 1e-3}.items():
        assert abs(float(x[data].std()) / scale - 1) < 0.05
        assert abs(float(x[data].mean()) / scale) < 0.05
    assert bool((x["constant_rows"] == x["constant_rows"][:, :1]).all())
    assert len(x["constant_rows"][:, 0].unique()) > 20
    assert x["one_hot"].count_nonzero(dim=1).tolist() == [1] * 40
    assert len(x["one_hot"].argmax(dim=1).unique()) > 5


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_far_below_zero_is_below_what_a_mask_leaves_out(dtype):
    x = made(f"rows=4 cols=500 dtype={dtype} data=far_below_zero", "softmax").tensors["x"]
    assert x.isfinite().all() and x.max() <= -300 and len(x.unique()) > 20
    tops = made(f"rows=40 cols=5 dtype={dtype} data=far_below_zero", "softmax").tensors["x"].amax(1)
    assert 5 < (tops < -7000).sum() < 35  # below any number that is meant as the lowest


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_huge_data_is_finite_and_far_beyond_what_one_would_clamp_to(dtype):
    x = made(f"n=4000 dtype={dtype} data=huge", "silu").tensors["x"]
    assert x.isfinite().all() and (x.abs() > 7000).sum() > 1000


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_any_bits_have_every_kind_of_number(dtype):
    exercise = EXERCISES["transpose"]
    variant = exercise.variants["triton_v4"]
    case = parse(f"rows=40 cols=50 dtype={dtype} data=any_bits", Task(exercise, variant), seed=3)
    x = inputs.make(Task(exercise, variant), case).tensors["input"].flatten().double()
    zeros = x[x == 0]
    for kind in (x.isnan(), x == torch.inf, x == -torch.inf, (x != 0) & (x.abs() < 1e-38)):
        assert kind.sum() > 20
    assert 0 < zeros.signbit().sum() < len(zeros) and x.isfinite().sum() > 1500


@pytest.mark.parametrize(
    ("layout", "strides"), [("row_padded", (168, 84, 12, 1)), ("padded", (288, 96, 12, 1))]
)
def test_outer_dimensions_have_gaps_between_them_where_all_are_padded(layout, strides):
    assert inputs.strides_of((3, 2, 7, 5), layout) == (strides, 0)


def test_of_more_dimensions_the_last_two_are_transposed():
    assert inputs.strides_of((3, 2, 7, 5), "transposed") == ((70, 35, 1, 7), 0)


def test_large_data_is_finite_in_float16_but_its_squares_are_not():
    x = made("rows=4 cols=500 dtype=float16 data=large").tensors["x"]
    assert bool(x.isfinite().all()) and bool(x.square().isinf().any())


@pytest.mark.parametrize(
    ("layout", "strides", "first"),
    [
        ("contiguous", (5, 1), 0),
        ("row_padded", (12, 1), 0),
        ("offset", (5, 1), 1),
        ("transposed", (1, 3), 0),
    ],
)
def test_layouts_are_what_they_say(layout, strides, first):
    assert inputs.strides_of((3, 5), layout) == (strides, first)


def test_arguments_come_in_call_order_with_their_layouts():
    call = made("rows=3 cols=5 out.layout=row_padded eps=1e-5")
    assert [slot.name for slot in call.slots] == ["x", "weight", "out"]
    assert [slot.strides for slot in call.slots] == [(5, 1), (1,), (12, 1)]
    assert call.slots[2].values is None and call.slots[0].values is not None
    assert list(call.scalars) == ["eps"]
    assert call.order[-1].scalar == call.scalars["eps"]
    # As a kernel gets it: host code and oracle compute with the same number.
    assert call.scalars["eps"] == torch.tensor(1e-5, dtype=torch.float32).item() != 1e-5
    placed = call.arguments(["X", "W", "O"])
    assert placed[:3] == ["X", "W", "O"] and placed[3] is call.order[3]
