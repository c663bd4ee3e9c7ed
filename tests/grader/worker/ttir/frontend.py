"""TTIR text of Triton kernels, made by Triton's own frontend for an H100. No GPU is needed."""

from __future__ import annotations

import functools
from typing import Any

import triton
from triton._C.libtriton import ir, passes
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

TARGET = GPUTarget("cuda", 90, 32)


@functools.cache
def _backend() -> Any:
    return make_backend(TARGET)


def ttir(
    kernel: Any,
    signature: dict[str, str],
    constants: dict[str, Any] | None = None,
    attributes: dict[str, int] | None = None,
    **options: Any,
) -> str:
    """The TTIR of a kernel. `signature` has types by parameter, "constexpr" for constants.

    `attributes` has divisibilities by parameter.
    """
    names = list(signature)
    source = ASTSource(
        fn=kernel,
        signature=signature,
        constexprs={(names.index(key),): value for key, value in (constants or {}).items()},
        attrs={
            (names.index(key),): [["tt.divisibility", value]]
            for key, value in (attributes or {}).items()
        },
    )
    backend = _backend()
    parsed = backend.parse_options({"debug": False, **options})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    codegen = backend.get_codegen_implementation(parsed)
    module_map = backend.get_module_map()
    try:
        module = source.make_ir(TARGET, parsed, codegen, module_map, context)
    except TypeError:  # before 3.5 without the target
        module = source.make_ir(parsed, codegen, module_map, context)
    manager = ir.pass_manager(context)
    passes.common.add_inliner(manager)
    passes.common.add_canonicalizer(manager)
    passes.common.add_cse(manager)
    passes.common.add_symbol_dce(manager)
    manager.run(module, "frontend")
    return module.str()


def version() -> str:
    """Triton's version."""
    return triton.__version__
