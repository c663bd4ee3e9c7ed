"""`grader doctor`: tries what this machine can grade, and says what to do about the rest."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.text import Text

from grader.emulator.toolchain import cache_root
from grader.executors.compile import kept_builds
from grader.executors.cuda import cuda_build
from grader.gpu import machine
from grader.gpu.devices import DeviceName
from grader.instruments.inspect import compiling
from grader.report import narrow
from grader.sandbox import Sandbox, bytecode, confinement
from grader.sandbox.worker_process import Limits, SandboxError

State = Literal["yes", "no", "part"]
Mode = Literal["interpreter", "compiler", "cuda"]  # what the trial kernel is run or compiled by

_WORDS: dict[State, tuple[str, str]] = {
    "yes": ("ok", "green"),
    "part": ("partly", "yellow"),
    "no": ("missing", "red"),
}

# A kernel that needs what every Triton exercise needs.
_TRIAL = """
import torch, triton, triton.language as tl

@triton.jit
def double_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, 2 * tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)

if DEVICE:
    x = torch.ones(100, device=DEVICE)
    double_kernel[(2,)](x, 100, BLOCK=64)
    assert x.sum().item() == 200.0, "the kernel ran, but its result is wrong"
else:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {"x_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = ASTSource(double_kernel, signature, {"BLOCK": 64})
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
"""

_CUDA_TRIAL = """
__global__ void double_kernel(float* x) { x[threadIdx.x] *= 2.0f; }
extern "C" void trial(float* x) { double_kernel<<<1, 1>>>(x); }
"""

_SET_UP_AGAIN = "To set up the tested versions again: `make clean`, then your command."


@dataclass(frozen=True)
class Finding:
    """One thing a machine can have."""

    name: str
    state: State
    detail: str
    advice: str = ""


def examine(console: Console) -> list[Finding]:
    """Probe everything and print each finding as it comes, a line each."""
    findings = []
    for probe in _PROBES:
        findings.append(probe())
        _tell(findings[-1], console)
    console.print()
    narrow.tell(Text(summary(findings)), console)
    return findings


def summary(findings: list[Finding]) -> str:
    """One sentence: what gets graded here."""
    state = {finding.name: finding.state for finding in findings}
    if state["gpu"] == "yes" and state["triton on the gpu"] == "yes":
        return "This machine grades everything, timings included."
    if state["triton by plan"] == "yes" and state["triton compiler"] == "yes":
        return "This machine grades correctness; performance points need a GPU."
    return "This machine can't grade yet: mend what is missing above."


def _tell(finding: Finding, console: Console) -> None:
    """Print a finding beside its state; further lines are indented as the first."""
    word, style = _WORDS[finding.state]
    table = narrow.table(show_header=False)
    table.add_column(no_wrap=True, min_width=7)  # "missing", also where it is "ok"
    table.add_column(overflow="fold")
    table.add_row(Text(word, style), Text.assemble((finding.name, "bold"), ": ", finding.detail))
    if finding.advice:
        table.add_row("", Text(finding.advice))
    narrow.show(table, console)


def probe_python() -> Finding:
    """The interpreter and the packages grading needs."""
    names = ("torch", "triton", "numpy", "hypothesis", "pytest", "pydantic")
    versions = {name: machine.version_of(name) for name in names}
    missing = [name for name, version in versions.items() if version is None]
    there = [f"{name} {version}" for name, version in versions.items() if version is not None]
    text = f"Python {sys.version.split()[0]}, {', '.join(there)}"
    if missing:
        return Finding("python", "no", text, f"{', '.join(missing)} missing. {_SET_UP_AGAIN}")
    return Finding("python", "yes", text)


def probe_plans() -> Finding:
    """The processes that plan and execute Triton kernels without a GPU, by starting each."""
    try:
        with Sandbox("cpu", kind="plans") as sandbox:
            trial = sandbox.hold("trial.py", b"")
            for role in ("planner", "compiler", "executor"):
                sandbox.worker(trial, "trial", (), Limits(), role=role)
    except SandboxError as error:
        return Finding("triton by plan", "no", _last_line(str(error)), _SET_UP_AGAIN)
    return Finding("triton by plan", "yes", "plans and executes kernels on the CPU")


def probe_interpreter() -> Finding:
    """Triton's interpreter, by running a kernel in it. Students use it; grading doesn't."""
    works = "runs kernels on the CPU, to look inside by hand"
    return _tried("triton interpreter", "interpreter", works)


def probe_compiler() -> Finding:
    """Triton's compiler for the course's GPU, by compiling a kernel; it needs no GPU."""
    return _tried("triton compiler", "compiler", "compiles kernels for the course's GPU")


def probe_gpu() -> Finding:
    """An NVIDIA GPU that torch can use."""
    name = machine.gpu_name()
    if name:
        return Finding("gpu", "yes", name)
    if shutil.which("nvidia-smi"):
        advice = "There is a driver. Install torch with CUDA (not the +cpu build): pytorch.org."
        return Finding("gpu", "no", "torch finds no CUDA device", advice)
    advice = "Nothing to do on a laptop: all but the timings is graded without one."
    return Finding("gpu", "no", "no NVIDIA GPU", advice)


def probe_triton_gpu() -> Finding:
    """Compiled Triton kernels, by running one."""
    if not machine.gpu_name():
        return Finding("triton on the gpu", "no", "no GPU")
    advice = "Triton needs a C compiler and Python's headers: apt install gcc python3-dev."
    return _tried("triton on the gpu", "cuda", "compiles and runs kernels", advice)


def probe_compilers() -> Finding:
    """A C compiler (Triton's launchers), g++ and nvcc."""
    there = [name for name in ("gcc", "cc", "clang") if shutil.which(name)]
    if not there:
        advice = "apt install gcc (Debian, Ubuntu) or your system's package for a C compiler."
        return Finding("compilers", "no", "no C compiler", advice)
    nvcc = "nvcc" if shutil.which("nvcc") else "no nvcc"
    return Finding("compilers", "yes", f"{there[0]}, {nvcc}")


def probe_inspection() -> Finding:
    """What `grader inspect` needs: Triton's disassembler, and nvcc for CUDA C++."""
    there = compiling.of_triton()
    absent = [name for name in ("ptxas", "nvdisasm") if name not in there]
    if absent:
        return Finding(
            "inspect", "no", f"Triton's package has no {', '.join(absent)}", _SET_UP_AGAIN
        )
    if compiling.nvcc() is None:
        return Finding("inspect", "part", "Triton kernels", f"{compiling.NO_NVCC}.")
    return Finding("inspect", "yes", "Triton kernels and CUDA C++: ptxas, nvdisasm, nvcc")


def probe_cuda() -> Finding:
    """CUDA C++: by compiling a kernel in a sandbox, for the emulator or, with a GPU, for that."""
    where: dict[cuda_build.Backend, str] = {"emulator": "runs in the emulator"}
    if machine.gpu_name():
        where["gpu"] = "runs on the GPU"
    troubles = {each: cuda_build.why_not(each) or _build_trial(each) for each in where}
    works = " and ".join(text for backend, text in where.items() if not troubles[backend])
    trouble = " ".join(filter(None, troubles.values()))
    if works:
        return Finding("CUDA C++", "part" if trouble else "yes", works, trouble)
    problem, _, advice = trouble.partition(": ")
    return Finding("CUDA C++", "no", problem, advice)


def _build_trial(backend: cuda_build.Backend) -> str:
    """Compile the trial file; "" or what went wrong, in a line."""
    device: DeviceName = "emulator" if backend == "emulator" else "cuda"
    try:
        with Sandbox(device, kind="native") as sandbox:
            sandbox.start()
            entries = [("trial", ["pointer:float32"])]
            program = cuda_build.build(sandbox, "trial.cu", _CUDA_TRIAL.encode(), entries, backend)
    except (SandboxError, cuda_build.BuildError) as error:
        return _last_line(str(error))
    if program.died is not None:
        return f"the compiler ended without an answer ({program.died.description})"
    return "" if program.path else "; ".join(each.message for each in program.problems)[:200]


def probe_confinement() -> Finding:
    """The confinement of workers: its levels are probed, then a worker is started."""
    device = machine.device()
    offers = confinement.probe(device)
    chosen = confinement.choose(None, device)
    try:
        with Sandbox(device, kind="plans" if device == "cpu" else "python") as sandbox:
            sandbox.start()
    except SandboxError as error:
        return Finding("confinement", "no", _last_line(str(error)))
    text = f"{chosen.level.value}: {', '.join(chosen.in_force) or 'limits on time and memory'}"
    if chosen.missing:
        text += f". Missing: {'; '.join(chosen.missing)}"
    advice = " ".join(
        f"No {offer.level.value}: {offer.reason}. {offer.advice}".strip()
        for offer in offers
        if not offer.works
    )
    if not chosen.is_enough:
        advice += " Enough for your own code; grade other people's code on another machine."
    return Finding("confinement", "yes" if chosen.is_enough else "part", text, advice.strip())


def probe_cache() -> Finding:
    """The size and the place of the caches."""
    held = f"{_megabytes(cache_root())} of the emulator in {cache_root()}"
    further = {"compiled kernels": kept_builds.folder(), "byte code": bytecode.folder()}
    for content, folder in further.items():
        if folder.exists():
            held += f", {_megabytes(folder)} of {content} in {folder}"
    return Finding("cache", "yes", f"{held}; delete it whenever you like")


def _megabytes(root: Path) -> str:
    size = 0
    for path in root.rglob("*"):
        with contextlib.suppress(OSError):  # another process may be clearing it up
            size += path.stat().st_size if path.is_file() else 0
    return f"{size / 1e6:.0f} MB"


_PROBES: tuple[Callable[[], Finding], ...] = (
    probe_python,
    probe_plans,
    probe_interpreter,
    probe_compiler,
    probe_gpu,
    probe_triton_gpu,
    probe_compilers,
    probe_cuda,
    probe_inspection,
    probe_confinement,
    probe_cache,
)


def _tried(name: str, mode: Mode, works: str, advice: str = _SET_UP_AGAIN) -> Finding:
    trouble = _trial(mode)
    return Finding(name, "no", trouble, advice) if trouble else Finding(name, "yes", works)


def _trial(mode: Mode) -> str:
    """Run or compile the trial kernel; "" or what went wrong, in a line."""
    environment = {name: v for name, v in os.environ.items() if name != "TRITON_INTERPRET"}
    if mode == "interpreter":
        environment["TRITON_INTERPRET"] = "1"
    device = {"interpreter": "cpu", "compiler": "", "cuda": "cuda"}[mode]
    with tempfile.TemporaryDirectory(prefix="warpgrade-") as folder:
        program = Path(folder) / "trial.py"  # a file: triton reads a kernel's source
        program.write_text(f"DEVICE = {device!r}\n{_TRIAL}")
        environment["TRITON_CACHE_DIR"] = folder
        try:
            done = subprocess.run(
                [sys.executable, str(program)],
                capture_output=True,
                text=True,
                timeout=180,
                env=environment,
            )
        except subprocess.TimeoutExpired:
            return "a small kernel did not finish in 180 s"
    if done.returncode == 0:
        return ""
    return _last_line(done.stderr) or f"exit status {done.returncode}"


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2][:200]
