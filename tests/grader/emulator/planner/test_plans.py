"""What host code asks of the device stands in its plan, with the line; and kernels do it."""

from __future__ import annotations

import base64
import struct
import subprocess
from pathlib import Path

import pytest
import torch

from grader.plan.model import KernelName, Launch, Plan, Readback, Refused, Synchronise, Upload
from grader.worker.protocol import Code
from tests.support.emulated import ELEMENTS, NEEDS_COMPILER, Program

pytestmark = NEEDS_COMPILER
SOURCE = Path(__file__).with_name("plans.cu")
INPUT = torch.arange(float(ELEMENTS))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program(SOURCE, tmp_path_factory.mktemp("plans"))


def planned(program: Program, entry: str) -> Plan:
    assert program.run(entry).code is Code.ok
    plan = program.plans[entry]
    assert plan is not None
    return plan


def verbs(plan: Plan, call: int = 0) -> list[str]:
    return [step.do for step in plan.calls[call]]


def line_of(text: str) -> int:
    lines = SOURCE.read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


RIGHT = {
    "constant_symbol": 2 * INPUT,
    "kept_between_calls": INPUT,
    "structure": INPUT + 6,
    "packed_structure": INPUT + 1,
    "pointer_array": INPUT,
    "unnamed_namespace": INPUT,
    "streams": INPUT,
    "times_itself": INPUT,
    "too_many_threads": INPUT,
    "managed_memory": 2 * INPUT,
    "cooperative": INPUT,
    "too_large_to_cooperate": INPUT,
}


@pytest.mark.parametrize("entry", RIGHT)
def test_an_executed_plan_leaves_what_the_entry_would(program: Program, entry: str) -> None:
    outcome = program.run(entry)
    assert outcome.code is Code.ok, outcome
    assert outcome.out is not None and torch.equal(outcome.out, RIGHT[entry])


def test_the_executor_has_kernels_and_no_host_code(program: Program) -> None:
    assert program.built.executor is not None
    done = subprocess.run(["nm", program.built.executor], capture_output=True, text=True)
    names = {line.split()[-1] for line in done.stdout.splitlines()}
    assert not names & set(program.parameters)
    assert not [name for name in names if "host_only" in name or "computed_before" in name]
    for kernel in ("_ZL5scalePKfPfi", "_Z4copyIfEvPKT_PS0_i", "_Z7through5ShapePKfi"):
        assert kernel in names


def test_lines_are_those_of_the_calls(program: Program) -> None:
    upload, launch = planned(program, "constant_symbol").calls[0]
    assert upload.line == line_of("cudaMemcpyToSymbol(factors")
    assert launch.line == line_of("scale<<<")


def test_a_symbol_is_a_buffer_with_its_bytes(program: Program) -> None:
    plan = planned(program, "constant_symbol")
    upload = plan.calls[0][0]
    assert isinstance(upload, Upload)
    buffer = plan.buffers[upload.to.buffer]
    assert (buffer.kind, buffer.bytes) == ("symbol", 16)
    assert struct.unpack("<4f", base64.b64decode(upload.data)) == (1, 2, 3, 4)


def test_a_second_call_may_do_less(program: Program) -> None:
    plan = planned(program, "kept_between_calls")
    assert verbs(plan) == ["alloc", "launch", "launch"]
    assert verbs(plan, 1) == ["launch", "launch"]
    assert plan.buffers[2].line == line_of("if (!workspace)")


def test_parameters_lie_as_cuda_lays_them_out(program: Program) -> None:
    (launch,) = planned(program, "structure").calls[0]
    assert isinstance(launch, Launch)
    data = base64.b64decode(launch.parameters)
    assert (len(data), data[0], struct.unpack_from("<i", data, 4)) == (28, 2, (3,))
    assert data[1:4] == b"\0\0\0"  # padding says nothing of the planner
    assert struct.unpack_from("<i", data, 24) == (ELEMENTS,)
    assert launch.pointers == ((8, 1, 0), (16, 0, 0))


def test_addresses_in_a_packed_structure_are_known_for_them(program: Program) -> None:
    (launch,) = planned(program, "packed_structure").calls[0]
    assert isinstance(launch, Launch)
    assert launch.pointers == ((1, 0, 0), (13, 1, 0))


def test_addresses_in_uploaded_bytes_are_known_for_them(program: Program) -> None:
    plan = planned(program, "pointer_array")
    upload = next(step for step in plan.calls[0] if isinstance(step, Upload))
    assert upload.pointers == ((0, 2, 0), (8, 3, 0))
    assert verbs(plan) == [*["alloc"] * 3, *["copy"] * 2, "upload", "launch", *["free"] * 3]


