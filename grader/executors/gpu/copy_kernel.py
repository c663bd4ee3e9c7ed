"""The copy that kernels are compared with: a kernel that moves 16 bytes per thread.

The driver's own copy (cuMemcpyDtoD) isn't a measure of what memory gives: for some numbers of bytes
it takes half as long again as a kernel does (benchmarks/copies.py).

The kernel is PTX and becomes a cubin in this process, which no submission can influence.
"""

from __future__ import annotations

import ctypes
from functools import cache

import torch

from grader.executors.encoding import DeviceKernel
from grader.worker.gpu_mapping import checked

THREADS = 256  # of a block
BYTES = 16  # that a thread moves
NAME = "copy"
# PTX ISA, "ld" and "st". Tensors begin at multiples of BYTES. What remains beyond the last such
# multiple is copied by the first threads, a byte each.
PTX = """
.version 6.4
.target sm_50
.address_size 64

.visible .entry copy(.param .u64 from, .param .u64 to, .param .u64 bytes)
{
    .reg .u64 %from, %to, %bytes, %at, %end, %source, %target;
    .reg .u32 %block, %thread, %threads, %first, %second, %third, %fourth;
    .reg .u16 %single;
    .reg .pred %is_beyond;

    ld.param.u64 %from, [from];
    ld.param.u64 %to, [to];
    ld.param.u64 %bytes, [bytes];
    cvta.to.global.u64 %from, %from;
    cvta.to.global.u64 %to, %to;
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mul.wide.u32 %at, %block, %threads;
    cvt.u64.u32 %source, %thread;
    add.u64 %at, %at, %source;
    and.b64 %end, %bytes, -16;
    shl.b64 %source, %at, 4;
    setp.ge.u64 %is_beyond, %source, %end;
    @%is_beyond bra remains;
    add.u64 %target, %to, %source;
    add.u64 %source, %from, %source;
    ld.global.v4.u32 {%first, %second, %third, %fourth}, [%source];
    st.global.v4.u32 [%target], {%first, %second, %third, %fourth};
remains:
    add.u64 %at, %at, %end;
    setp.ge.u64 %is_beyond, %at, %bytes;
    @%is_beyond bra done;
    add.u64 %source, %from, %at;
    add.u64 %target, %to, %at;
    ld.global.u8 %single, [%source];
    st.global.u8 [%target], %single;
done:
    ret;
}
"""


def blocks(bytes: int) -> int:
    """The blocks that copy so many bytes."""
    return max(1, -(-bytes // (THREADS * BYTES)))


@cache
def compiled() -> DeviceKernel:
    """The kernel for this process's GPU.

    Raises GpuMemoryError where the driver refuses, ImportError without its bindings.
    """
    from cuda.bindings import driver

    torch.cuda.current_stream().synchronize()  # the linker needs torch's context
    image = PTX.encode() + b"\0"
    kind = driver.CUjitInputType.CU_JIT_INPUT_PTX
    linker = checked(driver.cuLinkCreate(0, [], []), "linking a copy")
    try:
        added = driver.cuLinkAddData(linker, kind, image, len(image), b"copy", 0, [], [])
        checked(added, "linking a copy")
        error, start, size = driver.cuLinkComplete(linker)
        checked((error,), "linking a copy")
        return DeviceKernel(ctypes.string_at(start, size), NAME)
    finally:
        checked(driver.cuLinkDestroy(linker), "linking a copy")
