"""The emulator's runtime does with threads, warps, launches and CUDA calls what a GPU does."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch

from grader.emulator import toolchain
from grader.emulator.build import Build, Entry, build
from grader.worker.protocol import Argument, Code, Kind
from tests.support.emulated import Call
from tests.support.native import Placement, vector

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")

NAMED = ["--arguments=input:input,output:output,n:input"]
HEAD = "#include <cuda_runtime.h>\n#include <cstdio>\n#include <cassert>\n"


@dataclass(frozen=True)
class Ran:
    """What came of one call of an entry (const float* input, float* output, int n)."""

    code: Code
    values: list[float]
    report: dict[str, Any]
    printed: str
    lines: dict[int, int | None]  # pc -> line

    @property
    def findings(self) -> list[tuple[str, int | None]]:
        """(kind, line in the file) of each finding."""
        found = self.report.get("findings", [])
        return [(each["kind"], self.lines.get(each["pc"])) for each in found]

    def only_finding(self) -> dict[str, Any]:
        assert len(self.report["findings"]) == 1, self.report["findings"]
        return self.report["findings"][0]


Emulate = Callable[..., Ran]


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Emulate:
    """Builds a text once and calls its entry `go` on input 0, 1, 2, ... and an output of zeros."""
    tools = toolchain.prepare()

    @cache
    def built(text: str) -> Build:
        folder = tmp_path_factory.mktemp("emulated")
        source = folder / "test.cu"
        source.write_text(HEAD + text)
        entry = Entry("go", ("pointer:float32", "pointer:float32", "int"))
        result = build(source, [entry], folder / "built", tools)
        assert result.executable is not None, result.problems
        return result

    def run(text: str, n: int = 64, measure: bool = False) -> Ran:
        return _call(built(text), n, measure)

    return run


def _call(program: Build, n: int, measure: bool) -> Ran:
    slots = [vector("input", torch.arange(float(n))), vector("output", n)]
    lines: dict[int, int | None] = {pc: site.line for pc, site in program.sites.items()}
    with Placement(slots) as placement:
        arguments = [*placement.arguments, Argument(Kind.int64, scalar=n)]
        call = Call(program, "go", arguments, placement.arena.buffers, NAMED)
        outcome = call.run(measure)
        assert outcome.code is not None, outcome
        values = placement.values("output").tolist()
    answer = json.loads(outcome.printed) if outcome.printed else {}
    return Ran(outcome.code, values, answer, call.printed, lines)


def line_of(text: str, marker: str) -> int:
    """The line, counted in the file as built, that holds `marker`."""
    (line,) = [i for i, each in enumerate((HEAD + text).splitlines(), 1) if marker in each]
    return line


def go(kernel: str, launch: str = "k<<<1, n>>>(output, input, n);") -> str:
    """A file with the kernel's body and the entry that launches it."""
    return (
        "__global__ void k(float* out, const float* in, int n) {\n"
        f"    int t = threadIdx.x;\n{kernel}\n}}\n"
        'extern "C" void go(const float* input, float* output, int n) {\n'
        f"{launch}\n}}\n"
    )


def host(body: str, more: str = "") -> str:
    """A file whose entry has this body; `save(i, x)` writes the host value x to output[i]."""
    return (
        f"{more}\n__global__ void put(float* out, int i, float x) {{ out[i] = x; }}\n"
        'extern "C" void go(const float* input, float* output, int n) {\n'
        "auto save = [output](int i, float x) { put<<<1, 1>>>(output, i, x); };\n"
        f"{body}\n}}\n"
    )


def good(ran: Ran) -> list[float]:
    """The output of a run that nothing was found in."""
    assert ran.report.get("findings") == [], ran.report
    assert ran.code is Code.ok
    return ran.values


# ---- Indices -------------------------------------------------------------------------------------


def test_shared_arrays_lie_as_far_from_16_bytes_as_on_a_gpu(emulate: Emulate) -> None:
    # Halves behind whole rows of 16 bytes can be loaded by rows; those behind three of them can't.
    kernel = """
    __shared__ short whole[24], rows[64], odd[3], behind[64];
    __shared__ int words[3];
    const void* arrays[] = {whole, rows, odd, behind, words};
    if (t < 5) out[t] = (size_t)arrays[t] % 16;"""
    assert good(emulate(go(kernel)))[:5] == [0, 0, 0, 6, 8]


def test_each_thread_of_a_grid_in_three_dimensions_runs_once(emulate: Emulate) -> None:
    kernel = """
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    int width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
    atomicAdd(&out[(z * height + y) * width + x], 1.0f + x + 10 * y + 100 * z);"""
    launch = "cudaMemset(output, 0, n * 4); k<<<dim3(2, 3, 2), dim3(3, 2, 2)>>>(output, input, n);"
    expected = [1.0 + x + 10 * y + 100 * z for z in range(4) for y in range(6) for x in range(6)]
    assert good(emulate(go(kernel, launch), n=144)) == expected


def test_a_block_may_have_1024_threads(emulate: Emulate) -> None:
    kernel = "__shared__ float s[1024]; s[t] = in[t]; __syncthreads(); out[t] = s[n - 1 - t];"
    assert good(emulate(go(kernel), n=1024)) == [float(i) for i in reversed(range(1024))]


# ---- Block barriers ------------------------------------------------------------------------------


def test_a_barrier_makes_what_was_stored_before_it_visible_to_all(emulate: Emulate) -> None:
    kernel = """
    __shared__ float s[256];
    s[t] = in[t];
    for (int stride = 128; stride > 0; stride /= 2) {
        __syncthreads();
        if (t < stride) s[t] += s[t + stride];
    }
    __syncthreads();
    out[t] = s[0];"""
    assert good(emulate(go(kernel), n=256)) == [256 * 255 / 2] * 256


def test_counting_barriers_give_all_threads_the_result(emulate: Emulate) -> None:
    kernel = """
    int count = __syncthreads_count(t % 3 == 0);
    int all = __syncthreads_and(t >= 0), not_all = __syncthreads_and(t != 5);
    int some = __syncthreads_or(t == 7), none = __syncthreads_or(t < 0);
    out[t] = count + 100 * (all != 0) + 1000 * (not_all != 0) + 10000 * (some != 0)
             + 100000 * (none != 0);"""
    assert good(emulate(go(kernel), n=70)) == [24 + 100 + 10000] * 70


def test_threads_at_different_barriers_are_found_with_both_lines(emulate: Emulate) -> None:
    kernel = """
    if (t < 16) {
        __syncthreads();  // first
    } else {
        __syncthreads();  // second
    }
    out[t] = 1;"""
    ran = emulate(text := go(kernel))
    assert ran.findings == [("divergent_barrier", line_of(text, "// first"))]
    finding = ran.only_finding()
    assert ran.lines[finding["other_pc"]] == line_of(text, "// second")
    assert (finding["thread"], finding["other_thread"]) == ([0, 0, 0], [16, 0, 0])


def test_a_loop_whose_threads_leave_it_early_diverges(emulate: Emulate) -> None:
    kernel = """
    for (int i = 0; i < t / 32 + 1; ++i) {
        __syncthreads();  // inside
    }
    __syncthreads();
    out[t] = 1;"""
    ran = emulate(text := go(kernel))
    kinds = {kind for kind, _ in ran.findings}
    assert kinds == {"divergent_barrier", "missing_barrier"}
    assert line_of(text, "// inside") in {line for _, line in ran.findings} | {
        ran.lines.get(each["other_pc"]) for each in ran.report["findings"]
    }


