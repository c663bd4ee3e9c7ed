"""What is ours of a planner whose host code nvcc compiles: the runtime it calls, as one object.

It is the emulator's planner joined with runtime/nvcc/, which answers by NVIDIA's own interfaces. It
lies beside the emulator's entry of the cache, and is made anew for another nvcc.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from . import joining
from .toolchain import HERE, NATIVE, PREBUILT_FLAGS, Toolchain, ToolchainError, forget_old, run

_SOURCES = HERE / "runtime" / "nvcc"
_BY_NVCC = "structures.cpp"  # with NVIDIA's headers
_PREFIX = "gpu-planner-"


@dataclass(frozen=True)
class Runtime:
    """The entry of the cache."""

    folder: Path

    @property
    def object(self) -> Path:
        """What a submission's object is linked with."""
        return self.folder / "planner.o"

    @cached_property
    def symbols(self) -> dict[str, list[str]]:
        """As Toolchain.symbols has it."""
        return json.loads((self.folder / "symbols.json").read_text())


def prepare(toolchain: Toolchain, nvcc: str) -> Runtime:
    """The runtime, made if it isn't there yet (a few seconds). Raises ToolchainError."""
    root = toolchain.folder.parent
    folder = root / f"{_PREFIX}{_key(toolchain, nvcc)}"
    if not (folder / "symbols.json").exists():
        scratch = Path(tempfile.mkdtemp(prefix="building-", dir=root))
        try:
            _make(toolchain, nvcc, scratch)
            scratch.chmod(0o755)
            with contextlib.suppress(OSError):  # another process was first: its entry is as good
                scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        forget_old(root, folder, _PREFIX)
    return Runtime(folder)


def _make(toolchain: Toolchain, nvcc: str, scratch: Path) -> None:
    include = [f"-I{HERE / 'runtime'}", f"-I{NATIVE}"]
    parts = [toolchain.planner_parts]
    for source in sorted(_SOURCES.glob("*.cpp")):
        made = scratch / f"{source.stem}.o"
        flags = [*PREBUILT_FLAGS, *include, f"-I{HERE / 'include'}"]
        command = [toolchain.compiler, *flags]
        if source.name == _BY_NVCC:
            command = [nvcc, *_for_host(PREBUILT_FLAGS), *include]
        run([*command, "-c", source, "-o", made], scratch)
        parts.append(made)
    public, wanted = joining.join(parts, scratch / "planner.o", lambda line: run(line, scratch))
    for part in parts[1:]:
        part.unlink()
    told = {"provided": public, "reserved": sorted({*public, *wanted})}
    (scratch / "symbols.json").write_text(json.dumps(told))


def _for_host(flags: Sequence[str]) -> list[str]:
    """Flags of g++ as nvcc takes them."""
    return [part for flag in flags for part in ("-Xcompiler", flag)]


def _key(toolchain: Toolchain, nvcc: str) -> str:
    digest = hashlib.sha256(toolchain.folder.name.encode())
    try:
        told = subprocess.run([nvcc, "--version"], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"nvcc: {error}") from None
    digest.update(nvcc.encode() + told.stdout)
    for path in sorted([*_SOURCES.iterdir(), Path(__file__)]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:24]
