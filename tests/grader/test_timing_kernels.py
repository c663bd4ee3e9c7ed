"""What ran under the clock's last call: a library's kernel is a breach, whoever says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader import race
from grader.kernel_names import Owner, owner
from grader.sandbox import Sandbox
from grader.spec import load_all
from grader.status import Status
from grader.supervision import Cause, Death
from grader.timing import kernels, measure
from grader.timing.kernels import listed
from grader.timing.worker import TimingFailed
from grader.worker.protocol import Code, Reply
from tests.grader.clocked import HONEST, timed, without_doubts
from tests.grader.test_timing_measure import Lane, asking, measured

ROOT = Path(__file__).resolve().parents[2]
EXERCISES = load_all()
SILU = EXERCISES["silu"]
CUBLAS = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::arr"
COPY = {"speed_vs": "copy", "at_least": 0.9, "points": 2}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "silu.py"
    path.write_text("import triton\n\n@triton.jit\ndef cutlass_like_gemm(x_ptr): ...\n")
    return path


def answer(code: Code = Code.ok, **fields: object) -> Reply:
    return Reply(9, code, json.dumps(fields))


def of_silu(reply: Reply | Death, path: Path) -> kernels.Listed:
    return listed(reply, SILU, SILU.variants["triton"], path)


def test_ones_own_kernels_with_copies_and_fills_are_kept(path):
    names = ["cutlass_like_gemm", "Memcpy DtoD (Device -> Device)", FILL, "another_kernel"]
    assert of_silu(answer(kernels=names), path) == kernels.Listed(tuple(names))


def test_a_librarys_kernel_is_a_breach_with_its_name(path):
    with pytest.raises(TimingFailed) as caught:
        of_silu(answer(kernels=["cutlass_like_gemm", CUBLAS]), path)
    assert caught.value.status is Status.policy_violation
    assert f"the call ran {CUBLAS}, a kernel of cuBLAS." in str(caught.value)


def test_what_torch_computed_is_a_breach_where_there_are_no_kernels_to_list(path):
    with pytest.raises(TimingFailed, match=r"PyTorch computed .* \(aten.silu\)") as caught:
        of_silu(answer(kernels=[], computed=[["aten.silu", 3]]), path)
    assert caught.value.status is Status.policy_violation


def test_where_the_spec_lets_torch_compute_it_may(path):
    exercise = EXERCISES["gemm"]
    reply = answer(kernels=[CUBLAS], computed=[["aten.mm", 3]])
    assert listed(reply, exercise, exercise.variants["torch_v0"], path).names == (CUBLAS,)
    with pytest.raises(TimingFailed):
        listed(reply, exercise, exercise.variants["triton_v3"], path)


@pytest.mark.parametrize(
    "reply",
    [
        Death(Cause.signalled, "killed by SIGSEGV"),
        answer(Code.bad_request, message="operation 11"),
        answer(unlisted="CUPTI is not there"),
    ],
)
def test_what_could_not_be_listed_costs_nothing(path, reply):
    seen = of_silu(reply, path)
    assert seen.names == () and seen.unlisted


@pytest.mark.parametrize("value", [None, 7, "kernel", [1, None, {}], {"a": 1}, [["x"]]])
def test_what_is_no_list_of_names_is_none(path, value):
    assert of_silu(answer(kernels=value), path) == kernels.Listed()
    assert of_silu(answer(kernels=[], computed=value if value != [["x"]] else 1), path).names == ()


def test_a_hostile_list_is_cut_and_cleaned(path):
    names = ["\x1b[2Jkernel\n", *("k" * 10_000 for _ in range(3)), *map(str, range(1000))]
    seen = of_silu(answer(kernels=names), path)
    assert len(seen.names) == kernels.MOST
    assert "\x1b" not in seen.names[0] and "\n" not in seen.names[0]
    assert max(map(len, seen.names)) <= 2 * kernels.LONGEST
    with pytest.raises(TimingFailed) as caught:
        of_silu(answer(kernels=[f"cublas\x1b[2J{'x' * 5000}"]), path)
    assert "\x1b" not in str(caught.value) and len(str(caught.value)) < 500


class Profiled(Lane):
    """A lane whose worker tells what ran."""

    def __init__(self, *names: str) -> None:
        super().__init__(100.0)
        self.names = names
        self.pairs_before = 0

    def profiled(self) -> Reply:
        self.pairs_before = self._taken
        return answer(kernels=list(self.names))


def test_what_ran_is_asked_after_the_last_pair(monkeypatch, path):
    monkeypatch.setattr(Path, "read_text", lambda self, **_: "")
    candidate = Profiled("rmsnorm_kernel")
    seen = measured(monkeypatch, asking(COPY), candidate, {"copy": Lane(95.0)}, profile=True)
    assert seen.status is Status.passed and seen.kernels == ("rmsnorm_kernel",)
    assert candidate.pairs_before == seen.samples
    quiet = measured(monkeypatch, asking(COPY), Lane(100.0), {"copy": Lane(95.0)})
    assert quiet.kernels == ()
    candidate = Profiled(CUBLAS)
    seen = measured(monkeypatch, asking(COPY), candidate, {"copy": Lane(95.0)}, profile=True)
    assert seen.status is Status.policy_violation and CUBLAS in seen.reason
    assert seen.microseconds is None


# --- in a worker ----------------------------------------------------------------------------------


def test_in_the_interpreter_there_is_no_kernel_to_list(python_sandbox, monkeypatch):
    without_doubts(monkeypatch, 1)
    variant = asking(COPY, exercise="silu")
    performance = variant.performance.model_copy(update={"case": {"n": 5000, "dtype": "float32"}})
    variant = variant.model_copy(update={"performance": performance})
    path = python_sandbox.hold("silu.py", (ROOT / "reference" / "silu.py").read_bytes())
    budget = race.Budget(seconds=60.0, pairs=2)
    seen = measure.measure(python_sandbox, SILU, variant, path, 7, budget=budget, profile=True)
    assert (seen.status, seen.kernels, seen.unlisted) == (Status.passed, (), ""), seen


def profiled(sandbox: Sandbox, source: str) -> dict:
    with timed(sandbox, source) as candidate:
        candidate.settle()
        candidate.pair()
        return json.loads(candidate.profiled().text)


def test_what_torch_computes_for_the_entry_is_told(python_sandbox):
    told = profiled(python_sandbox, HONEST)
    assert [name for name, _ in told["computed"]] == ["aten.silu"]
    assert told["kernels"] == []


@pytest.mark.gpu
def test_on_a_gpu_the_kernels_that_ran_are_listed():
    with Sandbox("cuda") as sandbox:
        torchs = profiled(sandbox, HONEST)
        own = profiled(sandbox, (ROOT / "reference" / "silu.py").read_text())
    assert any(owner(name) is Owner.aten and "silu" in name for name in torchs["kernels"]), torchs
    assert [name for name, _ in torchs["computed"]] == ["aten.silu"]
    assert own == {"kernels": ["silu_kernel"]}


@pytest.mark.gpu
def test_on_a_gpu_the_matrix_product_of_a_library_is_told_by_its_name():
    exercise = EXERCISES["gemm"]
    source = "import torch\n\ndef gemm_v3(a, b, out):\n    torch.mm(a, b, out=out)\n"
    variant = exercise.variants["triton_v3"]
    with Sandbox("cuda") as sandbox:
        path = sandbox.hold("mm.py", source.encode())
        seen = measure.measure(sandbox, exercise, variant, path, 7, profile=True)
    assert seen.status is Status.policy_violation, seen
    assert Owner.cublas.value in seen.reason


def test_the_profiled_call_is_graded_like_any_other(python_sandbox):
    source = "done = 0\n" + HONEST.replace(
        "    out.copy_", "    global done\n    done += 1\n    if done > 6: return\n    out.copy_"
    )
    with timed(python_sandbox, source) as candidate:
        candidate.settle()
        with pytest.raises(TimingFailed) as caught:
            candidate.profiled()
    assert caught.value.status in (Status.not_written, Status.wrong_values)
