"""Finds g++, and builds once what every build needs: runtime, native host, precompiled headers.

Their sources are in this repository. They are built on the trusted side, in a cache folder named by
a hash of sources, flags and compiler. A build of a submission, inside the sandbox, only reads it.
One process at a time builds an entry; others wait for it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from . import assembly, joining

HERE = Path(__file__).parent
NATIVE = HERE.parent / "worker" / "native"
_OWN = (Path(__file__), Path(joining.__file__))
LEAST_GCC = 10
KEPT_ENTRIES = 4  # of the cache: older ones are removed when a new one is built
COMPILE_SECONDS = 300.0  # by the clock; a sandbox bounds a submission's by processor time
ABANDONED_SECONDS = 3600.0
_PROGRAMS = ("as", "ld", "objcopy", "addr2line")
# Of the compiler's programs: English messages; and memory in large pieces and pages, since a link
# spends much of its time on faults of small ones. C libraries other than glibc ignore that.
ENVIRONMENT = {
    "LC_ALL": "C",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=16777216",
}

# For submissions. -O1 without passes that merge, split or reorder accesses: each access in the
# source stays one event, and each block of the source stays one block.
STUDENT_FLAGS: tuple[str, ...] = (
    "-std=c++17",
    "-O1",
    "-g1",
    "-gdwarf-4",  # with DWARF 5, addr2line of binutils 2.40 names the wrong file
    "-fPIE",
    "-ffunction-sections",  # an executor's program has only what kernels reach
    "-fdata-sections",
    "-ftls-model=local-exec",
    "-w",
    "-fsanitize=thread",
    "--param=tsan-distinguish-volatile=1",
    "-fsanitize=bounds,shift-exponent,float-cast-overflow,alignment",
    "-fsanitize-coverage=trace-pc",
    "-fno-omit-frame-pointer",
    "-fno-optimize-sibling-calls",  # a hook's return address has to be behind a call
    "-fno-tree-sra",  # a float4 stays one access of 16 bytes
    "-fno-tree-vectorize",
    "-fno-tree-slp-vectorize",
    "-fno-tree-loop-distribute-patterns",  # loops don't become memcpy calls, which no hook sees
    "-fno-store-merging",
    "-fno-reorder-blocks",
    "-fno-reorder-blocks-and-partition",
    "-fno-inline-functions-called-once",
    "-fno-ipa-icf",
    "-fno-crossjumping",  # each access keeps a line of its own
    "-fno-jump-tables",
    "-fno-thread-jumps",  # what follows a branch stays one place for lanes of both sides
    "-fno-tree-dominator-opts",  # g++ 11 threads jumps there, too, whatever -fno-thread-jumps says
    "-fno-strict-aliasing",  # one shared array is read as several types
    "-fwrapv",  # integers wrap around, as on the GPU
    "-fno-builtin-printf",  # one function to redirect
    *(f"-fno-builtin-{name}" for name in assembly.ACCESSES),  # small copies stay calls, too
    "-fno-threadsafe-statics",
    "-fstack-clash-protection",  # a large frame meets its stack's guard, not the next stack
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-U_FORTIFY_SOURCE",
)
PREBUILT_FLAGS = (
    "-std=c++17",
    "-O2",
    "-fPIE",
    "-fno-gnu-unique",  # unique symbols would stay global in the joined object
    "-ftls-model=local-exec",
    "-fcf-protection=none",
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
    "-Wall",
)
# The programs that include a submission, and our sources for each: folders of runtime/ and files of
# the native host. The planner has no data, the executor no host code.
PROGRAMS = {
    "planner": {"planner", "backend_planner.cpp"},
    "executor": {"at_once.cpp", "executor", "backend_executor.cpp"},
}
_OF_SOME = frozenset().union(*PROGRAMS.values())
# The contents of the precompiled headers: nvcc's implicit includes, or also the C++ library's usual
# headers, for a submission that includes one of them.
HEADERS = {
    "core": ("cuda_runtime.h",),
    "library": (
        *("cuda_runtime.h", "algorithm", "cstdint", "cstdio", "cstring", "iostream", "string"),
        "vector",
    ),
}


class ToolchainMissing(Exception):
    """No suitable compiler; the message says what to install."""


class ToolchainError(Exception):
    """Our own sources don't compile here; the message has the compiler's output."""


@dataclass(frozen=True)
class Toolchain:
    """The compiler, and the cache entry that it built."""

    compiler: str  # absolute path of g++
    version: str  # "12.2.0"
    folder: Path  # the cache entry

    @property
    def include(self) -> Path:
        return self.folder / "include"

    def prebuilt(self, program: str) -> Path:
        """Our object for a program; `program` is one of PROGRAMS."""
        return self.folder / f"{program}.o"

    @property
    def planner_parts(self) -> Path:
        """The parts of `prebuilt("planner")`, with names, for joining more objects to them."""
        return self.folder / "planner-parts.o"

    def header(self, kind: str) -> Path:
        return self.folder / f"{kind}.h"

    @cached_property
    def symbols(self) -> dict[str, list[str]]:
        """`provided`: our symbols for submissions; `reserved`: those they may not define."""
        symbols: dict[str, list[str]] = json.loads((self.folder / "symbols.json").read_text())
        return symbols


# ---- Finding the compiler ------------------------------------------------------------------------


def find_compiler() -> tuple[str, str]:
    """Absolute path and version of g++. Raises ToolchainMissing, which says what to install."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        raise ToolchainMissing(
            f"the CUDA emulator runs on x86-64 Linux; this is {platform.machine()} "
            f"{platform.system()}. CUDA parts can be graded on a machine with an NVIDIA GPU"
        )
    path = shutil.which(os.environ.get("CXX") or "g++") or shutil.which("g++")
    missing = [name for name in _PROGRAMS if not shutil.which(name)]
    if path is None or missing:
        lacking = "g++" if path is None else ", ".join(missing)
        raise ToolchainMissing(
            f"the CUDA emulator needs g++ {LEAST_GCC} or newer and binutils; {lacking} not found. "
            "Install it: `apt install g++`, `dnf install gcc-c++` or `conda install gxx_linux-64`"
        )
    text = _output([path, "--version"])
    version = _output([path, "-dumpfullversion", "-dumpversion"]).strip()
    if "clang" in text or not version[:1].isdigit() or int(version.split(".")[0]) < LEAST_GCC:
        raise ToolchainMissing(
            f"the CUDA emulator needs g++ {LEAST_GCC} or newer; {path} is "
            f"{text.splitlines()[0] if text else 'not g++'}. Set CXX to another g++"
        )
    return os.path.realpath(path), version


