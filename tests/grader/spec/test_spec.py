"""Specs: what is written is what is read, and every mistake is one clear line."""

from __future__ import annotations

import copy
import functools
import operator
import os
from pathlib import Path
from typing import Any

import pydantic
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.spec import (
    EXERCISES,
    ITEMSIZE,
    Exercise,
    Scalar,
    Size,
    SizeRule,
    SpecError,
    Tensor,
    Threshold,
    Tolerance,
    load,
    load_all,
)
from grader.spec.formula import FormulaError
from grader.spec.task import Task
from grader.spec.values import MAX_LINES

# Every feature of the schema, in a form that the edits below can break one thing at a time.
SPEC = """\
title: Row sums
summary: One sum per row.
arguments:
  - {name: x, shape: [rows, cols], dtype: $dtype, layout: [contiguous, row_padded, transposed]}
  - {name: steps, shape: ["ceil_div(cols, 64)"], dtype: int32, space: host}
  - {name: out, shape: [rows], dtype: $dtype, role: output, layout: [contiguous, offset]}
  - {name: scratch, shape: [rows, 2 * cols], dtype: float32, role: inout}
  - {name: scale, scalar: float, values: [1, 2.5]}
sizes:
  aligned: {rows: [1, 16], cols: {multiple_of: 64, up_to: 2048}}
  ragged: {rows: {one_of: [7, 3]}, cols: [1, 2049]}
  degenerate:
    - {rows: 1, cols: [1, 2049]}
    - {rows: [1, 16], cols: 1}
data: [normal, large]
tolerance: {factor: 3, magnitude: absolute_inputs, floor_ulps: {float16: 4}}
limits: {seconds: 5}
variants:
  triton:
    file: row_sum.py
    entry: row_sum
    dtypes: [float32, bfloat16]
    points: {performance: 2, ragged: 1.5, aligned: 1}
    performance:
      case: {rows: 8192, cols: 16384, dtype: bfloat16, data: normal, scale: 1.5}
      bytes: rows * (cols + 1) * itemsize
      flops: rows * cols
      device: H100
      thresholds:
        - {speed_vs: copy, at_least: 0.9, points: 2}
        - {milliseconds: {gpu: H100, at_most: 0.5}, points: 1.5}
        - {speed_vs: torch, at_least: 1, points: 1}
        - {speed_vs: copy, at_least: 0.5, points: 0.5}
        - {milliseconds: {gpu: H100, at_most: 0.8}, points: 0.25}
  cuda_v1:
    file: row_sum.cu
    entry: row_sum
    dtypes: [float32]
    arguments: [out, x, cols, rows]
    points: {ragged: 1, memory: 3}
    tolerance: {floor_ulps: {float32: 8}}
    limits: {memory_mb: 512}
    memory:
      case: {rows: 64, cols: 1024}
      useful_bytes_per_sector: {load: {at_least: 30}, store: {at_least: itemsize}}
      shared_bank_conflicts: {at_most: 0}
      copies: {at_most: 1}
      bytes_copied: {at_most: rows * itemsize}
      reads: {x: {at_most: 1.1}}
    layout: [contiguous, offset]
"""


