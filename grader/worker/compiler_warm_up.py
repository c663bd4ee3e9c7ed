"""Runs one-time work of Triton's compiler in the fork server, for workers on a GPU.

Before its first kernel a process imports the compiler, asks the assembler for its version, and
hashes all of Triton's files for the keys of its cache. Each new worker would pay for that, also a
timed one. A cache here serves one submission and one installation of Triton, whose version is
sufficient as a key.

No GPU is touched: a process that has used one can't be forked.
"""

from __future__ import annotations

import contextlib

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime import cache

CAPABILITY = 90  # any one: the imports are the same


def key_by_version() -> None:
    """Derive the keys of Triton's cache from its version instead of a hash over its files."""
    cache.triton_key = lambda: triton.__version__


@triton.jit  # type: ignore[untyped-decorator]  # Triton has no types
def _copy(source, target, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # a kernel
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + offsets, tl.load(source + offsets, mask=offsets < n), mask=offsets < n)


def run() -> None:
    """Compile a kernel of our own, into TRITON_CACHE_DIR. Workers report an error again."""
    key_by_version()
    signature = {"source": "*fp32", "target": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    with contextlib.suppress(Exception):
        source = ASTSource(_copy, signature, {(3,): 64})
        triton.compile(source, target=GPUTarget("cuda", CAPABILITY, 32))
