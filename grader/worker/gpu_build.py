"""Builds a submission's planner, with nvcc's host code, and its cubin; no GPU is needed.

One run of nvcc makes an object and a cubin. The object is linked with a runtime of ours instead of
CUDA's (../emulator/runtime/nvcc) to a planner. The cubin is a file for the executor.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import gpu_entries, nvcc
from .compile import cubin

# Of the host's code. Calls keep their lines; uninitialised bytes (the gaps of a structure that is a
# kernel's parameter) are the same in every run.
_HOST_FLAGS = (
    *("-g1", "-gdwarf-4", "-fPIE", "-fno-optimize-sibling-calls"),
    "-fno-builtin-printf",  # one function to redirect
)
_LEVEL = "-O1"  # addr2line doesn't follow all of -O3's inlining
_ZEROED, _ZEROED_SINCE = "-ftrivial-auto-var-init=zero", 12  # of g++
_CALLS = re.compile(r"cuda[A-Z]\w*|__cuda\w+")
_PER_THREAD = re.compile(r"_pt[sd][sz]$")  # the same call, for per-thread default streams
_UNUSED = "warpgrade_unused_"  # prefix of symbols that only dead code needs


@dataclass
class Made:
    """The result of a build, here or for the emulator."""

    executable: Path | None
    problems: list[dict[str, Any]]
    sites: dict[str, Any] = field(default_factory=dict)
    entries: Sequence[str] = ()
    executor: Path | None = None  # the cubin, of a planner
    conditions: Sequence[dict[str, Any]] = ()  # code that nvcc may see differently
    accepted: bool = False  # by nvcc, where nothing else was asked


def build(
    source: Path,
    wanted: Sequence[dict[str, Any]],
    tools: Any,
    runtime: Any,
    target: str,
    folder: Path,
    flags: Sequence[str] = (),
) -> Made:
    """Compile a file for a GPU of the architecture `target`, such as sm_90.

    `tools` is the emulator's toolchain, `runtime` our part of the planner. `wanted` are the entries
    as in builder.Wanted, `flags` further options of nvcc's. Raises NvccError or OSError for a
    failure of the machine, never for the source.
    """
    from warpgrade_emulator import assembly, glue, linking, toolchain
    from warpgrade_emulator.elf import Elf

    compiler = toolchain.find_nvcc()
    if compiler is None:
        raise nvcc.NvccError("nvcc not found")
    entries = [glue.Entry(each["name"], tuple(each["arguments"])) for each in wanted]
    made = folder / "student.o"
    try:
        copy, options = gpu_entries.laid_out(source, folder)
        options += (_LEVEL, "-Xcompiler", ",".join(_host_flags(tools.version)), *flags)
        refused = gpu_entries.compile_checked(compiler, copy, entries, made, target, options)
    except nvcc.NvccError as error:  # perhaps a limit of the sandbox, so no line is named
        refused = (nvcc.Refusal(str(error)),)
    if refused:
        return Made(None, [each.as_problem("compile") for each in refused])
    elf = Elf(made)
    provided = _provided(elf, runtime.symbols["provided"])
    unused, problems, present = _check(elf, entries, provided, runtime.symbols, source)
    if not present:
        return Made(None, problems)
    path = next((folder / "kept").glob("*.cubin"), None)
    if path is None:
        raise nvcc.NvccError("nvcc left no cubin")
    kernels = cubin.table(cubin.kernels(path.read_bytes()))
    gpu_entries.compile_table(glue.entry_table(present) + kernels, tools.compiler, folder)
    renamed = assembly.redirected(runtime.symbols["provided"], True)
    _rename(folder, elf, [*renamed], unused)
    linker = linking.Linker(folder, source.name, tools, lambda *line: nvcc.run(line, folder))
    try:
        planner = linker.planner("table.o", [_UNUSED + name for name in unused], runtime.object)
    except linking.LinkError as error:
        raise nvcc.NvccError(f"the planner can't be linked: {str(error)[-500:]}") from None
    sites = {str(pc): (site.line, site.function) for pc, site in planner.sites.items()}
    return Made(planner.path, problems, sites, [each.name for each in present], path)


def _host_flags(version: str) -> tuple[str, ...]:
    major = version.partition(".")[0]
    is_new = major.isdigit() and int(major) >= _ZEROED_SINCE
    return (*_HOST_FLAGS, _ZEROED) if is_new else _HOST_FLAGS


def _provided(elf: Any, public: Collection[str]) -> set[str]:
    """The names of our runtime that a submission's object may use."""
    calls = {name for name in public if _CALLS.fullmatch(name)}
    asked = (each.name for each in elf.symbols if not each.is_defined)
    return calls | {name for name in asked if _PER_THREAD.sub("", name) in calls}


def _check(
    elf: Any,
    entries: Sequence[Any],
    provided: Collection[str],
    symbols: dict[str, list[str]],
    source: Path,
) -> tuple[list[str], list[dict[str, Any]], list[Any]]:
    """Symbols that only dead code needs; problems; and the entries that can be called."""
    from warpgrade_emulator import objects

    unused = objects.unreachable(elf, entries, provided)
    faults = objects.check(elf, entries, provided, symbols["reserved"], unused)
    asked = {each.name for each in elf.symbols if not each.is_defined}
    unknown = {name for name in asked - set(provided) if _CALLS.fullmatch(name)}
    file, text = source.name, source.read_text("utf-8", "replace")
    problems = []
    for fault in faults:
        problem = gpu_entries.problem_of(fault, text)
        if fault.name in unknown and not fault.entry:
            place = f"{file}:{problem['line']}" if problem["line"] else file
            message = f"the grader doesn't support {fault.name} ({place})"
            problem |= {"kind": "unsupported", "message": message}
        problems.append(problem)
    faulty = {fault.entry for fault in faults}
    present = [] if "" in faulty else [each for each in entries if each.name not in faulty]
    return unused, problems, present


def _rename(folder: Path, elf: Any, ours: Sequence[str], unused: Sequence[str]) -> None:
    """Redirect the object's calls of some functions: to those named `ours` in the runtime."""
    asked = {each.name for each in elf.symbols if not each.is_defined} - set(unused)
    pairs = [(name, f"warpgrade_{name}") for name in ours]
    pairs += [(name, _PER_THREAD.sub("", name)) for name in asked if _PER_THREAD.search(name)]
    pairs += [(name, _UNUSED + name) for name in unused]
    (folder / "renamed").write_text("".join(f"{old} {new}\n" for old, new in pairs))
    done = nvcc.run(["objcopy", "--redefine-syms=renamed", "student.o"], folder)
    if done.returncode:
        raise RuntimeError(f"objcopy: {done.stderr[-1000:]}")
