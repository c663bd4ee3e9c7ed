"""Tuned kernels: each configuration has to be right, and the wrong one is named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pytest

from grader.cases import Case
from grader.cases.compare import Verdict
from grader.executors.compile import frontend
from grader.executors.runner import CaseResult
from grader.executors.triton import configurations
from grader.executors.triton.triton_runner import PlannedTritonRunner
from grader.plan import Plan, Specialisation, read
from grader.sandbox import Sandbox
from grader.sandbox.worker_process import Worker
from grader.spec.task import Task
from grader.status import Status
from grader.worker.compile import tuned as tuned_kernels
from grader.worker.protocol import Operation
from tests.grader.plan import plans
from tests.support import work
from tests.support.planned import SPECS, case, results

TUNED = """
import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": b}, num_warps=w) for b, w in CONFIGS], ["n"])
@triton.jit
def tuned(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n).to(tl.float32)
    y = x / (1 + tl.exp(-x))
    MISTAKE
    tl.store(out_ptr + offs, y, mask=offs < n)


def silu(x, out):
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
"""
THREE = "((64, 1), (128, 4), (256, 4))"


def tuned(mistake: str = "pass", configs: str = THREE) -> str:
    return TUNED.replace("CONFIGS", configs).replace("MISTAKE", mistake)


def run(sandbox: Sandbox, text: str, *cases: Case) -> list[CaseResult]:
    return results(sandbox, "silu", text, cases)


def test_all_configurations_right_is_right(sandbox):
    cases = [case("float32", n=n) for n in (1, 63, 64, 65, 1000)]
    assert all(each.verdict.passed for each in run(sandbox, tuned(), *cases))


@pytest.mark.parametrize("block", [64, 128, 256])
def test_a_dtypes_first_case_runs_with_every_configuration(sandbox, block):
    text = tuned(f"y = y + (1.0 if BLOCK == {block} else 0.0)")
    [result] = run(sandbox, text, case("float32", n=300))
    assert result.status is Status.wrong_values
    number = [64, 128, 256].index(block) + 1
    assert f"It ran with configuration {number} of 3 (BLOCK={block}" in result.verdict.what


def test_a_configuration_that_is_wrong_elsewhere_is_met_by_later_cases(sandbox):
    text = tuned("y = tl.where((n > 500) & (BLOCK == 256), 0.0, y)")
    cases = [case("float32", n=n) for n in (10, *range(501, 521))]
    outcomes = run(sandbox, text, *cases)
    assert outcomes[0].verdict.passed
    failed = [each for each in outcomes if not each.verdict.passed]
    assert failed and all("BLOCK=256" in each.verdict.what for each in failed)


def test_after_a_failure_each_case_shows_the_same_again(sandbox):
    text = tuned("y = tl.where((n > 500) & (BLOCK == 256), 0.0, y)")
    cases = [case("float32", n=n) for n in (10, *range(501, 521))]
    once = run(sandbox, text, *cases)
    first = next(index for index, each in enumerate(once) if not each.verdict.passed)
    again = run(sandbox, text, *cases[: first + 1], *[cases[first]] * 3, cases[first + 1])
    assert [each.verdict.passed for each in again[first:]] == [False] * 5


def test_a_kernel_that_isnt_tuned_names_no_configuration(sandbox):
    text = tuned("y = y + 1.0", "((64, 1),)")
    [result] = run(sandbox, text, case("float32", n=300))
    assert result.status is Status.wrong_values and "configuration" not in result.verdict.what


def test_configurations_are_named_by_what_differs(sandbox):
    exercise = SPECS["silu"]
    variant = exercise.variants["triton"]
    path = sandbox.hold(variant.file, tuned().encode())
    with PlannedTritonRunner(sandbox, Task(exercise, variant), path) as runner:
        assert runner.run(case("float32", n=5)).verdict.passed
        names = configurations.names_of(runner.plan)
    assert names == ["BLOCK=64 num_warps=1", "BLOCK=128", "BLOCK=256"]  # 4 warps are the default
    assert configurations.label(1, names) == "configuration 2 of 3 (BLOCK=128)"


def test_a_case_translates_the_configuration_that_it_runs(sandbox, monkeypatch):
    translated: list[int] = []
    ask = frontend.Frontend._ask
    monkeypatch.setattr(
        frontend.Frontend,
        "_ask",
        lambda self, key, wanted: (
            translated.append(wanted.constants["BLOCK"]),
            ask(self, key, wanted),
        )[1],
    )
    cases = [case("float32", n=n) for n in (100, 1)]  # n=1 is a constant: each has its own kernels
    assert all(each.verdict.passed for each in run(sandbox, tuned(), *cases))
    of_second = [64, 128, 256][configurations.first_for(cases[1], 3)]
    assert sorted(translated[:3]) == [64, 128, 256] and translated[3:] == [of_second]


ADDING = """
import torch
import triton
import triton.language as tl