def find_nvcc() -> str | None:
    """The path of nvcc: in PATH, or where CUDA's installer puts it; or None."""
    usual = Path("/usr/local/cuda/bin/nvcc")
    return shutil.which("nvcc") or (str(usual) if usual.exists() else None)


def _output(command: Sequence[str], of: Literal["stdout", "stderr"] = "stdout") -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if of == "stdout" else done.stderr


def readable_paths(toolchain: Toolchain) -> tuple[Path, ...]:
    """The paths that a build reads: the compiler, its headers and libraries, and ours."""
    compiler = toolchain.compiler
    paths = {Path(compiler).parent, toolchain.folder}
    for name in ("cc1plus", "collect2", *_PROGRAMS):
        where = shutil.which(_output([compiler, f"-print-prog-name={name}"]).strip())
        if where:
            paths |= {Path(where).parent, Path(where).resolve().parent}
    for name in ("crt1.o", "crtbeginS.o", "libc.so", "libstdc++.so", "libm.so", "libgcc_s.so"):
        path = Path(_output([compiler, f"-print-file-name={name}"]).strip())
        if path.is_absolute():
            paths |= {Path(os.path.normpath(path)).parent, path.resolve().parent}
    paths |= set(_include_folders(compiler))
    paths |= {Path(p) for p in ("/lib64", "/lib", "/usr/lib", "/etc/ld.so.cache")}
    return tuple(sorted(path for path in paths if path.exists()))


def _include_folders(compiler: str) -> Iterator[Path]:
    text = _output([compiler, "-v", "-E", "-x", "c++", os.devnull, "-o", os.devnull], "stderr")
    listed = re.search(r"#include <\.\.\.> search starts here:\n(.*?)End of search", text, re.S)
    for line in listed[1].splitlines() if listed else ():
        yield Path(os.path.normpath(line.strip()))


# ---- The cache -----------------------------------------------------------------------------------


