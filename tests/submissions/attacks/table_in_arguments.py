# It sends a table of results to the device, a number in each of thousands of launches. | silu/triton | crashed | boundary=crashed, comparison=crashed
import triton
import triton.language as tl

@triton.jit
def put(out_ptr, place, a, b, c, d, e, f, g, h):
    tl.store(out_ptr + place + 0, a)
    tl.store(out_ptr + place + 1, b)
    tl.store(out_ptr + place + 2, c)
    tl.store(out_ptr + place + 3, d)
    tl.store(out_ptr + place + 4, e)
    tl.store(out_ptr + place + 5, f)
    tl.store(out_ptr + place + 6, g)
    tl.store(out_ptr + place + 7, h)


def silu(x, out):
    scale = 0.5
    for place in range(0, 8 * 4000, 8):
        values = [scale * (place + each) for each in range(8)]
        put[(1,)](out, place, *values)