def test_a_barrier_that_the_compiler_copied_is_one_barrier(emulate: Emulate) -> None:
    kernel = """
    __shared__ float s[64];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (t % 2) s[t] = in[t] + i; else s[t] = in[t] - i;
        __syncthreads();
        float v = s[63 - t];
        __syncthreads();
        out[t] = v;
    }"""
    assert good(emulate(go(kernel)))[0] == 66.0


def test_a_return_before_a_barrier_is_found(emulate: Emulate) -> None:
    kernel = "    if (t >= 40) return;\n    __syncthreads();  // here\n    out[t] = 1;"
    ran = emulate(text := go(kernel))
    assert ran.findings == [("missing_barrier", line_of(text, "// here"))]
    assert ran.only_finding()["other_thread"] == [40, 0, 0]


# ---- Asynchronous copies -------------------------------------------------------------------------


def copied(kernel: str) -> str:
    """A file whose kernel of one block has `s` of 64 floats in shared memory."""
    head = "__shared__ __align__(16) float s[64];\n"
    return "#include <cuda_pipeline.h>\n" + go(head + kernel, "k<<<1, n>>>(output, input, n);")


@pytest.mark.parametrize("counted", [False, True])
def test_copies_arrive_at_the_wait_for_their_group(emulate: Emulate, counted: bool) -> None:
    kernel = """
    __pipeline_memcpy_async(&s[t], in + t, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[t] = s[63 - t];"""
    assert good(emulate(copied(kernel), measure=counted)) == [63.0 - t for t in range(64)]


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        # No wait at all, none for this group, and one for no group: nothing was committed.
        ("{copy}; __pipeline_commit(); __syncthreads(); out[t] = s[63 - t];  // here",
         "uninitialised_read"),
        ("{copy}; __pipeline_commit(); __pipeline_wait_prior(1); __syncthreads();\n"
         "out[t] = s[63 - t];  // here", "uninitialised_read"),
        ("{copy}; __pipeline_wait_prior(0); __syncthreads();\nout[t] = s[63 - t];  // here",
         "uninitialised_read"),
        ("{copy}; __pipeline_commit(); out[t] = s[t];  // here", "uninitialised_read"),
        # A thread waits for its own copies alone.
        ("{copy};  // here\n__pipeline_commit(); __pipeline_wait_prior(0); out[t] = s[63 - t];",
         "race"),
        ("{copy};  // here\n__pipeline_commit(); __syncthreads(); __pipeline_wait_prior(0);\n"
         "out[t] = s[63 - t];", "race"),
        # The bytes may come before the others have read the old ones.
        ("s[t] = 1; __syncthreads(); out[t] = s[63 - t]; {copy};  // here\n__pipeline_commit();\n"
         "__syncthreads(); __pipeline_wait_prior(0);", "race"),
        ("if (t < 48) __pipeline_memcpy_async(&s[t + 1], in + t, 8);  // here", "misaligned"),
        ("__pipeline_memcpy_async(&s[0], in, 12);  // here", "device_assert"),
        ("__pipeline_memcpy_async(&s[t], in + t + 1, 4);  // here", "out_of_bounds_read"),
        ("__pipeline_memcpy_async(&s[t + 1], in + t, 4);  // here", "out_of_bounds_write"),
        ("__pipeline_memcpy_async(out + t, in + t, 4);  // here", "out_of_bounds_write"),
    ],
)  # fmt: skip
def test_copies_that_arent_waited_for_are_found(emulate: Emulate, kernel: str, kind: str) -> None:
    text = copied(kernel.replace("{copy}", "__pipeline_memcpy_async(&s[t], in + t, 4)"))
    assert (kind, line_of(text, "// here")) in emulate(text).findings


def test_what_is_read_too_early_is_told_with_the_copy(emulate: Emulate) -> None:
    kernel = "__pipeline_memcpy_async(&s[t], in + t, 4); __pipeline_commit(); out[t] = s[t];"
    told = emulate(copied(kernel)).only_finding()["text"]
    assert told.endswith("; an asynchronous copy to it is still under way")
    assert "asynchronous" not in emulate(copied("out[t] = s[t];")).only_finding()["text"]


def test_a_copy_that_is_under_way_outlasts_the_grids_barrier(emulate: Emulate) -> None:
    kernel = """
    __shared__ float s[16];
    __pipeline_memcpy_async(&s[t], in + i, 4);
    __pipeline_commit();
    grid.sync();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[i] = s[15 - t];"""
    expected = [float(b * 16 + 15 - t) for b in range(4) for t in range(16)]
    assert good(emulate("#include <cuda_pipeline.h>\n" + grid(kernel))) == expected


# ---- The grid's barrier --------------------------------------------------------------------------


def grid(kernel: str, blocks: str = "4", threads: str = "n / 4", more: str = "") -> str:
    """A file whose entry launches the kernel's body cooperatively; `grid` is the whole grid."""
    launch = (
        "void* arguments[] = {&output, &input, &n};\n"
        f"cudaLaunchCooperativeKernel((void*)k, {blocks}, {threads}, arguments);"
    )
    head = "auto grid = cooperative_groups::this_grid(); int i = grid.thread_rank();\n"
    return f"#include <cooperative_groups.h>\n{more}\n{go(head + kernel, launch)}"


def test_blocks_see_behind_the_grids_barrier_what_others_stored_before_it(emulate: Emulate) -> None:
    kernel = """
    __shared__ float s[16];
    extern __shared__ float more[];
    s[t] = in[i];
    float own = in[i];
    for (int round = 0; round < 5; ++round) {
        out[i] = own;
        grid.sync();
        own = out[(i + 1) % n] + s[15 - t] - in[blockIdx.x * 16 + 15 - t];
        grid.sync();
    }
    out[i] = own;"""
    expected = [float((i + 5) % 64) for i in range(64)]
    assert good(emulate(grid(kernel))) == expected
    assert good(emulate(grid(kernel), measure=True)) == expected


def test_shared_memory_is_free_again_behind_the_grids_barrier(emulate: Emulate) -> None:
    kernel = """
    __shared__ float s[16];
    float sum = 0;
    for (int round = 0; round < 2; ++round) {
        s[t] = in[i];
        {between}
        sum += s[15 - t];
        grid.sync();
    }
    out[i] = sum;"""
    right = grid(kernel.replace("{between}", "__syncthreads(); __syncthreads();"))
    assert good(emulate(right)) == [2.0 * (b * 16 + 15 - t) for b in range(4) for t in range(16)]
    for first, again in (("__syncthreads();", ""), ("", "__syncthreads();")):
        between = f"if (round) {{ {again} }} else {{ {first} }}"
        assert emulate(grid(kernel.replace("{between}", between))).only_finding()["kind"] == "race"


