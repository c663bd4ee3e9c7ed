"""The runner: every way a submission can end becomes its status, with what a student can use.

Runners by plan stand for all of them: what a worker ends with means the same to each.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.cases import Case
from grader.executors.answers import IN_LOOP, Answers
from grader.executors.runner import CaseResult, Runner
from grader.executors.triton.triton_runner import PlannedTritonRunner
from grader.sandbox import Sandbox, worker_process
from grader.sandbox.worker_process import Worker
from grader.spec import EXERCISES, load
from grader.spec.blocks import Limits
from grader.spec.task import Task
from grader.status import Status
from grader.worker.protocol import Code, Operation, Reply

SILU = load(EXERCISES / "silu.yaml")
CASE = Case((("n", 8),), "float32", seed=1)

KERNEL = """\
import torch
import triton
import triton.language as tl

@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    {statement}
    tl.store(out_ptr + offs, x / (1 + tl.exp(-x)), mask=mask)

def silu(x, out):
    silu_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), BLOCK=16)
"""
STATEMENT_LINE = 10
PLANNERS = 2  # that a dtype's first case meets: they have to agree
RIGHT = KERNEL.format(statement="pass")
ANSWERS = Answers(Task(SILU, SILU.variants["triton"]), Path("silu.py"), worker_process.Limits())


@pytest.fixture
def runner(sandbox: Sandbox) -> Iterator[Callable[..., Runner]]:
    """Makes the runner of a submission given as source; limits in CPU seconds and MiB."""
    opened: list[Runner] = []

    def make(source: str, seconds: float = 5.0, memory_mb: int = 512) -> Runner:
        path = sandbox.hold("silu.py", textwrap.dedent(source).encode())
        limits = Limits(seconds=seconds, memory_mb=memory_mb)
        exercise = SILU.model_copy(update={"limits": limits})
        task = Task(exercise, exercise.variants["triton"])
        opened.append(PlannedTritonRunner(sandbox, task, path))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def entry(body: str, arguments: str = "x, out", head: str = "") -> str:
    lines = "\n".join("    " + line for line in body.splitlines())
    return f"{head}\ndef silu({arguments}):\n{lines}\n"


# --- what passes -------------------------------------------------------------------------------


def test_a_right_kernel_passes_and_its_worker_serves_all_cases(runner) -> None:
    runner = runner(RIGHT)
    for n in (1, 8, 15, 16, 17, 4097):
        assert runner.run(Case((("n", n),), "float32", seed=1)).status is Status.passed
    for dtype in ("float16", "bfloat16"):
        assert runner.run(Case((("n", 33),), dtype, seed=1)).status is Status.passed
    assert (runner.times.workers, runner.times.runs) == (1 + 3 * PLANNERS, 8)


def test_a_large_case_gets_a_larger_arena(runner, monkeypatch) -> None:
    monkeypatch.setattr("grader.executors.executor.ARENA_BYTES", 4096)
    monkeypatch.setattr("grader.cases.arena.GAP_BYTES", 4096)
    runner = runner(RIGHT.replace("16", "4096"))
    for n in (1, 30000, 2, 60000):
        assert runner.run(Case((("n", n),), "float32", seed=1)).status is Status.passed
    executors = runner.times.workers - PLANNERS
    assert executors == 2  # 30000 in twice what 1 needs; 60000 not


def test_sizes_of_the_spec_need_no_second_worker(runner) -> None:
    runner = runner(RIGHT.replace("16", "65536"))
    for n in (1, 20000, 1 << 20):
        assert runner.run(Case((("n", n),), "float32", seed=1)).status is Status.passed
    assert runner.times.workers == 1 + PLANNERS


def test_wrong_values_are_judged(runner) -> None:
    result = runner(entry("out.copy_(x)")).run(CASE)
    assert result.status is Status.wrong_values
    assert result.observed_by == "grader"


def test_an_output_not_written_is_said(runner) -> None:
    assert runner(entry("pass")).run(CASE).status is Status.not_written


# --- files that can't be used ------------------------------------------------------------------


def test_a_syntax_error_names_its_line(runner) -> None:
    result = runner("import torch\n\ndef silu(x, out):\n    return (\n").run(CASE)
    assert (result.status, result.line) == (Status.import_error, 4)
    assert result.verdict.what.startswith("executing the file raised SyntaxError: ")


def test_an_error_of_the_file_names_its_line(runner) -> None:
    result = runner("import torch\nimport no_such_module\n").run(CASE)
    assert (result.status, result.line) == (Status.import_error, 2)
    assert "ModuleNotFoundError: No module named 'no_such_module'" in result.verdict.what
    assert "silu.py:2 in <module>: import no_such_module" in result.detail
    assert "leave the import out, or the call that needs it" in result.hint


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("raise SystemExit", "executing the file raised SystemExit"),
        ("os._exit(3)", "loading the file ended the process (exit status 3)."),
        ("ctypes.string_at(8)", "loading the file ended the process (killed by SIGSEGV)."),
    ],
)
def test_a_file_that_ends_the_process_can_not_be_loaded(runner, statement: str, what: str) -> None:
    result = runner(f"import ctypes, os\n{statement}\n").run(CASE)
    assert (result.status, result.verdict.what) == (Status.import_error, what)


def test_a_file_that_never_ends_loading_is_timed_out(runner) -> None:
    result = runner("while True: pass", seconds=0.2).run(CASE)
    assert result.status is Status.timed_out


def test_a_file_that_can_not_be_loaded_is_tried_once(runner) -> None:
    runner = runner("import no_such_module")
    results = [runner.run(Case((("n", n),), "float32", seed=1)) for n in (1, 2, 3)]
    assert {result.status for result in results} == {Status.import_error}
    assert [result.case.size("n") for result in results] == [1, 2, 3]
    assert runner.times.workers == 1


def test_a_missing_entry_lists_the_functions_there_are(runner) -> None:
    source = "from torch import sigmoid\ndef SiLU(x, out): pass\ndef helper(): pass\nsilly = 1\n"
    result = runner(source).run(CASE)
    assert result.status is Status.import_error
    assert result.verdict.what == "the file has no function silu; it defines SiLU, helper."
    assert result.hint == "Define silu(x, out)."


def test_an_entry_that_is_no_function_is_missing(runner) -> None:
    result = runner("silu = 3").run(CASE)
    assert (result.status, result.verdict.what) == (
        Status.import_error,
        "the file has no function silu.",
    )


@pytest.mark.parametrize("arguments", ["x", "x, out, eps", "x, *, out", ""])
def test_another_signature_is_explained(runner, arguments: str) -> None:
    result = runner("\n" + entry("pass", arguments)).run(CASE)
    assert (result.status, result.line) == (Status.import_error, 3)
    assert (
        result.verdict.what == f"the entry is silu({arguments}), but it is called as silu(x, out)."
    )
    assert "The grader allocates the output" in result.hint


@pytest.mark.parametrize("arguments", ["*args", "x, out=None", "x, out, block=1024"])
def test_a_signature_that_can_be_called_is_accepted(runner, arguments: str) -> None:
    assert runner(entry("pass", arguments)).run(CASE).status is Status.not_written


# --- entries that raise, end or hang -----------------------------------------------------------


def test_an_exception_of_the_entry_names_its_line(runner) -> None:
    result = runner(entry("y = x + 1\nhelper(y)", head="def helper(y):\n    y.no_such()")).run(CASE)
    assert (result.status, result.line) == (Status.crashed, 2)
    assert "the entry raised AttributeError: " in result.verdict.what
    assert "silu.py:5 in silu: helper(y)" in result.detail
    assert "warpgrade" not in result.detail
    assert result.observed_by == "worker"


def test_an_exception_that_is_its_own_cause_is_told(runner) -> None:
    body = "try:\n    x.no_such()\nexcept AttributeError as e:\n    raise e from e"
    result = runner(entry(body)).run(CASE)
    assert (result.status, result.line) == (Status.crashed, 4)


def test_an_exception_without_text_is_named(runner) -> None:
    result = runner(entry("raise ValueError")).run(CASE)
    assert result.verdict.what == "the entry raised ValueError"


def test_an_exception_whose_text_fails_is_the_submissions_fault(runner) -> None:
    head = "class Odd(RuntimeError):\n    def __str__(self):\n        return self.missing"
    result = runner(entry("raise Odd()", head=head)).run(CASE)
    assert result.status is Status.crashed
    assert "Odd" in result.verdict.what


def test_leaving_by_system_exit_is_a_crash_with_advice(runner) -> None:
    result = runner(entry("raise SystemExit(0)")).run(CASE)
    assert result.status is Status.crashed
    assert "SystemExit: 0" in result.verdict.what
    assert result.hint == "Return from the entry; don't end the process."


def test_ending_the_process_is_a_crash_with_advice(runner) -> None:
    result = runner(entry("import os\nos._exit(0)")).run(CASE)
    assert result.status is Status.crashed
    assert "(exit status 0)" in result.verdict.what
    assert "don't end the process" in result.hint


def test_the_stub_is_told_from_a_mistake(runner) -> None:
    result = runner(entry("raise NotImplementedError('silu')")).run(CASE)
    assert result.status is Status.crashed
    assert "stub" in result.hint


def test_a_hang_is_timed_out_at_its_loop(runner) -> None:
    result = runner(entry("x = 1\nwhile True:\n    x += 1"), seconds=0.2).run(CASE)
    assert result.status is Status.timed_out
    assert result.verdict.what == (
        "the launcher took longer than 0.2 s of computing (0.6 s in all); it runs without data."
    )
    assert (result.line, result.verdict.pattern) == (4, IN_LOOP)


def test_a_kernel_that_hangs_is_timed_out_at_its_loop(runner) -> None:
    loop = "while n > 0:\n        n += 1\n        tl.store(out_ptr + offs, n, mask=mask)"
    result = runner(KERNEL.format(statement=loop), seconds=0.4).run(CASE)
    assert (result.status, result.line) == (Status.timed_out, STATEMENT_LINE)
    assert result.verdict.pattern == IN_LOOP


def test_programs_that_wait_for_nobody_are_asked_who_writes(runner) -> None:
    result = in_kernel(runner, "while tl.atomic_add(out_ptr, 0.0) != 7.5: pass")
    assert (result.status, result.line) == (Status.timed_out, STATEMENT_LINE)
    assert "none of them changes what they wait for" in result.verdict.what
    assert "set before the launch" in result.hint


@pytest.mark.parametrize("allocate", ["bytearray(600 << 20)", "torch.empty(600 << 18)"])
def test_allocating_too_much_is_out_of_memory(runner, allocate: str) -> None:
    result = runner(entry(allocate, head="import torch")).run(CASE)
    assert result.status is Status.out_of_memory
    assert "How large" in result.hint


def test_a_dead_worker_costs_the_next_case_nothing_but_a_worker(runner) -> None:
    source = RIGHT + "    if x.numel() == 9:\n        import os\n        os._exit(1)\n"
    runner = runner(source)
    statuses = [runner.run(Case((("n", n),), "float32", seed=1)).status for n in (8, 9, 10, 9, 11)]
    right, dead = Status.passed, Status.crashed
    assert statuses == [right, dead, right, dead, right]
    assert runner.times.workers == 1 + PLANNERS + 2  # of the planners two have ended


def test_a_fresh_worker_has_run_nothing(runner) -> None:
    body = "calls.append(1)\nraise RuntimeError(len(calls))"
    runner = runner(entry(body, head="calls = []"))
    told = []
    for _ in range(2):
        told += [runner.run(CASE).verdict.what[-1], runner.run(CASE).verdict.what[-1]]
        runner.fresh_worker()
    assert told == ["1", "2", "1", "2"]


# --- returning instead of writing --------------------------------------------------------------


def test_returning_a_tensor_is_explained(runner) -> None:
    result = runner(entry("return x / (1 + (-x).exp())")).run(CASE)
    assert result.status is Status.not_written
    assert result.verdict.what == (
        "silu() returned a tensor of shape [8], float32 and did not write out."
    )
    assert "store the result there and return nothing" in result.hint


def test_returning_something_after_writing_is_no_fault(runner) -> None:
    assert runner(RIGHT + "    return out\n").run(CASE).status is Status.passed


# --- kernels and memory ------------------------------------------------------------------------


def in_kernel(runner, statement: str) -> CaseResult:
    return runner(KERNEL.format(statement=statement)).run(CASE)


def test_a_store_to_an_input_names_the_element(runner) -> None:
    result = in_kernel(runner, "tl.store(x_ptr + offs, x + 1, mask=offs == 3)")
    assert (result.status, result.line) == (Status.modified_input, STATEMENT_LINE)
    assert (
        "writes to an input, which is read-only: 4 bytes at offset 12 of x" in result.verdict.what
    )


def test_a_store_to_an_input_of_what_it_holds_is_no_store_far_away(runner) -> None:
    result = in_kernel(runner, "tl.store(x_ptr + offs, x, mask=offs == 3)")
    assert (result.status, result.line) == (Status.modified_input, STATEMENT_LINE)
    assert "4 bytes at offset 12 of x" in result.verdict.what


def test_an_input_modified_by_the_wrapper_is_what_pytorch_computed(runner) -> None:
    result = runner(entry("x.mul_(2)")).run(CASE)
    assert (result.status, result.line) == (Status.policy_violation, 3)
    assert "PyTorch computed mul_" in result.verdict.what


def test_the_next_case_meets_a_worker_after_a_fault(runner) -> None:
    runner = runner(KERNEL.format(statement="if n == 9: tl.store(x_ptr + offs, x + 1)"))
    statuses = [runner.run(Case((("n", n),), "float32", seed=1)).status for n in (8, 9, 8)]
    assert statuses == [Status.passed, Status.modified_input, Status.passed]


def test_a_store_past_the_end_is_seen(runner) -> None:
    result = in_kernel(runner, "mask = offs < n + 1")
    assert result.status is Status.wrote_out_of_bounds
    assert "writes 4 bytes at offset 32 of out, which has 32 bytes" in result.verdict.what


@pytest.mark.parametrize("offset", ["2**27", "-2**27", "20000", "-40000"])
def test_a_store_far_away_names_its_line(runner, offset: str) -> None:
    result = in_kernel(runner, f"tl.store(out_ptr + offs + {offset}, x)")
    assert (result.status, result.line) == (Status.wrote_out_of_bounds, STATEMENT_LINE)


@pytest.mark.parametrize("offset", ["2**27", "-2**27", "20000", "-40000"])
def test_a_load_from_far_away_names_its_line(runner, offset: str) -> None:
    result = in_kernel(runner, f"x += tl.load(x_ptr + offs + {offset})")
    assert (result.status, result.line) == (Status.invalid_read, STATEMENT_LINE)
    assert re.search(r"of x, which has 32 bytes|bytes before x", result.verdict.what)
    assert "Does the mask bound every index" in result.hint


def test_a_fault_outside_kernels_is_a_crash(runner) -> None:
    result = runner(entry("ctypes.string_at(8)", head="import ctypes")).run(CASE)
    assert (result.status, result.line) == (Status.crashed, 3)
    assert "SIGSEGV" in result.verdict.what


def test_an_exception_that_speaks_of_a_fault_is_not_one(runner) -> None:
    body = "calls.append(1)\nraise RuntimeError(f'SIGSEGV {len(calls)}')"
    runner = runner(entry(body, head="calls = []"))
    for call in (1, 2):
        result = runner.run(CASE)
        assert result.status is Status.crashed
        assert result.verdict.what.endswith(f"SIGSEGV {call}")  # not run again to explain it


# --- what an untrusted reply can do ---------------------------------------------------------------

UNTRUSTED = {
    "numbers for text": {"type": 1, "message": ["x"], "detail": {}, "line": "4", "functions": 5},
    "no fields": [],
    "text for an object": "just text",
    "functions of all kinds": {"message": "missing", "functions": [1, None, "silu2", {"a": 1}]},
    "signature of a kind": {"message": "signature", "signature": [[1]]},
    "line beyond any file": {"type": "E", "message": "m", "line": 10**30},
    "line below 1": {"type": "E", "message": "m", "line": -3},
    "line of truth": {"type": "E", "message": "m", "line": True},
}


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.ok])
@pytest.mark.parametrize("name", UNTRUSTED)
def test_no_reply_makes_the_grader_fail(name: str, code: Code) -> None:
    result = ANSWERS.from_refusal(CASE, Reply(1, code, json.dumps(UNTRUSTED[name])))
    assert isinstance(result.status, Status)
    assert result.status is not Status.passed
    assert result.line is None
    assert "\n" not in result.verdict.what


@pytest.mark.parametrize(
    "text", ["", "not json", "[" * 60000, '{"a": ' * 9000, "null", "\0", "NaN"]
)
def test_text_that_is_not_json_says_nothing(text: str) -> None:
    result = ANSWERS.from_refusal(CASE, Reply(1, Code.raised, text))
    assert result.status is Status.crashed


def test_a_refusal_without_a_type_of_exception_is_told_by_its_message():
    reply = Reply(1, Code.not_modelled, json.dumps({"message": "inline assembly"}))
    told = ANSWERS.from_refusal(CASE, reply).verdict.what
    assert told == "without a GPU this isn't modelled: inline assembly"


def test_text_of_a_submission_is_made_fit_to_print(runner) -> None:
    nasty = "\\x1b[2Jcleared\\x00\\ud800\\x9b\\r"
    result = runner(entry(f'raise ValueError("{nasty}")')).run(CASE)
    whole = result.verdict.what + result.detail
    assert "cleared" in whole
    whole.encode("utf-8")
    assert all(character.isprintable() or character == "\n" for character in whole)


def test_a_reply_of_ok_is_not_believed(runner, monkeypatch) -> None:
    """The executor's word that all is well says nothing: the buffers do."""
    runner = runner(RIGHT)
    runner.run(CASE)
    done = Reply(1, Code.ok, "{}")
    monkeypatch.setattr(runner._executor._worker, "post", lambda *_, **__: None)
    monkeypatch.setattr(runner._executor._worker, "wait_at_length", lambda *_: done)
    assert runner.run(CASE).status is Status.not_written


