"""handout.md's tables follow from the specs; a handout without a place for them gets one line."""

from __future__ import annotations

import math
import re

import pytest

from grader.mistakes import Mistake
from grader.spec import Exercise, load, load_all
from grader.staff import handout
from tests.support import documents
from tests.support.commandline import call, one_line, work_on
from tests.support.small_exercise import ROOT

EXERCISES = load_all()

SPEC = """\
title: Both
arguments:
  - {name: x, shape: [rows, cols], dtype: $dtype}
  - {name: out, shape: [rows, cols], dtype: $dtype, role: output}
sizes:
  aligned: {rows: {one_of: [16, 64, 128]}, cols: {multiple_of: 64, from: 128, up_to: 1024}}
  ragged:
    - {rows: [1, 40], cols: 7}
    - {rows: 1, cols: [1, 9]}
variants:
  triton:
    file: both.py
    entry: both
    dtypes: [float32, bfloat16]
    points: {aligned: 1.5, ragged: 2, memory: 0.5, performance: 3}
    memory:
      case: {rows: 64, cols: 128, dtype: float32}
      useful_bytes_per_sector: {load: {at_least: 30}, store: {at_least: 28}}
      reads: {x: {at_most: "ceil_div(cols, 64)"}}
      scratch_bytes: {at_most: 0}
      growth: {sizes: [rows, cols], tile: {at_most: 1}, scratch: {at_most: 4}}
      most_traffic: 3
      wave_bytes: {programs: 8, distinct: {at_most: 4096}, to_row_major: {at_most: 0.5}}
    performance:
      case: {rows: 8192, cols: 8192, dtype: bfloat16}
      bytes: 2 * rows * cols * itemsize
      thresholds:
        - {speed_vs: copy, at_least: 0.9, points: 3}
        - {milliseconds: {gpu: NVIDIA H100 80GB HBM3, at_most: 0.5}, points: 1}
        - {speed_vs: roofline, from: 0.25, at_least: 0.5, points: 0.5}
  cuda:
    file: both.cu
    entry: both
    arguments: [x, out, rows, cols]
    dtypes: [float32]
    points: {aligned: 0.25, memory: 0.75}
    memory:
      case: {rows: 64, cols: 64}
      shared_bank_conflicts: {at_most: 0}
      copies: {at_most: 4}
      largest_share: {at_most: 0.1}
      requests: {at_most: rows * cols}
      blocks: {at_least: sms // 4}
      simt_efficiency: {at_least: 0.5}
      scratch_stores: {at_most: "2 * rows * cols"}
      bytes_copied: {at_most: 2 * rows * 4}
  bonus:
    bonus: true
    file: extra.cu
    entry: both
    arguments: [x, out, rows, cols]
    dtypes: [float32]
    points: {aligned: 0.5}
"""

EMPTY = """\
# Text

<!-- overview: made by make handout -->
<!-- /overview -->

## both

Before.

<!-- points of both: made by make handout -->
stale
<!-- /points of both -->

After.
"""


@pytest.fixture(scope="module")
def exercises(tmp_path_factory) -> dict[str, Exercise]:
    path = tmp_path_factory.mktemp("specs") / "both.yaml"
    path.write_text(SPEC, encoding="utf-8")
    return {"both": load(path)}


def test_the_handout_is_what_the_specs_say():
    text = documents.read("handout.md")
    assert handout.difference(text, EXERCISES) == ""
    assert handout.render(text, EXERCISES) == text