def test_as_many_blocks_wait_for_each_other_as_fit_on_the_device(emulate: Emulate) -> None:
    kernel = """
    __shared__ int own;
    if (t == 0) atomicAdd(&arrived, 1), own = blockIdx.x;
    grid.sync();
    if (i < n) out[i] = arrived;
    grid.sync();
    if (own != blockIdx.x) out[0] = -1;"""
    text = grid(kernel, "1056", "256", "__device__ int arrived;")
    assert good(emulate(text)) == [1056.0] * 64
    too_many = emulate(grid(kernel, "1057", "256", "__device__ int arrived;"))
    assert [kind for kind, _ in too_many.findings] == ["launch_error"]


def test_the_grids_barrier_orders_what_lies_before_it_and_nothing_behind(emulate: Emulate) -> None:
    apart = "out[i] = in[i]; {}; float x = out[(i + 16) % n]; {}; out[i] = x;  // behind"
    right = grid(apart.format("grid.sync()", "grid.sync()"))
    assert good(emulate(right)) == [float((i + 16) % 64) for i in range(64)]
    for first, second in (("grid.sync()", "__syncthreads()"), ("__syncthreads()", "grid.sync()")):
        ran = emulate(text := grid(apart.format(first, second)))
        assert ran.findings[0] == ("race", line_of(text, "// behind"))
        finding = ran.report["findings"][0]
        assert finding["block"] != finding["other_block"]


def test_a_race_behind_the_barrier_names_its_blocks(emulate: Emulate) -> None:
    kernel = "grid.sync(); grid.sync(); if (t == 1) out[blockIdx.x / 2] = blockIdx.x;"
    finding = emulate(grid(kernel)).only_finding()
    assert finding["kind"] == "race"
    assert (finding["block"], finding["other_block"]) == ([1, 0, 0], [0, 0, 0])
    assert (finding["thread"], finding["other_thread"]) == ([1, 0, 0], [1, 0, 0])


def test_shared_memory_that_a_block_stored_before_the_barrier_is_initialised(
    emulate: Emulate,
) -> None:
    kernel = """
    __shared__ char s[37];
    __shared__ float never[16];
    if (t < 13) s[2 * t + 1] = t + blockIdx.x;
    grid.sync();
    out[i] = t < 13 ? s[2 * t + 1] : 0;
    grid.sync();
    if (t < {stored} && s[2 * t + 1] != out[i]) out[i] = -1;
    if ({read}) out[i] = never[t];  // here"""
    right = kernel.replace("{stored}", "13").replace("{read}", "n == 0")
    assert good(emulate(grid(right))) == [
        float(t + b if t < 13 else 0) for b in range(4) for t in range(16)
    ]
    for stored, read in (("14", "n == 0"), ("13", "i == 20")):
        wrong = kernel.replace("{stored}", stored).replace("{read}", read)
        assert emulate(grid(wrong)).only_finding()["kind"] == "uninitialised_read"


def test_what_another_block_stores_behind_the_barrier_only_is_read_too_early(
    emulate: Emulate,
) -> None:
    kernel = "float x = i ? 0 : scratch[40]; grid.sync(); scratch[i] = x; out[i] = x;"
    launch = "float* scratch; cudaMalloc(&scratch, n * 4);"
    text = grid(kernel).replace("int n) {", "int n, float* scratch) {", 1)
    text = text.replace(
        "void* arguments[] = {&output, &input, &n};",
        f"{launch} void* arguments[] = {{&output, &input, &n, &scratch}};",
    )
    text = text.replace("arguments);", "arguments); cudaFree(scratch);")
    assert emulate(text).only_finding()["kind"] == "uninitialised_read"


def test_the_whole_grid_can_only_wait_in_a_cooperative_launch(emulate: Emulate) -> None:
    kernel = "auto grid = cooperative_groups::this_grid();\nout[t] = grid.is_valid();\n{}"
    head = "#include <cooperative_groups.h>\n"
    assert good(emulate(head + go(kernel.format("")))) == [0.0] * 64
    ran = emulate(text := head + go(kernel.format("grid.sync();  // here")))
    assert ran.findings == [("grid_barrier", line_of(text, "// here"))]
    assert "not a cooperative one" in ran.only_finding()["text"]


def test_blocks_that_end_keep_the_others_waiting_for_ever(emulate: Emulate) -> None:
    kernel = """
    out[i] = 1;
    grid.sync();
    if (blockIdx.x == 1) return;
    grid.sync();  // here"""
    ran = emulate(text := grid(kernel))
    assert ran.findings == [("grid_barrier", line_of(text, "// here"))]
    finding = ran.only_finding()
    assert finding["text"] == "3 of the grid's 4 blocks come, the others have ended"
    assert finding["block"] == [0, 0, 0]


def test_threads_of_a_block_that_miss_the_grids_barrier_are_found(emulate: Emulate) -> None:
    for kernel, kind in (
        ("if (t == 3) return; grid.sync(); out[i] = 1;", "missing_barrier"),
        ("if (t < 8) grid.sync(); else __syncthreads();", "divergent_barrier"),
        ("if (t < 8)\ngrid.sync();\nelse\ngrid.sync();", "divergent_barrier"),
    ):
        assert emulate(grid(kernel)).only_finding()["kind"] == kind


def test_blocks_may_come_to_the_grids_barrier_at_different_lines(emulate: Emulate) -> None:
    kernel = """
    if (blockIdx.x == 0) {
        out[i + 16] = 1;
        grid.sync();
    } else {
        if (blockIdx.x == 2) out[t] = out[i] = out[i + 16] = 2;
        grid.sync();
    }
    out[i] += 1;"""
    assert good(emulate(grid(kernel))) == [3.0] * 16 + [2.0] * 16 + [3.0] * 32


def test_more_than_can_be_kept_of_waiting_blocks_is_not_measured(emulate: Emulate) -> None:
    kernel = """
    float local[12000];
    for (int j = 0; j < 12000; ++j) local[j] = t + j;
    grid.sync();  // here
    if (i < n) out[i] = local[i];"""
    ran = emulate(text := grid(kernel, "132", "1024"))
    assert ran.code is Code.not_modelled
    assert "more than 512 MiB of stacks" in ran.report["message"]
    assert ran.lines[ran.report["pc"]] == line_of(text, "// here")


def test_an_error_behind_the_grids_barrier_ends_the_launch(emulate: Emulate) -> None:
    kernel = "out[i] = 1; grid.sync(); if (i == 20) out[n] = 1; grid.sync(); out[i] = 2;"
    assert emulate(grid(kernel)).only_finding()["kind"] == "out_of_bounds_write"


# ---- Progress ------------------------------------------------------------------------------------


def test_blocks_of_a_cooperative_launch_that_poll_for_each_other_arent_modelled(
    emulate: Emulate,
) -> None:
    kernel = """
    if (threadIdx.x == 0) {
        atomicAdd(&arrived, 1);
        while (atomicAdd(&arrived, 0) < gridDim.x) {}
    }
    __syncthreads();
    out[i] = 1;"""
    ran = emulate(grid(kernel, more="__device__ unsigned arrived;"))
    assert ran.code is Code.not_modelled
    assert ran.report["message"] == "blocks that wait for each other, other than by grid.sync()"


