"""The backend process: TTIR text to TTGIR and a cubin for the course's GPU, without a GPU.

A Gluon kernel's text is TTGIR, which is recognised by its module's attributes and compiled from
there on.

The process gets text and options, and nothing else of a submission. An answer has the kernel's
resources, or its warps' accesses to memory, or the reason for a failure.
"""

from __future__ import annotations

import base64
import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import Language
from triton.compiler import make_backend
from triton.runtime.errors import OutOfResources

from . import access_layouts, disassembly, messages, options
from .cubin import usage
from .failures import CompileFailure

_WARP = 32
MAX_TTIR = 8 << 20  # characters
_KERNEL = re.compile(r"tt\.func public @(\w{1,200})")


def compile_backend(
    ttir: str, chosen: dict[str, Any], capability: int = options.CAPABILITY
) -> dict[str, Any]:
    """Compile a kernel for a GPU; {"error": ...} with CompileFailure's fields where it fails.

    "name", "shared" (bytes for each block), "registers" and "spills" (of each thread), "num_warps",
    "layouts" (see access_layouts.py, or None), "descriptors" (how it reads each parameter that is
    a tensor descriptor), "ttgir" and "ptx" as text, "cubin" as base64.
    """
    built = _built(ttir, chosen, capability)
    if "error" in built:
        return built
    assembly = built.pop("asm")
    try:
        accesses = access_layouts.read_layouts(assembly["ttgir"], assembly["llir"])
    except Exception:  # the kernel itself has been compiled
        accesses = None
    return {
        **built,
        "layouts": accesses,
        "ttgir": assembly["ttgir"],
        "ptx": assembly["ptx"],
        "cubin": base64.b64encode(assembly["cubin"]).decode(),
    }


def compile_stages(ttir: str, chosen: dict[str, Any], capability: int) -> dict[str, Any]:
    """As compile_backend, for who wants to read it: "ttgir", "llir" and "ptx" as text, and "sass".

    Without "sass", and with "no_sass" instead, where there is no disassembler.
    """
    built = _built(ttir, chosen, capability)
    if "error" in built:
        return built
    assembly = built.pop("asm")
    texts = {stage: assembly[stage] for stage in ("ttgir", "llir", "ptx")}
    cubin = base64.b64encode(assembly["cubin"]).decode()
    return {**built, **texts, **disassembly.disassembled(assembly["cubin"]), "cubin": cubin}


def _built(ttir: str, chosen: dict[str, Any], capability: int) -> dict[str, Any]:
    """What `build` makes of a text, or {"error": ...}."""
    with warnings.catch_warnings(), messages.captured_stderr() as diagnostics:
        warnings.simplefilter("ignore")
        try:
            parsed = options.parsed(chosen, capability)
            return build(_read(ttir), parsed, capability)
        except OutOfResources as error:
            return {"error": too_large(_name(ttir), error).to_json()}
        except Exception as error:
            return {"error": messages.failure(error, (), diagnostics()).to_json()}


def compile_layouts(ttir: str, chosen: dict[str, Any]) -> dict[str, Any]:
    """The layouts of a kernel's accesses to memory (see access_layouts.py), or {"error": ...}.

    It is compiled only as far as LLVM IR, which is faster.
    """
    with warnings.catch_warnings(), messages.captured_stderr() as diagnostics:
        warnings.simplefilter("ignore")
        try:
            made: dict[str, str] = {}
            for stage, module in _stages(_read(ttir), options.parsed(chosen), {}):
                made[stage] = str(module)  # the next stage changes it in place
                if stage == "llir":
                    break
            return access_layouts.read_layouts(made["ttgir"], made["llir"])
        except Exception as error:
            return {"error": messages.failure(error, (), diagnostics()).to_json()}


