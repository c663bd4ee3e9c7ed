"""The handout's tables of measured speed, and the times that a notebook stores, have the figures of
docs/performance.md, whose tables `make bench-reference` writes, and of docs/benchmarks.md.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support import documents

HANDOUT = documents.read("handout.md")
PERFORMANCE = documents.read("docs/performance.md")
BENCHMARKS = " ".join(documents.read("docs/benchmarks.md").split())
CASE = "8192x8192 bf16"
GEMM_CASE = ("4096x4096x4096 bf16", "graded")
KERNELS = {"silu": "silu", "softmax": "softmax", "rms_norm": "rmsnorm", "transpose": "transpose"}
OURS = ("graded", "plain")  # of several versions those in ordinary Triton


def cells(line: str) -> list[str]:
    return [each.strip() for each in line.strip().strip("|").split("|")]


def measured(kernel: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """The rows of a kernel's table: case, version and the figures by column."""
    found = re.search(rf"<!-- measured: {kernel} -->\n(.*?)\n<!-- end -->", PERFORMANCE, re.DOTALL)
    assert found is not None
    head, _, *rows = map(cells, found[1].splitlines())
    case = ""
    for row in rows:
        figures = dict(zip(head, row, strict=True))
        case = figures["case"] or case
        yield case, figures["version"], figures


def times(kernel: str) -> dict[str, float]:
    """Microseconds of the solution, and of what it was timed against."""
    [figures] = [f for case, version, f in measured(kernel) if (case, version) == (CASE, "graded")]
    own = float(figures["us"])
    peers = ("copy", "torch", "compile")
    return {"own": own, **{each: own * float(figures[f"/ {each}"]) for each in peers}}


def span(kernel: str, peer: str) -> str:
    """The least and the largest ratio to a peer, as `0.95 to 1.04`."""
    ratios = [float(f[f"/ {peer}"]) for _, version, f in measured(kernel) if version in OURS]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


@pytest.mark.parametrize("name", KERNELS)
def test_the_table_of_times_is_that_of_the_performance_page(name):
    took = times(KERNELS[name])
    row = [f"{took[each]:.0f}" for each in ("torch", "compile", "own")]
    assert f"\n| {name} | {' | '.join(row)} |\n" in HANDOUT


def test_the_time_of_a_copy_is_that_of_the_performance_page():
    copies = [times(kernel)["copy"] for kernel in KERNELS.values()]
    assert f"a copy takes {min(copies):.0f} to {max(copies):.0f})" in HANDOUT


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        ("rmsnorm", "takes {torch:.0f} µs on this case, half as long again as a copy"),
        ("rmsnorm", "torch's own takes {torch:.0f}: it"),
        ("silu", "at best. torch takes {torch:.0f}."),
        (
            "transpose",
            "a plain copy {copy:.0f}, torch {torch:.0f} and torch.compile {compile:.0f}.",
        ),
    ],
)
def test_times_in_the_text_are_those_of_the_performance_page(kernel, sentence):
    assert sentence.format(**times(kernel)) in " ".join(HANDOUT.split())


def test_how_close_triton_comes_is_that_of_the_performance_page():
    gemm, attention = span("gemm", "cublas"), span("flash_attention", "cudnn")
    assert f"measured: GEMM {gemm} of cuBLAS, attention {attention} of cuDNN" in HANDOUT


def test_the_times_that_the_ladder_notebook_stores_are_those_that_were_measured():
    text = documents.read("notebooks/gemm_ladder.py")
    stored = ast.literal_eval(text.partition("\nMEASURED = ")[2].partition("\n}")[0] + "}")
    [tuned] = [f for case, version, f in measured("gemm") if (case, version) == GEMM_CASE]
    [tiled] = [f for _, version, f in measured("gemm_cuda") if version == "graded"]
    library = float(tuned["us"]) * float(tuned["/ cublas"])
    ladder = re.search(r"`grader bench gemm`.*?V1 to V4 ([\d.,]+), ([\d.]+), ([\d.]+) ", BENCHMARKS)
    assert ladder is not None
    v1, v2, v3 = (float(each.replace(",", "")) for each in ladder.groups())
    assert stored == {
        "v0": (round(library, 1), 2),
        "v1": (v1, 2),
        "v2": (v2, 2),
        "v3": (v3, 2),
        "v4": (float(tuned["us"]), 2),
        "cuda_tiled": (float(tiled["us"]), 4),
    }


def test_the_share_of_the_peak_of_the_kernel_in_cuda_is_that_of_the_performance_page():
    [tiled] = [f for _, version, f in measured("gemm_cuda") if version == "graded"]
    assert f"our solution reaches {tiled['of the floor']} of it" in " ".join(HANDOUT.split())


def test_where_the_time_of_a_compiled_softmax_goes_is_that_of_the_benchmarks():
    table = HANDOUT.partition("\n| columns | the kernel ")[2].partition("\n\n")[0]
    rows = [[each.removesuffix(" us") for each in cells(line)] for line in table.splitlines()[2:]]
    columns, kernels, queued, _ = zip(*rows, strict=True)
    assert columns == ("512", "1024", "2048", "4096")
    assert f"the kernel takes {', '.join(kernels[:3])} and {kernels[3]} us" in BENCHMARKS
    assert f"queued calls take {', '.join(queued[:3])} and {queued[3]} us" in BENCHMARKS
    for column, *_, cold in rows:  # the column of torch.compile in the lecture's table
        assert re.search(rf"^\| {column} (\| \S+ us ){{2}}\| {cold} us \|", HANDOUT, re.M)


def test_the_runs_of_the_mlp_begin_with_the_one_in_the_table():
    lecture = HANDOUT.partition("<!-- lecture: mlp -->")[2].partition("<!-- /lecture -->")[0]
    head, _, *rows = [cells(line) for line in lecture.splitlines() if line.startswith("|")]
    times = {
        f"{row[0]}, {name.split()[0]}": took
        for row in rows
        for name, took in zip(head[1:], row[1:], strict=True)
    }
    runs = HANDOUT.partition("| layers, steps | this run |")[2].partition("\n\n")[0]
    told = [cells(line)[:2] for line in runs.splitlines()[2:]]
    assert len(told) == 4 and all(times[case] == took for case, took in told)