def test_a_spin_lock_makes_progress(emulate: Emulate) -> None:
    kernel = """
    __shared__ int lock;
    if (t == 0) { lock = 0; out[0] = 0; }
    __syncthreads();
    while (atomicCAS(&lock, 0, 1) != 0) {}
    __threadfence();
    volatile float* total = out;
    total[0] = total[0] + 1;
    __threadfence();
    atomicExch(&lock, 0);"""
    launch = "cudaMemset(output, 0, n * 4); k<<<1, n>>>(output, input, n);"
    assert emulate(go(kernel, launch), n=96).values[0] == 96


def test_a_warp_that_polls_a_flag_lets_the_others_set_it(emulate: Emulate) -> None:
    kernel = """
    __shared__ int flag;
    if (t == 0) flag = 0;
    __syncthreads();
    if (t < 32) { while (atomicAdd(&flag, 0) == 0) {} }
    if (t == 63) atomicExch(&flag, 1);
    out[t] = 1;"""
    assert emulate(go(kernel)).values == [1.0] * 64


def test_polling_a_volatile_flag_makes_progress(emulate: Emulate) -> None:
    kernel = """
    __shared__ volatile int flag;
    if (t == 0) flag = 0;
    __syncthreads();
    if (t < 32) { while (flag == 0) {} } else if (t == 63) { __threadfence(); flag = 1; }
    out[t] = 1;"""
    assert emulate(go(kernel)).values == [1.0] * 64


# ---- Warps ---------------------------------------------------------------------------------------


def _source(kind: str, lane: int, argument: int, width: int) -> int:
    """The lane a shuffle reads from, as the PTX manual defines `shfl.sync`."""
    low, high = lane // width * width, lane // width * width + width - 1
    if kind == "":
        return low + argument % width
    source = {"_up": lane - argument, "_down": lane + argument, "_xor": lane ^ argument}[kind]
    return lane if (source < low if kind == "_up" else source > high) else source


@pytest.mark.parametrize("kind", ["", "_up", "_down", "_xor"])
def test_shuffles_read_the_lane_that_the_manual_names(emulate: Emulate, kind: str) -> None:
    kernel = f"""
    int next = 0;
    for (int width = 1; width <= 32; width *= 2)
        for (int argument = 0; argument < 32; argument += 3)
            out[next++ * 32 + t] = __shfl{kind}_sync(0xffffffff, in[t], argument, width);"""
    cases = [(width, argument) for width in (1, 2, 4, 8, 16, 32) for argument in range(0, 32, 3)]
    launch = "k<<<1, 32>>>(output, input, n);"
    values = good(emulate(go(kernel, launch), n=32 * len(cases)))
    for i, (width, argument) in enumerate(cases):
        expected = [_source(kind, lane, argument, width) for lane in range(32)]
        assert values[i * 32 : i * 32 + 32] == expected, (width, argument)


def test_shuffles_carry_eight_bytes(emulate: Emulate) -> None:
    kernel = """
    double v = 1.0 + t * 1e-12;
    out[t] = (__shfl_xor_sync(0xffffffff, v, 1) - 1.0) * 1e12;"""
    values = good(emulate(go(kernel)))
    assert [round(value) for value in values] == [i ^ 1 for i in range(64)]


def test_votes_and_matches(emulate: Emulate) -> None:
    kernel = """
    unsigned odd = __ballot_sync(0xffffffff, t & 1);
    int any = __any_sync(0xffffffff, t == 9), all = __all_sync(0xffffffff, t == 9);
    unsigned same = __match_any_sync(0xffffffff, t % 8);
    int equal, different;
    unsigned every = __match_all_sync(0xffffffff, t / 32, &equal);
    unsigned no = __match_all_sync(0xffffffff, t, &different);
    out[t] = (odd == 0xaaaaaaaa) + 2 * (any == (t < 32)) + 4 * !all
             + 8 * (same == 0x01010101u << (t % 8)) + 16 * (equal && every == 0xffffffff)
             + 32 * (!different && no == 0);"""
    assert good(emulate(go(kernel))) == [63.0] * 64


def test_reductions(emulate: Emulate) -> None:
    kernel = """
    int v = t % 32 - 5;
    unsigned u = t % 32 + 1;
    out[t] = (__reduce_add_sync(0xffffffff, v) == 336)
             + 2 * (__reduce_min_sync(0xffffffff, v) == -5)
             + 4 * (__reduce_max_sync(0xffffffff, v) == 26)
             + 8 * (__reduce_min_sync(0xffffffff, u) == 1u)
             + 16 * (__reduce_and_sync(0xffffffff, u | 64) == 64u)
             + 32 * (__reduce_or_sync(0xffffffff, u) == 63u)
             + 64 * (__reduce_xor_sync(0xffffffff, 1u << (t % 32)) == 0xffffffffu);"""
    assert good(emulate(go(kernel))) == [127.0] * 64


def test_groups_of_lanes_work_on_their_own(emulate: Emulate) -> None:
    kernel = """
    if (t % 2) out[t] = __shfl_sync(0xaaaaaaaa, in[t], 1);
    else out[t] = __popc(__ballot_sync(0x55555555, t < 8));"""
    expected = [1.0 if t % 2 else 4.0 for t in range(32)]
    assert good(emulate(go(kernel), n=32)) == expected


def test_activemask_names_the_lanes_of_the_branch(emulate: Emulate) -> None:
    kernel = """
    unsigned mask;
    if (t < 5) mask = __activemask(); else mask = __activemask();
    out[t] = __popc(mask);"""
    assert good(emulate(go(kernel), n=32)) == [5.0] * 5 + [27.0] * 27


def test_lanes_that_have_returned_are_not_waited_for(emulate: Emulate) -> None:
    kernel = """
    if (t >= 20) return;
    out[t] = __popc(__ballot_sync(0xffffffff, 1));
    __syncwarp();"""
    ran = emulate(go(kernel, "cudaMemset(output, 0, n * 4); k<<<1, n>>>(output, input, n);"), n=32)
    assert good(ran) == [20.0] * 20 + [0.0] * 12


@pytest.mark.parametrize(
    ("threads", "code", "why"),
    [
        (16, "__shfl_down_sync(0xffffffff, in[t], 8)", "which the block doesn't have"),
        (32, "__shfl_sync(0x0000ffff, in[t], 20)", "which its mask doesn't name"),
        (32, "__shfl_sync(0xffffffff, in[t], 20)", "which has returned"),
    ],
)
def test_reading_from_a_lane_that_is_not_there_is_found(
    emulate: Emulate, threads: int, code: str, why: str
) -> None:
    kernel = f"    if (t >= 16) return;\n    out[t] = {code};  // here"
    launch = f"cudaMemset(output, 0, n * 4); k<<<1, {threads}>>>(output, input, n);"
    ran = emulate(text := go(kernel, launch), n=32)
    assert ran.findings == [("shuffle_absent_lane", line_of(text, "// here"))]
    assert why in ran.only_finding()["text"]


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("    out[t] = __shfl_sync(0xfffffffe, in[t], 1);  // here", "bad_warp_mask"),
        ("    out[t] = __shfl_sync(0xffffffff, in[t], 1, 5);  // here", "bad_warp_mask"),
        (
            "    unsigned m = t < 16 ? 0xffffffff : 0xfffffffe;\n"
            "    out[t] = __shfl_sync(m, in[t], 16);  // here",
            "bad_warp_mask",
        ),
        (
            "    if (t < 16)\n        out[t] = __shfl_down_sync(0xffffffff, in[t], 8);  // here\n"
            "    else\n        __syncthreads();",
            "deadlock",
        ),
        (
            "    if (t < 16)\n        out[t] = __shfl_sync(0xffffffff, in[t], 8);  // here\n"
            "    else\n        __syncwarp();",
            "deadlock",
        ),
    ],
)
def test_warp_operations_that_cannot_complete_end_the_launch(
    emulate: Emulate, kernel: str, kind: str
) -> None:
    ran = emulate(text := go(kernel), n=32)
    assert ran.findings == [(kind, line_of(text, "// here"))]
    assert ran.report["error"] == 719