def _read(ttir: str) -> Any:
    """The module of a text. Raises CompileFailure."""
    if len(ttir) > MAX_TTIR:
        raise CompileFailure(f"{len(ttir):,} characters of TTIR", kind="forged")
    if not _KERNEL.search(ttir):  # without a kernel, the stages would end the process
        raise CompileFailure("TTIR without a kernel", kind="forged")
    context = ir.context()
    ir.load_dialects(context)
    make_backend(options.TARGET).load_dialects(context)
    descriptor, path = tempfile.mkstemp(suffix=".ttir")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(ttir)
        module = ir.parse_mlir_module(path, context)
    except RuntimeError as error:
        raise CompileFailure(f"TTIR that can't be parsed: {error}", kind="forged") from None
    finally:
        Path(path).unlink()
    module.context = context
    return module


def build(module: Any, chosen: Any, capability: int = options.CAPABILITY) -> dict[str, Any]:
    """Run the backend's stages on a module of TTIR, or of a Gluon kernel's TTGIR, up to the cubin.

    Raises what Triton raises, OutOfResources too.
    """
    metadata: dict[str, Any] = {}
    # As text, since the next stage changes the module in place.
    assembly: dict[str, Any] = {
        stage: made if isinstance(made, str | bytes) else str(made)
        for stage, made in _stages(module, chosen, metadata, capability)
    }
    used = usage(assembly["cubin"]).values()
    return {
        "name": metadata["name"],
        "shared": metadata["shared"],
        "num_warps": metadata.get("num_warps", chosen.num_warps),
        "registers": max((each.registers for each in used), default=0),
        "spills": max((each.stack for each in used), default=0) // 4,  # as Triton counts them
        "global_scratch_size": metadata.get("global_scratch_size", 0) or 0,
        "descriptors": list(metadata.get("tensordesc_meta") or ()),
        "asm": assembly,
    }


def _stages(
    module: Any, chosen: Any, metadata: dict[str, Any], capability: int = options.CAPABILITY
) -> Iterator[tuple[str, Any]]:
    """The backend's stages in order: name and result. `metadata` is filled in.

    Kernels that can't be launched stop before PTX is written, since far too large blocks would keep
    the assembler busy for long.
    """
    _check_threads(chosen.num_warps)
    target = options.target(capability)
    backend = make_backend(target)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, chosen, _language(module, chosen))
    metadata |= {"target": target, **vars(chosen)}
    for stage, compile_stage in stages.items():
        if stage == "ptx":
            _check_threads(metadata.get("num_warps", 0))  # including warp specialisation's
            size, most = metadata["shared"], options.most_shared_bytes(capability)
            if size > most:
                raise OutOfResources(size, most, "shared memory")
        module = compile_stage(module, metadata)
        yield stage, module


def _language(module: Any, chosen: Any) -> Language:
    """The language of a module, by its attributes. Raises CompileFailure.

    Triton's frontend doesn't set the number of warps; Gluon's does, since its layouts depend on it.
    """
    if module.get_int_attr("ttg.num-warps") is None:
        return Language.TRITON
    asked = {"num-warps": chosen.num_warps, "num-ctas": chosen.num_ctas, "maxnreg": chosen.maxnreg}
    if any(module.get_int_attr(f"ttg.{name}") != value for name, value in asked.items()):
        raise CompileFailure("TTGIR for other options than the launch's", kind="forged")
    return Language.GLUON


def _check_threads(warps: int) -> None:
    threads = warps * _WARP
    if threads > options.MAX_THREADS:
        raise OutOfResources(threads, options.MAX_THREADS, "threads")


def too_large(name: str, error: OutOfResources) -> CompileFailure:
    """The failure of a kernel that needs more than the GPU has."""
    if error.name == "threads":
        message = (
            f"{name} asks for {error.required // _WARP} warps, {error.required} threads; "
            f"a block has at most {error.limit}"
        )
    else:
        message = (
            f"{name} needs {error.required:,} bytes of {error.name}, the GPU has {error.limit:,}: "
            "smaller blocks or fewer num_stages need less"
        )
    return CompileFailure(message, autotuner_skips=True)


def _name(ttir: str) -> str:
    match = _KERNEL.search(ttir)
    return match[1] if match else "the kernel"