@triton.autotune([triton.Config({"BLOCK": b}) for b in (64, 128)], ["n"]RESET)
@triton.jit
def adding(x, total, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + offs, mask=offs < n, other=0.0).to(tl.float32)
    tl.atomic_add(total + offs, v * tl.sigmoid(v), mask=offs < n)

def silu(x, out):
    total = torch.zeros(x.numel(), dtype=torch.float32, device=x.device)
    adding[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, total, x.numel())
    out.copy_(total)
"""


def test_what_a_trial_leaves_counts(sandbox):
    cases = [case("float32", n=n) for n in (300, 40, 300)]
    wrong = run(sandbox, ADDING.replace("RESET", ""), *cases)
    assert [each.status for each in wrong] == [Status.nondeterministic] * 3
    assert "reset_to_zero" in wrong[0].hint
    right = ADDING.replace("RESET", ", reset_to_zero=['total']")
    assert all(each.verdict.passed for each in run(sandbox, right, *cases))


# --- what a GPU has no room for -------------------------------------------------------------------

ONE_FITS = "((64, 64), (128, 4))"  # 64 warps are more than a block has
NONE_FITS = "((64, 64), (128, 64))"


@dataclass
class Seen:
    """Results of cases, what compiling them shows, and the planner's news of configurations."""

    results: list[CaseResult]
    compiled: CaseResult | None
    blocks: list[int]  # that were executed
    news: list[int]  # how many configurations a request told to pass over


def look(sandbox: Sandbox, text: str, *cases: Case, of: str = "silu/triton") -> Seen:
    """Run cases, have what ran compiled, and run them again."""
    name, _, variant_name = of.partition("/")
    exercise = SPECS[name]
    variant = exercise.variants[variant_name]
    path = sandbox.hold(variant.file, text.encode())
    seen = Seen([], None, [], [])
    post = Worker.post

    def posted(self, operation, arguments=(), repeat=0, document=b""):
        if operation is Operation.plan and document:
            seen.news.append(len(json.loads(document)["passed_over"]))
        return post(self, operation, arguments, repeat, document)

    with (
        pytest.MonkeyPatch.context() as patch,
        PlannedTritonRunner(sandbox, Task(exercise, variant), path) as runner,
    ):
        patch.setattr(Worker, "post", posted)
        translated = runner._executor._translated

        def noted(case: Case, planned: Plan, numbers: Sequence[int]) -> object:
            kernels = [planned.specialisations[n] for n in numbers]
            seen.blocks += [e.constants["BLOCK"] for e in kernels if isinstance(e, Specialisation)]
            return translated(case, planned, numbers)

        patch.setattr(runner._executor, "_translated", noted)
        for again in range(2):
            results = [runner.run(each) for each in cases]
            compiled = runner.compiled(runner.compile_in_background())
            if not again:
                seen.compiled = compiled.failure
            seen.results += results
    return seen


def test_a_configuration_that_doesnt_compile_costs_nothing_beside_another(sandbox):
    seen = look(sandbox, tuned(configs=ONE_FITS), case("float32", n=300))
    assert [each.status for each in seen.results] == [Status.passed] * 2
    assert seen.compiled is None
    # Each once, both while the tuner tries them, and later the one that is left.
    assert sorted(seen.blocks[:2]) == [64, 128] and seen.blocks[2:] == [64, 128]
    assert seen.news == [1]


def test_where_none_compiles_all_are_named(sandbox):
    seen = look(sandbox, tuned(configs=NONE_FITS), case("float32", n=300))
    assert seen.compiled.status is Status.compile_error
    for told in ("1 of 2 (BLOCK=64): tuned asks for 64 warps", "2 of 2 (BLOCK=128"):
        assert f"configuration {told}" in seen.compiled.verdict.what
    assert seen.results[1].status is Status.compile_error
    assert seen.results[1].verdict.what == seen.compiled.verdict.what


