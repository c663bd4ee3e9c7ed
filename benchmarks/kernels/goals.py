"""The cases that are timed, and the goals of each. Data; needs no GPU.

A ratio is a peer's time over the kernel's: above 1 the kernel is faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# reference/NAME, and reference/expert/NAME if it exists. Plain: the plain Triton version of a
# kernel in Gluon.
GRADED, PLAIN, EXPERT = "graded", "plain", "expert"
VERSIONS = (GRADED, PLAIN, EXPERT)

SHORT = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


@dataclass(frozen=True)
class Goal:
    """A ratio to a peer. `if_there`: it counts only if this peer was timed."""

    peer: str
    at_least: float
    if_there: bool = False


@dataclass(frozen=True)
class Aim:
    """Goals that one of these versions has to reach together."""

    goals: tuple[Goal, ...]
    by: tuple[str, ...] = (GRADED, EXPERT)


@dataclass(frozen=True)
class Case:
    """A kernel with its sizes, as in the kernel's label."""

    kernel: str
    sizes: tuple[int, ...]
    dtype: str
    causal: bool = False
    aims: tuple[Aim, ...] = ()

    @property
    def label(self) -> str:
        """'8192x8192 bf16'."""
        end = " causal" if self.causal else ""
        return f"{'x'.join(map(str, self.sizes))} {SHORT[self.dtype]}{end}"

    def aim_of(self, version: str) -> Aim | None:
        """The goals of a version here."""
        return next((aim for aim in self.aims if version in aim.by), None)


@dataclass(frozen=True)
class MeanGoal:
    """A geometric mean over a kernel's cases of one dtype, and the least of any case."""

    kernel: str
    peer: str
    at_least: float


MEANS = (MeanGoal("gemm", "cublas", 1.00),)

ROWS = ((8192, 8192), (65536, 1024), (1024, 65536))
SQUARE, ODD = (8192, 8192), (8191, 8193)
PRODUCTS = (  # M, N, K
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (8192, 1024, 8192),
    (4095, 4097, 4093),
    (16, 8192, 8192),
)
HEADS = ((16, 16, 1024), (8, 16, 2048), (4, 16, 4096), (2, 16, 16384))  # Z, H, sequence
LONG = 4096  # length of a sequence from which on the goals are higher
PEERS_OF_ROWS = (
    Goal("torch", 1.00),
    Goal("compile", 1.00),
    Goal("tuned", 1.00, if_there=True),
    Goal("liger", 1.00, if_there=True),
)


def every_case() -> Iterator[Case]:
    """All cases, in the order of the table."""
    yield from _of_memory()
    yield from _of_products()
    yield from _of_attention()


def _of_memory() -> Iterator[Case]:
    for dtype in ("float32", "bfloat16"):
        goals = (Goal("copy", 0.98), Goal("torch", 1.00), Goal("compile", 1.00))
        yield Case("silu", SQUARE, dtype, aims=(Aim(goals),))
    for kernel in ("rmsnorm", "softmax"):
        for sizes in ROWS:
            for dtype in ("float32", "bfloat16"):
                copy = (Goal("copy", 1.00),) if sizes == SQUARE else ()
                yield Case(kernel, sizes, dtype, aims=(Aim((*copy, *PEERS_OF_ROWS)),))
    for kernel in ("transpose", "transpose_cuda"):
        for sizes in (SQUARE, ODD):
            for dtype in ("float32", "bfloat16"):
                copy = (Goal("copy", 0.96),) if sizes == SQUARE else ()
                yield Case(kernel, sizes, dtype, aims=(Aim((*copy, Goal("compile", 1.00))),))


def _of_products() -> Iterator[Case]:
    for dtype in ("bfloat16", "float16"):
        for sizes in PRODUCTS:
            yield Case("gemm", sizes, dtype, aims=(Aim((Goal("cublas", 0.95),)),))
    yield Case("gemm_cuda", (4096,) * 3, "float32", aims=(Aim((Goal("cublas", 0.90),)),))


def _of_attention() -> Iterator[Case]:
    for head_dim in (64, 128):
        for heads in HEADS:
            for causal in (False, True):
                plain = Goal("cudnn", 0.80 if head_dim == 128 else 0.97)
                is_long = heads[-1] >= LONG
                in_triton = (Aim((plain,), (GRADED, PLAIN)),) if is_long else ()
                expert = Aim((Goal("cudnn", 1.05 if is_long else 1.00),), (EXPERT,))
                sizes = (*heads, head_dim)
                yield Case("flash_attention", sizes, "bfloat16", causal, (*in_triton, expert))