@pytest.fixture
def write(tmp_path):
    """Write YAML text as a spec and give its path."""

    def write(text: str, name: str = "row_sum.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="module")
def scratch_file(tmp_path_factory) -> Path:
    """One file to be written again and again."""
    return tmp_path_factory.mktemp("spec") / "row_sum.yaml"


@pytest.fixture
def exercise(write) -> Exercise:
    return load(write(SPEC))


# --- what is read --------------------------------------------------------------------------------


def test_an_exercise_and_its_variants_are_named_by_file_and_key(exercise):
    assert exercise.name == exercise.oracle == "row_sum"
    assert [(key, variant.name) for key, variant in exercise.variants.items()] == [
        ("triton", "triton"),
        ("cuda_v1", "cuda_v1"),
    ]
    assert [variant.language for variant in exercise.variants.values()] == ["triton", "cuda"]


def test_the_oracle_can_be_named(write):
    assert load(write(SPEC + "oracle: sum_of_rows\n")).oracle == "sum_of_rows"


def test_the_signature_is_the_arguments_in_order_unless_a_variant_gives_its_own(exercise):
    default = exercise.signature(exercise.variants["triton"])
    own = exercise.signature(exercise.variants["cuda_v1"])

    assert [each.name for each in default] == ["x", "steps", "out", "scratch", "scale"]
    assert [(type(each), each.name) for each in own] == [
        (Tensor, "out"),
        (Tensor, "x"),
        (Size, "cols"),
        (Size, "rows"),
    ]
    assert isinstance(default[-1], Scalar)
    assert default[-1].values == (1.0, 2.5)


def test_an_inout_tensor_is_an_input_and_an_output(exercise):
    triton, cuda = exercise.variants["triton"], exercise.variants["cuda_v1"]
    assert [each.name for each in exercise.inputs(triton)] == ["x", "steps", "scratch"]
    assert [each.name for each in exercise.outputs(triton)] == ["out", "scratch"]
    assert [each.name for each in exercise.inputs(cuda)] == ["x"]


def test_tensors_carry_layout_space_and_concrete_shapes_and_dtypes(exercise):
    x, steps, out = exercise.arguments[:3]

    assert x.layout == ("contiguous", "row_padded", "transposed")
    assert (x.space, steps.space) == ("device", "host")
    assert steps.concrete_shape({"rows": 3, "cols": 65}) == (2,)
    assert [each.concrete_dtype("bfloat16") for each in (out, steps)] == ["bfloat16", "int32"]
    with pytest.raises(FormulaError, match="cols"):
        x.concrete_shape({"rows": 3})


def test_a_variant_may_be_called_with_fewer_layouts(exercise):
    layouts = {
        name: [each.layout for each in exercise.signature(variant) if each.name in ("x", "out")]
        for name, variant in exercise.variants.items()
    }
    assert layouts == {
        "triton": [("contiguous", "row_padded", "transposed"), ("contiguous", "offset")],
        "cuda_v1": [("contiguous", "offset"), ("contiguous",)],
    }


def test_a_performance_case_without_thresholds_has_no_points_and_a_grade_leaves_it_alone(write):
    text = SPEC.replace("{performance: 2, ragged", "{ragged")
    start, end = text.index("      thresholds:"), text.index("  cuda_v1:")
    variant = load(write(text[:start] + text[end:])).variants["triton"]
    assert variant.timed.every_case and not variant.timed.steps
    assert not variant.is_graded_on_speed and "performance" not in variant.points
    assert load(write(SPEC)).variants["triton"].is_graded_on_speed


def test_a_size_class_is_a_tuple_of_alternatives(exercise):
    assert exercise.sizes_names == ("rows", "cols")
    assert len(exercise.sizes["aligned"]) == 1
    one_row, one_column = exercise.sizes["degenerate"]
    assert (one_row["rows"].high, one_row["cols"].high) == (1, 2049)
    assert (one_column["rows"].high, one_column["cols"].high) == (16, 1)


@pytest.mark.parametrize(
    ("rule", "allowed", "refused"),
    [
        ("5", [5], [4, 6]),
        ("[2, 9]", [2, 5, 9], [1, 10]),
        ("{multiple_of: 64, up_to: 200}", [64, 128, 192], [0, 1, 65, 200, 256]),
        ("{multiple_of: 8, from: 12, up_to: 32}", [16, 24, 32], [8, 12, 17, 40]),
        ("{one_of: [32, 2, 8]}", [2, 8, 32], [1, 16, 33]),
    ],
)
def test_a_size_rule_allows_exactly_what_it_says(write, rule, allowed, refused):
    spec = load(
        write(
            SPEC.replace("cols: [1, 2049]}\ndata", f"cols: {rule}}}\ndata").replace(
                "ragged: {rows: {one_of: [7, 3]}, cols: [1, 2049]}",
                f"ragged: {{rows: {{one_of: [7, 3]}}, cols: {rule}}}",
            )
        )
    )
    read = spec.sizes["ragged"][0]["cols"]

    assert all(read.contains(value) for value in allowed)
    assert not any(read.contains(value) for value in refused)
    assert (read.low, read.high) == (min(allowed), max(allowed))


def test_choices_are_sorted_and_other_rules_have_none(exercise):
    rules = exercise.sizes["ragged"][0]

    assert rules["rows"].choices == (3, 7)
    assert rules["cols"].choices is None
    assert exercise.sizes["aligned"][0]["cols"].multiple_of == 64


def test_points_and_size_classes_stand_in_the_order_of_the_sizes(exercise):
    triton = exercise.variants["triton"]

    assert list(triton.points) == ["aligned", "ragged", "performance"]
    assert triton.size_classes == ("aligned", "ragged")
    assert exercise.variants["cuda_v1"].size_classes == ("ragged",)
    assert triton.max_points == 4.5
    assert exercise.max_points == 8.5


def test_a_bonus_counts_in_no_maximum_but_its_own(write, exercise):
    points = "    points: {ragged: 1, memory: 3}"
    more = load(write(SPEC.replace(points, f"    bonus: true\n{points}")))

    assert (exercise.max_points, exercise.max_bonus) == (8.5, 0)
    assert (more.max_points, more.max_bonus) == (4.5, 4)
    assert more.variants["cuda_v1"].max_points == 4
    assert not more.variants["triton"].bonus


def test_an_override_changes_only_what_it_names(exercise):
    assert exercise.tolerance_of(exercise.variants["triton"]).factor == 3
    cuda = exercise.tolerance_of(exercise.variants["cuda_v1"])
    assert (cuda.factor, cuda.magnitude) == (3, "absolute_inputs")
    assert [cuda.floor(dtype) for dtype in ("float32", "float16", "bfloat16")] == [8, 4, 2]
    assert exercise.variants["cuda_v1"].tolerance == cuda
    limits = Task(exercise, exercise.variants["cuda_v1"]).limits
    assert (limits.seconds, limits.memory_mb) == (5, 512)
    assert Task(exercise, exercise.variants["triton"]).limits.memory_mb == 2048


def test_the_floor_is_a_number_for_all_floats_or_one_per_dtype():
    assert [Tolerance().floor(dtype) for dtype in ("float32", "float16", "int32")] == [64, 2, 0]
    assert Tolerance(floor_ulps=3).floor("bfloat16") == 3
    assert Tolerance(floor_ulps=3).floor("int64") == 0
    mixed = Tolerance(floor_ulps={"float16": 5, "int8": 1})
    assert [mixed.floor(dtype) for dtype in ("float32", "float16", "int8")] == [64, 5, 1]


def test_performance_and_memory_blocks_are_read(exercise):
    performance = exercise.variants["triton"].performance
    memory = exercise.variants["cuda_v1"].memory

    assert performance.case["scale"] == 1.5
    env = {"rows": 2, "cols": 3, "itemsize": 2}
    assert performance.bytes.evaluate(env) == 16
    assert performance.flops.evaluate(env) == 6
    assert [each.speed_vs for each in performance.thresholds] == [
        "copy", None, "torch", "copy", None,
    ]  # fmt: skip
    assert performance.thresholds[1].milliseconds.at_most == 0.5
    assert [path for path, _ in memory.bounds()] == [
        ("useful_bytes_per_sector", "load"),
        ("useful_bytes_per_sector", "store"),
        ("shared_bank_conflicts",),
        ("copies",),
        ("bytes_copied",),
        ("reads", "x"),
    ]


@pytest.mark.parametrize(
    ("start", "end", "points", "expected"),
    [
        (0.5, 0.9, 2.0, [(0.9 - 0.04 * k, 2.0 - 0.2 * k) for k in range(10)]),
        (0.8, 0.9, 1.0, [(0.9, 1.0), (0.85, 0.5)]),
        (0.96, 1.0, 3.0, [(1.0, 3.0)]),
    ],
)
def test_linear_points_are_equal_steps_none_narrower_than_can_be_told_apart(
    start, end, points, expected
):
    linear = Threshold(**{"speed_vs": "copy", "from": start, "at_least": end, "points": points})
    found = [(each.at_least, each.points) for each in linear.steps]
    assert found == [pytest.approx(each) for each in expected]
    assert found[0] == (end, points)
    assert {each.speed_vs for each in linear.steps} == {"copy"}
    assert all(each.from_ is None for each in linear.steps)


def test_linear_points_may_follow_stepped_ones(write):
    text = SPEC.replace("{milliseconds: {gpu: H100, at_most: 0.8}, points: 0.25}", LINEAR)
    performance = load(write(text)).variants["triton"].performance
    assert performance.thresholds[-1].from_ == 0.2
    assert [each.points for each in performance.steps] == pytest.approx(
        [2, 1.5, 1, 0.5, 0.4, 0.36, 0.32, 0.28, 0.24, 0.2, 0.16, 0.12, 0.08, 0.04]
    )


LINEAR = "{speed_vs: copy, from: 0.2, at_least: 0.4, points: 0.4}"


def test_objects_are_frozen(exercise):
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        exercise.title = "another"
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        exercise.variants["triton"].entry = "another"


def test_checks_across_fields_hold_for_objects_made_in_code_too(exercise):
    fields = dict(exercise)
    fields["arguments"] = fields["arguments"][:1]

    with pytest.raises(pydantic.ValidationError, match="role: output"):
        Exercise(**fields)


def test_anchors_and_merge_keys_work(write):
    text = SPEC.replace("    dtypes: [float32, bfloat16]", "    dtypes: &all [float32, bfloat16]")
    text = text.replace("aligned: {rows", "aligned: &base {rows")
    text = text.replace("ragged: {rows: {one_of: [7, 3]}, cols", "ragged: {<<: *base, cols")
    spec = load(
        write(
            text.replace("    dtypes: [float32]\n", "    dtypes: *all\n").replace(
                "case: {rows: 64, cols: 1024}", "case: {rows: 64, cols: 1024, dtype: float32}"
            )
        )
    )

    assert spec.variants["cuda_v1"].dtypes == ("float32", "bfloat16")
    assert spec.sizes["ragged"][0]["rows"].high == 16


# --- the mistakes --------------------------------------------------------------------------------

THRESHOLD = "{speed_vs: copy, at_least: 0.9, points: 2}"
MISTAKES = {
    # what an instructor did: (old text, new text, the line's number and key, what it must say)
    "unknown key": (
        "summary:", "sumary:", "2: sumary",
        ["one of the keys title, summary", "did you mean 'summary'"],
    ),
    "unknown key of an argument": (
        "space: host", "spcae: host", "5: arguments.steps.spcae", ["did you mean 'space'"],
    ),
    "the beginning of a word": (
        "role: output", "role: out", "6: arguments.out.role", ["did you mean 'output'?"],
    ),
    "unknown key of a scalar": (
        "scalar: float,", "scalar: float, shape: [1],", "8: arguments.scale.shape",
        ["one of the keys name, scalar, values, follows, got 'shape'"],
    ),
    "unknown key of a variant": (
        "entry: row_sum\n    dtypes: [float32, b",
        "entyr: x\n    entry: row_sum\n    dtypes: [float32, b",
        "21: variants.triton.entyr", ["did you mean 'entry'"],
    ),
    "unknown key of a threshold": (
        THRESHOLD, "{speed_vs: copy, atleast: 2, at_least: 0.9, points: 2}",
        "30: variants.triton.performance.thresholds[0].atleast", ["did you mean 'at_least'"],
    ),
    "a number for a bonus": (
        "    points: {ragged: 1, memory: 3}", "    bonus: 1\n    points: {ragged: 1, memory: 3}",
        "40: variants.cuda_v1.bonus", ["expected true or false, got 1"],
    ),
    "text for a bonus": (
        "    points: {ragged: 1, memory: 3}", "    bonus: ja\n    points: {ragged: 1, memory: 3}",
        "40: variants.cuda_v1.bonus", ["expected true or false, got 'ja'"],
    ),
    "missing title": ("title: Row sums\n", "", "", ["expected the key 'title', which is missing"]),
    "missing entry": (
        "    entry: row_sum\n    dtypes: [float32, b", "    dtypes: [float32, b",
        "19: variants.triton", ["expected the key 'entry', which is missing"],
    ),
    "undeclared size in a shape": (
        "shape: [rows], ", "shape: [row], ", "6: arguments.out.shape[0]",
        ["expected one of the sizes rows, cols, got 'row', did you mean 'rows'?"],
    ),
    "a shape that isn't whole": (
        "2 * cols]", "cols / 2]", "7: arguments.scratch.shape[1]",
        ["expected a whole number >= 1, got cols / 2 = 32.0, cols=64: divide with //"],
    ),
    "a shape that is zero": (
        "2 * cols]", "cols // 2]", "7: arguments.scratch.shape[1]", ["got cols // 2 = 0, cols=1"],
    ),
    "broken formula": (
        "rows * cols\n", "rows * * cols\n", "27: variants.triton.performance.flops",
        ["expected a number, a name or '(' at character 8", "got '*'"],
    ),
    "shape without brackets": (
        "shape: [rows], ", "shape: rows, ", "6: arguments.out.shape",
        ["expected a list", "got 'rows'"],
    ),
    "no dimensions": (
        "shape: [rows], ", "shape: [], ", "6: arguments.out.shape",
        ["expected 1 to 8 dim", "got 0"],
    ),
    "zero size": (
        "aligned: {rows: [1, 16]", "aligned: {rows: [0, 16]", "10: sizes.aligned.rows",
        ["expected a whole number >= 1, got 0"],
    ),
    "negative size": (
        "- {rows: 1, cols", "- {rows: -1, cols", "13: sizes.degenerate[0].rows",
        ["expected a size >= 1", "got -1"],
    ),
    "size beyond a C int": (
        "up_to: 2048", "up_to: 4294967296", "10: sizes.aligned.cols",
        ["expected at most 2147483647 (a C int), got 4294967296"],
    ),
    "bool as size": (
        "- {rows: 1, cols", "- {rows: yes, cols", "13: sizes.degenerate[0].rows", ["got true"],
    ),
    "float as size": (
        "- {rows: 1, cols", "- {rows: 1.0, cols", "13: sizes.degenerate[0].rows", ["got 1.0"],
    ),
    "size in quotes": (
        "- {rows: 1, cols", "- {rows: '1', cols", "13: sizes.degenerate[0].rows",
        ["got '1': write it without quotes"],
    ),
    "range backwards": (
        "cols: [1, 2049]}\n  deg", "cols: [2049, 1]}\n  deg", "11: sizes.ragged.cols",
        ["expected [lowest, highest], got [2049, 1]"],
    ),
    "range of three": (
        "cols: [1, 2049]}\n  deg", "cols: [1, 2, 3]}\n  deg", "11: sizes.ragged.cols",
        ["expected [lowest, highest], got a list of 3"],
    ),
    "range with a colon": (
        "aligned: {rows: [1, 16]", "aligned: {rows: 1:16", "10: sizes.aligned.rows",
        ["expected a plain decimal number, got 1:16"],
    ),
    "octal size": (
        "- {rows: 1, cols", "- {rows: 010, cols", "13: sizes.degenerate[0].rows",
        ["expected a plain decimal number, got 010"],
    ),
    "no multiple in range": (
        "up_to: 2048", "up_to: 63", "10: sizes.aligned.cols",
        ["expected a multiple of 64 between 1 and 63"],
    ),
    "size rule misspelt": (
        "up_to: 2048", "upto: 2048", "10: sizes.aligned.cols",
        ["got 'upto', did you mean 'up_to'?"],
    ),
    "launches of an unknown class": (
        "sizes:\n", "launches_at: {raged: {rows: 1, cols: 2}}\nsizes:\n", "9: launches_at.raged",
        ["expected one of the size classes", "did you mean 'ragged'?"],
    ),
    "launches without a size": (
        "sizes:\n", "launches_at: {ragged: {rows: 1}}\nsizes:\n", "9: launches_at.ragged",
        ["expected the sizes rows, cols, got rows"],
    ),
    "size rule incomplete": (
        ", up_to: 2048", "", "10: sizes.aligned.cols", ["expected the key 'up_to'"],
    ),
    "no choices": (
        "one_of: [7, 3]", "one_of: []", "11: sizes.ragged.rows",
        ["at least one, got an empty list"],
    ),
    "class with other sizes": (
        "- {rows: 1, cols: [1, 2049]}", "- {rows: 1}", "13: sizes.degenerate[0]",
        ["expected the sizes rows, cols, as in the first class, got rows"],
    ),
    "class named performance": (
        "  aligned: {", "  performance: {", "10: sizes.performance", ["expected another name"],
    ),
    "size with a reserved name": (
        "aligned: {rows: [1, 16]", "aligned: {itemsize: 1, rows: [1, 16]",
        "10: sizes.aligned.itemsize", ["expected another name: 'itemsize' has a meaning"],
    ),
    "argument named as a size": (
        "name: out,", "name: rows,", "6: arguments.rows.name", ["'rows' is a size"],
    ),
    "argument named twice": (
        "name: scratch,", "name: out,", "7: arguments.out.name",
        ["each name once, got 'out' twice"],
    ),
    "argument with a name that is none": (
        "name: out,", "name: out-1,", "6: arguments.out-1.name", ["expected a name of letters"],
    ),
    "argument that is text": (
        "  - {name: scale, scalar: float, values: [1, 2.5]}", "  - scale", "8: arguments[4]",
        ["expected a mapping, got 'scale'"],
    ),
    "dtype that doesn't exist": (
        "dtypes: [float32, bfloat16]", "dtypes: [float32, bf16]", "22: variants.triton.dtypes[1]",
        ["expected one of float64, float32", "got 'bf16', did you mean 'bfloat16'?"],
    ),
    "dtype of a tensor without its $": (
        "shape: [rows], dtype: $dtype", "shape: [rows], dtype: dtype", "6: arguments.out.dtype",
        ["expected one of $dtype, float64", "did you mean '$dtype'?"],
    ),
    "dtype twice": (
        "dtypes: [float32, bfloat16]", "dtypes: [float32, float32]", "22: variants.triton.dtypes",
        ["expected each one once, got 'float32' twice"],
    ),
    "role that doesn't exist": (
        "role: output", "role: result", "6: arguments.out.role",
        ["expected one of input, output, inout, got 'result'"],
    ),
    "layout that doesn't exist": (
        "offset]", "offest]", "6: arguments.out.layout[1]", ["did you mean 'offset'?"],
    ),
    "padded vector": (
        "offset]", "row_padded]", "6: arguments.out.layout[1]",
        ["expected 2 dimensions or more for row_padded, got 1"],
    ),
    "transposed vector": (
        "offset]", "transposed]", "6: arguments.out.layout[1]",
        ["2 dimensions or more for transposed, got 1"],
    ),
    "no output": (
        "role: output, layout: [contiguous, offset]}\n  - {name: scratch, shape: [rows, 2 * cols], "
        "dtype: float32, role: inout}", "role: input}",
        "3: arguments", ["expected an argument with role: output or inout, got none"],
    ),
    "scalar of no kind": (
        "scalar: float", "scalar: double", "8: arguments.scale.scalar",
        ["expected one of bool, int, float, got 'double'"],
    ),
    "scalar beyond float32": (
        "values: [1, 2.5]", "values: [1, 1.0e+39]", "8: arguments.scale.values[1]",
        ["expected a finite number of float32, got 1e+39"],
    ),
    "1e-4 as text": (
        "values: [1, 2.5]", "values: [1, 1e-4]", "8: arguments.scale.values[1]",
        ["expected a finite number of float32, got '1e-4': write 1.0e-4: YAML reads 1e-4 as text"],
    ),
    "1e4 as text": (
        "tolerance: {factor: 3,", "tolerance: {factor: 1e1,", "16: tolerance.factor",
        ["expected a number >= 1, got '1e1': write 1.0e+1"],
    ),
    "number in quotes": (
        "tolerance: {factor: 3,", "tolerance: {factor: '3',", "16: tolerance.factor",
        ["got '3': write it without quotes"],
    ),
    "scalar that is a bool": (
        "values: [1, 2.5]", "values: [1, yes]", "8: arguments.scale.values[1]", ["got true"],
    ),
    "scalar not finite": (
        "values: [1, 2.5]", "values: [1, .nan]", "8: arguments.scale.values[1]", ["got nan"],
    ),
    "int scalar with a fraction": (
        "scalar: float", "scalar: int", "8: arguments.scale.values[1]",
        ["expected a whole number, got 2.5"],
    ),
    "unknown data pattern": (
        "data: [normal, large]", "data: [normal, giant]", "15: data[1]",
        ["expected one of normal, large, tiny, constant_rows, one_hot, far_below_zero, huge, "
         "any_bits, got 'giant'"],
    ),
    "data without brackets": (
        "data: [normal, large]", "data: normal", "15: data", ["expected a list, got 'normal'"],
    ),
    "negative factor": (
        "tolerance: {factor: 3,", "tolerance: {factor: -3,", "16: tolerance.factor", ["got -3"],
    ),
    "floor for no dtype": (
        "{float32: 8}", "{fp32: 8}", "41: variants.cuda_v1.tolerance.floor_ulps.fp32",
        ["expected one of float64", "got 'fp32'"],
    ),
    "no time": (
        "{seconds: 5}", "{seconds: 0}", "17: limits.seconds", ["expected a number > 0, got 0"],
    ),
    "negative points": (
        "ragged: 1.5", "ragged: -2", "23: variants.triton.points.ragged",
        ["expected a number >= 0, got -2"],
    ),
    "infinite points": (
        "ragged: 1.5", "ragged: .inf", "23: variants.triton.points.ragged", ["got inf"],
    ),
    "points for no class": (
        "ragged: 1.5", "raged: 1.5", "23: variants.triton.points.raged",
        ["(aligned, ragged, degenerate, memory, performance)", "did you mean 'ragged'?"],
    ),
    "a layout that C can't be told of": (
        "    layout: [contiguous, offset]", "    layout: [contiguous, row_padded]",
        "50: variants.cuda_v1.layout", ["expected contiguous or offset alone", "row_padded for x"],
    ),
    "CUDA with every layout": (
        "    layout: [contiguous, offset]\n", "", "35: variants.cuda_v1",
        ["expected contiguous or offset alone", "no strides"],
    ),
    "a layout no tensor has": (
        "    layout: [contiguous, offset]", "    layout: [offset]",
        "50: variants.cuda_v1.layout", ["one of x's layouts (contiguous, row_padded", "got offset"],
    ),
    "no points": (
        "{performance: 2, ragged: 1.5, aligned: 1}", "{}", "23: variants.triton.points",
        ["expected at least one entry"],
    ),
    "variant with an upper-case name": (
        "  cuda_v1:", "  CUDA-v1:", "35: variants.CUDA-v1", ["expected a lower-case name"],
    ),
    "variant without contents": (
        "variants:\n", "variants:\n  empty:\n", "19: variants.empty", ["a mapping, got nothing"],
    ),
    "variant given a name": (
        "  triton:\n", "  triton:\n    name: x\n", "20: variants.triton.name", ["named by its key"],
    ),
    "exercise given a name": (
        "title:", "name: x\ntitle:", "1: name", ["an exercise is named by its file"],
    ),
    "file elsewhere": (
        "file: row_sum.py", "file: ../row_sum.py", "20: variants.triton.file",
        ["without a folder, ending in .py or .cu, got '../row_sum.py'"],
    ),
    "entry that is no name": (
        "entry: row_sum\n    dtypes: [float32, b", "entry: def\n    dtypes: [float32, b",
        "21: variants.triton.entry", ["expected another name: 'def'"],
    ),
    "two variants, one entry": (
        "file: row_sum.cu", "file: row_sum.py", "37: variants.cuda_v1.entry",
        ["expected another function than variant 'triton' has in row_sum.py, got 'row_sum'"],
    ),
    "unknown argument of a variant": (
        "[out, x, cols, rows]", "[out, x, cols, row]", "39: variants.cuda_v1.arguments[3]",
        ["expected one of x, steps, out", "got 'row', did you mean 'rows'?"],
    ),
    "argument of a variant twice": (
        "[out, x, cols, rows]", "[out, x, x]", "39: variants.cuda_v1.arguments",
        ["expected each one once, got 'x' twice"],
    ),
    "variant without an output": (
        "[out, x, cols, rows]", "[x, cols, rows]", "39: variants.cuda_v1.arguments",
        ["expected an output among them"],
    ),
    "performance without points": (
        "{performance: 2, ragged", "{ragged", "24: variants.triton.performance",
        ["expected points for 'performance', got none"],
    ),
    "points without thresholds": (
        "thresholds:\n        - {speed_vs: copy, at_least: 0.9, points: 2}\n"
        "        - {milliseconds: {gpu: H100, at_most: 0.5}, points: 1.5}\n"
        "        - {speed_vs: torch, at_least: 1, points: 1}\n"
        "        - {speed_vs: copy, at_least: 0.5, points: 0.5}\n"
        "        - {milliseconds: {gpu: H100, at_most: 0.8}, points: 0.25}\n",
        "beside: false\n", "24: variants.triton.performance",
        ["expected thresholds, which the points are for, got none"],
    ),
    "points without performance": (
        "{ragged: 1, memory: 3}", "{ragged: 1, memory: 3, performance: 1}",
        "40: variants.cuda_v1.points.performance", ["expected a block 'performance'"],
    ),
    "memory without points": (
        "{ragged: 1, memory: 3}", "{ragged: 1}", "43: variants.cuda_v1.memory",
        ["expected points for 'memory', got none"],
    ),
    "performance case without a size": (
        "case: {rows: 8192, cols: 16384, ", "case: {rows: 8192, ",
        "25: variants.triton.performance.case", ["expected rows, cols, dtype, got no cols"],
    ),
    "performance case without a dtype": (
        "dtype: bfloat16, data", "data", "25: variants.triton.performance.case", ["got no dtype"],
    ),
    "performance case in another dtype": (
        "dtype: bfloat16, data", "dtype: float16, data",
        "25: variants.triton.performance.case.dtype",
        ["expected one of float32, bfloat16, got 'float16'"],
    ),
    "performance case of another pattern": (
        "data: normal, scale", "data: norm, scale", "25: variants.triton.performance.case.data",
        ["did you mean 'normal'?"],
    ),
    "performance case with an unknown word": (
        "scale: 1.5}", "scal: 1.5}", "25: variants.triton.performance.case.scal",
        ["expected one of rows, cols, dtype, data, scale, got 'scal', did you mean 'scale'?"],
    ),
    "performance case with a wrong scalar": (
        "scale: 1.5}", "scale: 1e-5}", "25: variants.triton.performance.case.scale",
        ["write 1.0e-5"],
    ),
    "one of several performance cases with an unknown word": (
        "case: {rows: 8192, cols: 16384, dtype: bfloat16, data: normal, scale: 1.5}",
        "cases: [{rows: 8192, cols: 16384, dtype: float32}, {rows: 1, cols: 4, dtyp: float32}]",
        "25: variants.triton.performance.cases[1]",
        ["expected rows, cols, dtype, got no dtype"],
    ),
    "one of several performance cases that moves nothing": (
        "case: {rows: 8192, cols: 16384, dtype: bfloat16, data: normal, scale: 1.5}\n"
        "      bytes: rows * (cols + 1) * itemsize",
        "cases: [{rows: 9, cols: 4, dtype: float32}, {rows: 1, cols: 4, dtype: float32}]\n"
        "      bytes: rows - 1", "26: variants.triton.performance.bytes",
        ["expected a number > 0, got rows - 1 = 0"],
    ),
    "performance with a case and cases": (
        "case: {rows: 8192", "cases: [{rows: 1, cols: 1, dtype: float32}]\n      case: {rows: 8192",
        "24: variants.triton.performance", ["expected one of case and cases"],
    ),
    "performance without a case": (
        "      case: {rows: 8192, cols: 16384, dtype: bfloat16, data: normal, scale: 1.5}\n", "",
        "24: variants.triton.performance", ["expected one of case and cases"],
    ),
    "memory_pressure in CUDA C++": (
        "    memory:\n",
        "    memory:\n      memory_pressure: {case: {rows: 9, cols: 9}, leaves: rows}\n",
        "44: variants.cuda_v1.memory.memory_pressure",
        ["expected what is counted in CUDA C++ alone, got memory_pressure"],
    ),
    "performance case of size zero": (
        "case: {rows: 8192", "case: {rows: 0", "25: variants.triton.performance.case.rows",
        ["expected a size >= 1, got 0"],
    ),
    "performance case with a list": (
        "case: {rows: 8192", "case: {rows: [1, 2]", "25: variants.triton.performance.case.rows",
        ["expected one value, got a list"],
    ),
    "bytes of an unknown name": (
        "(cols + 1) * itemsize", "(cols + 1) * itemsizes", "26: variants.triton.performance.bytes",
        ["expected one of the names rows, cols, itemsize, "
         "got 'itemsizes', did you mean 'itemsize'?"],
    ),
    "bytes divided by zero": (
        "(cols + 1) * itemsize", "(cols + 1) / 0", "26: variants.triton.performance.bytes",
        ["division by zero"],
    ),
    "negative bytes": (
        "(cols + 1) * itemsize", "(1 - cols)", "26: variants.triton.performance.bytes",
        ["expected a number > 0"],
    ),
    "thresholds of one baseline out of order": (
        "{speed_vs: copy, at_least: 0.5", "{speed_vs: copy, at_least: 0.95",
        "33: variants.triton.performance.thresholds[3].at_least",
        ["expected less than 0.9", "against copy, got 0.95"],
    ),
    "thresholds in milliseconds out of order": (
        "at_most: 0.8", "at_most: 0.5",
        "34: variants.triton.performance.thresholds[4].milliseconds.at_most",
        ["expected more than 0.5", "on H100, got 0.5"],
    ),
    "points of thresholds out of order": (
        "at_least: 1, points: 1}", "at_least: 1, points: 1.5}",
        "32: variants.triton.performance.thresholds[2].points",
        ["expected fewer points than the threshold before gives (1.5), got 1.5"],
    ),
    "first threshold short of the points": (
        THRESHOLD, "{speed_vs: copy, at_least: 0.9, points: 1.75}",
        "30: variants.triton.performance.thresholds[0].points",
        ["expected 2, the variant's points for performance, got 1.75"],
    ),
    "unknown baseline": (
        "speed_vs: torch", "speed_vs: numpy",
        "32: variants.triton.performance.thresholds[2].speed_vs",
        ["expected one of copy, torch, compile, reference, roofline, got 'numpy'"],
    ),
    "threshold of no kind": (
        THRESHOLD, "{points: 2}", "30: variants.triton.performance.thresholds[0]",
        ["expected one of speed_vs and milliseconds"],
    ),
    "threshold without a bound": (
        THRESHOLD, "{speed_vs: copy, points: 2}", "30: variants.triton.performance.thresholds[0]",
        ["expected at_least beside speed_vs"],
    ),
    "linear points that fall": (
        "{speed_vs: copy, at_least: 0.5", "{speed_vs: copy, from: 0.5, at_least: 0.5",
        "33: variants.triton.performance.thresholds[3]",
        ["expected from below at_least (0.5), got 0.5"],
    ),
    "linear points too steep for a step": (
        "{speed_vs: copy, at_least: 0.5", "{speed_vs: copy, from: 0.49, at_least: 0.5",
        "33: variants.triton.performance.thresholds[3]",
        ["expected from at 0.48 or less, a step of 4 % below at_least (0.5), got 0.49"],
    ),
    "linear points in milliseconds": (
        "{milliseconds: {gpu: H100, at_most: 0.8}, ",
        "{milliseconds: {gpu: H100, at_most: 0.8}, from: 1.2, ",
        "34: variants.triton.performance.thresholds[4]",
        ["expected from beside speed_vs and at_least, got it beside milliseconds"],
    ),
    "linear points from nothing": (
        "{speed_vs: copy, at_least: 0.5", "{speed_vs: copy, from: 0, at_least: 0.5",
        "33: variants.triton.performance.thresholds[3].from", ["expected a number > 0, got 0"],
    ),
    "linear points before others": (
        "{speed_vs: copy, at_least: 0.5", "{speed_vs: copy, from: 0.3, at_least: 0.5",
        "33: variants.triton.performance.thresholds[3].from",
        ["expected linear points in the last threshold alone", "got 1 more after it"],
    ),
    "linear points misspelt": (
        "{speed_vs: copy, at_least: 0.5", "{speed_vs: copy, form: 0.3, at_least: 0.5",
        "33: variants.triton.performance.thresholds[3].form",
        ["expected one of the keys speed_vs, from, at_least", "did you mean 'from'?"],
    ),
    "thresholds by the name of the field": (
        "      thresholds:", "      by_gpu:",
        "29: variants.triton.performance.by_gpu",
        ["expected one of the keys case, cases, bytes, flops, thresholds, device, beside, got"],
    ),
    "performance case that is over at once": (
        "cols: 16384, dtype: bfloat16, data", "cols: 128, dtype: bfloat16, data",
        "25: variants.triton.performance.case",
        ["expected a case of 50 us or more on the H100 at its peaks", "us: make it larger"],
    ),
    "one of several performance cases that is over at once": (
        "case: {rows: 8192, cols: 16384, dtype: bfloat16, data: normal, scale: 1.5}",
        "cases: [{rows: 8192, cols: 16384, dtype: float32}, {rows: 1, cols: 1, dtype: float32}]",
        "25: variants.triton.performance.cases[1]", ["a case of 50 us or more on the H100"],
    ),
    "performance case too short, with a GPU that nobody knows": (
        "(cols + 1) * itemsize\n      flops: rows * cols\n      device: H100",
        "1\n      flops: rows * cols\n      device: another",
        "25: variants.triton.performance.case", ["50 us or more on the H100"],
    ),
    "memory bound in the bad direction": (
        "{load: {at_least: 30}", "{load: {at_most: 30}",
        "45: variants.cuda_v1.memory.useful_bytes_per_sector.load.at_most", ["expected at_least"],
    ),
    "conflicts bounded from below": (
        "conflicts: {at_most: 0}", "conflicts: {at_least: 0}",
        "46: variants.cuda_v1.memory.shared_bank_conflicts.at_least", ["expected at_most"],
    ),
    "share bounded from below": (
        "copies: {at_most: 1}", "largest_share: {at_least: 0.1}",
        "47: variants.cuda_v1.memory.largest_share.at_least", ["expected at_most"],
    ),
    "requests bounded from below": (
        "copies: {at_most: 1}", "requests: {at_least: rows}",
        "47: variants.cuda_v1.memory.requests.at_least", ["expected at_most"],
    ),
    "efficiency bounded from above": (
        "copies: {at_most: 1}", "simt_efficiency: {at_most: 0.5}",
        "47: variants.cuda_v1.memory.simt_efficiency.at_most", ["expected at_least"],
    ),
    "share of more than all": (
        "copies: {at_most: 1}", "largest_share: {at_most: 64 / rows + 0.5}",
        "47: variants.cuda_v1.memory.largest_share.at_most",
        ["expected a share from 0 to 1, got 64 / rows + 0.5 = 1.5"],
    ),
    "blocks bounded from both sides": (
        "copies: {at_most: 1}", "blocks: {at_least: sms, at_most: rows * sms}",
        "47: variants.cuda_v1.memory.blocks.at_most", ["expected one of at_least and at_most"],
    ),
    "name in a bound that nobody knows": (
        "copies: {at_most: 1}", "blocks: {at_least: sm}",
        "47: variants.cuda_v1.memory.blocks.at_least",
        ["expected one of the names", "sms", "got 'sm'"],
    ),
    "empty bound": (
        "copies: {at_most: 1}", "copies: {}", "47: variants.cuda_v1.memory.copies",
        ["expected at_least or at_most, got neither"],
    ),
    "reads of no tensor": (
        "reads: {x:", "reads: {y:", "49: variants.cuda_v1.memory.reads.y",
        ["expected one of x, got"],
    ),
    "key twice": (
        "summary:", "title: again\nsummary:", "1: title", ["each key once, got it again on line 2"],
    ),
    "key twice in a flow mapping": (
        "ragged: 1.5", "ragged: 1.5, ragged: 2", "23: variants.triton.points.ragged",
        ["each key once, got it again on line 23"],
    ),
    "key that isn't text": (
        "  aligned: {", "  on: {", "10: sizes.on", ["expected text as key"],
    ),
    "YAML that isn't": (
        "dtypes: [float32]\n", "dtypes: [float32\n", "39", ["can't be read as YAML"],
    ),
    "tab": ("summary:", "\tsummary:", "2", ["can't be read as YAML", "'\\t'"]),
    "forbidden character": ("One sum", "One \x07 sum", "2", ["can't be read as YAML"]),
    "Python object": (
        "title: Row", "title: !!python/name:os.system Row", "1", ["can't be read as YAML"],
    ),
    "endless alias": ("title: Row sums", "title: &a [*a]", "1", ["alias"]),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_with_file_line_key_and_both_sides(write, name):
    old, new, place, fragments = MISTAKES[name]
    assert SPEC.count(old) >= 1, "the edit no longer fits the spec above"

    with pytest.raises(SpecError) as caught:
        load(write(SPEC.replace(old, new, 1)))

    lines = [
        line for line in str(caught.value).splitlines() if f":{place}:" in f"{line}:" or not place
    ]
    assert lines, f"no line at {place!r}:\n{caught.value}"
    for fragment in fragments:
        assert fragment in lines[0]
    assert all(line.startswith("row_sum.yaml:") for line in str(caught.value).splitlines())
    assert len(caught.value.mistakes) <= 2


def places(value, path=()):
    """Every path of nested mappings and lists, the empty one for the whole."""
    yield path
    if isinstance(value, (dict, list)):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, step))


JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 3, 2.5, 2**70, "", "rows", "rows / 0", "1e-4", "x y", "$dtype", "float32",
    [], [1], ["rows", "nope"], [[]], [{}], {}, {"rows": 1}, {"at_least": "cols"}, {"name": "x"},
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_stands_anywhere_a_spec_is_read_or_refused_in_lines(scratch_file, data):
    content = yaml.safe_load(SPEC)
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from([path for path in places(content) if path]))
        holder = functools.reduce(operator.getitem, path[:-1], content)
        if data.draw(st.booleans()):
            del holder[path[-1]]
        else:
            holder[path[-1]] = copy.deepcopy(data.draw(st.sampled_from(JUNK)))
    scratch_file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")

    try:
        exercise = load(scratch_file)
    except SpecError as error:
        assert all(line.startswith("row_sum.yaml") for line in error.mistakes)
        assert all("expected" in line and "\n" not in line for line in error.mistakes)
    else:
        for variant in exercise.variants.values():
            assert exercise.outputs(variant)


def test_all_mistakes_are_found_and_stand_in_the_order_of_the_file(write):
    text = SPEC.replace("role: output", "role: result").replace("rows: [1, 16]", "rows: 0")
    text = text.replace("ragged: 1.5", "ragged: -2").replace("title: Row sums", "title: 3")

    with pytest.raises(SpecError) as caught:
        load(write(text))

    assert [line.split(": ")[:2] for line in str(caught.value).splitlines()] == [
        ["row_sum.yaml:1", "title"],
        ["row_sum.yaml:6", "arguments.out.role"],
        ["row_sum.yaml:10", "sizes.aligned.rows"],
        ["row_sum.yaml:14", "sizes.degenerate[1].rows"],
        ["row_sum.yaml:23", "variants.triton.points.ragged"],
    ]


