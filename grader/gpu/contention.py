"""Does anybody else have the GPU's time? A kernel that looks at the GPU's clock says so.

Processes don't compute on a GPU side by side: it goes from one to the other, some milliseconds each
(CUDA C++ Programming Guide, "Multi-Process Service": without MPS, contexts are time-sliced). A
kernel that does nothing but read the clock, again and again, sees no two readings far apart; where
it was put aside for somebody else, it sees for how long. So a load is noticed whose process can't
be seen, as in most containers, and which slows everything that is timed alike, and its time tells
how much it takes. Other ways tell less: NVML's share of busy time counts our own kernels too, and
times that differ from each other have other reasons.

It runs in this process, of which no submission has anything, from PTX: no compiler's cache has a
part in it.
"""

from __future__ import annotations

import contextlib
import ctypes
from dataclasses import dataclass
from functools import cache

import torch

from grader.worker.gpu_mapping import GpuMemoryError, checked

# Of a look, at a stretch: the GPU goes elsewhere when its time is over, 2 ms on an H100. A look of
# 1 ms saw nothing of a load that took half of it, for that came between two looks.
LOOK_SECONDS = 0.05
MOST_TAKEN = 0.03  # of the GPU's time, by others: what is measured then is worth nothing
LONGEST_MICROSECONDS = 50  # between two readings of somebody who has the GPU
# %globaltimer goes on in steps, of 32 ns on an H100; how long they are is up to the GPU. Where they
# are longer than this, it tells nothing.
COARSEST_MICROSECONDS = 10.0

# PTX ISA, "Special Registers": %globaltimer_lo, nanoseconds, modulo 2^32. The low half alone: both
# together can be read in the middle of a carry. Differences are right all the same.
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
class Seen:
    """What was seen in one look, in seconds of the GPU's clock."""

    seconds: float
    away: float  # of these, somebody else's
    steps: int  # of the clock

    @property
    def share(self) -> float | None:
        """Of the GPU's time, what somebody else had; None where the clock doesn't tell."""
        at_work = self.seconds - self.away
        if not self.steps or at_work / self.steps > COARSEST_MICROSECONDS * 1e-6:
            return None
        return self.away / self.seconds


def glance() -> float | None:
    """What somebody else has just now of the time of the GPU that this process works on: a share.

    None where nobody can look, or the clock doesn't tell. Nobody of ours is to be at work on the
    GPU meanwhile.
    """
    # The last of a torch without CUDA.
    with contextlib.suppress(ImportError, GpuMemoryError, RuntimeError, AssertionError):
        return _kernel().watch(LOOK_SECONDS).share
    return None


def too_much(share: float | None) -> str:
    """Where somebody else had too much of the GPU's time for a measurement, how much; or ""."""
    if share is None or share <= MOST_TAKEN:
        return ""
    return f"somebody else had {share:.0%} of the GPU's time"


class _Kernel:
    """The kernel, in torch's context. Raises what `glance` knows where it can't be had or run."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self._driver = driver
        self._found = torch.zeros(3, dtype=torch.int32, device="cuda")
        option = driver.CUjit_option.CU_JIT_CACHE_MODE
        no_cache = driver.CUjit_cacheMode.CU_JIT_CACHE_OPTION_NONE
        image = PTX.encode() + b"\0"
        module = checked(driver.cuModuleLoadDataEx(image, 1, [option], [no_cache]), "loading PTX")
        self._function = checked(driver.cuModuleGetFunction(module, b"watch"), "finding a kernel")

    def watch(self, seconds: float) -> Seen:
        """Look at the clock for so long."""
        torch.cuda.synchronize()
        values = (self._found.data_ptr(), int(seconds * 1e9), LONGEST_MICROSECONDS * 1000)
        kinds = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)
        stream = torch.cuda.current_stream().cuda_stream
        one = (1, 1, 1)
        checked(
            self._driver.cuLaunchKernel(self._function, *one, *one, 0, stream, (values, kinds), 0),
            "watching the GPU's clock",
        )
        watched, away, steps = self._found.tolist()  # waits for it
        return Seen(watched * 1e-9, away * 1e-9, steps)


_kernel = cache(_Kernel)  # a process has one GPU; what raises is tried again