def test_streams_and_events_are_steps(program: Program) -> None:
    plan = planned(program, "streams")
    event = ["record", "wait"]  # one is the program's own, others come with the default stream
    work = ["launch", *event, *event, "launch"]
    wanted = ["alloc", "fill", *event, *work, "synchronise", "free"]
    assert verbs(plan) == wanted
    launches = [step for step in plan.calls[0] if isinstance(step, Launch)]
    assert [step.stream for step in launches] == [1, 0]


def test_a_plan_says_what_the_host_waits_for(program: Program) -> None:
    """The default stream waits for other streams first; a thread's own is a stream like them."""
    plan = planned(program, "waits_of_the_host")
    waits = [step for step in plan.calls[0] if isinstance(step, Synchronise)]
    assert [(step.stream, step.event) for step in waits] == [(1, None), (None, 0), (0, None)]
    launches = [step.stream for step in plan.calls[0] if isinstance(step, Launch)]
    assert launches == [1, 2]
    assert verbs(plan)[-3:] == ["record", "wait", "synchronise"]


def test_results_of_kernels_never_reach_host_code(program: Program) -> None:
    plan = planned(program, "looks_at_results")
    assert verbs(plan) == ["launch", "readback"]
    readback = plan.calls[0][1]
    assert isinstance(readback, Readback) and readback.bytes == 4 * ELEMENTS
    assert plan.printed.splitlines()[1:] == ["cudaSuccess"]  # by the first call alone
    assert plan.printed.startswith("host code reads nothing of what kernels write")


def test_a_plan_takes_no_time(program: Program) -> None:
    plan = planned(program, "times_itself")
    assert plan.printed.count("cudaEventElapsedTime gives 0") == 1
    assert plan.printed.count("0 ms\n") == 1  # by the first call alone


def test_a_launch_that_cuda_refuses_is_told_and_goes_on(program: Program) -> None:
    plan = planned(program, "too_many_threads")
    refused, launch = plan.calls[0]
    assert isinstance(refused, Refused) and isinstance(launch, Launch)
    assert (refused.do, refused.error) == ("refused", "cudaErrorInvalidConfiguration")
    assert "at most 1024 threads" in refused.why
    assert launch.block == (64, 1, 1)


def test_a_number_of_blocks_that_wrapped_is_told(program: Program) -> None:
    [refused] = planned(program, "number_of_blocks_wraps").calls[0]
    assert isinstance(refused, Refused) and "(4290772992, 1, 1)" in refused.why
    assert "a negative int is more than that" in refused.why


def test_memory_that_each_call_leaves_behind_is_a_leak(program: Program) -> None:
    outcome = program.run("leaks_every_time")
    assert outcome.code is Code.findings and outcome.report is not None
    assert [each.kind for each in outcome.report.findings] == ["leak"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [("endless_copies", "takes more than"), ("uploads_everything", "bytes go from host")],
)
def test_a_plan_has_bounds(program: Program, entry: str, words: str) -> None:
    outcome = program.run(entry)
    assert outcome.code is Code.raised
    assert words in outcome.printed


def test_two_planners_give_the_same_plan(program: Program) -> None:
    for entry in ("structure", "streams", "pointer_array"):
        assert planned(program, entry) == planned(program, entry)


def test_memory_that_a_later_call_makes_no_use_of_is_a_leak(program: Program) -> None:
    outcome = program.run("left_behind_once")
    assert outcome.report is not None
    assert [each.kind for each in outcome.report.findings] == ["leak"]


def test_variables_of_the_device_begin_anew_with_each_document(program: Program) -> None:
    out = program.run("counter", times=3).out
    assert out is not None and out[0] == 1


def test_what_the_host_writes_to_managed_memory_is_uploaded(program: Program) -> None:
    plan = planned(program, "managed_memory")
    steps = ["alloc", "fill", "upload", "launch", "synchronise", "readback", "free"]
    assert verbs(plan) == verbs(plan, 1) == steps
    upload = plan.calls[0][2]
    assert isinstance(upload, Upload)
    assert plan.buffers[upload.to.buffer].kind == "managed"
    assert struct.unpack("<16f", base64.b64decode(upload.data)) == (2,) * 4 + (0,) * 12
    assert plan.calls[0][5].line == line_of("if (by[1] == 2)")
    assert plan.printed.splitlines()[1] == "as the host left it"


def test_a_launch_by_a_call_is_as_any_other(program: Program) -> None:
    plan = planned(program, "cooperative")
    (launch,), (kernel,) = plan.calls[0], plan.specialisations
    assert isinstance(launch, Launch) and isinstance(kernel, KernelName)
    assert launch.cooperative and launch.line == line_of("(void*)copy<float>, 4, 64")
    assert kernel.kernel == "copy<float>"
    refused, _ = planned(program, "too_large_to_cooperate").calls[0]
    assert isinstance(refused, Refused)
    assert "1048576 blocks, and 4224 fit" in refused.why