def cache_root() -> Path:
    """The folder of cache entries: $XDG_CACHE_HOME/warpgrade, or ~/.cache/warpgrade."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or "")
    return (base if base.is_absolute() else Path.home() / ".cache") / "warpgrade"


def prepare(root: Path | None = None) -> Toolchain:
    """The toolchain, its cache entry built if needed (a few seconds).

    Raises ToolchainMissing without a compiler, ToolchainError where our sources don't build.
    """
    compiler, version = find_compiler()
    folder = _entry(compiler, version, root)
    make_once(folder, lambda scratch: _build_entry(scratch, compiler))
    with contextlib.suppress(OSError):
        os.utime(folder)  # marks its use: others are removed first
    return Toolchain(compiler, version, folder)


def is_prepared() -> bool:
    """Whether `prepare` finds its entry. Raises ToolchainMissing without a compiler."""
    return _entry(*find_compiler()).is_dir()


def _entry(compiler: str, version: str, root: Path | None = None) -> Path:
    return (root or cache_root()) / f"emulator-{_key(compiler, version)}"


def _sources() -> list[Path]:
    native = [path for path in NATIVE.glob("*.cpp") if "gpu" not in path.name]
    ours = [path for path in (HERE / "runtime").rglob("*.cpp") if path.parent.name != "nvcc"]
    return sorted([*ours, *(HERE / "runtime").glob("*.S"), *native])


def _belongs(source: Path, program: str) -> bool:
    """Whether a program includes this source of ours."""
    names = {source.name, source.parent.name} & _OF_SOME
    return not names or bool(names & PROGRAMS[program])


def _object(source: Path, scratch: Path) -> Path:
    return scratch / f"{source.parent.name}_{source.stem}.o"


def _key(compiler: str, version: str) -> str:
    digest = hashlib.sha256()
    for text in (compiler, version, *STUDENT_FLAGS, *PREBUILT_FLAGS, repr(HEADERS)):
        digest.update(text.encode() + b"\0")
    headers = [p for p in (HERE / "include").rglob("*") if p.is_file()]
    headers += (HERE / "runtime").rglob("*.h")
    for path in sorted({*headers, *_sources(), *NATIVE.glob("*.h"), *_OWN}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def make_once(folder: Path, build: Callable[[Path], None]) -> None:
    """Make an entry of the cache, PREFIX-KEY, unless it exists: `build` fills its folder.

    The last used entries with its prefix are kept. Raises what `build` raises.
    """
    if folder.is_dir():
        return
    root, prefix = folder.parent, folder.name.rpartition("-")[0]
    root.mkdir(parents=True, exist_ok=True)
    with (root / f".{prefix}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():  # another process has made it meanwhile
            return
        scratch = Path(tempfile.mkdtemp(prefix="building-", dir=root))
        try:
            build(scratch)
            scratch.chmod(0o755)
            scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    _forget_old(root, folder, f"{prefix}-")


def _build_entry(scratch: Path, compiler: str) -> None:
    shutil.copytree(HERE / "include", scratch / "include")
    shutil.copy(NATIVE / "entries.h", scratch / "include" / "warpgrade" / "entries.h")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        jobs = [pool.submit(_compile_ours, compiler, path, scratch) for path in _sources()]
        jobs += [pool.submit(_precompile, compiler, kind, scratch) for kind in HEADERS]
        for job in jobs:
            job.result()
    _join_all(scratch)


def run(command: Sequence[str | Path], where: Path) -> None:
    """Run one of the compiler's programs on our sources. Raises ToolchainError."""
    try:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=where,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMPILE_SECONDS,
            env={**os.environ, **ENVIRONMENT},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{Path(command[0]).name}: {error}") from None
    if done.returncode:
        raise ToolchainError(f"{' '.join(map(str, command[-3:]))}: {done.stderr[-4000:]}")


def _compile_ours(compiler: str, source: Path, scratch: Path) -> None:
    include = [f"-I{HERE / 'runtime'}", f"-I{NATIVE}", f"-I{HERE / 'include'}"]
    target = _object(source, scratch)
    run([compiler, *PREBUILT_FLAGS, *include, "-c", source, "-o", target], scratch)


def _precompile(compiler: str, kind: str, scratch: Path) -> None:
    header = scratch / f"{kind}.h"
    header.write_text("".join(f"#include <{name}>\n" for name in HEADERS[kind]))
    flags = [*STUDENT_FLAGS, "-I", "include"]
    run([compiler, *flags, "-x", "c++-header", header.name, "-o", f"{kind}.h.gch"], scratch)


def _join_all(scratch: Path) -> None:
    """Make one object of ours for each program, and a list of its symbols for submissions."""
    symbols = {name: _join(name, scratch) for name in PROGRAMS}
    parts = [_object(each, scratch) for each in _sources() if _belongs(each, "planner")]
    run(["ld", "-r", "--force-group-allocation", *parts, "-o", "planner-parts.o"], scratch)
    for path in (_object(source, scratch) for source in _sources()):
        path.unlink()
    reserved = sorted({name for public, wanted in symbols.values() for name in public + wanted})
    symbols_json = {"provided": symbols["planner"][0], "reserved": reserved}
    (scratch / "symbols.json").write_text(json.dumps(symbols_json))


def _join(program: str, scratch: Path) -> tuple[list[str], list[str]]:
    """Join all our objects for a program; returns as joining.join does."""
    parts = [_object(each, scratch) for each in _sources() if _belongs(each, program)]
    return joining.join(parts, scratch / f"{program}.o", lambda command: run(command, scratch))


def _forget_old(root: Path, folder: Path, prefix: str) -> None:
    entries = [path for path in root.glob(f"{prefix}*") if path != folder]
    old = sorted(entries, key=_last_use, reverse=True)[KEPT_ENTRIES - 1 :]
    # Left behind by a process that was killed while building.
    old += [p for p in root.glob("building-*") if _last_use(p) < time.time() - ABANDONED_SECONDS]
    for path in old:
        shutil.rmtree(path, ignore_errors=True)


def _last_use(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