def test_a_long_list_of_mistakes_is_cut_short_and_says_so(write):
    dtypes = ", ".join(f"float{index}" for index in range(100, 100 + MAX_LINES + 3))

    with pytest.raises(SpecError) as caught:
        load(write(SPEC.replace("dtypes: [float32]", f"dtypes: [{dtypes}]")))

    assert len(caught.value.mistakes) == MAX_LINES + 3
    assert len(str(caught.value).splitlines()) == MAX_LINES + 1
    assert str(caught.value).endswith("and 3 more")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a mapping (title: ...), got an empty file"),
        ("# nothing yet\n", "got an empty file"),
        ("- title: x\n", "got a list"),
        ("RMSNorm\n", "got one value"),
        ("title: 2020-13-45\n", "a value can't be read"),
        ("[" * 3000, "nested too deeply"),
        ("a: 1\n---\nb: 2\n", "row_sum.yaml:2: can't be read as YAML"),
    ],
)
def test_a_file_that_is_no_mapping_says_what_it_is(write, text, message):
    with pytest.raises(SpecError) as caught:
        load(write(text))

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_missing_or_not_text_says_so(tmp_path):
    with pytest.raises(SpecError, match=r"gone\.yaml: can't be read: No such file"):
        load(tmp_path / "gone.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"title: \xff\xfe")
    with pytest.raises(SpecError, match=r"binary\.yaml: can't be read: not UTF-8"):
        load(tmp_path / "binary.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(SpecError, match=r"pipe\.yaml: can't be read: expected a file, got a pipe"):
        load(tmp_path / "pipe.yaml")


def test_a_memory_case_needs_a_dtype_only_where_there_are_several(write):
    text = SPEC.replace("dtypes: [float32]", "dtypes: [float32, float16]")

    with pytest.raises(SpecError, match=r"memory\.case: expected rows, cols, dtype, got no dtype"):
        load(write(text))


# --- many files ----------------------------------------------------------------------------------


def test_a_folder_is_read_sorted_by_name(write, tmp_path):
    for name in ("zeta.yaml", "alpha.yaml"):
        write(SPEC, name)
    write("not a spec", "notes.txt")

    assert list(load_all(tmp_path)) == ["alpha", "zeta"]


@pytest.mark.parametrize(
    ("stems", "message"),
    [
        (["float64"], "'float64' is a word in the names of tests"),
        (["performance"], "'performance' is a word in the names of tests, and"),
        (["cuda_v1", "other"], "'cuda_v1' is a variant of other.yaml"),
        (["ragged", "other"], "'ragged' is a size class of other.yaml"),
        (["RowSum"], "RowSum.yaml: expected a lower-case name of letters, digits and _"),
        (["row-sum"], "row-sum.yaml: expected a lower-case name of letters, digits and _"),
    ],
)
def test_a_name_by_which_pytest_k_selects_other_tests_is_refused(write, tmp_path, stems, message):
    for stem in stems:
        write(SPEC, f"{stem}.yaml")

    with pytest.raises(SpecError) as caught:
        load_all(tmp_path)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_may_stand_within_another_one(write, tmp_path):
    for stem in ("gemm", "batched_gemm", "test_sum", "rag"):
        write(SPEC, f"{stem}.yaml")
    assert list(load_all(tmp_path)) == ["batched_gemm", "gemm", "rag", "test_sum"]


def test_the_exercises_of_right_specs_come_with_the_mistakes_of_the_others(write, tmp_path):
    write(SPEC.replace("title:", "titel:"), "first.yaml")
    write(SPEC, "second.yaml")
    (tmp_path / "course.yaml").write_text("order: [second, first]\n")
    with pytest.raises(SpecError, match="did you mean 'title'") as caught:
        load_all(tmp_path)
    assert list(caught.value.right) == ["second"]


def test_a_folder_tells_the_mistakes_of_all_its_files(write, tmp_path):
    write(SPEC.replace("title:", "titel:"), "first.yaml")
    write(SPEC.replace("ragged: 1.5", "ragged: -2"), "second.yaml")
    write(SPEC, "third.yml")

    with pytest.raises(SpecError) as caught:
        load_all(tmp_path)

    assert {line.split(":")[0] for line in caught.value.mistakes} == {
        "first.yaml",
        "second.yaml",
        "third.yml",
    }


def test_a_folder_without_specs_says_so(tmp_path):
    with pytest.raises(SpecError, match=r"expected at least one \.yaml file, got none"):
        load_all(tmp_path)
    with pytest.raises(SpecError, match="expected a folder of specs"):
        load_all(tmp_path / "gone")


# --- the exercises of this course ----------------------------------------------------------------


def test_silu_is_what_the_handout_promises():
    silu = load(EXERCISES / "silu.yaml")
    triton = silu.variants["triton"]

    assert [each.name for each in silu.signature(triton)] == ["x", "out"]
    assert silu.arguments[0].layout == ("contiguous", "offset")
    assert silu.tolerance_of(triton).magnitude == "oracle"
    assert triton.size_classes == ("aligned", "ragged", "degenerate")
    assert triton.max_points == 3


def test_rmsnorm_is_what_the_handout_promises():
    rmsnorm = load(EXERCISES / "rmsnorm.yaml")
    triton = rmsnorm.variants["triton"]

    assert [each.name for each in rmsnorm.signature(triton)] == ["x", "weight", "out", "eps"]
    assert {each.name: each.layout for each in rmsnorm.arguments[:3]} == {
        "x": ("contiguous", "row_padded"),
        "weight": ("contiguous",),
        "out": ("contiguous", "row_padded"),
    }
    assert rmsnorm.arguments[3].values == (1e-6, 1e-5)
    assert triton.max_points == 6


def test_degenerate_rmsnorm_cases_have_one_row_or_one_column():
    alternatives = load(EXERCISES / "rmsnorm.yaml").sizes["degenerate"]
    for rules in alternatives:
        assert any(rules[name] == SizeRule(low=1, high=1) for name in ("rows", "cols"))
    # More than an H100 runs blocks of 128 threads at a time: a block may take several in turn.
    assert alternatives[-1]["rows"].low > 132 * 2048 // 128


@pytest.mark.parametrize("name", load_all())
def test_every_exercise_moves_the_bytes_of_its_tensors(name):
    """The bytes of a performance case are at least those of its inputs and outputs, once each."""
    exercise = load_all()[name]
    timed = [
        (variant, case)
        for variant in exercise.variants.values()
        if variant.performance
        for case in variant.performance.every_case
    ]
    for variant, case in timed:
        sizes = {size: case[size] for size in exercise.sizes_names}
        itemsize = ITEMSIZE[case["dtype"]]
        moved = 0
        for tensor in (*exercise.inputs(variant), *exercise.outputs(variant)):
            count = 1
            for extent in tensor.concrete_shape(sizes):
                count *= extent
            moved += count * ITEMSIZE[tensor.concrete_dtype(case["dtype"])]
        counted = variant.performance.bytes.evaluate({**sizes, "itemsize": itemsize})
        assert counted == pytest.approx(moved, rel=1e-3)


# --- specs of before ------------------------------------------------------------------------------


def test_memory_pressure_is_read_by_its_old_word_too(tmp_path):
    now = EXERCISES / "flash_attention.yaml"
    before = tmp_path / now.name
    text = now.read_text(encoding="utf-8")
    before.write_text(text.replace("memory_pressure:", "ballast:"), encoding="utf-8")
    assert "ballast:" in before.read_text(encoding="utf-8")
    exercise = load(before)
    assert exercise == load(now)
    assert exercise.variants["triton"].memory.memory_pressure.leaves.names == {"N_CTX", "N_KV"}


def test_a_mistake_below_the_old_word_is_told_with_its_line(tmp_path):
    text = (EXERCISES / "flash_attention.yaml").read_text(encoding="utf-8")
    text = text.replace("memory_pressure:", "ballast:").replace("leaves: N_CTX * N_KV", "leaves: x")
    path = tmp_path / "flash_attention.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load(path)
    [mistake] = caught.value.mistakes
    assert "memory" in mistake and "expected one of the names" in mistake and "got 'x'" in mistake