def test_what_doesnt_compile_and_is_wrong_costs_nothing_either(sandbox):
    text = tuned("y = y + (1.0 if BLOCK == 64 else 0.0)", ONE_FITS)
    cases = [case("float32", n=n) for n in (300, 301, 302, 303)]
    seen = look(sandbox, text, *cases)
    assert [each.status for each in seen.results] == [Status.passed] * 8
    assert seen.compiled is None


def test_what_compiles_and_is_wrong_keeps_its_number(sandbox):
    text = tuned("y = y + 1.0", ONE_FITS)
    seen = look(sandbox, text, case("float32", n=300))
    assert [each.status for each in seen.results] == [Status.wrong_values] * 2
    assert all("configuration 2 of 2 (BLOCK=128)" in each.verdict.what for each in seen.results)


PIPELINED = """
import triton
import triton.language as tl


@triton.autotune(
    [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 128}, num_stages=8)], ["k"]
)
@triton.jit
def tuned(a_ptr, b_ptr, out_ptr, m, n, k, BLOCK: tl.constexpr):
    rows, cols = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        a_mask = (rows[:, None] < m) & (inner[None, :] < k)
        b_mask = (inner[:, None] < k) & (cols[None, :] < n)
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + cols[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc)
    mask = (rows[:, None] < m) & (cols[None, :] < n)
    tl.store(out_ptr + rows[:, None] * n + cols[None, :], acc, mask=mask)


def gemm_v3(a, b, out):
    tuned[(1,)](a, b, out, a.shape[0], b.shape[1], a.shape[1])
"""


def test_what_compiles_depends_on_how_arguments_are_aligned(sandbox):
    sizes = [{"m": 17, "n": 19, "k": 131}, {"m": 32, "n": 32, "k": 128}]
    odd, even = (case("float16", **{k.upper(): v for k, v in each.items()}) for each in sizes)
    assert look(sandbox, PIPELINED, odd, of="gemm/triton_v3").news == []
    seen = look(sandbox, PIPELINED, even, of="gemm/triton_v3")
    assert seen.news == [1] and seen.compiled is None  # eight stages take 512 KiB
    assert [each.status for each in seen.results] == [Status.passed] * 2


def test_a_static_assert_in_a_configuration_passes_it_over(sandbox):
    text = tuned("tl.static_assert(BLOCK == 128, 'too small')")
    seen = look(sandbox, text, case("float32", n=300))
    assert [each.status for each in seen.results] == [Status.passed] * 2 and seen.compiled is None
    of_none = tuned("tl.static_assert(BLOCK == 32, 'too small')")
    [result] = run(sandbox, of_none, case("float32", n=300))
    assert result.status is Status.compile_error
    assert all(f"configuration {n} of 3" in result.verdict.what for n in (1, 2, 3))
    assert result.verdict.what.count("too small") == 3


def test_other_mistakes_in_a_configuration_are_no_reason_to_pass_it_over(sandbox):
    [result] = run(sandbox, tuned("tl.dot(y, y)"), case("float32", n=300))
    assert result.status is Status.compile_error
    assert "configuration" in result.verdict.what


def test_a_kernel_that_isnt_tuned_has_to_compile(sandbox):
    seen = look(sandbox, tuned(configs="((64, 64),)"), case("float32", n=300))
    assert seen.compiled.status is Status.compile_error
    assert "the compiler for the GPU refuses it" in seen.compiled.verdict.what


def test_a_kernel_that_doesnt_compile_fails_each_part_that_launches_it(sandbox):
    """Only its first cases are compiled for; a part is what ran between two compilations."""
    exercise = SPECS["silu"]
    variant = exercise.variants["triton"]
    path = sandbox.hold(variant.file, tuned(configs="((64, 64),)").encode())
    parts = [(300, 301), (300,), (512,), (1,)]  # n=512 has another alignment, n=1 is a constant
    with PlannedTritonRunner(sandbox, Task(exercise, variant), path) as runner:
        pending = []
        for sizes in parts:
            assert all(runner.run(case("float32", n=n)).verdict.passed for n in sizes)
            pending.append(runner.compile_in_background())
        compiled = [runner.compiled(each).failure for each in pending]
        runner.run(case("bfloat16", n=300))
        compiled.append(runner.compiled(runner.compile_in_background()).failure)
        nothing = runner.compile_in_background()
    assert not nothing
    assert [each.status for each in compiled] == [Status.compile_error] * 5
    sizes = [each.case.sizes for each in compiled]
    assert sizes == [(("n", n),) for n in (300, 300, 512, 1, 300)]


