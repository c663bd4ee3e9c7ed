"""Whose kernel is it? Names as CUDA's profiler lists them, told apart. Pure.

What the rules say of source (policy/) is checked before anything runs. This is a look at what ran:
a kernel of cuBLAS, cuDNN or PyTorch under a submission that was to bring its own. It goes by the
names that these libraries give their kernels; a name that none of them gives is not held against
anybody, and neither is one that the submission's own file defines, whatever it is called. (So a
submission could name a kernel after a library's. That is why the list of names is kept: a person
can see what no rule proves.)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable
from enum import Enum


class Owner(str, Enum):
    """Who brought a kernel; the value names them in a message."""

    own = "the submission"
    cublas = "cuBLAS"
    cudnn = "cuDNN"
    cutlass = "CUTLASS, as a library was built with it"
    attention = "a library's attention"
    cub = "CUB or Thrust"
    other_library = "one of CUDA's libraries"
    inductor = "torch.compile"
    aten = "PyTorch"
    aten_copy = "PyTorch, copying"  # `.contiguous()`, `.to(dtype)`, `out.copy_(part)`
    aten_fill = "PyTorch, filling"  # torch.zeros, `.fill_()`, torch.arange
    memcpy = "a copy"
    memset = "a fill"
    unknown = "nobody we know"

    @property
    def is_library(self) -> bool:
        """Whether its kernels do somebody else's computing.

        Copies and fills don't: a file may allocate and lay out. Where a copy turns elements round,
        the operation that asked for it is told (worker/library_calls.py), not its kernel.
        """
        return self not in _ALLOWED


_ALLOWED = {
    Owner.own,
    Owner.aten_copy,
    Owner.aten_fill,
    Owner.memcpy,
    Owner.memset,
    Owner.unknown,
}

# In the order in which they are tried. Names come demangled where they are C++'s: with the type
# returned, arguments and template arguments, cut somewhere.
_PATTERNS: tuple[tuple[Owner, re.Pattern[str]], ...] = tuple(
    (owner, re.compile(pattern))
    for owner, pattern in (
        (Owner.memcpy, r"^Memcpy\b"),
        (Owner.memset, r"^Memset\b"),
        # torch.compile: pointwise, reduction, persistent reduction, template, foreach, split scan.
        (Owner.inductor, r"^triton_(poi|red|per|tem|for|spl|mix|unk)_(fused_)?\w*\d$"),
        (Owner.inductor, r"^triton_(mm|bmm|addmm|flex_attention|flex_decoding|convolution\dd)\b"),
        # cuDNN before cuBLAS and CUTLASS: both make kernels of the same generators.
        (Owner.cudnn, r"cudnn"),
        (Owner.cudnn, r"_xmma_(fprop|dgrad|wgrad)_"),
        (Owner.cudnn, r"\b(implicit|explicit)_convolve_|\bwinograd\w*(Kernel|_kernel|Tile)"),
        (Owner.cudnn, r"^void (fft2d_|flip_filter|im2col4d_kernel|conv2d_grouped_direct_kernel)"),
        (Owner.cublas, r"^nvjet_\w+_"),
        (Owner.cublas, r"cublas"),
        (Owner.cublas, r"\bsm\d+_xmma_(sparse_)?gemm_"),
        (Owner.cublas, r"\b(maxwell|pascal|volta|turing|ampere|hopper|blackwell)_\w*gemm"),
        (Owner.cublas, r"^(void )?(splitKreduce_kernel|gemmk1_kernel|gemm_kernel\dx\d_core)\b"),
        (Owner.cublas, r"^void (gemv\w*|gemm(SN|S\dN)_\w+|trsm_\w+|syr\w*|ger)_kernel\w*<"),
        (Owner.cublas, r"^void (gemmSN|gemv2|gemvNSP|gemv)\w*<"),
        (Owner.cublas, r"^void (dot|reduce_1Block|scal|axpy|asum|nrm2|copy)_kernel\w*<.*cublas"),
        (Owner.attention, r"\b(pytorch_)?flash::|\bflash_(fwd|bwd)_\w*kernel<|\bfmha_cutlass"),
        (Owner.attention, r"PyTorchMemEffAttention|\bAttentionKernel<"),
        (Owner.cutlass, r"^cutlass\w*_(tensorop|wmma|simt|sm\d+)\w*|\bcutlass_\d+_\w+|\bcutlass::"),
        (Owner.cutlass, r"^cutlass3x_|\bcute::"),
        (Owner.aten_fill, r"\bat::native::.*(FillFunctor<|arange_cuda_out|fill_kernel_cuda)"),
        (Owner.aten_copy, r"\bat::native::.*\b\w*copy_kernel_cuda\b"),
        # CUB and Thrust as PyTorch has them inside its namespaces are PyTorch's.
        (Owner.aten, r"\b(at|c10|at_cuda_detail|torch)::"),
        (Owner.aten, r"^void \(anonymous namespace\)::(softmax_warp_|vectorized_layer_norm_|elem)"),
        (Owner.aten, r"^\w+_vectorized\d_kernel$"),  # made at run time, by its "jiterator"
        (Owner.cub, r"\b(cub|thrust|cccl|thrust_\w+|CUB_\w+)::"),
        (Owner.other_library, r"\b(cusparse|cusolver|cufft|curand|nccl|magma)"),
        (Owner.other_library, r"^ncclDevKernel_|^void (vector_fft|regular_fft|multi_bluestein)"),
    )
)
_SUFFIX_OF_TRITON_2 = re.compile(r"_(\d+(d|c|de|dc)?)+$")


def owner(name: str, own: Collection[str] = ()) -> Owner:
    """Whose kernel has this name, where the submission's file defines kernels named `own`."""
    if _plain(name) in own or _SUFFIX_OF_TRITON_2.sub("", name) in own:
        return Owner.own
    return next((owner for owner, pattern in _PATTERNS if pattern.search(name)), Owner.unknown)


def of_libraries(names: Iterable[str], own: Collection[str] = ()) -> list[tuple[str, Owner]]:
    """Those of the names that are a library's kernels, in their order, each once."""
    told = ((name, owner(name, own)) for name in dict.fromkeys(names))
    return [(name, who) for name, who in told if who.is_library]


def own_kernels(source: str) -> frozenset[str]:
    """The names of the Triton kernels that a Python file defines, as a profiler lists them.

    Every function counts that has a decorator or is handed to something called `jit`. Empty for a
    text that isn't Python.
    """
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    found = set()
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            found.add(node.name)
        elif isinstance(node, ast.Call) and _last_name(node.func) == "jit" and node.args:
            found.add(_last_name(node.args[0]))
    return frozenset(found) - {""}


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _plain(name: str) -> str:
    """A C++ function's own name, where it is in no namespace but a file's anonymous one."""
    name = name.removeprefix("void ").removeprefix("(anonymous namespace)::")
    return re.split(r"[<(]", name, maxsplit=1)[0]
