"""The emulator counts what an H100's own counters counted."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.emulator.report import LaunchCounters, Report
from tests.support.emulated import NEEDS_COMPILER, SOURCES, Program

pytestmark = NEEDS_COMPILER

# ncu's counters in the order of the table's columns: (space, kind, ours).
COUNTERS = {
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": ("global", "load", "requests"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": ("global", "load", "sectors"),
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": ("global", "store", "requests"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": ("global", "store", "sectors"),
    "smsp__inst_executed_op_shared_ld.sum": ("shared", "load", "requests"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": ("shared", "load", "wavefronts"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": ("shared", "load", "conflicts"),
    "smsp__inst_executed_op_shared_st.sum": ("shared", "store", "requests"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": ("shared", "store", "wavefronts"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": ("shared", "store", "conflicts"),
}
# What the emulator counts otherwise, with the reason; everything else must be equal.
DIFFERENCES = {
    # The hardware's compiler unrolls the loop over k and merges four loads of As into one of 16
    # bytes; the emulator counts the loads of the source.
    (4, "smsp__inst_executed_op_shared_ld.sum"): 1_048_576,
    (4, "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"): 1_048_576,
    # The hardware's compiler lays the loops out so that lanes which leave the inner one don't wait
    # for the others before the next load: 16 requests of it where the emulator has 4.
    (6, "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"): 20,
    (6, "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"): 80,
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program(SOURCES / "calibration.cu", tmp_path_factory.mktemp("calibration"))


@pytest.fixture(scope="module")
def measured(program: Program) -> Report:
    report = program.run("entry", measure=True).report
    assert report is not None
    assert not report.cut
    return report


def hardware() -> Iterator[dict[str, str]]:
    with (SOURCES / "ncu_h100.csv").open() as file:
        yield from csv.DictReader(file)


def counted(launch: LaunchCounters, counter: str) -> int:
    space, kind, name = COUNTERS[counter]
    sites = [site for site in launch.sites if site.space == space and site.kind == kind]
    return sum(getattr(site, name) for site in sites)


@pytest.mark.parametrize(
    "row", list(hardware()), ids=lambda row: f"{row['launch']}-{row['kernel']}"
)
def test_a_launch_has_the_hardwares_counters(measured: Report, row: dict[str, str]) -> None:
    launch = measured.launches[int(row["launch"]) - 1]
    assert launch.kernel == row["kernel"]
    assert " ".join(map(str, launch.grid)) == row["grid"]
    assert " ".join(map(str, launch.block)) == row["block"]
    assert launch.count == 1
    for counter in COUNTERS:
        expected = DIFFERENCES.get((int(row["launch"]), counter), int(row[counter]))
        assert counted(launch, counter) == expected, counter


def test_every_known_difference_is_one() -> None:
    table = {int(row["launch"]): row for row in hardware()}
    for (launch, counter), ours in DIFFERENCES.items():
        assert int(table[launch][counter]) != ours


def test_useful_bytes_are_the_bytes_that_lanes_touch(measured: Report) -> None:
    naive = {site.kind: site for site in measured.launches[0].sites}
    assert naive["load"].useful_bytes == naive["load"].sectors * 32 == 256 * 256 * 4
    assert naive["store"].useful_bytes == 256 * 256 * 4
    assert naive["store"].sectors == 256 * 256  # each store of a column meets a sector of its own


def test_conflicts_are_told_with_the_worst_request(measured: Report) -> None:
    unpadded, padded = measured.launches[1], measured.launches[2]
    worst = [max(s.ways for s in x.sites if s.space == "shared") for x in (unpadded, padded)]
    assert worst == [32, 1]
    assert [launch.static_shared for launch in (unpadded, padded)] == [4096, 4224]


def test_simt_efficiency_is_one_without_divergence_only(measured: Report) -> None:
    efficiency = {launch.kernel: launch.simt_efficiency for launch in measured.launches}
    assert efficiency["transpose_naive"] == 1
    assert 0.5 < efficiency["divergent_loops"] < 0.9


def test_counters_point_at_lines(program: Program, measured: Report) -> None:
    sites = [site for launch in measured.launches for site in launch.sites]
    assert all(program.line_of(site.pc) for site in sites)


def test_the_same_program_counts_the_same_every_time(program: Program) -> None:
    first, second = (program.run("entry", measure=True).printed for _ in range(2))
    assert first == second


def test_a_second_call_counts_itself_alone(program: Program, measured: Report) -> None:
    assert program.run("entry", measure=True, times=2).report == measured


def test_run_reports_no_counters(program: Program) -> None:
    report = program.run("entry").report
    assert report is not None
    assert report.launches == report.buffers == ()


BUFFERS = """
#include <cuda_runtime.h>
#define ENTRY extern "C" void
__global__ void copy(float* out, const float* in, int n, int step) {
    int i = threadIdx.x;
    if (i * step < n) out[i] = in[i * step];
}
ENTRY every_element(const float* in, float* out, int n) { copy<<<1, 256>>>(out, in, n, 1); }
ENTRY every_eighth(const float* in, float* out, int n) { copy<<<1, 256>>>(out, in, n, 8); }
__constant__ float held[256];
__global__ void sum(float* out, int n) {
    float s = 0;
    for (int i = 0; i < n; i++) s += held[i];
    out[threadIdx.x] = s;
}
ENTRY from_the_device(const float* in, float* out, int n) {
    cudaMemcpyToSymbolAsync(held, in, 4 * n, 0, cudaMemcpyDeviceToDevice);
    sum<<<1, 32>>>(out, n);
}
ENTRY from_the_host(const float* in, float* out, int n) {
    float values[256] = {};
    cudaMemcpyToSymbol(held, values, 4 * n);
    sum<<<1, 32>>>(out, n);
}
ENTRY many_launches(const float* in, float* out, int n) {
    for (int i = 1; i <= 1024; i++) copy<<<1, i>>>(out, in, n, 1);
}
"""


@pytest.fixture(scope="module")
def buffers(tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder: Path = tmp_path_factory.mktemp("buffers")
    source = folder / "buffers.cu"
    source.write_text(BUFFERS)
    return Program(source, folder / "built")


def test_bytes_and_sectors_are_counted_per_argument(buffers: Program) -> None:
    report = buffers.run("every_element", measure=True).report
    assert report is not None
    load, store = report.buffers
    assert (load.argument, load.load_bytes, load.load_sectors) == (0, 1024, 32)
    assert (load.store_bytes, load.store_sectors) == (0, 0)
    assert (store.argument, store.store_bytes, store.store_sectors) == (1, 1024, 32)


@pytest.mark.parametrize(("entry", "most"), [("from_the_device", 1028), ("from_the_host", 4)])
def test_constant_memory_counts_where_it_was_copied_from_the_device(
    buffers: Program, entry: str, most: int
) -> None:
    """There it may hold a whole tensor, which one thread could read unseen."""
    report = buffers.run(entry, measure=True).report
    assert report is not None
    assert [launch.largest_bytes for launch in report.launches] == [most]


def test_strided_loads_cost_an_argument_a_sector_each(buffers: Program) -> None:
    report = buffers.run("every_eighth", measure=True).report
    assert report is not None
    assert (report.buffers[0].load_bytes, report.buffers[0].load_sectors) == (128, 32)


def test_a_report_that_does_not_fit_says_so(buffers: Program) -> None:
    outcome = buffers.run("many_launches", measure=True)
    assert outcome.report is not None
    assert outcome.report.cut
    assert len(outcome.printed) <= 64 * 1024
    assert outcome.report.launches


def test_a_long_kernel_without_a_barrier_of_the_whole_block_is_counted(tmp_path: Path) -> None:
    source = tmp_path / "long.cu"
    source.write_text(
        "#include <cuda/barrier>\n"
        "__global__ void add(float* out, const float* in, int n) {\n"
        "    __shared__ cuda::barrier<cuda::thread_scope_block> all;\n"
        "    if (threadIdx.x == 0) init(&all, blockDim.x);\n"
        "    __syncthreads();\n"
        "    float sum = 0;\n"
        "    for (int i = 0; i < 20000; ++i, __syncwarp()) sum += in[threadIdx.x % 32];\n"
        "    all.arrive_and_wait();\n"
        "    if (threadIdx.x < 32) out[threadIdx.x] = sum;\n"
        "}\n"
        'extern "C" void entry(const float* in, float* out, int n) {\n'
        "    add<<<1, 1024>>>(out, in, n);\n"
        "}\n"
    )
    report = Program(source, tmp_path / "built").run("entry", measure=True).report
    assert report is not None
    sites = [site for site in report.launches[0].sites if site.space == "global"]
    assert {site.kind: site.requests for site in sites} == {"load": 32 * 20000, "store": 1}


TURNED = """
#include <cuda_runtime.h>
__global__ void turn(const float* in, float* out) {
    const int lane = threadIdx.x;
    float v[4];
    for (int i = 0; i < 4; ++i) v[i] = in[i * 32 + lane];
#pragma unroll
    for (int d = 2; d; d >>= 1) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (!(i & d)) {
                const float a = v[i], b = v[i | d];
                const float got = __shfl_xor_sync(~0u, lane & d ? a : b, d);
                v[i] = lane & d ? got : a;
                v[i | d] = lane & d ? b : got;
            }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i * 32 + lane] = v[i];
}
extern "C" void entry(const float* in, float* out, int n) { turn<<<1, 32>>>(in, out); }
"""


AGAIN = """
#include <cuda_runtime.h>
__global__ void choose(const float* in, float* out) {
    const int lane = threadIdx.x;
    const float a = in[lane], b = in[lane + 32];
    float x, y;
    if (lane & 2) x = a * 2; else x = b;
    if (lane & 2) y = b; else y = a - 1;
    out[lane] = x;
    out[lane + 32] = y;
    const bool is_odd = lane & 1;
    out[lane + 64] = is_odd ? x : y;
    out[lane + 96] = is_odd ? y : x;
}
extern "C" void entry(const float* in, float* out, int n) { choose<<<1, 32>>>(in, out); }
"""


@pytest.mark.parametrize(
    ("kernel", "loads"), [(TURNED, 4), (AGAIN, 2)], ids=["turned", "same_condition_again"]
)
def test_lanes_that_took_two_branches_store_together_behind_them(
    tmp_path: Path, kernel: str, loads: int
) -> None:
    """With g++ 11, too, which would join two branches on one condition: run it with CXX=g++-11."""
    source = tmp_path / "branches.cu"
    source.write_text(kernel)
    report = Program(source, tmp_path / "built").run("entry", measure=True).report
    assert report is not None
    sites = [site for site in report.launches[0].sites if site.space == "global"]
    counted = {kind: [site for site in sites if site.kind == kind] for kind in ("load", "store")}
    totals = {
        kind: (sum(site.requests for site in each), sum(site.sectors for site in each))
        for kind, each in counted.items()
    }
    assert totals == {"load": (loads, 4 * loads), "store": (4, 16)}


BRANCHLESS = """
__global__ void store(float* out, int) {
    const int lane = threadIdx.x;
    for (int turn = 0; turn < 32; ++turn) {
        float nowhere;
        float* place = turn == lane ? &out[lane] : &nowhere;
        *place = lane;
    }
}
"""
DEEP = """
__device__ __noinline__ void put(float* place, float value) { *place = value; }
__device__ __noinline__ void descend(float* out, int lane, int calls) {
    if (calls) return descend(out, lane, calls - 1);
    for (int turn = 0; turn < 32; ++turn)
        if (turn == lane) put(out + lane, lane);
}
__global__ void store(float* out, int calls) { descend(out, threadIdx.x, calls); }
"""
ENTRY = """
extern "C" void entry(const float* in, float* out, int n) {
    for (int calls = 250; calls < 260; ++calls) store<<<1, 32>>>(out, calls);
}
"""


@pytest.mark.parametrize("kernel", [BRANCHLESS, DEEP], ids=["branchless", "deep"])
def test_lanes_that_store_in_turn_do_not_store_together(tmp_path: Path, kernel: str) -> None:
    """Where a turn is one basic block without a branch, and in a call of a great depth."""
    source = tmp_path / "in_turn.cu"
    source.write_text(kernel + ENTRY)
    report = Program(source, tmp_path / "built").run("entry", measure=True).report
    assert report is not None
    for launch in report.launches:
        (stores,) = (site for site in launch.sites if site.space == "global")
        assert (stores.requests, stores.sectors) == (launch.count * 32, launch.count * 32)


# A structure of a kernel, and the pieces that nvcc moves it in: none is larger than its alignment.
STRUCTURES = [
    ("float4", 1),
    ("struct alignas(16) { float v[4]; }", 1),
    ("struct alignas(8) { float v[4]; }", 2),
    ("struct { float2 a, b; }", 2),
    ("struct { float v[4]; }", 4),
    ("struct { long long a; int b, c; }", 2),
    ("struct { float v[3]; }", 3),
    ("struct alignas(16) { float v[8]; }", 2),
    ("struct { float v[8]; }", 8),
    ("Tailed", 3),  # which g++ copies as bytes, so that its alignment isn't known
]
TAILED = "struct alignas(16) Head { float2 a; };\nstruct Tailed : Head { float2 b; };\n"
MOVED = """
template <class T> __global__ void whole(T* out, const T* in) {
    out[threadIdx.x] = in[threadIdx.x];
}
template <class T> __global__ void turned(T* out, const T* in) {
    alignas(16) T values[4];
    extern __shared__ char memory[];
    T* shared = reinterpret_cast<T*>(memory);
    shared[31 - threadIdx.x] = in[threadIdx.x];
    __syncwarp();
    values[threadIdx.x % 4] = shared[threadIdx.x];
    out[threadIdx.x] = values[threadIdx.x % 4];
}
__global__ void dynamic(float* out) {
    extern __shared__ float floats[];
    floats[31 - threadIdx.x] = threadIdx.x;
    __syncwarp();
    out[threadIdx.x] = floats[threadIdx.x];
}
template <class T> void move(float* out, const float* in) {
    whole<<<1, 32>>>((T*)out, (const T*)in);
    turned<<<1, 32, 1024>>>((T*)out, (const T*)in);
}
"""


def test_a_structure_is_moved_in_pieces_of_its_alignment(tmp_path: Path) -> None:
    types = [f"using S{i} = {text};\n" for i, (text, _) in enumerate(STRUCTURES)]
    calls = " ".join(f"move<S{i}>(out, in);" for i in range(len(STRUCTURES)))
    calls += " dynamic<<<1, 32, 128>>>(out);"
    entry = f'extern "C" void entry(const float* in, float* out, int n) {{ {calls} }}'
    source = tmp_path / "structures.cu"
    source.write_text("".join((TAILED, *types, MOVED, entry)))
    report = Program(source, tmp_path / "built").run("entry", measure=True).report
    assert report is not None
    requests = [{site.requests for site in launch.sites} for launch in report.launches]
    assert requests == [*({pieces} for _, pieces in STRUCTURES for _ in range(2)), {1}]
