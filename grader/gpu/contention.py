"""The share of the GPU's time that others use, measured by a kernel that watches the clock.

Without MPS, processes' contexts are time-sliced: each has the GPU for some milliseconds (CUDA C++
Programming Guide, "Multi-Process Service"). A kernel that only reads the clock sees a gap between
two readings when another context ran. The gaps add up to the others' time. So a load is detected
even if its process isn't visible, as in most containers, and even if it slows everything equally.
NVML's share of busy time wouldn't do, since it counts our own kernels too.

The kernel is PTX and runs in this process, which no submission can influence, without a compiler's
cache.
"""

from __future__ import annotations

import contextlib
import ctypes
from dataclasses import dataclass
from functools import cache

import torch

from grader.worker.gpu_mapping import GpuMemoryError, checked

# Several time slices: a shorter probe can fall between two of another process.
PROBE_SECONDS = 0.05
MOST_TAKEN = 0.03  # of the GPU's time, by others, for a measurement to count
LONGEST_MICROSECONDS = 50  # between two readings of a context that has the GPU
# %globaltimer advances in steps, whose length depends on the GPU. Longer ones than this are too
# coarse.
COARSEST_MICROSECONDS = 10.0

# PTX ISA, "Special Registers": %globaltimer_lo, nanoseconds modulo 2^32. Only the low half is read,
# since the two halves can be read in the middle of a carry. Differences are right all the same.
PTX = """
.version 6.4
.target sm_50
.address_size 64

// found[0]: nanoseconds watched; [1]: of these, between readings further apart than `longest`;
// [2]: how many readings differed from the one before.
.visible .entry watch(.param .u64 found, .param .u32 nanoseconds, .param .u32 longest)
{
    .reg .u32 %watch, %longest, %start, %last, %now, %gap, %elapsed, %away, %steps;
    .reg .u64 %found;
    .reg .pred %is_away, %is_new, %goes_on;

    ld.param.u64 %found, [found];
    ld.param.u32 %watch, [nanoseconds];
    ld.param.u32 %longest, [longest];
    cvta.to.global.u64 %found, %found;
    mov.u32 %away, 0;
    mov.u32 %steps, 0;
    mov.u32 %start, %globaltimer_lo;
    mov.u32 %last, %start;
again:
    mov.u32 %now, %globaltimer_lo;
    sub.u32 %gap, %now, %last;
    mov.u32 %last, %now;
    setp.ne.u32 %is_new, %gap, 0;
    @%is_new add.u32 %steps, %steps, 1;
    setp.gt.u32 %is_away, %gap, %longest;
    @%is_away add.u32 %away, %away, %gap;
    sub.u32 %elapsed, %now, %start;
    setp.lt.u32 %goes_on, %elapsed, %watch;
    @%goes_on bra again;

    st.global.u32 [%found], %elapsed;
    st.global.u32 [%found + 4], %away;
    st.global.u32 [%found + 8], %steps;
    ret;
}
"""


@dataclass(frozen=True)
class Probe:
    """One probe of the GPU's clock, in seconds of that clock."""

    seconds: float
    away: float  # of these, others'
    steps: int  # of the clock

    @property
    def share(self) -> float | None:
        """The others' share of the GPU's time; None where the clock is too coarse."""
        at_work = self.seconds - self.away
        if not self.steps or at_work / self.steps > COARSEST_MICROSECONDS * 1e-6:
            return None
        return self.away / self.seconds


def share_of_others() -> float | None:
    """The current share of the GPU's time that other processes use, between 0 and 1.

    None where the kernel can't run or the clock is too coarse. No process of ours may use the GPU
    meanwhile.
    """
    # AssertionError comes from a torch without CUDA.
    with contextlib.suppress(ImportError, GpuMemoryError, RuntimeError, AssertionError):
        return _kernel().watch(PROBE_SECONDS).share
    return None


def too_much(share: float | None) -> str:
    """A sentence about others' share of the GPU where it is too high for a measurement, or ""."""
    if share is None or share <= MOST_TAKEN:
        return ""
    return f"somebody else had {share:.0%} of the GPU's time"


class _Kernel:
    """The kernel, in torch's context. Raises what `share_of_others` suppresses."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self._driver = driver
        self._counters = torch.zeros(3, dtype=torch.int32, device="cuda")
        option = driver.CUjit_option.CU_JIT_CACHE_MODE
        no_cache = driver.CUjit_cacheMode.CU_JIT_CACHE_OPTION_NONE
        image = PTX.encode() + b"\0"
        module = checked(driver.cuModuleLoadDataEx(image, 1, [option], [no_cache]), "loading PTX")
        self._function = checked(driver.cuModuleGetFunction(module, b"watch"), "finding a kernel")

    def watch(self, seconds: float) -> Probe:
        """Watch the clock for so long."""
        torch.cuda.synchronize()
        values = (self._counters.data_ptr(), int(seconds * 1e9), LONGEST_MICROSECONDS * 1000)
        kinds = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)
        stream = torch.cuda.current_stream().cuda_stream
        one = (1, 1, 1)
        checked(
            self._driver.cuLaunchKernel(self._function, *one, *one, 0, stream, (values, kinds), 0),
            "watching the GPU's clock",
        )
        watched, away, steps = self._counters.tolist()  # synchronises
        return Probe(watched * 1e-9, away * 1e-9, steps)


_kernel = cache(_Kernel)  # a process has one GPU; a failure is retried
