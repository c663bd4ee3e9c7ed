"""What Triton's compiler does once in a process is done before workers on a GPU are forked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import triton

from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level

ROOT = Path(__file__).parents[3]
TOLD = """
import json, os, sys
from grader.worker import compiler_warm_up
from triton.runtime import cache
before = "triton.compiler.code_generator" in sys.modules
compiler_warm_up.run()
print(json.dumps({
    "before": before,
    "after": "triton.compiler.code_generator" in sys.modules,
    "key": cache.triton_key(),
    "threads": len(os.listdir("/proc/self/task")),
}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    environment |= {
        "PYTHONPATH": str(ROOT),
        "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton")),
        "TRITON_DEFAULT_FP_FUSION": "1",
    }
    line = [sys.executable, "-c", TOLD]
    done = subprocess.run(line, capture_output=True, text=True, env=environment, check=True)
    made = [each.name for each in Path(environment["TRITON_CACHE_DIR"]).rglob("*.cubin")]
    return {**json.loads(done.stdout), "made": made}


def test_the_compiler_is_there_and_has_compiled(told):
    assert not told["before"] and told["after"]
    assert told["made"] == ["_copy.cubin"]


def test_the_keys_of_the_cache_need_no_hash_over_tritons_files(told):
    assert told["key"] == triton.__version__


def test_a_process_that_compiled_has_a_single_thread_and_can_be_forked(told):
    assert told["threads"] == 1


def test_the_parent_of_a_gpus_workers_is_warm():
    with Sandbox("cuda", Level.limits) as sandbox:
        assert list(sandbox.scratch.rglob("_copy.cubin"))
        assert len(list(Path(f"/proc/{sandbox._server.pid}/task").iterdir())) == 1


def test_the_parent_of_an_interpreters_workers_compiles_nothing():
    with Sandbox("interpreter", Level.limits) as sandbox:
        assert not list(sandbox.scratch.rglob("*.cubin"))