# --- what a worker never learns ----------------------------------------------------------------


def test_the_request_tells_neither_seed_nor_expectation(runner, monkeypatch) -> None:
    """What goes to the worker: sizes, places, and the values of the inputs. Nothing else."""
    runner = runner(RIGHT)
    seed = 123456789123
    asked = []
    runner.run(CASE)
    original = Worker.post

    def post(self, operation, arguments=(), repeat=0, document=b""):
        asked.append((operation, arguments, repeat, document))
        return original(self, operation, arguments, repeat, document)

    monkeypatch.setattr(Worker, "post", post)
    assert runner.run(Case((("n", 8),), "float32", seed=seed)).status is Status.passed
    assert [(operation, repeat) for operation, _, repeat, _ in asked] == [
        (Operation.plan, 0),
        (Operation.execute, 0),
    ]
    for _, arguments, _, document in asked:
        packed = b"".join(argument.pack() for argument in arguments)
        assert seed.to_bytes(8, "little") not in packed and str(seed).encode() not in document
        assert [argument.shape for argument in arguments] == [(8,), (8,)]


def test_expected_values_are_computed_after_the_answer(runner, monkeypatch) -> None:
    runner = runner(RIGHT)
    runner.run(CASE)
    order = []
    wait, truths = runner._executor._worker.wait_at_length, type(runner._executor._oracle).truths

    def spy_wait(*arguments):
        answer = wait(*arguments)
        order.append("answer")
        return answer

    def spy_truths(*arguments, **named):
        order.append("truths")
        return truths(*arguments, **named)

    monkeypatch.setattr(runner._executor._worker, "wait_at_length", spy_wait)
    monkeypatch.setattr(type(runner._executor._oracle), "truths", spy_truths)
    runner.run(CASE)
    assert order == ["answer", "truths"]