# ---- Launches ------------------------------------------------------------------------------------

SHOW = "save(0, cudaGetLastError()); save(1, cudaGetLastError());"


@pytest.mark.parametrize(
    ("configuration", "error"),
    [
        ("0, 32", 9),
        ("1, 0", 9),
        ("dim3(1, 0, 1), 32", 9),
        ("1, 1025", 9),
        ("1, dim3(32, 33)", 9),
        ("1, dim3(1, 1, 65)", 9),
        ("1, dim3(1, 1, 64)", 0),
        ("dim3(1, 65536), 1", 9),
        ("dim3(1, 1, 65536), 1", 9),
        ("dim3(2147483648u), 1", 9),
        ("1, 32, 48 * 1024", 0),
        ("1, 32, 48 * 1024 + 1", 1),
        ("1, 32, (size_t)-1", 1),
        ("1, 32, 0, (cudaStream_t)0x1234", 400),
    ],
)
def test_launches_have_cudas_limits_and_errors(
    emulate: Emulate, configuration: str, error: int
) -> None:
    text = host(f"empty<<<{configuration}>>>();\n{SHOW}", "__global__ void empty() {}")
    assert good(emulate(text))[:2] == [error, 0]


BOUNDED = """
constexpr int most = 64;
#define MOST 64
template <class T, int N> struct pair_of { static constexpr int threads = N; };
__global__ void __launch_bounds__(64, 2) number(float* out) { out[9] = 1; }
__launch_bounds__(2 * MOST / 2, 1, 1) __global__ void macro(float* out)
{
    out[9] = 1;
}
__global__ __launch_bounds__(most) void constant(float* out) { out[9] = 1; }
template <int N> __global__ void __launch_bounds__(N) parameter(float* out) { out[9] = N; }
__global__ void __launch_bounds__(pair_of<int, 64>::threads) member(float* out) { out[9] = 1; }
__global__ void __launch_bounds__(most) before(float*);
__global__ void before(float* out) { out[9] = 1; }
__global__ void behind(float* out) { out[9] = 1; }
__launch_bounds__(64) __global__ void behind(float* target);
__global__ void __maxnreg__(32) registers(float* out) { out[9] = 1; }
"""


@pytest.mark.parametrize(
    "kernel", ["number", "macro", "constant", "parameter<64>", "member", "before", "behind"]
)
def test_a_block_is_no_larger_than_the_launch_bounds(emulate: Emulate, kernel: str) -> None:
    body = f"""
    {kernel}<<<1, 64>>>(output);
    save(0, cudaGetLastError());
    {kernel}<<<1, dim3(13, 5)>>>(output);
    save(1, cudaGetLastError());"""
    assert good(emulate(host(body, BOUNDED)))[:2] == [0, 1]


def test_launch_bounds_are_those_of_the_instance_that_is_launched(emulate: Emulate) -> None:
    body = """
    parameter<128><<<1, 128>>>(output);
    save(0, cudaGetLastError());
    parameter<32><<<1, 128>>>(output);
    save(1, cudaGetLastError());
    registers<<<1, 1024>>>(output);
    save(2, cudaGetLastError());
    int grid, block;
    cudaOccupancyMaxPotentialBlockSize(&grid, &block, parameter<32>);
    save(3, block);
    float* o = output;
    void* arguments[] = {&o};
    save(4, cudaLaunchKernel((void*)parameter<32>, dim3(1), dim3(33), arguments, 0, 0));
    cudaGetLastError();"""
    assert good(emulate(host(body, BOUNDED)))[:5] == [0, 1, 0, 32, 1]


def test_a_launch_beyond_the_bounds_is_found_at_its_line(emulate: Emulate) -> None:
    text = host("number<<<2, 256>>>(output);  // here", BOUNDED)
    ran = emulate(text)
    assert ran.findings == [("launch_error", line_of(text, "// here"))]
    assert "256 threads in a block" in ran.only_finding()["text"]
    assert "at most 64" in ran.only_finding()["text"]


def test_a_launchers_constant_may_be_a_template_argument(emulate: Emulate) -> None:
    kernel = "template <int N, class T> __global__ void fill(T* out) { out[0] = sizeof(T) * N; }"
    body = """
    constexpr int mine = 4;
    const int more = 2 * mine;
    fill<mine><<<1, 1>>>(output);
    fill<more + sizeof(mine)><<<1, 1>>>(output + 1);"""
    assert good(emulate(host(body, kernel)))[:2] == [16, 48]


def test_more_shared_memory_must_be_asked_for(emulate: Emulate) -> None:
    more = """
    extern __shared__ float big[];
    __global__ void fills(float* out) { big[50000] = 3; out[9] = big[50000]; }"""
    body = """
    save(0, cudaFuncSetAttribute(fills, cudaFuncAttributeMaxDynamicSharedMemorySize, 232449));
    cudaGetLastError();
    save(1, cudaFuncSetAttribute(fills, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448));
    fills<<<1, 1, 232448>>>(output);
    save(2, cudaGetLastError());
    fills<<<1, 1, 232449>>>(output);
    save(3, cudaGetLastError());"""
    values = good(emulate(host(body, more)))
    assert values[:4] == [1, 0, 0, 1]
    assert values[9] == 3


def test_shared_memory_that_was_asked_for_counts_beside_the_static(emulate: Emulate) -> None:
    more = """
    extern __shared__ float more[];
    __global__ void both(float* out) {
        __shared__ float fixed[8192];
        fixed[0] = 1; more[0] = 2; out[9] = fixed[0] + more[0];
    }"""
    body = """
    save(0, cudaFuncSetAttribute(both, cudaFuncAttributeMaxDynamicSharedMemorySize, 20000));
    both<<<1, 1, 20000>>>(output);
    save(1, cudaGetLastError());
    both<<<1, 1, 20004>>>(output);
    save(2, cudaGetLastError());"""
    values = good(emulate(host(body, more)))
    assert values[:3] == [0, 0, 1]
    assert values[9] == 3


def test_static_and_dynamic_shared_memory_share_one_limit(emulate: Emulate) -> None:
    more = """
    extern __shared__ float more[];
    __global__ void both(float* out) {
        __shared__ float fixed[8192];
        fixed[0] = 1; more[0] = 2; out[9] = fixed[0] + more[0];
    }"""
    body = """
    both<<<1, 1, 16384>>>(output);
    save(0, cudaGetLastError());
    both<<<1, 1, 16388>>>(output);
    save(1, cudaGetLastError());"""
    values = good(emulate(host(body, more)))
    assert values[:2] == [0, 1]


