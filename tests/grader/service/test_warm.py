"""What stays from one request to the next in a process of the pool: nothing of a submission."""

import pytest

from benchmarks.serve import TRITON
from grader.grading.session import Options
from grader.sandbox import Sandbox, processes
from grader.service.single import EFFORTS, check_source, exercises_of, task_named

# Tries what could outlive a process, and is refused or ended.
LEAVES = """
import contextlib, ctypes, os, pathlib, resource, time
os.environ["LEFT"] = "x"
ctypes.CDLL(None).shmget(0x1EF7, 4096, 0o1666)
for path in ("/dev/shm/left", "/tmp/left", f"/proc/{os.getppid()}/oom_score_adj"):
    with contextlib.suppress(OSError):
        pathlib.Path(path).write_text("100")
for change in (
    lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (64, 64)),
    lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19),
    lambda: os.sched_setaffinity(os.getppid(), {0}),
):
    with contextlib.suppress(OSError):
        change()
pathlib.Path("deep/er").mkdir(parents=True, exist_ok=True)
pathlib.Path("deep/er/left").write_text("x")
os.path.islink("link") or os.symlink("/", "link")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(100)
    os._exit(0)
"""


# What the next one finds of it ends its import.
LOOKS = """
import ctypes, os, pathlib, resource
assert "LEFT" not in os.environ
assert ctypes.CDLL(None).shmget(0x1EF7, 4096, 0) == -1
for path in ("/dev/shm/left", "/tmp/left", "deep", "link"):
    assert not os.path.lexists(path), path
held = os.listdir(os.path.dirname(__file__))
assert held == ["silu.py"], held
folders = os.listdir("../..")
assert {*folders} <= {"planner", "compiler", "executor"}, folders  # its own processes'
assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 512
assert os.getpriority(os.PRIO_PROCESS, 0) < 19
"""


def test_a_sandbox_goes_on_with_nothing_of_the_last_submission_in_it():
    task = task_named(exercises_of(None), "silu/triton")
    options = Options(device="cpu", effort=EFFORTS["quick"], keeps_builds=False)
    with Sandbox("cpu", kind="plans") as sandbox:
        if sandbox.confinement.level.value == "limits":
            pytest.skip("without a sandbox none goes on")
        server = sandbox._server
        assert server is not None
        check_source(task, LEAVES + TRITON, options, timed=False, sandbox=sandbox)
        if sandbox.confinement.level.value == "landlock":  # else it can't be seen from outside
            assert list(sandbox.scratch.glob("planner/*/deep/er/left"))
        assert sandbox.empty()
        assert not processes.below(server.pid)
        assert not list(sandbox.scratch.iterdir())
        assert not list((sandbox.scratch.parent / "submission").iterdir())
        found = check_source(task, LOOKS + TRITON, options, timed=False, sandbox=sandbox)
        assert found.passed, found.message
        assert sandbox._server is server


def test_a_sandbox_whose_fork_server_has_ended_does_not_go_on():
    with Sandbox("cpu", kind="plans") as sandbox:
        assert sandbox._server is not None
        sandbox._server._process.kill()
        assert not sandbox.empty()