def test_the_same_case_gives_the_same_verdict_in_any_worker(runner) -> None:
    runner = runner(entry("out.copy_(x)"))
    first = runner.run(CASE).verdict
    runner.fresh_worker()
    assert runner.run(CASE).verdict == first
    assert not math.isnan(runner.times.cases)


# --- what PyTorch computed -----------------------------------------------------------------------


def test_a_result_that_pytorch_computed_is_told_with_its_line(runner) -> None:
    helper = """
    import torch
    def helper(x):
        return torch.nn.functional.silu(x)
    """
    result = runner(textwrap.dedent(helper) + entry("out.copy_(helper(x))")).run(CASE)
    assert result.status is Status.policy_violation
    assert (result.line, result.observed_by) == (4, "worker")
    assert "PyTorch computed silu" in result.verdict.what


def test_allocating_viewing_and_copying_in_order_are_not_computing(runner) -> None:
    honest = (
        "y = torch.empty_like(x).view(-1, 1).contiguous().reshape(-1)\n"
        "z = torch.zeros(4, 4, device=x.device).t()\n"
        "torch.zeros_like(out).copy_(x)\n"
    )
    kernel = (Path("reference") / "silu.py").read_text()
    source = kernel.replace("def silu(", "def solution(") + entry(honest + "solution(x, out)")
    result = runner(source).run(CASE)
    assert result.status is Status.passed, result


# --- a worker that says that it can't serve ------------------------------------------------------

FORGE = """
import os, socket, stat, struct
def entry_socket():
    for fd in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                return socket.socket(fileno=os.dup(fd))
        except OSError:
            pass
def silu(x, out):
    text = b'{"type": "Error", "message": "no"}'
    entry_socket().send(struct.pack("<QII", 2, 1, len(text)) + text)
"""


def test_a_forged_refusal_is_not_taken_for_the_graders_error(runner) -> None:
    result = runner(FORGE).run(CASE)
    assert result.status is Status.crashed
    assert "could not serve" in result.verdict.what


def test_an_executor_that_serves_nobody_is_the_graders_error(runner, monkeypatch) -> None:
    runner = runner(RIGHT)
    runner.run(CASE)
    refusal = Reply(1, Code.bad_request, json.dumps({"type": "Error", "message": "no"}))
    monkeypatch.setattr(runner._executor._worker, "post", lambda *_, **__: None)
    monkeypatch.setattr(runner._executor._worker, "wait_at_length", lambda *_: refusal)
    assert runner.run(CASE).status is Status.grader_error
