"""Without a GPU, host code that asks for its device meets the course's GPU, not always an H100."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.serve import CUDA, TRITON
from grader.executors.cuda import cuda_build
from grader.gpu import kinds, machine
from grader.grading.session import Options
from grader.service.single import EFFORTS, check_source, exercises_of, task_named
from grader.spec.task import Task

EXERCISES = exercises_of(None)
LITTLE = replace(EFFORTS["quick"], edges=1, drawn=0)
ASKS = """
properties = torch.cuda.get_device_properties(0)
driver = triton.runtime.driver.active
known = driver.utils.get_device_properties(0)
assert "A100" in properties.name and properties.name == torch.cuda.get_device_name()
assert (properties.major, properties.minor) == torch.cuda.get_device_capability() == (8, 0)
assert properties.multi_processor_count == known["multiprocessor_count"] == 108
assert properties.shared_memory_per_block_optin == known["max_shared_mem"] == 163 << 10
assert properties.L2_cache_size == 40 << 20
assert driver.get_current_target().arch == 80 and torch.cuda.get_arch_list() == ["sm_80"]
"""
ASKS_IN_CUDA = """
#include <cstring>
static void ask() {
    cudaDeviceProp p;
    int sms = 0, l2 = 0;
    cudaGetDeviceProperties(&p, 0);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
    cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, 0);
    const bool is_right = std::strstr(p.name, "A100") && p.major == 8 && p.minor == 0 &&
        p.multiProcessorCount == 108 && sms == 108 && l2 == 40 << 20 && p.l2CacheSize == l2 &&
        p.sharedMemPerBlockOptin == 163 * 1024 && p.sharedMemPerMultiprocessor == 164 * 1024;
    if (!is_right) throw 1;
}
extern "C" void silu("""


def of_course_for(gpu: str, name: str) -> Task:
    task = task_named(EXERCISES, name)
    exercise = task.exercise.model_copy()
    exercise.belongs_to(exercise.reference, gpu)
    return Task(exercise, exercise.variants[task.variant.name])


@pytest.fixture(autouse=True)
def for_the_usual_course():
    yield
    machine.work_for("")


def checked(task: Task, source: str, sandbox=None):
    options = Options(device="cpu", effort=LITTLE, keeps_builds=False)
    return check_source(task, source, options, timed=False, sandbox=sandbox)


@pytest.mark.skipif(machine.gpu_name() is not None, reason="this machine's GPU is seen")
def test_a_triton_launcher_meets_the_courses_gpu(shared_sandbox):
    result = checked(of_course_for("A100", "silu/triton"), TRITON + ASKS, shared_sandbox)
    assert result.passed, result.message
    assert (
        "AssertionError"
        in checked(of_course_for("H100", "silu/triton"), TRITON + ASKS, shared_sandbox).message
    )


@pytest.mark.skipif(machine.gpu_name() is not None, reason="this machine's GPU is seen")
def test_a_cuda_launcher_meets_the_courses_gpu():
    if cuda_build.why_not("emulator"):
        pytest.skip("no C++ compiler")
    source = CUDA.replace('extern "C" void silu(', ASKS_IN_CUDA)
    begin = source.index("{", source.index('extern "C" void silu(')) + 1
    source = f"{source[:begin]} ask(); {source[begin:]}"
    result = checked(of_course_for("A100", "silu/cuda"), source)
    assert result.passed, result.message


def test_a_gpu_is_known_by_its_name():
    assert kinds.by_name("H100").name == "NVIDIA H100 80GB HBM3" == kinds.by_name("").name
    t4 = kinds.by_name("T4")
    assert (t4.capability, t4.multiprocessors, t4.shared_optin) == (75, 40, 64 << 10)
    assert kinds.by_name("RTX 4090").l2_bytes == 72 << 20
    assert kinds.by_name("RTX 3060").multiprocessors == 28  # whose L2 cache isn't listed
    assert kinds.by_name("a GPU of tomorrow") == kinds.by_name("H100")
    assert json.dumps(t4.as_json())
    option = t4.as_option()
    assert option.startswith("--gpu=75:40:") and option.endswith(":65536:Tesla T4")
    assert option.count(":") == 12