def test_a_part_whose_kernels_are_aligned_less_may_compile(sandbox):
    tuner, rest = PIPELINED.split("@triton.jit\n")
    untuned = tuner.partition("@triton.autotune")[0] + "@triton.jit\n" + rest
    text = untuned.replace("a.shape[1])", "a.shape[1], BLOCK=128, num_stages=8)")
    exercise = SPECS["gemm"]
    variant = exercise.variants["triton_v3"]
    path = sandbox.hold(variant.file, text.encode())
    with PlannedTritonRunner(sandbox, Task(exercise, variant), path) as runner:
        found = []
        for sizes in ({"M": 32, "N": 32, "K": 128}, {"M": 17, "N": 19, "K": 131}):
            assert runner.run(case("float16", **sizes)).verdict.passed
            found.append(runner.compiled(runner.compile_in_background()).failure)
    assert found[0].status is Status.compile_error and found[1] is None


def test_a_second_call_runs_with_what_compiles(sandbox):
    text = tuned("y = y + (1.0 if BLOCK == 64 else 0.0)", ONE_FITS)
    text = text.replace(
        "def silu(x, out):",
        "def silu(x, out):\n    work(x, out)\n\n\nBUSY = []\n\n\ndef work(x, out):",
    )
    text += "    if not BUSY:\n        BUSY.append(torch.zeros(4, device=x.device))\n"
    seen = look(sandbox, text, case("float32", n=300))
    assert [each.status for each in seen.results] == [Status.passed] * 2


def test_a_launcher_without_an_end_is_told_so(sandbox):
    text = tuned().replace("def silu(x, out):", "def silu(x, out):\n    while True: pass")
    limits = SPECS["silu"].limits.model_copy(update={"seconds": 1.0})
    exercise = SPECS["silu"].model_copy(update={"limits": limits})
    variant = exercise.variants["triton"]
    path = sandbox.hold(variant.file, text.encode())
    with PlannedTritonRunner(sandbox, Task(exercise, variant), path) as runner:
        result = runner.run(case("float32", n=5))
    assert result.status is Status.timed_out
    assert result.verdict.what.startswith("the launcher took longer than 1 s")
    assert (
        "it runs without data" in result.verdict.what and "Does each loop in it end" in result.hint
    )


def test_more_specialisations_than_are_compiled_here_are_not_measured(sandbox, monkeypatch):
    monkeypatch.setattr(frontend, "MAX_SPECIALISATIONS", 2)
    [result] = run(sandbox, tuned(), case("float32", n=100))
    assert result.status is Status.not_measured
    assert "more than 2 specialisations" in result.verdict.what


def test_a_failure_names_its_configuration_in_a_sentence_of_its_own():
    tuning = configurations.Tuning(kernels=None)  # type: ignore[arg-type]
    tuning.chosen, tuning._names = 1, ["BLOCK=64", "BLOCK=128"]
    refused = tuning.named(CaseResult(None, Verdict(Status.compile_error, "no such name: tl.ex")))
    wrong = tuning.named(CaseResult(None, Verdict(Status.wrong_values, "out[0] is 1.0.")))
    assert refused.verdict.what == (
        "no such name: tl.ex. It was compiled as configuration 2 of 2 (BLOCK=128)."
    )
    assert wrong.verdict.what == "out[0] is 1.0. It ran with configuration 2 of 2 (BLOCK=128)."


def tried(count: int) -> Plan:
    """A plan in which a tuner tries one kernel so often."""
    steps = [plans.launch(0, 1, trial=0)] * count + [plans.launch(0, 1)]
    return read(plans.plan(*steps), plans.ARGUMENTS)


def test_a_kernel_that_is_tried_very_often_is_named_once(monkeypatch):
    named = []
    digest = tuned_kernels.digest
    monkeypatch.setattr(tuned_kernels, "digest", lambda each: named.append(each) or digest(each))
    plan = tried(500)
    assert len(configurations.standing(plan, {"another"})) == 500
    assert len(configurations.steps(plan, number=7, passed_over={"another"}, tunes=True)) == 2
    assert len(named) == 1


def test_four_times_the_trials_take_about_four_times_as_many_lines():
    few, many = (partial(configurations.names_of, tried(count)) for count in (250, 1000))
    assert work.lines(many, most=5 * work.lines(few)) > 0


def test_cases_are_spread_over_configurations():
    chosen = {configurations.first_for(case("float32", n=n), 4) for n in range(1, 40)}
    assert chosen == {0, 1, 2, 3}
    assert configurations.first_for(case("float32", n=7), 4) == configurations.first_for(
        case("float32", n=7), 4
    )