def test_every_point_size_bound_and_threshold_is_told(exercises):
    made = handout.render(EMPTY, exercises)
    lines = " ".join(made.split())
    for told in (
        "| `triton` | `both.py` | float32, bfloat16 | 1.5 | 2 | 0.5 | 3 | 7 |",
        "| `cuda` | `both.cu` | float32 | 0.25 | | 0.75 | | 1 |",
        "- aligned: rows 16, 64 or 128, cols a multiple of 64 from 128 up to 1024",
        "- ragged: rows 1 to 40, cols 7; or rows 1, cols 1 to 9",
        "- `triton`, rows = 64, cols = 128, float32: useful bytes per sector of loads at least 30 "
        "of 32; useful bytes per sector of stores at least 28 of 32;",
        "each element of `x` read at most `ceil_div(cols, 64)` times; bytes allocated at most 0;",
        "distinct bytes that 8 consecutive programs load at most 4096;",
        "load at most 0.5 of those in row-major order;",
        "for `rows` and `cols` times 4, the largest block times at most 1;",
        "for `rows` and `cols` times 4, the bytes of scratch memory, and those stored to it, times "
        "at most 4;",
        "traffic at most 3 times what is needed",
        "- `cuda`, rows = 64, cols = 64: bank conflicts at most 0; copies between host and device "
        "at most 4; bytes copied at most `2 * rows * 4`; bytes stored beside the arguments at most "
        "`2 * rows * cols`; the busiest thread's share of the bytes at most 0.1; requests to "
        "global memory at most `rows * cols`; blocks of the largest launch at least `sms // 4`; "
        "share of a warp's threads in accesses to memory at least 0.5",
        "| `bonus` (bonus) | `extra.cu` | float32 | 0.5 | | | | 0.5 |",
        "- `triton`, rows = 8192, cols = 8192, bfloat16: 3 points for 0.90 of a copy's speed; "
        "1 point for 0.5 ms on an NVIDIA H100 80GB HBM3; 0.5 points for 0.50 of the roofline, in "
        "10 steps from 0 at 0.25",
        "| [both](#both) | 7 | 1 | 8 | 3 |",
        "8 points in all. 3 of them are for speed and need a GPU; 5 can be earned and seen on any "
        "laptop. On top there is a bonus: for `both/bonus` 0.5.",
    ):
        assert told in lines
    assert "stale" not in made
    assert made.startswith("# Text\n\n<!-- overview")
    assert made.endswith("<!-- /points of both -->\n\nAfter.\n")
    assert max(len(line) for line in made.splitlines() if not line.startswith("|")) <= 110


def test_a_table_that_is_up_to_date_stays_as_it_is(exercises):
    made = handout.render(EMPTY, exercises)
    assert handout.render(made, exercises) == made
    assert handout.difference(made, exercises) == ""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("| 8 | 3 |", "| 9 | 3 |", "handout.md:7: expected '| [both](#both) | 7 | 1 | 8 | 3 |',"),
        (" | 8 | 3 |", " | 8 | 3 |  ", "handout.md:7: expected"),
        ("\nAfter.\n", "\nAfter.", "handout.md: the end of the file differs"),
        ("\n<!-- /points of both -->", "<!-- /points of both -->", "handout.md:"),
    ],
)
def test_the_first_difference_is_told_with_its_line(exercises, old, new, said):
    made = handout.render(EMPTY, exercises)
    told = handout.difference(made.replace(old, new, 1), exercises)
    assert told.startswith(said)
    assert told.endswith("`grader handout` mends it")
    assert "\n" not in told


BEGIN, END = "<!-- points of both: made by make handout -->", "<!-- /points of both -->"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("## both", "## bath", "expected a section '## both' for the exercise of both.yaml, there"),
        ("After.", "## both", "handout.md:14: a second section both, the first is in line 6"),
        (f"{BEGIN}\nstale\n{END}\n", "", f"handout.md: expected the lines '{BEGIN}' and '{END}'"),
        (BEGIN + "\n", "", "handout.md:11: expected a beginning before an end, got"),
        (END + "\n", "", f"handout.md:10: expected '{END}' below, there is none"),
        ("After.", f"{BEGIN}\n{END}", "handout.md:14: expected 'points of both' once, got it agai"),
        ("stale", BEGIN, f"handout.md:11: expected '{END}' for line 10, got"),
        ("stale", "<!-- /overview -->", f"handout.md:11: expected '{END}', got"),
        ("points of both", "points of bath", "handout.md:10: expected an exercise, one of both; g"),
        ("<!-- /overview -->\n", f"<!-- /overview -->\n{BEGIN}\n{END}\n", "in the section '## bo"),
        ("<!-- /overview -->", "", "expected '<!-- /overview -->' for line 3"),
    ],
)
def test_a_missing_doubled_or_misplaced_marker_gets_one_line(exercises, old, new, said):
    with pytest.raises(Mistake) as error:
        handout.render(EMPTY.replace(old, new), exercises)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_the_order_of_the_sections_is_that_of_the_overview():
    text = documents.read("handout.md")
    table = text[text.index("<!-- overview") : text.index("<!-- /overview")]
    sections = [name for name in re.findall(r"^## (\w+)$", text, re.M) if name in EXERCISES]
    assert re.findall(r"\(#(\w+)\)", table) == sections
    hours = re.findall(r"^\| \d \| \[(\w+)\]\(#\w+\) \|.*\| (\d+) \|$", text, re.M)
    assert [name for name, _ in hours] == sections
    assert f"the reading included: {sum(int(each) for _, each in hours)} in all" in text


