"""Cases of large sizes follow from a spec's shapes and sizes."""

from __future__ import annotations

import math

import pytest

from grader.cases import large
from grader.spec import load_all
from grader.spec.task import Task

EXERCISES = load_all()


def task(name: str) -> Task:
    exercise, variant = name.split("/")
    return Task(EXERCISES[exercise], EXERCISES[exercise].variants[variant])


def sizes(cases):
    return [dict(case.sizes) for case in cases]


def test_each_size_alone_makes_a_tensor_too_large_for_an_int() -> None:
    cases = large.beyond_int(task("transpose/triton_v4"), seed=7)
    assert sizes(cases) == [{"rows": 393216, "cols": 8192}, {"rows": 8192, "cols": 393216}]
    assert {math.prod(each.values()) for each in sizes(cases)} == {large.BEYOND_INT}


def test_an_int_holds_no_more_elements_than_it_can() -> None:
    [case] = large.beyond_int(task("silu/cuda"), seed=7)
    assert case.size("n") == large.MOST_AS_INT < 2**31
    [case] = large.beyond_int(task("silu/triton"), seed=7)
    assert case.size("n") == large.BEYOND_INT


def test_a_size_with_one_value_in_the_variants_classes_keeps_it() -> None:
    [case] = large.beyond_int(task("rmsnorm/cuda_vector"), seed=7)
    assert case.size("rows") == 1


def test_at_the_grids_limits_one_size_is_large_and_the_others_are_the_smallest() -> None:
    cases = large.at_grid_limits(task("gemm/cuda_tiled"), seed=7)
    assert [sorted(each.values()) for each in sizes(cases)] == [[1, 1, large.GRID_SIZE]] * 3
    assert large.at_grid_limits(task("silu/cuda"), seed=7) == []


def test_a_part_has_the_cases_that_the_spec_names() -> None:
    silu = task("silu/triton")
    [case] = large.named_cases(silu, "float16", "ragged", seed=7)
    assert str(case) == "n=67108864 dtype=float16 seed=7"
    assert large.named_cases(silu, "float16", "degenerate", seed=7) == []


@pytest.mark.parametrize("name", [f"{e}/{v}" for e, x in EXERCISES.items() for v in x.variants])
def test_no_tensor_is_larger_than_a_plan_holds(name: str) -> None:
    asked = task(name)
    if not large.is_plannable(asked):
        assert name == "copy_first_column/cuda"
        return
    cases = (*large.beyond_int(asked, 7), *large.at_grid_limits(asked, 7))
    assert cases
    for case in cases:
        tensors = [each for each in asked.signature if hasattr(each, "concrete_shape")]
        elements = [math.prod(each.concrete_shape(dict(case.sizes))) for each in tensors]
        assert max(elements) * 8 <= 40 << 30, (name, str(case))


CONVOLUTION = """\
title: Convolution
arguments:
  - {name: x, shape: [rows, W], dtype: float32}
  - {name: w, shape: [R], dtype: float32}
  - {name: out, shape: [rows, W_out], dtype: float32, role: output}
sizes: {ragged: {rows: [1, 9], W: [9, 200], R: [1, 9]}}
derived: {W_out: W - R + 1}
variants:
  triton: {file: conv.py, entry: conv, dtypes: [float32], points: {ragged: 1}}
"""


@pytest.mark.parametrize("where", ["", "where: [W >= R]\n"])
def test_sizes_that_are_impossible_together_are_no_case(tmp_path, where) -> None:
    (tmp_path / "conv.yaml").write_text(CONVOLUTION + where, encoding="utf-8")
    exercise = load_all(tmp_path)["conv"]
    asked = Task(exercise, exercise.variants["triton"])
    for cases in (large.beyond_int(asked, 7), large.at_grid_limits(asked, 7)):
        assert [case.size("R") <= case.size("W") for case in cases] == [True, True]
