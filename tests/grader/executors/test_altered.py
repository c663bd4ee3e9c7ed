"""Changed copies of a submission's functions: entries of one file, which share processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.cases.case import fixed_case
from grader.executors import planned_runner
from grader.executors.cuda import cuda_build, native_planner
from grader.grading.session import Options, Session
from grader.sandbox import Sandbox
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status

EXERCISES = load_all()
SILU = EXERCISES["silu"]
needs_compiler = pytest.mark.skipif(
    bool(cuda_build.why_not("emulator")), reason=cuda_build.why_not("emulator")
)
TRITON = """
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    tl.store(out_ptr + offs, x * tl.sigmoid(x), mask=offs < n)

def silu(x, out):
    kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), BLOCK=8)
"""
LAUNCHER = """
def silu__{number}(x, out):
    kernel[(triton.cdiv(x.numel(), {block}),)](x, out, x.numel(), BLOCK={used})
"""
CUDA = """
__device__ int calls = 0;
__device__ float silu_of(float x) { return x / (1.0f + expf(-x)); }
extern "C" void silu(const float* x, float* out, int n) {}
"""
# Right only in the first call of a process whose variables are as the file has them.
COUNTED = """
__global__ void kernel__{number}(const float* x, float* out, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = calls == 0 ? silu_of(x[i]) : 0.0f;
    __syncthreads();
    if (i == 0) calls = 1;
}}
extern "C" void silu__{number}(const float* x, float* out, int n) {{
    kernel__{number}<<<1, 32>>>(x, out, n);
}}
"""


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many processes of each program or role were started."""
    counts: Counter[str] = Counter()
    worker = Sandbox.worker

    def noted(self: Sandbox, path: Path, *args: Any, **given: Any) -> Any:
        counts[given.get("role") or path.name] += 1
        return worker(self, path, *args, **given)

    monkeypatch.setattr(Sandbox, "worker", noted)
    return counts


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "silu.py").write_text(TRITON)
    (tmp_path / "silu.cu").write_text(CUDA)
    with Session(tmp_path, EXERCISES, Options(device="cpu")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def queues(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets how many runners there are side by side: at first one after the other."""

    def put(count: int) -> None:
        monkeypatch.setattr(planned_runner, "QUEUES", count)

    put(1)
    return put


def statuses(runners: Any, case: Any) -> list[Status]:
    found = []
    for each in runners:
        found.append(each.once(case).status)
        each.close()
    return found


def test_entries_in_triton_share_a_planner_and_an_executor(session, spawned) -> None:
    task = Task(SILU, SILU.variants["triton"])
    blocks = ((16, 8), (8, 8), (16, 16))
    copies = [LAUNCHER.format(number=i, block=b, used=u) for i, (b, u) in enumerate(blocks)]
    names = [f"silu__{number}" for number in range(3)]
    altered = session.runners.planned(task).altered(copies, names).take()
    case = fixed_case(Task(SILU, task.variant), {"n": 40}, 1)
    found = statuses(altered, case)
    assert found == [Status.not_written, Status.passed, Status.passed]
    assert (spawned["planner"], spawned["executor"]) == (1, 1)


def test_entries_of_different_queues_share_no_process(session, spawned, queues) -> None:
    queues(2)
    task = Task(SILU, SILU.variants["triton"])
    copies = [LAUNCHER.format(number=number, block=8, used=8) for number in range(4)]
    names = [f"silu__{number}" for number in range(4)]
    altered = session.runners.planned(task).altered(copies, names).take()
    assert [each.queue for each in altered] == [0, 1, 0, 1]
    case = fixed_case(Task(SILU, task.variant), {"n": 20}, 1)
    assert statuses(altered, case) == [Status.passed] * 4
    assert (spawned["planner"], spawned["executor"], spawned["compiler"]) == (2, 2, 2)


@pytest.mark.parametrize("language", ["triton", pytest.param("cuda", marks=needs_compiler)])
def test_an_entry_that_stays_open_keeps_its_processes_and_the_others_share_theirs(
    session, spawned, language
) -> None:
    task = Task(SILU, SILU.variants[language])
    runners = session.runners
    runner = runners.planned(task)
    spawned.clear()
    made = [
        LAUNCHER.format(number=number, block=8, used=8)
        if language == "triton"
        else COUNTED.format(number=number)
        for number in range(5)
    ]
    first, *others = runner.altered(made, [f"silu__{number}" for number in range(5)]).take()
    case = fixed_case(Task(SILU, task.variant), {"n": 20}, 1)
    assert first.once(case).status is Status.passed
    assert statuses(others, case) == [Status.passed] * 4
    spawned.pop("compiler", None)  # one for all
    assert [*spawned.values()] == [2, 2]
    first.close()


@needs_compiler
def test_entries_in_cuda_share_processes_whose_variables_are_set_anew(session, spawned) -> None:
    task = Task(SILU, SILU.variants["cuda"])
    runner = session.runners.planned(task)
    spawned.clear()
    copies = [COUNTED.format(number=number) for number in range(3)]
    altered = runner.altered(copies, [f"silu__{number}" for number in range(3)]).take()
    case = fixed_case(Task(SILU, task.variant), {"n": 20}, 1)
    assert statuses(altered, case) == [Status.passed] * 3
    assert len(spawned) == 2  # the planner's program and the executor's
    assert set(spawned.values()) == {1}


@needs_compiler
def test_a_text_that_is_refused_is_built_again_while_another_one_is_waited_for(
    session, monkeypatch
) -> None:
    task, case = (
        Task(SILU, SILU.variants["cuda"]),
        fixed_case(Task(SILU, SILU.variants["cuda"]), {"n": 20}, 1),
    )
    runner = session.runners.planned(task)
    builds: list[int] = []
    begin = cuda_build.begin

    def noted(sandbox, order):
        builds.append(len(order.entries))
        return begin(sandbox, order)

    monkeypatch.setattr(cuda_build, "begin", noted)
    right, wrong = COUNTED.format(number=0), 'extern "C" void silu__1() { no C++ }'
    refused = runner.altered([right, wrong], ["silu__0", "silu__1"])
    many = [COUNTED.format(number=number) for number in range(12)]
    long = runner.altered(many, [f"silu__{number}" for number in range(12)])
    for each in long.take():
        each.close()
    assert builds == [2, 12, 1]
    first, second = refused.take()
    assert second is None and builds == [2, 12, 1]
    assert statuses([first], case) == [Status.passed]
    given_up = runner.altered([right, wrong], ["silu__0", "silu__1"])
    given_up.close()
    assert runner.altered([wrong], ["silu__1"]).take() == [None]


@needs_compiler
def test_an_idle_program_is_built_once_for_all_crashes(session, monkeypatch) -> None:
    built, build = [], cuda_build.build

    def noted(sandbox: Sandbox, name: str, *args: Any) -> Any:
        built.append(name)
        return build(sandbox, name, *args)

    monkeypatch.setattr(cuda_build, "build", noted)
    native_planner._idle_program.cache_clear()
    plans = session.runners.planned(Task(SILU, SILU.variants["cuda"])).plans
    assert not plans._serves_nobody()
    assert not plans._serves_nobody()
    assert built == ["idle.cu"]
