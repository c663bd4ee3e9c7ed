"""The doctor tries instead of guessing, says what to do, and fits the window."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from grader.cli import doctor
from grader.cli.doctor import Finding
from grader.emulator import toolchain
from grader.gpu import machine
from grader.instruments.inspect import compiling
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level, Offer
from grader.sandbox.worker_process import SandboxError


def told(monkeypatch, *findings: Finding, width: int = 60) -> str:
    """What the doctor prints when these are its findings."""
    monkeypatch.setattr(doctor, "_PROBES", tuple(lambda each=each: each for each in findings))
    text = io.StringIO()
    doctor.examine(Console(file=text, width=width, color_system=None))
    return text.getvalue()


def test_the_cache_is_told_with_its_size_and_place(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert doctor.probe_cache().detail.startswith("0 MB")
    for folder, size in (("warpgrade", 7_400_000), ("warpgrade-compiled", 3_000_000)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_bytes(b"x" * size)
    assert doctor.probe_cache().detail.startswith(
        f"7 MB of the emulator in {tmp_path / 'warpgrade'}, "
        f"3 MB of compiled kernels in {tmp_path / 'warpgrade-compiled'}; "
    )


def findings(**changes: str) -> list[Finding]:
    """Findings of a laptop that has all but a GPU, with some states changed."""
    states: dict[str, Any] = {
        "python": "yes",
        "triton by plan": "yes",
        "triton interpreter": "yes",
        "triton compiler": "yes",
        "gpu": "no",
        "triton on the gpu": "no",
        "compilers": "yes",
        "confinement": "part",
    }
    states.update({name.replace("_", " "): state for name, state in changes.items()})
    return [Finding(name, state, "found " * 20, "advice " * 20) for name, state in states.items()]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_every_line_fits_and_goes_on_below_its_own_text(monkeypatch, width):
    lines = [line.rstrip() for line in told(monkeypatch, *findings(), width=width).splitlines()]
    assert all(len(line) <= width for line in lines)
    middle = lines[: lines.index("")]
    starts = [line for line in middle if not line.startswith(" ")]
    assert len(starts) == 8
    assert all(line.startswith(" " * 9) for line in middle if line not in starts)
    assert all(line[9:10].strip() for line in middle)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "grades correctness; performance points need a GPU"),
        ({"gpu": "yes", "triton_on_the_gpu": "yes"}, "grades everything, timings included"),
        ({"gpu": "yes"}, "grades correctness; performance points need a GPU"),
        ({"triton_by_plan": "no"}, "can't grade yet"),
        ({"triton_interpreter": "no"}, "grades correctness; performance points need a GPU"),
        ({"triton_compiler": "no"}, "can't grade yet"),
    ],
)
def test_the_last_sentence_says_what_is_graded_here(monkeypatch, changes, said):
    assert said in doctor.summary(findings(**changes))
    assert said in " ".join(told(monkeypatch, *findings(**changes)).split())


def test_processes_that_do_not_start_are_trouble(monkeypatch):
    assert doctor.probe_plans().state == "yes"

    def refuse(*_: object, **__: object) -> None:
        raise SandboxError("a new worker was not ready: exit status 1\nno module of that name")

    monkeypatch.setattr(doctor.Sandbox, "worker", refuse)
    finding = doctor.probe_plans()
    assert (finding.state, finding.detail) == ("no", "no module of that name")


@pytest.mark.parametrize(
    ("what", "old", "new"),
    [("interpreter", "2 * tl.load", "3 * tl.load"), ("compiler", "tl.store", "tl.no_such")],
)
def test_a_trial_runs_a_kernel_and_says_what_went_wrong(monkeypatch, what, old, new):
    assert doctor._trial(what) == ""
    monkeypatch.setattr(doctor, "_TRIAL", doctor._TRIAL.replace(old, new))
    trouble = doctor._trial(what)
    assert trouble
    assert "\n" not in trouble
    assert len(trouble) <= 200


def test_a_trial_that_never_ends_is_trouble_too(monkeypatch):
    def hang(*args, **options):
        raise doctor.subprocess.TimeoutExpired("python", 180)

    monkeypatch.setattr(doctor.subprocess, "run", hang)
    assert doctor._trial("interpreter") == "a small kernel did not finish in 180 s"


@pytest.mark.parametrize("look", [doctor.probe_interpreter, doctor.probe_compiler])
def test_a_triton_that_does_not_work_is_missing_and_says_what_to_do(monkeypatch, look):
    monkeypatch.setattr(doctor, "_trial", lambda what: "ImportError: no triton")
    finding = look()
    assert (finding.state, finding.detail) == ("no", "ImportError: no triton")
    assert "make clean" in finding.advice


def test_a_package_that_is_missing_is_named(monkeypatch):
    assert doctor.probe_python().state == "yes"
    monkeypatch.setattr(machine, "version_of", lambda name: None if name == "triton" else "1.0")
    finding = doctor.probe_python()
    assert finding.state == "no"
    assert "triton missing" in finding.advice
    assert "triton" not in finding.detail


@pytest.mark.parametrize(
    ("gpu", "driver", "state", "said"),
    [
        ("NVIDIA H100", True, "yes", ""),
        (None, True, "no", "Install torch with CUDA"),
        (None, False, "no", "all but the timings is graded without one"),
    ],
)
def test_a_gpu_is_what_torch_can_use(monkeypatch, gpu, driver, state, said):
    monkeypatch.setattr(machine, "gpu_name", lambda: gpu)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/bin/x" if driver else None)
    finding = doctor.probe_gpu()
    assert finding.state == state
    assert said in finding.advice


def test_compiled_kernels_are_tried_only_where_there_is_a_gpu(monkeypatch):
    tried = []
    monkeypatch.setattr(doctor, "_trial", lambda what: tried.append(what) or "no Python.h")
    monkeypatch.setattr(machine, "gpu_name", lambda: None)
    assert doctor.probe_triton_gpu().state == "no"
    assert tried == []
    monkeypatch.setattr(machine, "gpu_name", lambda: "NVIDIA H100")
    finding = doctor.probe_triton_gpu()
    assert (finding.state, finding.detail, tried) == ("no", "no Python.h", ["cuda"])
    assert "python3-dev" in finding.advice


@pytest.mark.parametrize(
    ("there", "state", "found"),
    [
        ({"gcc", "nvcc"}, "yes", "gcc, nvcc"),
        ({"clang"}, "yes", "clang, no nvcc"),
        ({"nvcc"}, "no", "no C compiler"),
    ],
)
def test_compilers_are_looked_up(monkeypatch, there, state, found):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/bin/x" if name in there else None)
    finding = doctor.probe_compilers()
    assert (finding.state, finding.detail) == (state, found)
    assert (state == "yes") or "apt install gcc" in finding.advice


def test_confinement_is_what_a_started_worker_has(monkeypatch):
    monkeypatch.setattr(Sandbox, "start", lambda self: None)
    finding = doctor.probe_confinement()
    sandbox = Sandbox()
    assert finding.state == ("yes" if sandbox.confinement.is_enough else "part")
    assert sandbox.confinement.level.value in finding.detail

    def fail(self):
        raise SandboxError("did not start:\nno memory")

    monkeypatch.setattr(Sandbox, "start", fail)
    finding = doctor.probe_confinement()
    assert (finding.state, finding.detail) == ("no", "no memory")


def test_without_confinement_the_doctor_says_why_and_what_to_install(monkeypatch):
    monkeypatch.setattr(Sandbox, "start", lambda self: None)
    refusal = "bubblewrap isn't installed", "apt install bubblewrap"

    def offer(level, device):
        return Offer(level, level is Level.limits, *refusal)

    monkeypatch.setattr("grader.sandbox.confinement._try", offer)
    finding = doctor.probe_confinement()
    assert finding.state == "part"
    assert "bubblewrap isn't installed. apt install bubblewrap" in finding.advice
    assert "another machine" in finding.advice


def test_the_doctor_never_ends_a_command_with_a_traceback(monkeypatch):
    monkeypatch.setattr(
        doctor.subprocess,
        "run",
        lambda *args, **options: SimpleNamespace(returncode=-9, stderr=""),
    )
    assert doctor._trial("interpreter") == "exit status -9"


def test_what_inspect_lacks_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch):
    there = {name: Path(f"/triton/{name}") for name in compiling.OF_TRITON}
    monkeypatch.setattr(compiling, "of_triton", lambda: there)
    monkeypatch.setattr(compiling, "nvcc", lambda: "/usr/local/cuda/bin/nvcc")
    assert doctor.probe_inspection().state == "yes"
    monkeypatch.setattr(compiling, "nvcc", lambda: None)
    lacking = doctor.probe_inspection()
    assert lacking.state == "part" and "warpgrade[cuda]" in lacking.advice
    there.pop("nvdisasm")
    lacking = doctor.probe_inspection()
    assert lacking.state == "no" and "nvdisasm" in lacking.detail


def test_nvcc_of_the_extra_is_found_where_there_is_no_toolkit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    program = tmp_path / "nvidia" / "cu13" / "bin" / "nvcc"
    program.parent.mkdir(parents=True)
    program.touch()
    monkeypatch.setattr(toolchain, "find_nvcc", lambda: None)
    monkeypatch.setattr(compiling, "package_folders", lambda package: [tmp_path / package])
    assert compiling.nvcc() == str(program)
    program.unlink()
    assert compiling.nvcc() is None
