"""What a command begins before torch is imported."""

import shutil
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from grader.emulator import toolchain
from grader.executors.compile.kept_builds import KeptBuilds
from grader.executors.cuda import cuda_build
from grader.gpu import devices
from grader.grading import head_start
from grader.grading.session import Options, Session
from grader.sandbox import Sandbox
from grader.sandbox.environment import environment_of
from grader.spec import load_all
from grader.spec.task import Task
from grader.timing.graph_replays import FIRST_LIMITS
from grader.worker.protocol import Code, Operation

SPECS = load_all()
SILU = Task(SPECS["silu"], SPECS["silu"].variants["cuda"])
ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.skipif(bool(cuda_build.why_not("emulator")), reason="needs g++")


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """Where programs of earlier runs are kept, of which there are none at first."""
    path = tmp_path / "cache" / "programs.sqlite"
    monkeypatch.setattr(cuda_build, "kept_programs", lambda: KeptBuilds(path))


@pytest.fixture
def folder(tmp_path):
    shutil.copy(ROOT / "reference" / "silu.cu", tmp_path)
    yield tmp_path
    if (left := head_start.take_build()) is not None:
        left.close()


@pytest.fixture
def ordered(monkeypatch):
    """The orders that compilers got."""
    cuda_build.prepare()
    orders, begin = [], cuda_build.begin

    def noted(sandbox, order):
        orders.append((order.name, order.backend))
        return begin(sandbox, order)

    monkeypatch.setattr(cuda_build, "begin", noted)
    return orders


def test_a_session_has_the_program_that_was_begun(folder, ordered):
    head_start.begin_build("silu/cuda", [folder / "nothing", folder])
    with Session(folder, SPECS, Options(device="cpu")) as session:
        begun = len(ordered)
        assert ordered[0] == ("silu.cu", "emulator")
        assert session.runners.programs.of("silu.cu", "emulator").path is not None
        session.runners.programs.is_refused("silu.cu")
        assert len(ordered) == begun
        assert session.environment()["sandbox"]
    assert head_start.take_build() is None


def test_a_program_of_an_earlier_run_is_not_compiled_again(folder, ordered):
    for begins in (True, False):
        ordered.clear()
        head_start.begin_build("silu/cuda", [folder])
        with Session(folder, SPECS, Options(device="cpu")) as session:
            assert session.runners.programs.of("silu.cu", "emulator").path is not None
            session.runners.programs.is_refused("silu.cu")
            assert session.environment()["sandbox"]
        assert bool(ordered) is begins


def test_of_another_text_nothing_is_taken(folder, ordered):
    head_start.begin_build("silu/cuda", [folder])
    until = time.monotonic() + 60
    while not ordered and time.monotonic() < until:
        time.sleep(0.01)  # the text is read before its compiler begins
    assert ordered
    with (folder / "silu.cu").open("a") as file:
        file.write("\n// changed\n")
    with Session(folder, SPECS, Options(device="cpu")) as session:
        assert session.runners.programs.of("silu.cu", "emulator").path is not None
        assert ordered.count(("silu.cu", "emulator")) == 2


def test_a_session_that_requires_a_sandbox_takes_nothing(folder):
    cuda_build.prepare()
    head_start.begin_build("silu/cuda", [folder])
    options = Options(device="cpu", require_sandbox=True)
    with Session(folder, SPECS, options):
        left = head_start.take_build()
    assert left is not None
    left.close()


def test_its_caller_does_not_wait_for_the_compiler(folder, ordered, monkeypatch):
    may_begin, begin = threading.Event(), cuda_build.begin

    def waited(sandbox, order):
        assert may_begin.wait(60)
        return begin(sandbox, order)

    monkeypatch.setattr(cuda_build, "begin", waited)
    head_start.begin_build("silu/cuda", [folder])
    assert ordered == []
    may_begin.set()
    begun = head_start.take_build()
    assert begun is not None and ordered[0] == ("silu.cu", "emulator")
    begun.close()


@pytest.mark.parametrize("task", ["silu/cude", "sily/cuda", "silu", "silu/triton", "", "a/b/c"])
def test_of_a_wrong_name_nothing_is_begun(folder, ordered, task):
    head_start.begin_build(task, [folder])
    assert head_start.take_build() is None and ordered == []


def test_a_link_is_not_followed(folder, ordered):
    (folder / "silu.cu").rename(folder / "other.cu")
    (folder / "silu.cu").symlink_to(folder / "other.cu")
    head_start.begin_build("silu/cuda", [folder])
    assert head_start.take_build() is None and ordered == []


