"""What compilers made is kept from one run to the next, and nothing hangs on it but time."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from grader.executors.compile import kept_builds, kernels
from grader.executors.compile.frontend import Budget, Failure, Frontend, Kernel
from grader.executors.compile.kept_builds import KeptBuilds
from grader.executors.triton.triton_runner import PlannedTritonRunner
from grader.grading.session import Options, Session
from grader.plan import Specialisation
from grader.sandbox import Sandbox
from grader.sandbox.worker_process import Cause, Death, Limits, Worker
from grader.spec.task import Task
from grader.status import Status
from tests.support.planned import SPECS, case

KERNEL = """
import triton, triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n).to(tl.float32)
    tl.store(out_ptr + offsets, x * tl.sigmoid(x) + WRONG, mask=offsets < n)

def silu(x, out):
    kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
"""


@pytest.fixture
def builds(tmp_path: Path):
    made = KeptBuilds(tmp_path / "cache" / "kernels.sqlite")
    yield made
    made.close()


def _status(sandbox: Sandbox, source: str, builds: KeptBuilds) -> tuple[Status, int]:
    """The status of one case and its compilation, and how often a compiler process was started."""
    exercise = SPECS["silu"]
    variant = exercise.variants["triton"]
    path = sandbox.hold(variant.file, source.encode())
    start = Sandbox.worker
    with (
        mock.patch.object(Sandbox, "worker", autospec=True) as started,
        PlannedTritonRunner(sandbox, Task(exercise, variant), path, True, builds) as runner,
    ):
        started.side_effect = start
        result = runner.run(case("float32", n=1000))
        assert runner.compiled(runner.compile_in_background()).failure is None
    roles = [each.kwargs["role"] for each in started.call_args_list]
    return result.verdict.status, roles.count("compiler")


def test_a_second_run_starts_no_compiler(shared_sandbox, builds) -> None:
    source = KERNEL.replace("WRONG", "0.0")
    assert _status(shared_sandbox, source, builds) == (Status.passed, 2)
    assert _status(shared_sandbox, source, builds) == (Status.passed, 0)


def test_a_changed_text_is_compiled_and_judged_anew(shared_sandbox, builds) -> None:
    assert _status(shared_sandbox, KERNEL.replace("WRONG", "0.0"), builds)[0] is Status.passed
    changed = _status(shared_sandbox, KERNEL.replace("WRONG", "1.0"), builds)
    assert changed == (Status.wrong_values, 2)


def test_another_compiler_takes_nothing_of_the_old_one(shared_sandbox, builds) -> None:
    source = KERNEL.replace("WRONG", "0.0")
    _status(shared_sandbox, source, builds)
    with mock.patch.object(kept_builds, "compilers", lambda: "another"):
        assert _status(shared_sandbox, source, builds) == (Status.passed, 2)


def test_a_spoilt_file_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "kernels.sqlite"
    path.write_bytes(b"no database" * 1000)
    builds = KeptBuilds(path)
    assert builds.get("a") is None
    builds.put("a", "text")
    assert builds.get("a") == "text"
    builds._table.execute("UPDATE kept SET text = ?", (b"no text",))
    assert builds.get("a") is None
    builds.close()


def test_a_folder_that_can_t_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    builds = KeptBuilds(tmp_path / "file" / "kernels.sqlite")
    builds.put("a", "text")
    assert builds.get("a") is None


def test_of_too_many_the_oldest_go(tmp_path: Path) -> None:
    builds = KeptBuilds(tmp_path / "kernels.sqlite", max_entries=8)
    for number in range(9):
        builds.put(str(number), "text")
    assert [n for n in range(9) if builds.get(str(n))] == [3, 4, 5, 6, 7, 8]
    builds.close()


def test_kernels_of_baselines_are_kept_until_they_are_very_many(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kept_builds, "MOST_KERNELS", 2)
    path = kept_builds.kernels_of_baselines()
    assert path is not None and path.is_relative_to(kept_builds.folder())
    for name in "ab":
        (path / "triton" / name).mkdir(parents=True)
    assert kept_builds.kernels_of_baselines() == path and (path / "triton" / "a").is_dir()
    (path / "triton" / "c").mkdir()
    assert kept_builds.kernels_of_baselines() == path and not (path / "triton").exists()


def test_kernels_of_baselines_stay_in_the_scratch_folder_where_none_can_be_kept(
    tmp_path, monkeypatch
) -> None:
    (tmp_path / "a_file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a_file"))
    assert kept_builds.kernels_of_baselines() is None


def no_compiler(limits: Limits) -> Worker:
    raise AssertionError("nothing is to be compiled")


def test_files_outside_the_submission_are_not_read(tmp_path: Path, builds) -> None:
    """A planner names them, and it has run the submission's Python."""
    frontend = Frontend(no_compiler, tmp_path, builds, Budget(1.0))
    (tmp_path / "silu.py").write_text("")
    for name in ("/dev/zero", "../silu.py", str(tmp_path / "silu.py")):
        assert frontend._files_of(_named(name)) is None
    assert frontend._files_of(_named("silu.py")) is not None


