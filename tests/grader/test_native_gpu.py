"""The native host on a GPU: results, guard zones, errors and counts come back as they happened."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from grader.worker import builder, nvcc
from grader.worker.builder import Wanted
from grader.worker.protocol import Argument, Code, Kind, Operation, Reply
from tests.grader.native import NATIVE, NativeWorker, Placement, fields, vector

pytestmark = pytest.mark.gpu

N = 1000
SOURCE = """
#include <cassert>
#include <cstdio>
__global__ void twice_kernel(float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
__global__ void assert_kernel(int n) { assert(n < 0); }
__global__ void print_kernel() { printf("from the device\\n"); }
#define ENTRY extern "C" void
ENTRY twice(float* x, float* y, int n) { twice_kernel<<<(n + 255) / 256, 256>>>(x, y, n); }
ENTRY too_far(float* x, float* y, int n) { twice(x, y, n + 3); }
ENTRY backwards(float* x, float* y, int n) { twice(y, x, n); }
ENTRY nowhere(float* x, float*, int n) { twice(x, (float*)64, n); }
ENTRY asserts(float*, float*, int n) { assert_kernel<<<1, 1>>>(n); }
ENTRY too_wide(float* x, float* y, int n) { twice_kernel<<<1, 2048>>>(x, y, n); }
ENTRY looks(float* x, float* y, int n) { too_wide(x, y, n); cudaGetLastError(); }
ENTRY greedy(float*, float*, int) { void* p; cudaMalloc(&p, size_t(1) << 45); }
ENTRY resets(float*, float*, int) { cudaDeviceReset(); }
ENTRY prints(float*, float*, int) { print_kernel<<<1, 1>>>(); }
ENTRY leaks(float* x, float*, int) {
    void *kept, *freed;
    cudaMalloc(&kept, 4096);
    cudaMalloc(&freed, 4096);
    cudaFree(freed);
}
__constant__ float table[4];
ENTRY copies(float* h, float* d, int n) {
    cudaMemcpy(d, h, 4 * n, cudaMemcpyHostToDevice);
    cudaMemcpyAsync(d, h, 4, cudaMemcpyDefault);
    cudaMemcpy2D(d, 8, h, 4, 4, 10, cudaMemcpyHostToDevice);
    cudaMemcpy(d + 1, d, 4, cudaMemcpyDeviceToDevice);
    cudaMemcpyToSymbol(table, h, 16);
    float back;
    cudaMemcpy(&back, d, 4, cudaMemcpyDeviceToHost);
}
"""
ENTRIES = (
    *("twice", "too_far", "backwards", "nowhere", "asserts", "too_wide"),
    *("looks", "greedy", "resets", "prints", "leaks", "copies"),
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_program(tmp_path_factory.mktemp("gpu"))


def build_program(folder: Path) -> Path:
    source, table, made = folder / "all.cu", folder / "table.cpp", folder / "program"
    source.write_text(SOURCE)
    calls = "".join(
        f'extern "C" void {name}(float*, float*, int);\n'
        f"static void call_{name}(const warpgrade_value* v) {{\n"
        f"    {name}((float*)v[0].pointer, (float*)v[1].pointer, v[2].integer);\n}}\n"
        for name in ENTRIES
    )
    rows = ", ".join(f'{{"{name}", "ppi", call_{name}}}' for name in ENTRIES)
    table.write_text(
        f'#include "entries.h"\n{calls}extern "C" {{\n'
        f"const warpgrade_entry warpgrade_entries[] = {{{rows}}};\n"
        f"const unsigned warpgrade_entry_count = {len(ENTRIES)};\n}}\n"
    )
    command = ["g++", "-std=c++17", f"-I{NATIVE}", "-c", str(table), "-o", str(folder / "t.o")]
    subprocess.run(command, check=True)
    assert nvcc.compile_object("nvcc", source, folder / "all.o") == ()
    host = nvcc.host_objects("nvcc", folder / "cache", folder)
    assert nvcc.link("nvcc", [*host, folder / "all.o", folder / "t.o"], made, source) == ()
    return made


@pytest.fixture
def placement() -> Iterator[Placement]:
    with _placed() as placement:
        yield placement


def _placed(**fields: str) -> Placement:
    slots = [vector("x", torch.arange(float(N)), **fields), vector("y", N)]
    return Placement(slots, inputs_writable=True)


def ask(
    program: Path, entry: str, placement: Placement, operation: Operation = Operation.run
) -> tuple[Reply, NativeWorker]:
    """The answer to one request, and the worker it came from."""
    worker = NativeWorker(program, entry, placement.arena.buffers)
    assert worker.receive() == Reply(0, Code.ok)
    reply = worker.load(3)
    assert reply.code is Code.ok, reply.text
    reply = worker.ask(operation, _arguments(placement))
    assert reply is not None
    return reply, worker


def _arguments(placement: Placement) -> list[Argument]:
    return [*placement.arguments, Argument(Kind.int64, scalar=N)]


def test_results_come_back(program: Path, placement: Placement) -> None:
    reply, worker = ask(program, "twice", placement)
    with worker:
        assert reply.code is Code.ok
        assert fields(reply)["findings"] == []
        assert torch.equal(placement.values("y"), 2 * torch.arange(float(N)))
        assert worker.ask(Operation.run, _arguments(placement)).code is Code.ok


def test_store_past_the_output_comes_back_too(program: Path, placement: Placement) -> None:
    reply, worker = ask(program, "too_far", placement)
    with worker:
        assert reply.code is Code.ok
        _, output = placement.arena.collect(placement.placed)
        assert output.outside == (N, N + 1, N + 2)


def test_store_to_an_input_comes_back_too(program: Path, placement: Placement) -> None:
    reply, worker = ask(program, "backwards", placement)
    with worker:
        assert reply.code is Code.ok
        given, output = placement.arena.collect(placement.placed)
        assert given.changed
        assert not output.changed


@pytest.mark.parametrize(
    ("entry", "error"),
    [("nowhere", "cudaErrorIllegalAddress"), ("asserts", "cudaErrorAssert")],
)
def test_broken_context_is_named_and_ends_the_worker(
    program: Path, placement: Placement, entry: str, error: str
) -> None:
    reply, worker = ask(program, entry, placement)
    with worker:
        assert reply.code is Code.device_failed
        assert fields(reply)["type"] == error
        assert fields(reply)["message"]
        assert worker.receive() is None
        assert worker.ends_with()[0] == 0


def test_launch_error_nobody_looked_at_is_found(program: Path, placement: Placement) -> None:
    reply, worker = ask(program, "too_wide", placement)
    with worker:
        assert reply.code is Code.found
        (finding,) = fields(reply)["findings"]
        assert finding["kind"] == "launch_error"
        assert "cudaErrorInvalid" in finding["text"]  # Configuration, or Value: by driver
        assert worker.ask(Operation.run, _arguments(placement)).code is Code.found


def test_launch_error_somebody_looked_at_is_theirs(program: Path, placement: Placement) -> None:
    reply, worker = ask(program, "looks", placement)
    with worker:
        assert reply.code is Code.ok


def test_memory_kept_is_found_and_freed(program: Path, placement: Placement) -> None:
    reply, worker = ask(program, "leaks", placement)
    with worker:
        assert reply.code is Code.found
        (finding,) = fields(reply)["findings"]
        assert finding["kind"] == "leak"
        assert "4096 bytes" in finding["text"]


def test_too_much_memory_is_told(program: Path, placement: Placement) -> None:
    reply, worker = ask(program, "greedy", placement)
    with worker:
        assert reply.code is Code.out_of_memory
        assert worker.ask(Operation.run, _arguments(placement)).code is Code.out_of_memory


def test_reset_of_the_device_is_an_answer(program: Path, placement: Placement) -> None:
    reply, worker = ask(program, "resets", placement)
    with worker:
        assert reply.code is Code.device_failed


def test_what_a_kernel_prints_is_in_the_log(program: Path, placement: Placement) -> None:
    reply, worker = ask(program, "prints", placement)
    with worker:
        assert reply.code is Code.ok
        assert worker.ends_with() == (0, "from the device\n")


def test_copies_are_counted_by_direction(program: Path) -> None:
    with _placed(space="host") as placement:
        reply, worker = ask(program, "copies", placement)
        with worker:
            assert reply.code is Code.ok
            assert fields(reply)["copies"] == {
                "count": 6,
                "bytes": 4 * N + 4 + 40 + 4 + 16 + 4,
                "host_to_device": 4,
                "device_to_host": 1,
                "device_to_device": 1,
            }
            assert placement.values("y")[N - 1] == N - 1


@pytest.mark.parametrize("entry", ["twice", "too_wide", "leaks"])
def test_report_has_the_emulators_shape(program: Path, placement: Placement, entry: str) -> None:
    pytest.importorskip("pydantic")
    from grader.emulator import report

    reply, worker = ask(program, entry, placement)
    with worker:
        told = report.parse(reply.text)
        assert bool(told.findings) == (reply.code is Code.found)


def test_program_of_the_builder_computes(tmp_path: Path, placement: Placement) -> None:
    source = tmp_path / "twice.cu"
    source.write_text(SOURCE)
    builder.load_emulator()
    kinds = ["pointer:float32", "pointer:float32", "int"]
    wanted = Wanted("gpu", ({"name": "twice", "arguments": kinds},), cache=str(tmp_path / "cache"))
    made = builder.build(source, wanted, tmp_path)
    assert made.problems == []
    reply, worker = ask(made.executable, "twice", placement)
    with worker:
        assert reply.code is Code.ok
        assert torch.equal(placement.values("y"), 2 * torch.arange(float(N)))
