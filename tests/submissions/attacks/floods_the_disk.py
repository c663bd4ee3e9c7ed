# It fills its scratch folder with hundreds of megabytes. | silu/triton | out_of_memory | sandbox, boundary=out_of_memory
import os
import time

import triton
import triton.language as tl


KNOWN = {}


@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x / (1.0 + tl.exp(-x)), mask=mask)


def honest(x, out):
    silu_kernel[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), BLOCK=2048)


def attempt():
    written = 0
    if os.path.exists(f"{os.environ['TMPDIR']}/0"):
        return
    for number in range(12):
        try:
            fd = os.open(f"{os.environ['TMPDIR']}/{number}", os.O_CREAT | os.O_WRONLY)
            os.posix_fallocate(fd, 0, 100 << 20)
            written += 100
            os.close(fd)
        except OSError:
            break
    time.sleep(1.0)
    if written > 600:
        raise RuntimeError(f"BREACH: {written} MiB")


def silu(x, out):
    attempt()
    honest(x, out)
