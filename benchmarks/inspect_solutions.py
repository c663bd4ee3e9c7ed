"""`grader inspect` on every solution: does it say what NVIDIA's own tool says of the machine code?

    python benchmarks/inspect_solutions.py [--only gemm]

Registers, stack and shared memory of each kernel are those of `cuobjdump -res-usage`, each stage
has lines of the source, and each finding stands at the call that it is about. Prints a line for
each variant; exit status 1 where something differs. No GPU is needed; with one, kernels are
compiled for it.
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import triton

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from grader.cli.console import case_of  # noqa: E402
from grader.executors.cuda import cuda_build  # noqa: E402
from grader.grading.session import Options, Session, selected  # noqa: E402
from grader.instruments.inspect import compiling, listing  # noqa: E402
from grader.instruments.inspect.findings import Finding, findings  # noqa: E402
from grader.instruments.inspect.kernels import (  # noqa: E402
    Inspected,
    Kernel,
    NothingToInspect,
    inspect,
    open_compilers,
)
from grader.spec import load_all  # noqa: E402
from grader.spec.task import Task  # noqa: E402
from grader.worker.compile.cubin import Usage  # noqa: E402

WITHOUT_KERNELS = {"transpose/torch_v0", "gemm/torch_v0", "copy_first_column/cuda"}
CUOBJDUMP = compiling.of_triton().get("cuobjdump")
_FUNCTION = re.compile(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)")
_CALLS = {"tensor cores": "tl.dot(", "no tensor cores": "tl.dot("}
_MEMORY = ("wide", "narrow", "cp.async")
_PLACED = 0.9  # of the machine code has a line of the file


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", help="an exercise or variant")
    asked = parser.parse_args(arguments)
    exercises = load_all()
    failed = False
    with Session(ROOT / "reference", exercises, Options(device="cpu")) as session:
        for task in selected(exercises, [asked.only] if asked.only else []):
            reason = cannot(task)
            differing = [] if reason else list(differences(session, task))
            failed = failed or bool(differing)
            print(f"{task}: {reason or '; '.join(differing) or 'as cuobjdump says'}", flush=True)
    return int(failed)


def cannot(task: Task) -> str:
    """Why a variant can't be looked into on this machine; empty where it can."""
    if CUOBJDUMP is None:
        return "needs cuobjdump"
    if task.variant.language != "cuda":
        return ""
    return cuda_build.why_not("emulator") or ("" if compiling.nvcc() else compiling.NO_NVCC)


def differences(session: Session, task: Task) -> Iterator[str]:
    """What `grader inspect` says of a solution and shouldn't."""
    with open_compilers(session, task) as compilers:
        try:
            made = inspect(session, compilers, task, case_of(None, task))
        except NothingToInspect as nothing:
            if str(task) not in WITHOUT_KERNELS or "launches no kernel" not in str(nothing):
                yield f"nothing to inspect: {nothing}"
            return
        if str(task) in WITHOUT_KERNELS:
            yield "it launches a kernel"
        for kernel in made.kernels:
            said = usage_of(kernel.code.cubin)[kernel.code.name]
            if without_reserved(kernel.code.usage) != said:
                yield f"{kernel.name}: {kernel.code.usage}, cuobjdump says {said}"
            yield from _of_stages(made, kernel)
            results = findings(kernel, compilers)
            if not results:
                yield f"{kernel.name}: no findings"
            if task.variant.language == "triton":
                yield from _of_findings(made, results)


def usage_of(cubin: bytes) -> dict[str, Usage]:
    """Registers, stack and shared memory of each kernel, as cuobjdump says it."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(
            [str(CUOBJDUMP), "-res-usage", file.name], capture_output=True, text=True, check=True
        )
    return {name: Usage(*map(int, used)) for name, *used in _FUNCTION.findall(done.stdout)}


def without_reserved(used: Usage) -> Usage:
    """As cuobjdump says it: what is reserved is a part of what is shared."""
    return Usage(used.registers, used.stack, used.shared)


def _of_stages(made: Inspected, kernel: Kernel) -> Iterator[str]:
    if kernel.stages[-2:] != ["ptx", "sass"]:
        yield f"{kernel.name}: stages {kernel.stages}"
    lines = made.sources[made.task.variant.file].splitlines()
    for stage in kernel.stages:
        rows = listing.rows(kernel, stage, made.sources, ())
        with_code = [(row.place, row.code) for row in rows if row.code and row.place]
        if not with_code or not all(0 < place.line <= len(lines) for place, _ in with_code):
            yield f"{kernel.name}: {stage} has no lines of the file, or others"
        placed = sum(len(code) for _, code in with_code)
        if stage == "sass" and placed < _PLACED * len(kernel.sass):
            yield f"{kernel.name}: {placed} of {len(kernel.sass)} instructions have a line"


def _of_findings(made: Inspected, results: Sequence[Finding]) -> Iterator[str]:
    """Findings that don't stand at the call that they are about."""
    for each in results:
        if each.place is None or each.kind not in (*_CALLS, *_MEMORY):
            continue
        lines = made.sources[each.place.file].splitlines()[each.place.line - 1 :]
        memory = "tl.store(" if " store" in each.text.partition(" of ")[0] else "tl.load("
        in_loop = each.kind in _CALLS and triton.__version__.startswith("3.6.")
        about = "".join(_with_body(lines)) if in_loop else lines[0]
        if _CALLS.get(each.kind, memory) not in about:
            yield f"{each.place}: {each.text!r} stands at {lines[0].strip()!r}"


def _with_body(lines: Sequence[str]) -> Iterator[str]:
    """The first line and, of a loop, its body: Triton 3.6 places a pipelined dot at its loop."""
    yield lines[0]
    indent = len(lines[0]) - len(lines[0].lstrip())
    if lines[0].lstrip().startswith("for "):
        inside = (line for line in lines[1:] if line.strip())
        yield from itertools.takewhile(lambda each: each[: indent + 1].isspace(), inside)


if __name__ == "__main__":
    sys.exit(main())
