"""The runtime for host code that nvcc compiles, as one object.

It is the emulator's planner joined with runtime/nvcc/, which implements NVIDIA's own interfaces. It
is cached beside the emulator, and built anew for another nvcc.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from . import joining
from .toolchain import HERE, NATIVE, PREBUILT_FLAGS, Toolchain, ToolchainError, make_once, run

_SOURCES = HERE / "runtime" / "nvcc"
_BY_NVCC = "structures.cpp"  # with NVIDIA's headers


@dataclass(frozen=True)
class Runtime:
    """The cache entry."""

    folder: Path

    @property
    def object(self) -> Path:
        """The object that a submission's is linked with."""
        return self.folder / "planner.o"

    @cached_property
    def symbols(self) -> dict[str, list[str]]:
        """The symbols `provided` and `reserved`, as in Toolchain.symbols."""
        symbols: dict[str, list[str]] = json.loads((self.folder / "symbols.json").read_text())
        return symbols


def prepare(toolchain: Toolchain, nvcc: str) -> Runtime:
    """The runtime, built if it isn't cached (a few seconds). Raises ToolchainError."""
    folder = toolchain.folder.parent / f"gpu-planner-{_key(toolchain, nvcc)}"
    make_once(folder, lambda scratch: _make(toolchain, nvcc, scratch))
    return Runtime(folder)


def _make(toolchain: Toolchain, nvcc: str, scratch: Path) -> None:
    include = [f"-I{HERE / 'runtime'}", f"-I{NATIVE}"]
    parts = [toolchain.planner_parts]
    for source in sorted(_SOURCES.glob("*.cpp")):
        made = scratch / f"{source.stem}.o"
        flags = [*PREBUILT_FLAGS, *include, f"-I{HERE / 'include'}"]
        command = [toolchain.compiler, *flags]
        if source.name == _BY_NVCC:
            for_host = [part for flag in PREBUILT_FLAGS for part in ("-Xcompiler", flag)]
            command = [nvcc, *for_host, *include]
        run([*command, "-c", source, "-o", made], scratch)
        parts.append(made)
    public, wanted = joining.join(parts, scratch / "planner.o", lambda line: run(line, scratch))
    for part in parts[1:]:
        part.unlink()
    symbols = {"provided": public, "reserved": sorted({*public, *wanted})}
    (scratch / "symbols.json").write_text(json.dumps(symbols))


def _key(toolchain: Toolchain, nvcc: str) -> str:
    digest = hashlib.sha256(toolchain.folder.name.encode())
    try:
        version = subprocess.run([nvcc, "--version"], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"nvcc: {error}") from None
    digest.update(nvcc.encode() + version.stdout)
    for path in sorted([*_SOURCES.iterdir(), Path(__file__)]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:24]
