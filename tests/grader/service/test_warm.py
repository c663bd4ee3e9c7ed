"""What stays from one request to the next in a process of the pool: nothing of a submission."""

import pytest

from benchmarks.serve import TRITON
from grader.grading.session import Options
from grader.sandbox import Sandbox, processes
from grader.service.single import EFFORTS, check_source, exercises_of, task_named

LEAVES = """
import os, pathlib, time
pathlib.Path("deep/er").mkdir(parents=True)
pathlib.Path("deep/er/left").write_text("x")
os.symlink("/", "link")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(100)
    os._exit(0)
"""


def test_a_sandbox_goes_on_with_nothing_of_the_last_submission_in_it():
    task = task_named(exercises_of(None), "silu/triton")
    options = Options(device="interpreter", effort=EFFORTS["quick"], keeps_builds=False)
    with Sandbox("interpreter", plans=True) as sandbox:
        if sandbox.description == "limits":
            pytest.skip("without a sandbox none goes on")
        server = sandbox._server
        assert server is not None
        check_source(task, LEAVES + TRITON, options, timed=False, sandbox=sandbox)
        if sandbox.description == "landlock":  # else it can't be seen from outside
            assert list(sandbox.scratch.glob("*/deep/er/left"))
        assert sandbox.empty()
        assert not processes.below(server.pid)
        assert not list(sandbox.scratch.iterdir())
        assert not list((sandbox.scratch.parent / "submission").iterdir())
        assert check_source(task, TRITON, options, timed=False, sandbox=sandbox).passed
        assert sandbox._server is server


def test_a_sandbox_whose_fork_server_has_ended_does_not_go_on():
    with Sandbox("interpreter", plans=True) as sandbox:
        assert sandbox._server is not None
        sandbox._server._process.kill()
        assert not sandbox.empty()
