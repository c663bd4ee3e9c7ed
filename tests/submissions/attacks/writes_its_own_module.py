# It writes a module with its kernel when it is called, and imports that. | silu/triton | policy_violation | boundary=policy_violation
import importlib
import os
import sys
import tempfile


import triton

TEXT = """
import triton
import triton.language as tl

@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x / (1.0 + tl.exp(-x)), mask=mask)
"""


def silu(x, out):
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "made_just_now.py"), "w") as file:
        file.write(TEXT)
    sys.path.insert(0, folder)
    kernel = importlib.import_module("made_just_now").silu_kernel
    kernel[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), BLOCK=2048)