def test_the_command_writes_the_handout_and_check_only_asks(tmp_path, monkeypatch, capsys):
    text = documents.read("handout.md")
    stale = text.replace("points in all.", "points, more or less.")
    assert stale != text
    path = tmp_path / "handout.md"
    path.write_text(stale, encoding="utf-8")
    work_on(monkeypatch, load_all, tmp_path)

    refused = call(capsys, "handout", "--check")
    assert refused.code == 2 and "`grader handout` mends it" in refused.err
    assert path.read_text(encoding="utf-8") == stale
    done = call(capsys, "handout")
    assert (done.code, done.out) == (0, "handout.md written\n")
    assert path.read_text(encoding="utf-8") == text
    assert call(capsys, "handout", "--check").code == 0

    path.write_text(text.replace("## silu\n", "## sigmoid\n"), encoding="utf-8")
    refused = call(capsys, "handout")
    assert refused.code == 2
    assert one_line(refused.err).startswith("handout.md: expected a section '## silu'")
    path.unlink()
    refused = call(capsys, "handout")
    assert refused.code == 2 and "No such file" in refused.err


# --- what is said in words ------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(EXERCISES))
def test_the_roofline_of_the_handout_is_that_of_the_spec(name):
    """Bytes and operations of the case that is timed, by the spec's formulas."""
    [block] = [
        b for b in documents.blocks(documents.read("handout.md")) if "def roofline" in b.text
    ]
    names: dict[str, object] = {}
    exec(block.text, names)
    _, memory, arithmetic = names["least"][name]
    timed_blocks = [v.performance for v in EXERCISES[name].variants.values() if v.performance]
    # In half precision; a case of several shapes is another one.
    alike = [b for b in timed_blocks if b.case is not None and b.case["dtype"] == "bfloat16"]
    assert alike or name == "copy_first_column"
    for timed in alike:
        sizes = {k: v for k, v in timed.case.items() if k != "dtype"}
        env = {**sizes, "itemsize": 2}
        assert memory == pytest.approx(1e6 * timed.bytes.evaluate(env) / 3.35e12)
        if timed.flops is not None:
            assert arithmetic == pytest.approx(1e6 * timed.flops.evaluate(env) / 989e12)
    assert memory > 0


# An H100 SXM as its vendor describes it, and what was measured on one: 8192 x 8192 of bfloat16.
SMS, HBM, PCIE = 132, 3.35e12, 64e9
FLOAT32, BFLOAT16 = 67e12, 989e12
N = 8192 * 8192
COPY = 93.1e-6
CUBLAS, FLASH, CUDNN = 792e12, 362e12, 681e12  # 4096^3; attention of 4096 keys, HEAD_DIM 128
GEMM = 4096
SCORES = 2 * 16 * 4096**2


def online(*blocks: tuple[float, ...]) -> str:
    """The line l of the softmax section's diagram: what is kept of l, plus what a block adds."""
    largest, kept, cells = -math.inf, 0.0, []
    for block in blocks:
        before, largest = largest, max(largest, *block)
        kept *= math.exp(before - largest)
        new = sum(math.exp(x - largest) for x in block)
        cells.append(f"{kept:.2f}+{new:.2f}" if kept else f"{new:.2f}")
        kept += new
    return " ".join(cells)


