"""A cubin's instructions as text, by the disassembler that Triton's package brings.

The cubin is untrusted, and so is what a disassembler does with it: this runs where the submission
was compiled, in the same confined process.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import triton

SECONDS = 60.0
# With the line of PTX and that of the source, through inlined functions, before each instruction.
_OPTIONS = ("-c", "-gi", "-gp")


def disassembled(cubin: bytes) -> dict[str, str]:
    """{"sass": text}, or {"no_sass": why there is none}."""
    try:
        program = triton.knobs.nvidia.nvdisasm.path
    except Exception:  # whatever a version of Triton raises where it finds none
        return {"no_sass": "nvdisasm isn't installed: it comes with Triton's package"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        try:
            done = subprocess.run(
                [program, *_OPTIONS, str(path)],
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return {"no_sass": f"nvdisasm gave no answer: {error}"}
    if done.returncode:
        words = " ".join((done.stderr or done.stdout).split())[-300:]
        return {"no_sass": f"nvdisasm can't read the cubin: {words}"}
    return {"sass": done.stdout}
