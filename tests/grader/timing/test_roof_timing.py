"""Roofs are timed by the clock that grades, in workers that it trusts; what fails is one line."""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
import torch

from grader.cases import gpu_memory
from grader.gpu.machine import gpu_properties
from grader.gpu.measured_roofs import (
    DTYPES,
    SecondsOf,
    Workload,
    WorkloadFailed,
    copy_workload,
    matrix_workload,
    peaks_of,
)
from grader.sandbox.memfd import Memfds
from grader.timing import contenders, roofs
from grader.timing.buffer_sets import BufferSets, Layout
from grader.worker import baselines
from grader.worker.gpu_mapping import GpuMemoryError

COPY = copy_workload(0)  # 1 MiB each way
LARGER = copy_workload(1 << 30)  # 16 MiB: long against what a busy machine adds


@pytest.fixture(autouse=True)
def few_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """To draw inputs takes longer than anything else over the CPU."""
    if gpu_properties() is None:
        monkeypatch.setattr(contenders, "MOST_BUFFER_SETS", 8)


@pytest.fixture
def seconds_of(python_sandbox) -> Iterator[SecondsOf]:
    """As `timer` gives it, in a sandbox that is there already."""
    with roofs._WorkloadTimer(python_sandbox) as timer:
        yield timer.seconds_of


def test_the_timer_brings_a_sandbox_of_its_own():
    with roofs.timer("cpu") as seconds_of:
        assert seconds_of(matrix_workload("float32", 320)) > 0


@pytest.mark.parametrize("workload", [LARGER, *(matrix_workload(each, 320) for each in DTYPES)])
def test_every_workload_is_timed(seconds_of, workload):
    assert 0 < seconds_of(workload) < 1


def test_a_larger_copy_takes_longer(seconds_of):
    assert seconds_of(LARGER) > seconds_of(COPY)


def test_a_workload_keeps_its_worker_and_its_buffers(seconds_of, monkeypatch):
    made = []

    def counted(*arguments):
        made.append(arguments)
        return Memfds(*arguments)

    monkeypatch.setattr(contenders, "Memfds", counted)
    product = matrix_workload("float32", 32)
    for workload in (product, product, COPY, product):
        seconds_of(workload)
    assert len(made) == 3


@pytest.mark.parametrize("workload", [COPY, *(matrix_workload(each, 64) for each in DTYPES)])
def test_a_baseline_writes_its_result_into_the_buffer_it_is_given(
    seconds_of, monkeypatch, workload
):
    made: list[BufferSets] = []

    class Seen(BufferSets):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(contenders, "BufferSets", Seen)
    seconds_of(workload)
    [sets] = made
    right = 0
    for number in range(sets.count):
        given = [view.float() for _, view in sets._views(number, "input")]
        [(_, out)] = sets._views(number, "output")
        if not out.any():
            continue  # a set that no run has come to
        expected = given[0] if len(given) == 1 else given[0] @ given[1]
        assert torch.allclose(out.float(), expected, rtol=2e-2, atol=0.2)
        assert expected.std() > 0.9  # of random numbers
        right += 1
    assert right >= 1  # what is long enough has one call in a replay


def test_the_vendors_product_takes_views_of_shared_memory():
    for dtype, entry in itertools.product(
        ("float32", "bfloat16"), (baselines.matmul, baselines.matmul_tf32)
    ):
        layout = Layout.of_inputs(roofs._inputs(matrix_workload(dtype, 24)))
        with closing(Memfds(*layout.bytes(2))) as memory:
            sets = BufferSets(memory, layout, 2)
            sets.fill([0, 1])
            a, b = (view for _, view in sets._views(1, "input"))
            [(_, out)] = sets._views(1, "output")
            entry(a, b, out)
            assert torch.equal(out, a @ b)
            [(_, other)] = sets._views(0, "output")
            assert not other.any()


# --- what goes wrong ------------------------------------------------------------------------------


DIES = "import os\n\ndef copy(source, destination):\n    os._exit(3)\n"
RAISES = "def copy(source, destination):\n    raise RuntimeError('first\\nsecond')\n"


@pytest.mark.parametrize(("source", "why"), [(DIES, "exit status 3"), (RAISES, "first")])
def test_a_worker_that_fails_is_one_line(python_sandbox, seconds_of, monkeypatch, source, why):
    path = python_sandbox.hold("failing_baselines.py", source.encode())
    with monkeypatch.context() as changed:
        changed.setattr(roofs.contenders, "BASELINES", path)
        assert why in failure(seconds_of, COPY)
    assert seconds_of(LARGER) > 0  # the next is none the worse for it


def test_too_little_memory_is_one_line(seconds_of, monkeypatch):
    monkeypatch.setattr(contenders, "_room", lambda on_gpu: 1 << 20)
    assert "sets of buffers have" in failure(seconds_of, matrix_workload("float32", 500))


def test_too_little_memory_of_our_own_is_one_line(seconds_of, monkeypatch):
    def full(*_):
        raise torch.cuda.OutOfMemoryError("tried to allocate\nmuch")

    monkeypatch.setattr(BufferSets, "fill", full)
    assert "too little memory" in failure(seconds_of, matrix_workload("float32", 17))


def test_memory_that_cannot_be_shared_is_one_line(seconds_of, monkeypatch):
    def refused(*_):
        raise GpuMemoryError("exporting: CUDA_ERROR_NOT_SUPPORTED")

    monkeypatch.setattr(contenders, "Memfds", refused)
    assert "exporting: CUDA_ERROR_NOT_SUPPORTED" in failure(seconds_of, COPY)


def test_without_cuda_bindings_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(GpuMemoryError, match="cuda-bindings isn't installed: pip install"):
        gpu_memory._Allocation(1 << 20, 0)


def failure(seconds_of: SecondsOf, workload: Workload) -> str:
    with pytest.raises(WorkloadFailed) as caught:
        seconds_of(workload)
    text = str(caught.value)
    assert text and "\n" not in text and len(text) <= 200
    return text


@pytest.mark.parametrize("gib", [8, 16, 24, 80])
def test_enough_sets_of_a_copy_fit_a_gpu_of_which_most_is_free(gib):
    layout = Layout.of_inputs(roofs._inputs(copy_workload(gib << 30)))
    free = int(0.9 * (gib << 30) * contenders.MEMORY_SHARE)
    assert contenders._count(layout, free) >= contenders.FEWEST_BUFFER_SETS


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_on_a_gpu_repeats_agree_and_no_roof_is_above_the_data_sheets():
    gpu = gpu_properties()
    limits = peaks_of(gpu)
    with roofs.timer() as seconds_of:
        copied = copy_workload(gpu.memory_bytes)
        repeats = [seconds_of(copied) for _ in range(3)]
        assert max(repeats) < 1.05 * min(repeats)
        assert 0.75 < copied.bytes / statistics.median(repeats) / limits.bandwidth < 1.1
        for dtype in DTYPES:
            product = matrix_workload(dtype)
            repeats = [seconds_of(product) for _ in range(3)]
            assert max(repeats) < 1.1 * min(repeats)
            assert 0.3 < product.flops / statistics.median(repeats) / limits.flops[dtype] < 1.1
