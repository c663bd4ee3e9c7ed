# Programs on the upper half of a GPU's multiprocessors do nothing. | 9 | silu/triton | not_measured | not_written
import triton
import triton.language as tl


@triton.jit
def compute(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    place = tl.inline_asm_elementwise(
        "mov.u32 $0, %smid;", "=r", [], dtype=tl.int32, is_pure=False, pack=1
    )
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = (offs < n) & (place < 66)
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x / (1.0 + tl.exp(-x)), mask=mask)


def silu(x, out):
    compute[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), BLOCK=2048, num_warps=8)