@pytest.mark.parametrize(
    "said",
    [
        # What a GPU is
        f"{SMS * 256 * 1024 / 2**20:.0f} MB in all",
        f"{65536 // 2048} for each of 2048 threads. With 128 registers a thread, {65536 // 128} t",
        f"which is {65536 // 128 // 32} warps",
        f"in flight, take {(128 * 64 + 64 * 256) * 2 * 3 / 1e3:.0f} KB",
        f"600 ns = {HBM * 600e-9 / 1e6:.1f} MB, on each",
        f"of 132 SMs {HBM * 600e-9 / SMS / 1e3:.0f} KB",
        f"for each of 2048 threads {HBM * 600e-9 / SMS / 2048:.1f} bytes",
        f"are {(GEMM // 128) * (GEMM // 256) / SMS:.1f} waves",
        f"the last is short of {4 * SMS - (GEMM // 128) * (GEMM // 256)} blocks",
        f"67 / 3.35 = {FLOAT32 / HBM:.0f} in float32, 989 / 3.35 = {BFLOAT16 / HBM:.0f} for",
        # the roofline
        f"one more pass over the data costs {N * 2 / HBM * 1e6:.0f} µs",
        f"need {4096 / PCIE * 1e9:.0f} ns, and the whole matrix of 48 columns "
        f"{1024 * 48 * 4 / PCIE * 1e6:.0f} µs",
        f"{4 * SCORES * 2 / 1e9:.1f} GB would move: {4e3 * SCORES * 2 / HBM:.1f} ms",
        f"({4 * N / COPY / 1e12:.2f} TB/s, {4 * N / COPY / HBM * 100:.0f} % of the bandwidth)",
        f"at 792 TFLOP/s, {CUBLAS / BFLOAT16 * 100:.0f} % of the peak",
        f"matrix of bfloat16 ({GEMM * GEMM * 2 / 1e6:.0f} MB)",
        # from softmax to flash attention
        f"q, k, v and out are {4 * 32 * 4096 * 128 * 2 / 1e6:.0f} MB",
        f"{SCORES / 1e6:.0f} million numbers: {SCORES * 2 / 1e9:.1f} GB",
        f"BLOCK_M = 128, {4096 // 128} times {2 * 4096 * 128 * 2 / 2**20:.0f} MB for each head",
        # the exercises
        f"9 operations for 4 bytes of bfloat16: {9 / 4:.1f} per byte",
        online((2, 5), (1, 7), (6, 4)),
        f"{4 * N / HBM * 1e6:.0f} µs on 8192 × 8192, `softmax_online` a read more, "
        f"{6 * N / HBM * 1e6:.0f} µs",
        f"At 64 GB/s, 5 µs are {5e-6 * PCIE / 1e3:.0f} KB",
        f"a column of {1024 * 4 // 1024} KB, which takes {4096 / PCIE * 1e9:.0f} ns, in a matrix "
        f"of {1024 * 48 * 4 // 1024} KB, which takes {1024 * 48 * 4 / PCIE * 1e6:.0f} µs",
        f"1024 copies at 5 µs each take {1024 * 5e-6 * 1e3:.0f} ms",
        f"2 · 4096³ = {2 * GEMM**3 / 1e9:.0f} billion operations on {3 * GEMM**2 * 2 / 1e6:.0f} MB",
        f"{2 * GEMM**3 / (3 * GEMM**2 * 2):.0f} for each byte",
        f"{2 * GEMM**3 / BFLOAT16 * 1e6:.0f} µs of arithmetic cover "
        f"{3 * GEMM**2 * 2 / HBM * 1e6:.0f} µs of memory",
        f"read {GEMM // 64} times, 2 · 64 · 34 MB = {2 * 64 * GEMM**2 * 2 / 1e9:.1f} GB: at "
        f"HBM's speed {2 * 64 * GEMM**2 * 2 / HBM * 1e3:.1f} ms",
        f"it is {GEMM // 256} and {GEMM // 128} times, {(16 + 32) * GEMM**2 * 2 / 1e9:.1f} GB",
        f"{4 * SCORES * 128 / 1e9:.0f} billion operations on "
        f"{(4 * 32 * 4096 * 128 * 2 + 4 * 32 * 4096) / 1e6:.0f} MB",
        f"{4 * SCORES * 128 / BFLOAT16 * 1e6:.0f} µs on the tensor cores",
        f"would be {4096**2 * 4 / 2**20:.0f} MiB",
        f"in bfloat16 are {4 * 4096 * 128 * 2 / 2**20:.0f} MiB",
        f"{65535:,} · 32 = {65535 * 32:,} rows",
    ],
)
def test_a_number_in_the_text_is_what_the_arithmetic_gives(said):
    text = " ".join(documents.read("handout.md").split())
    assert said in text


def test_every_exercise_has_what_a_student_looks_for():
    text = documents.read("handout.md")
    for name in EXERCISES:
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        for part in ("**Task.**", "**Idea.**", "**The number.**", "**Traps.**", "**Graded**"):
            if name != "gelu":  # which ships solved
                assert part in section, f"{name}: {part}"
        assert "```text\n" in section  # a diagram
    assert (ROOT / "handout.md").stat().st_size < 200_000
