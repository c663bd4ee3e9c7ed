"""One program for many edits: it refuses those that are seen to be wrong, and no others."""

import time

import pytest

from grader.cases import Case
from grader.executors.cuda import cuda_build
from grader.executors.source_text import Change
from grader.grading import sieve
from grader.grading.edits.edit_scope import Edit
from grader.grading.session import Options, Session
from grader.grading.sieve import Sieve
from grader.spec.task import Task
from grader.status import Status
from tests.support.planned import SPECS

pytestmark = pytest.mark.skipif(bool(cuda_build.why_not("emulator")), reason="needs g++")

TASK = Task(SPECS["silu"], SPECS["silu"].variants["cuda"])
SOURCE = """
#include <cuda_runtime.h>
constexpr int BLOCK = 64;
__global__ void kernel(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        for (int k = 0; k < 1; k++) out[i] = x[i] / (1.0f - expf(-x[i]));
    }
}
extern "C" void silu(const float* x, float* out, int n) {
    kernel<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(x, out, n);
}
"""
CASES = [Case((("n", n),), "float32", 7) for n in (5, 200)]


def edit(old, new, name="operator"):
    start = SOURCE.index(old)
    return Edit(name, (Change(start, start + len(old), new),), 1, "", "", 1)


RIGHT = edit("1.0f - expf", "1.0f + expf")
EDITS = [
    edit("i < n", "i <= n"),  # still wrong
    RIGHT,
    edit("i < n", "i < rows"),  # which is nothing here
    edit("BLOCK = 64", "BLOCK = 32"),  # no run can choose
    edit("1.0f - expf", "1.0f + expf", sieve.WEAK),
    edit("k++", "k += 0"),  # endless
]


@pytest.fixture
def runner(tmp_path):
    (tmp_path / "silu.cu").write_text(SOURCE)
    with Session(tmp_path, SPECS, Options(device="cpu")) as session:
        yield session.runners.planned(TASK)


def seen(runner, status=Status.wrong_values, until=60.0):
    sieved = Sieve(runner, CASES, status, time.monotonic() + until)
    sieved.begin(EDITS)
    try:
        return [*sieved.words(range(len(EDITS))).values()]
    finally:
        sieved.close()


def test_edits_are_refused_that_leave_cases_wrong_or_do_not_compile(runner):
    assert seen(runner) == [False, True, False, None, None, False]


def test_where_the_unchanged_text_fails_otherwise_nothing_runs(runner):
    assert seen(runner, Status.data_race) == [None, None, False, None, None, None]


def test_after_its_time_a_sieve_says_nothing(runner):
    assert seen(runner, until=0.0) == [None] * len(EDITS)