def test_a_launch_error_that_nobody_looks_at_is_found(emulate: Emulate) -> None:
    text = host("empty<<<1, 2000>>>();  // here", "__global__ void empty() {}")
    ran = emulate(text)
    assert ran.findings == [("launch_error", line_of(text, "// here"))]
    assert "1024" in ran.only_finding()["text"]


def test_a_lost_context_runs_no_later_kernel(emulate: Emulate) -> None:
    more = "__global__ void wild(float* p) { p[1 << 24] = 1; }"
    body = "wild<<<1, 1>>>(output); put<<<1, 1>>>(output, 0, 1.0f);"
    ran = emulate(host(body, more))
    assert [kind for kind, _ in ran.findings] == ["out_of_bounds_write"]
    assert ran.report["error"] == 700
    assert ran.values[0] != 1


def test_kernels_see_what_kernels_and_copies_before_them_did(emulate: Emulate) -> None:
    more = "__global__ void twice(float* p, int n) { if (threadIdx.x < n) p[threadIdx.x] *= 2; }"
    body = """
    cudaStream_t first, second;
    cudaStreamCreate(&first);
    cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
    cudaMemcpyAsync(output, input, n * 4, cudaMemcpyDeviceToDevice, first);
    twice<<<1, n, 0, first>>>(output, n);
    cudaStreamSynchronize(first);
    twice<<<1, n, 0, second>>>(output, n);
    cudaStreamDestroy(first);
    cudaStreamDestroy(second);"""
    assert good(emulate(host(body, more))) == [4.0 * i for i in range(64)]


# ---- The CUDA API --------------------------------------------------------------------------------


def test_memory_goes_to_the_device_and_on(emulate: Emulate) -> None:
    body = """
    float there[64], back[64], *device;
    for (int i = 0; i < 64; ++i) there[i] = 3 * i;
    save(60, cudaMalloc(&device, sizeof there));
    cudaMemcpy(device, there, sizeof there, cudaMemcpyHostToDevice);
    cudaMemcpy(back, device, sizeof back, cudaMemcpyDeviceToHost);
    cudaMemcpy(output, device, 60 * 4, cudaMemcpyDefault);
    save(60, cudaFree(device));
    save(61, cudaFree(nullptr));
    save(62, cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice));
    save(63, cudaMemcpy(output, back, 4, (cudaMemcpyKind)9));
    cudaGetLastError();"""
    ran = emulate(host(body))
    assert good(ran)[:60] == [3.0 * i for i in range(60)]
    assert ran.values[60:] == [0, 0, 0, 21]
    copies = ran.report["copies"]
    assert (copies["count"], copies["bytes"]) == (3, 256 + 256)
    assert (copies["host_to_device"], copies["device_to_host"]) == (1, 1)
    assert copies["device_to_device"] == 1


def test_copies_and_fills_of_two_dimensions(emulate: Emulate) -> None:
    body = """
    float column[8], *pitched;
    size_t pitch;
    for (int i = 0; i < 8; ++i) column[i] = i + 1;
    cudaMemset(output, 0, n * 4);
    cudaMemcpy2D(output, 8 * 4, column, 4, 4, 8, cudaMemcpyHostToDevice);
    cudaMemset2D(output + 2, 8 * 4, 0x3f, 4, 8);
    cudaMallocPitch(&pitched, &pitch, 8 * 4, 8);
    save(5, pitch);
    save(6, cudaMemcpy2D(pitched, pitch, input, 32, 32, 8, cudaMemcpyDeviceToDevice));
    cudaMemcpy2D(output + 3, 32, pitched, pitch, 4, 8, cudaMemcpyDeviceToDevice);
    cudaFree(pitched);
    save(7, cudaMemcpy2D(output, 32, input, 16, 32, 8, cudaMemcpyDeviceToDevice));
    cudaGetLastError();"""
    values = good(emulate(host(body)))
    assert values[0::8] == [float(i + 1) for i in range(8)]
    assert values[1::8] == [0.0] * 8
    assert all(0.7 < value < 0.8 for value in values[2::8])  # 0x3f3f3f3f
    assert values[3::8] == [8.0 * i for i in range(8)]
    assert (values[5], values[6], values[7]) == (512, 0, 12)


def test_symbols_are_copied_to_and_from(emulate: Emulate) -> None:
    more = """
    __constant__ float weights[4];
    __device__ float counter;
    __global__ void use(float* out) { out[threadIdx.x] = weights[threadIdx.x]; counter = 7; }"""
    body = """
    float w[4] = {1, 2, 3, 4};
    cudaMemcpyToSymbol(weights, w, 8);
    cudaMemcpyToSymbol(weights, w + 2, 8, 8);
    use<<<1, 4>>>(output);
    cudaMemcpyFromSymbol(output + 4, counter, 4, 0, cudaMemcpyDeviceToDevice);"""
    assert good(emulate(host(body, more)))[:5] == [1, 2, 3, 4, 7]


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("cudaMemcpy(output, input, n * 4, cudaMemcpyHostToDevice);", "wrong_copy_direction"),
        ("cudaMemcpy(output, input, n * 4 + 4, cudaMemcpyDeviceToDevice);", "copy_writes_outside"),
        ("float h[65]; cudaMemcpy(h, input, 260, cudaMemcpyDeviceToHost);", "copy_reads_outside"),
        ("cudaMemset(output, 0, n * 4 + 1);", "copy_writes_outside"),
        ("float h; cudaMemset(&h, 0, 4);", "host_pointer_on_device"),
        ('cudaMemcpy((void*)"word", input, 4, cudaMemcpyDeviceToHost);', "copy_writes_outside"),
        ("cudaMemcpyToSymbol(table, output, 20);", "copy_writes_outside"),
        ("float* p; cudaMalloc(&p, 4); cudaFree(p); cudaFree(p);", "bad_free"),
        ("cudaFree(output + 1);", "bad_free"),
    ],
)
def test_wrong_calls_are_found_at_their_line(emulate: Emulate, call: str, kind: str) -> None:
    text = host(f"{call}  // here", "__constant__ float table[4];")
    assert emulate(text).findings[0] == (kind, line_of(text, "// here"))


def test_events_tell_of_no_time(emulate: Emulate) -> None:
    body = """
    cudaEvent_t start, stop, untimed;
    cudaEventCreate(&start); cudaEventCreate(&stop);
    cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming);
    float ms = 0;
    save(2, cudaEventElapsedTime(&ms, start, stop));
    cudaEventRecord(start);
    put<<<1, 1>>>(output, 5, 1.0f);
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    save(1, cudaEventElapsedTime(&ms, start, stop));
    save(0, ms);
    cudaEventDestroy(start);
    save(3, cudaEventElapsedTime(&ms, start, stop));
    cudaGetLastError();"""
    assert good(emulate(host(body)))[:4] == [0, 0, 400, 400]