def test_what_breaks_a_rule_is_not_compiled(folder, ordered):
    with (folder / "silu.cu").open("a") as file:
        file.write('\n#include "/etc/hostname"\n')
    head_start.begin_build("silu/cuda", [folder])
    assert head_start.take_build() is None and ordered == []


def test_what_takes_long_is_left_to_the_session_which_shows_it(folder, ordered, monkeypatch):
    monkeypatch.setattr(toolchain, "is_prepared", lambda: False)
    head_start.begin_build("silu/cuda", [folder])
    assert head_start.take_build() is None and ordered == []


def test_a_toolchain_is_prepared_once_its_entry_is_there(monkeypatch, tmp_path):
    monkeypatch.setattr(toolchain, "cache_root", lambda: tmp_path)
    monkeypatch.setattr(toolchain, "make_once", lambda folder, build: folder.mkdir())
    assert not toolchain.is_prepared()
    toolchain.prepare()
    assert toolchain.is_prepared()


def test_a_wrong_course_begins_nothing(folder, ordered):
    head_start.begin_build("silu/cuda", [folder], folder / "no course")
    assert head_start.take_build() is None and ordered == []


def test_nothing_of_it_imports_torch(folder):
    cuda_build.prepare()
    program = f"""
        import sys
        from pathlib import Path
        from grader.gpu import devices
        from grader.grading import head_start
        devices._DRIVERS = ()
        head_start.begin_build("silu/cuda", [Path({str(folder)!r})])
        assert head_start.take_build() is not None
        print("torch" in sys.modules)
    """
    line = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "False\n", done.stderr


def test_without_a_driver_no_sandbox_of_baselines_is_begun(monkeypatch):
    monkeypatch.setattr(devices, "_DRIVERS", ())
    head_start.begin_baselines()
    with head_start.baselines() as begun:
        assert begun is None


def loads(sandbox: Sandbox, path: Path) -> bool:
    """Whether a new worker can load a file."""
    time.sleep(0.1)
    worker = sandbox.worker(path, "f", [], FIRST_LIMITS)
    answer = worker.ask(Operation.load, [])
    worker.close()
    return answer.code is Code.ok


def test_only_baselines_have_the_folder_of_kept_kernels(tmp_path):
    """A planner that imports torch's compiler makes a folder of its own for it."""
    scratch, kernels = tmp_path / "scratch", tmp_path / "kernels"
    own = environment_of("cuda", scratch)
    kept = environment_of("cuda", scratch, kernels)
    assert {own["HOME"], kept["HOME"]} == {str(scratch)}
    assert own["TRITON_CACHE_DIR"] == str(scratch / "triton")
    assert "TORCHINDUCTOR_CACHE_DIR" not in own
    assert kept["TRITON_CACHE_DIR"] == str(kernels / "triton")
    assert kept["TORCHINDUCTOR_CACHE_DIR"] == str(kernels / "inductor")


@pytest.mark.parametrize("uses_cache", [True, False])
def test_a_class_is_timed_with_no_kept_kernels(tmp_path, monkeypatch, uses_cache):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    options = Options(keeps_builds=uses_cache, device="cpu")
    with Session(tmp_path, load_all(), options) as session:
        session.stopwatch.trusted  # noqa: B018 (it makes the folder)
    assert (tmp_path / "warpgrade-compiled" / "baselines").exists() is uses_cache


def test_workers_for_baselines_find_torch_compile_imported(monkeypatch):
    monkeypatch.setattr(devices, "_DRIVERS", ("/",))
    head_start.begin_baselines()
    with head_start.baselines() as begun:
        assert begun is not None
        source = b"""
import os, sys
assert "torch._inductor.compile_fx" in sys.modules
assert os.environ["TORCHINDUCTOR_COMPILE_THREADS"] == "1"
assert os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] == "1"  # or a fork can't use the GPU
def baseline(): pass
"""
        path = begun.hold("baseline.py", source)
        worker = begun.worker(path, "baseline", [], FIRST_LIMITS)
        assert worker.ask(Operation.load, []).code is Code.ok
        # What it needs at its first compilation is imported while the sandbox has nothing to do.
        path = begun.hold("later.py", b"import sys; sys.modules['torch.export._trace']\ndef f(): 0")
        assert any(loads(begun, path) for _ in range(100))
    with head_start.baselines() as again:
        assert again is None
