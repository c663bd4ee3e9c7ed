"""Compiles a submission with nvcc, checks its entries' signatures, and makes their table."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import nvcc

_INCLUDE = Path(__file__).resolve().parent.parent / "emulator" / "include" / "warpgrade"


def compile_checked(
    compiler: str,
    source: Path,
    entries: Sequence[Any],
    made: Path,
    target: str,
    options: Sequence[str],
) -> tuple[nvcc.Refusal, ...]:
    """Compile with a check behind the student's text: of the signatures of entries in it.

    If only the check fails (an entry is missing or overloaded), compile without it: the object's
    symbols then show the problem.
    """
    from warpgrade_emulator import glue

    data = source.read_bytes()
    text = data.decode("utf-8", "replace")
    declared = [each for each in entries if re.search(rf"\b{each.name}\s*\(", text)]
    source.write_bytes(data + _signature_check(glue, declared).encode())
    refused = nvcc.compile_object(compiler, source, made, target, options)
    own = [each for each in refused if glue.CHECK_FILE not in each.message]
    if refused and not own:
        source.write_bytes(data)
        return nvcc.compile_object(compiler, source, made, target, options)
    return tuple(own)


def _signature_check(glue: Any, entries: Sequence[Any]) -> str:
    """A simpler glue.signature_check, for nvcc's front end, which resolves names differently."""
    types = {kind for entry in entries for kind in entry.types()}
    headers = {"__half*": "cuda_fp16.h", "__nv_bfloat16*": "cuda_bf16.h"}
    included = ["warpgrade/signature.h", *(headers[kind] for kind in sorted(types & set(headers)))]
    lines = [f"#include <{each}>" for each in included]
    for entry in entries:
        expected = ", ".join(
            f"::warpgrade::pointer_to<{kind[:-1]}>" if kind.endswith("*") else kind
            for kind in entry.types()
        )
        symbol = glue.SIGNATURE_SYMBOL + entry.name
        size = f"::warpgrade::signature<{expected}>::verdict(&::{entry.name})"
        declared = f"extern const char {symbol}[{size}]; const char {symbol}[{size}] = {{}};"
        lines.append(f'extern "C" {{ {declared} }}')
    return f'\n#line 1 "{glue.CHECK_FILE}"\n' + "\n".join(lines) + "\n"


def laid_out(source: Path, folder: Path) -> tuple[Path, tuple[str, ...]]:
    """A copy of the file, and options for compiling it with our headers.

    Those of the emulator aren't among them, which have the names of CUDA's. nvcc leaves the cubin
    and its PTX in the folder `kept`.
    """
    kept, own, include = folder / "kept", folder / "submission", folder / "include"
    for each in (kept, own, include / "warpgrade"):
        each.mkdir(parents=True)
    native = Path(__file__).parent / "native"
    ours = (_INCLUDE / "signature.h", native / "entries.h", native / "cubin_kernels.h")
    for header in ours:
        shutil.copyfile(header, include / "warpgrade" / header.name)
    copy = Path(shutil.copyfile(source, own / source.name))  # without its mode: chmod is filtered
    return copy, ("-I", str(include), "--keep", "--keep-dir", str(kept))


def compile_table(text: str, compiler: str, folder: Path) -> None:
    """Compile our C++ that is linked with the object. Raises RuntimeError on failure."""
    (folder / "table.cpp").write_text(text)
    options = ["-std=c++17", "-O1", "-fPIE", "-Iinclude"]
    line = [compiler, *options, "-c", "table.cpp", "-o", "table.o"]
    done = nvcc.run(line, folder)
    if done.returncode != 0:
        raise RuntimeError(f"the table of entries does not compile: {done.stderr[-500:]}")


def problem_of(fault: Any, text: str) -> dict[str, Any]:
    """An object's fault as a problem of the builder's answer.

    Its line is the first that contains the name.
    """
    line = None
    if fault.name:
        named = re.compile(rf"\b{re.escape(fault.name)}\b")
        lines = enumerate(text.splitlines(), 1)
        line = next((number for number, code in lines if named.search(code)), None)
    problem = {"kind": fault.kind, "message": fault.message, "line": line, "entry": fault.entry}
    return {**problem, "detail": ""}