def test_the_device_is_an_h100(emulate: Emulate) -> None:
    body = """
    cudaDeviceProp p;
    int count = 0, device = 5, sms = 0, blocks = 0;
    cudaGetDeviceCount(&count); cudaGetDevice(&device); cudaGetDeviceProperties(&p, 0);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
    save(0, count); save(1, device); save(2, p.major * 10 + p.minor); save(3, p.warpSize);
    save(4, p.multiProcessorCount); save(5, sms); save(6, p.sharedMemPerBlockOptin);
    save(7, cudaSetDevice(1)); cudaGetLastError();
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, put, 256, 0); save(8, blocks);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, put, 256, 40000); save(9, blocks);
    size_t room, all; save(10, cudaMemGetInfo(&room, &all)); save(11, room > 0 && room <= all);"""
    values = good(emulate(host(body)))
    assert values[:12] == [1, 0, 90, 32, 132, 132, 227 * 1024, 101, 8, 5, 0, 1]


def test_errors_have_cudas_names(emulate: Emulate) -> None:
    body = 'printf("%s: %s\\n", cudaGetErrorName(cudaErrorIllegalAddress), '
    ran = emulate(host(body + "cudaGetErrorString(cudaErrorIllegalAddress));"))
    assert "cudaErrorIllegalAddress: an illegal memory access was encountered" in ran.printed


def test_memory_that_is_not_there_is_refused(emulate: Emulate) -> None:
    body = "void* p; save(0, cudaMalloc(&p, (size_t)1 << 40)); save(1, cudaGetLastError());"
    assert good(emulate(host(body)))[:2] == [2, 2]


# ---- Output, asserts, traps ----------------------------------------------------------------------


def test_device_code_prints(emulate: Emulate) -> None:
    kernel = '    if (t % 16 == 3) printf("lane %d has %.1f\\n", t, in[t]);\n    out[t] = 0;'
    ran = emulate(go(kernel), n=32)
    assert re.findall(r"lane \d+ has [\d.]+", ran.printed) == ["lane 3 has 3.0", "lane 19 has 19.0"]
    assert ran.report["printed"].splitlines() == [
        "thread (3,0,0) of block (0,0,0): lane 3 has 3.0",
        "thread (19,0,0) of block (0,0,0): lane 19 has 19.0",
    ]


@pytest.mark.parametrize(
    "broken", [r"\r", r"\r\n", r"\v", r"\f", r"\x1e", r"\u0085", r"\u2028", r"\u2029"]
)
def test_each_line_of_what_is_printed_has_its_thread(emulate: Emulate, broken: str) -> None:
    ran = emulate(go(f'    if (t == 1) printf("x{broken}" "Earned 5 of 5.{broken}");'), n=32)
    who = "thread (1,0,0) of block (0,0,0): "
    assert ran.report["printed"] == f"{who}x\n{who}Earned 5 of 5.\n"


def test_the_report_has_the_first_of_what_is_printed(emulate: Emulate) -> None:
    ran = emulate(go('    for (int i = 0; i < 99; ++i) printf("%d ", i);'), n=32)
    lines = ran.report["printed"].splitlines()
    assert lines[0].startswith("thread (0,0,0) of block (0,0,0): 0 1 2 ")
    assert lines[1].startswith("thread (1,0,0) of block (0,0,0): 0 1 2 ")
    assert 1600 < len(ran.report["printed"]) <= 2000


@pytest.mark.parametrize(
    "arguments",
    [
        '"%*d|", 2000000000, 1',
        '"%2000000000s|", "a"',
        '"%.*d|", 2000000000, 1',
        '"%.2000000000f|", 1.5',
        '"%99999999999999999999d|", 1',
    ],
)
def test_a_line_longer_than_the_buffer_of_what_is_printed_is_lost(
    emulate: Emulate, arguments: str
) -> None:
    """A width costs nothing to write down; the C library would take minutes to print the line."""
    ran = emulate(go(f"    if (t == 0) printf({arguments});"), n=32)
    assert "|" not in ran.printed and len(ran.report["printed"]) < 2000


def test_a_print_stores_nothing(emulate: Emulate) -> None:
    """CUDA's has no %n. Nobody would see its stores: no counter, no check of bounds or races."""
    ran = emulate(go('    out[t] = 7;\n    printf("abc%n%hhn", (int*)out + t, (char*)out + t);'))
    assert ran.values[:4] == [7, 7, 7, 7]


def test_a_print_takes_the_arguments_that_its_format_names(emulate: Emulate) -> None:
    format = "%d %5.2f|%-*d|%.*f %s %c %%%lld %llx %hd %zu %.1e %p %+d|%05u|%.3s|%#x%"
    values = (
        '-3, 1.5f, 4, 7, 1, 2.25, "name", 99, -5000000000LL, 1ULL << 40, 1 << 20 | 9, (size_t)8, '
        '12.5, (void*)0x10, 2, 42u, "abcdef", 255'
    )
    ran = emulate(go(f'    if (t == 0) out[0] = printf("{format}", {values});'), n=32)
    expected = (
        "-3  1.50|7   |2.2 name c %-5000000000 10000000000 9 8 1.2e+01 0x10 +2|00042|abc|0xff%"
    )
    assert expected in ran.printed and ran.values[0] == 18


def test_a_failed_assert_ends_the_launch_at_its_line(emulate: Emulate) -> None:
    kernel = "    out[t] = 1;\n    assert(t < 40);  // here"
    ran = emulate(text := go(kernel))
    assert ran.findings == [("device_assert", line_of(text, "// here"))]
    assert ran.report["error"] == 710
    assert ran.only_finding()["thread"] == [40, 0, 0]


def test_a_trap_ends_the_launch(emulate: Emulate) -> None:
    ran = emulate(text := go("    out[t] = 1;\n    if (t == 2) __trap();  // here"))
    assert ran.findings == [("device_assert", line_of(text, "// here"))]
    assert ran.report["error"] == 719


# ---- The C library's copies ----------------------------------------------------------------------

PASTED = "#define JOINED(a, b) a##b\n"
READS = [
    "memcpy(e, in + n, 32)",
    "std::memmove(e, in + n, 32)",
    "__builtin_memcpy(e, in + n, 32)",
    "JOINED(__builtin_mem, cpy)(e, in + n, 32)",
    "mempcpy(e, in + n, 32)",
    "bcopy(in + n, e, 32)",
    "std::copy(in + n, in + n + 8, e)",
    "e[0] = memcmp(e, in + n, 8)",
    "e[0] = __builtin_memcmp(e, in + n, 4) == 0",
    "strncpy((char*)e, (const char*)(in + n), 1)",
]
STORES = [
    "memcpy(out + n, e, 32)",
    "memset(out + n, 0, 32)",
    "__builtin_memset(out + n, 0, 16)",
    "bzero(out + n, 32)",
    "std::fill_n((char*)(out + n), 8, 0)",
    'strcpy((char*)(out + n), "abc")',
    'stpcpy((char*)(out + n), "")',
    'if (t == n - 1) strncat((char*)out + 4 * n - 1, "abc", 2)',
]


@pytest.mark.parametrize("by", [-3, 3, 40])
def test_a_copy_may_overlap_its_source(emulate: Emulate, by: int) -> None:
    kernel = f"""    char bytes[128];
    for (int i = 0; i < 128; ++i) bytes[i] = i;
    memmove(bytes + 40 + {by}, bytes + 40, 48);
    if (t == 0) for (int i = 0; i < n; ++i) out[i] = bytes[i];"""
    expected = [float(i) for i in range(128)]
    expected[40 + by : 88 + by] = expected[40:88]
    assert good(emulate("#include <cstring>\n" + go(kernel), n=128)) == expected