def test_of_kernels_that_use_up_their_budget_nothing_is_kept(shared_sandbox, builds) -> None:
    """Each run would else get further than the one before, to another verdict in the end."""
    source = KERNEL.replace("WRONG", "0.0")
    launch = "kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)"
    assert launch in source
    many = f"for block in (128, 256, 512, 1024):\n        {launch.replace('=256', '=block')}"
    seen = []
    with mock.patch.object(kernels, "COMPILE_SECONDS", 1e-6):
        for _ in range(5):
            exercise = SPECS["silu"]
            path = shared_sandbox.hold("silu.py", source.replace(launch, many).encode())
            with PlannedTritonRunner(
                shared_sandbox, Task(exercise, exercise.variants["triton"]), path, True, builds
            ) as runner:
                seen.append(runner.run(case("float32", n=1000)))
    assert {each.status for each in seen} == {Status.compile_error}
    assert "take the compiler too long" in seen[-1].verdict.what


@pytest.mark.parametrize(("left", "ended"), [(0.0, True), (5.0, False)])
def test_a_compiler_is_ended_by_the_budget_or_by_a_limit_of_its_own(left, ended) -> None:
    late = Death(Cause.timed_out, "killed")
    assert Budget(left).has_ended(late) is ended
    assert not Budget(left).has_ended(Death(Cause.out_of_memory, "killed"))
    result = Failure(late).result(None, None)  # type: ignore[arg-type]
    assert (result.status, result.verdict.what) == (
        Status.compile_error,
        "compiling the kernel does not end in time.",
    )


def test_what_was_kept_before_the_budget_was_used_up_is_forgotten(tmp_path, builds) -> None:
    for seconds, is_kept in ((1.0, True), (0.0, False)):
        budget = Budget(1.0)
        frontend = Frontend(no_compiler, tmp_path, builds, budget)
        frontend.keep("a", "text")
        assert builds.get("a") == "text"
        budget.seconds = seconds
        frontend.close()
        assert (builds.get("a") is not None) is is_kept


def _named(file: str) -> Specialisation:
    return Specialisation(file, 1, "kernel", "0" * 64, {}, {}, {}, {}, {})


def test_a_class_is_graded_without_it(tmp_path: Path) -> None:
    submission = tmp_path / "submission"
    submission.mkdir()
    for keeps in (True, False):
        with Session(submission, SPECS, Options(keeps_builds=keeps)) as session:
            kept = session.runners._kept, session.runners._kept_programs
            assert [each._path is not None for each in kept] == [keeps, keeps]


def test_of_a_kernel_that_the_backend_is_slow_with_no_loop_is_blamed(tmp_path) -> None:
    late = Failure(Death(Cause.timed_out, "killed"), "the compiler's process ended.")
    slow = kernels.Kernels(no_compiler, tmp_path)
    wanted = _named("silu.py")
    with (
        mock.patch.object(slow._frontend, "translate_aligned", lambda _: Kernel("k", "text")),
        mock.patch.object(slow._device_code, "of", lambda *_: late),
    ):
        first = slow.cubin(wanted)
        slow.budget.seconds = 0.001
        second = slow.cubin(wanted)
    results = [each.result(None, None) for each in (first, second)]  # type: ignore[union-attr, arg-type]
    assert [each.status for each in results] == [Status.compile_error] * 2
    assert "120 s of computing" in results[0].verdict.what
