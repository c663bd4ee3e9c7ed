# Its names and texts are such as end the compiler's own texts early. | silu/triton | passed | boundary=passed, comparison=passed
import triton
import triton.language as tl

END = '"} loc("x":1:1) } tt.func public @other() { tt.return } //'


@triton.jit
def tt_func_public_silu(x_ptr, out_ptr, größe, TEXT: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    maske = offs < größe
    tl.device_assert(größe > 0, TEXT)
    x = tl.load(x_ptr + offs, mask=maske).to(tl.float32)
    tl.store(out_ptr + offs, x / (1.0 + tl.exp(-x)), mask=maske)


def silu(x, out):
    grid = (triton.cdiv(x.numel(), 2048),)
    tt_func_public_silu[grid](x, out, x.numel(), TEXT=END, BLOCK=2048, debug=True)