@pytest.mark.parametrize(
    ("access", "kind"),
    [(each, "out_of_bounds_read") for each in READS]
    + [(each, "out_of_bounds_write") for each in STORES],
)
def test_a_small_access_by_the_library_is_seen(emulate: Emulate, access: str, kind: str) -> None:
    head = "#include <algorithm>\n#include <cstring>\n" + PASTED
    kernel = (
        "    float e[8] = {};\n    out[t] = e[0];\n    ACCESS;  // here\n    out[t] = e[n % 8];"
    )
    text = head + go(kernel.replace("ACCESS", access))
    assert emulate(text, n=64).findings[0] == (kind, line_of(text, "// here"))


def test_a_small_copy_of_another_threads_value_is_a_race(emulate: Emulate) -> None:
    kernel = """    float e[8] = {float(t)};
    if (t < 8) memcpy(out + t * 4, e, 32);"""
    assert emulate("#include <cstring>\n" + go(kernel)).findings[0][0] == "race"


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("float a = Sums(s).Sum(t * 1.0f);\nout[t] = Sums(s).Sum(a); // here", "race"),
        ("out[t] = cub::BlockReduce<float, 128>().Sum(1.0f); // here", "uninitialised_read"),
        ("if (t < 32) out[t] = Sums(s).Sum(1.0f); // here", "missing_barrier"),
    ],
    ids=["storage used again without a barrier", "fewer threads", "a part of the block"],
)
def test_misused_collectives_of_cub_are_found(emulate: Emulate, kernel: str, kind: str) -> None:
    head = "#include <cub/cub.cuh>\nusing Sums = cub::BlockReduce<float, 64>;\n"
    text = head + go(f"__shared__ Sums::TempStorage s;\n{kernel}")
    assert emulate(text, n=64).findings[0] == (kind, line_of(text, "// here"))


def test_a_result_of_cubs_is_thread_0s_alone(emulate: Emulate) -> None:
    kernel = "out[t] = cub::BlockReduce<float, 64>().Sum(1.0f);"
    values = good(emulate("#include <cub/cub.cuh>\n" + go(kernel), n=64))
    assert values[0] == 64 and 64 not in values[1:]


def test_a_copy_counts_byte_by_byte_in_global_memory_as_nvcc_makes_it(emulate: Emulate) -> None:
    kernel = "    float4 e;\n    memcpy(&e, in + t * 4, 16);  // here\n"
    kernel += "    memcpy(out + t * 4, &e, 16);"
    ran = emulate(
        text := "#include <cstring>\n" + go(kernel, "k<<<1, n / 4>>>(output, input, n);"),
        n=128,
        measure=True,
    )
    assert good(ran) == [float(i) for i in range(128)]
    counted = {ran.lines[each["pc"]]: each for each in ran.report["launches"][0]["sites"]}
    assert counted[line_of(text, "// here")]["requests"] == 16


def test_a_copy_between_a_threads_own_variables_is_no_traffic(emulate: Emulate) -> None:
    kernel = """    float value = in[t];
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    memcpy(&value, &bits, sizeof bits);
    out[t] = value;"""
    ran = emulate("#include <cstring>\n" + go(kernel), n=32, measure=True)
    assert good(ran) == [float(i) for i in range(32)]
    assert len(ran.report["launches"][0]["sites"]) == 2


def test_padding_of_a_copied_structure_is_not_uninitialised(emulate: Emulate) -> None:
    kernel = """    struct Padded { double first; int second; };
    __shared__ Padded all[64];
    all[t].first = t;
    all[t].second = t;
    __syncthreads();
    Padded mine;
    memcpy(&mine, &all[63 - t], sizeof mine);
    out[t] = mine.first + mine.second;"""
    assert good(emulate("#include <cstring>\n" + go(kernel)))[0] == 126


# ---- The entry's end -----------------------------------------------------------------------------


def test_a_call_that_the_emulator_lacks_ends_the_entry_at_its_line(emulate: Emulate) -> None:
    text = host("cudaDeviceReset();  // here\nput<<<1, 1>>>(output, 0, 1.0f);")
    ran = emulate(text)
    assert ran.code is Code.not_modelled
    assert ran.report["message"].startswith("cudaDeviceReset")
    assert ran.lines[ran.report["pc"]] == line_of(text, "// here")


def test_more_local_memory_than_a_stack_holds_is_not_modelled(emulate: Emulate) -> None:
    more = """
    __device__ float deep(float x, int n) {
        volatile float room[1000];
        for (int i = 0; i < 1000; ++i) room[i] = x;
        return n == 0 ? room[7] : deep(x + 1, n - 1) + room[9];
    }
    __global__ void recurse(float* out) { out[0] = deep(1.0f, 100); }"""
    ran = emulate(host("recurse<<<1, 1>>>(output);", more))
    assert ran.code is Code.not_modelled


def test_host_calls_in_device_code_are_not_modelled(emulate: Emulate) -> None:
    more = "__global__ void nested(float* out) {\ncudaDeviceSynchronize();  // here\n}"
    ran = emulate(text := host("nested<<<1, 1>>>(output);", more))
    assert ran.code is Code.not_modelled
    assert ran.report["message"] == "CUDA API calls from device code"
    assert ran.lines[ran.report["pc"]] == line_of(text, "// here")


def test_a_local_array_larger_than_a_stack_is_not_modelled(emulate: Emulate) -> None:
    kernel = """
    float room[20000];
    for (int i = 0; i < 20000; ++i) room[i] = i + t;
    __syncthreads();
    out[t] = room[n * 100 + t];"""
    assert emulate(go(kernel)).code is Code.not_modelled


def test_more_barriers_than_the_search_for_races_can_tell_apart_are_not_modelled(
    emulate: Emulate,
) -> None:
    more = """
    __global__ void wait(float* out, int barriers) {
        for (int i = 0; i < barriers; ++i) __syncthreads();
        out[threadIdx.x] = 1.0f;
    }"""
    assert emulate(host("wait<<<1, 2>>>(output, 65534);", more)).code is Code.ok
    ran = emulate(host("wait<<<1, 2>>>(output, 65535);", more))
    assert ran.code is Code.not_modelled
    assert ran.report["message"] == "more than 65,534 barriers in one block"


@pytest.mark.parametrize("made", ["new int(7)", "static_cast<int*>(malloc(sizeof(int)))"])
def test_the_heap_of_the_device_is_not_modelled(emulate: Emulate, made: str) -> None:
    ran = emulate(go(f"\n    int* volatile kept = {made};\n    *kept = t;\n    out[t] = *kept;"))
    assert ran.code is Code.not_modelled
    assert ran.report["message"] == "malloc or new in device code"


def test_an_exception_of_the_host_code_is_answered(emulate: Emulate) -> None:
    assert emulate(host("throw 1;")).code is Code.raised


def test_a_run_repeats_itself(emulate: Emulate) -> None:
    kernel = """
    __shared__ int next;
    if (t == 0) next = 0;
    __syncthreads();
    out[atomicAdd(&next, 1)] = in[t] + __shfl_xor_sync(0xffffffff, in[t], 5);"""
    first, second = (emulate(go(kernel), 256, measure=True) for _ in range(2))
    assert good(first) == second.values
    assert first.report == second.report
