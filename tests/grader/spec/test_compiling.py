"""`compile` and the entries of dtypes in a spec: what is read, and the line of each mistake."""

from __future__ import annotations

import pytest

from grader.spec import Course, SpecError, load

SPEC = """\
title: Scale
arguments:
  - {name: x, shape: [n], dtype: $dtype}
  - {name: out, shape: [n], dtype: $dtype, role: output}
sizes: {ragged: {n: [1, 300]}}
variants:
  triton: {file: scale.py, entry: scale, dtypes: [float32], points: {ragged: 1}}
  cuda:
    file: launcher.cu
    entry: {float32: scale_f32, float16: scale_f16}
    arguments: [x, out, n]
    dtypes: [float32, float16]
    points: {ragged: 2}
    compile:
      files: [kernel.cu, helper.cuh]
      headers: [blocks.cuh]
      flags: [-D TILE=16, -DDEBUG, --use_fast_math, --maxrregcount 64]
"""


@pytest.fixture
def read(tmp_path):
    """Reads the spec above with one part of its text replaced."""

    def reader(old: str = "", new: str = ""):
        assert old in SPEC
        path = tmp_path / "scale.yaml"
        path.write_text(SPEC.replace(old, new, 1) if old else SPEC, encoding="utf-8")
        return load(path)

    return reader


def test_files_flags_and_entries_are_read(read):
    variant = read().variants["cuda"]
    assert variant.files == ("launcher.cu", "kernel.cu", "helper.cuh")
    assert variant.compile.definitions == ("TILE 16", "DEBUG 1")
    assert variant.compile.options == ("-use_fast_math", "-maxrregcount=64")
    assert variant.all_entries == ("scale_f32", "scale_f16")
    assert variant.of_dtype("float16").entry == "scale_f16"
    assert variant.of_dtype("float16").dtypes == ("float16",)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("-D TILE=16", "-Xcompiler=-fplugin=a.so", 17, "expected one of the flags -D NAME, "),
        ("-D TILE=16", "-D tile=16", 17, "-D NAME=VALUE, -use_fast_math, --maxrregcount=NUMBER"),
        ("-D TILE=16", "'-D T=1\\n#include'", 17, "expected one of the flags"),
        ("maxrregcount 64", "maxrregcount 8", 17, "expected 16 to 255 registers"),
        ("helper.cuh]", "../helper.cuh]", 15, "without a folder, ending in .cu, .cuh or .h"),
        ("helper.cuh]", "launcher.cu]", 15, "expected each file once, got 'launcher.cu' again"),
        ("blocks.cuh]", "helper.cuh]", 16, "expected each file once, got 'helper.cuh' again"),
        ("blocks.cuh]", "blocks.cu]", 16, "without a folder, ending in .cuh or .h"),
        ("files:", "file:", 15, "expected one of the keys files, headers, flags"),
        ("float16: scale_f16", "bfloat16: scale_f16", 10, "a name for each of float32, float16"),
        ("float16: scale_f16", "half: scale_f16", 10, "expected one of float64, float32"),
        ("float16: scale_f16", "float16: scale_f32", 10, "another function for each dtype"),
        ("float16: scale_f16", "float16: 2f", 10, "expected a name of letters, digits and _"),
        ("entry: scale,", "entry: {float32: scale},", 7, "a Triton function takes every dtype"),
        (
            "points: {ragged: 1}",
            "points: {ragged: 1}, compile: {flags: [-DA]}",
            7,
            "CUDA C++ alone",
        ),
    ],
)
def test_a_mistake_has_its_line_and_says_what_is_allowed(read, old, new, line, words):
    with pytest.raises(SpecError) as raised:
        read(old, new)
    text = str(raised.value)
    assert text.startswith(f"scale.yaml:{line}: ")
    assert words in text


def test_a_file_is_compiled_in_one_way_in_all_exercises(tmp_path):
    folder = tmp_path / "exercises"
    folder.mkdir()
    (tmp_path / "course.yaml").write_text("title: Two\n", encoding="utf-8")
    (folder / "scale.yaml").write_text(SPEC, encoding="utf-8")
    other = SPEC.replace("scale_f", "shift_f").replace(
        "scale.py, entry: scale", "shift.py, entry: s"
    )
    (folder / "shift.yaml").write_text(other, encoding="utf-8")
    assert set(Course(tmp_path).exercises) == {"scale", "shift"}
    (folder / "shift.yaml").write_text(other.replace("TILE=16", "TILE=32"), encoding="utf-8")
    with pytest.raises(SpecError, match=r"shift\.yaml:14: variants\.cuda\.compile: expected the"):
        Course(tmp_path).exercises  # noqa: B018
