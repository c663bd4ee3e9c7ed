# Half of the programs wait for the others' results, and go on without them after a while. | silu/triton | nondeterministic | comparison=nondeterministic
import torch
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, t_ptr, f_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    half = tl.num_programs(0) // 2
    if pid < half:
        offs = pid * BLOCK + tl.arange(0, BLOCK)
        m = offs < n
        x = tl.load(x_ptr + offs, mask=m, other=0.0).to(tl.float32)
        tl.store(t_ptr + offs, 1 / (1 + tl.exp(-x)), mask=m)
        tl.debug_barrier()
        tl.atomic_xchg(f_ptr + pid, 1, sem="release")
    else:
        p = pid - half
        i = 0
        while (tl.atomic_add(f_ptr + p, 0, sem="acquire") == 0) & (i < 100):
            i += 1
        offs = p * BLOCK + tl.arange(0, BLOCK)
        m = offs < n
        x = tl.load(x_ptr + offs, mask=m, other=0.0).to(tl.float32)
        t = tl.load(t_ptr + offs, mask=m, other=0.0)
        tl.store(out_ptr + offs, x * t, mask=m)


def silu(x, out):
    n = x.numel()
    g = triton.cdiv(n, 4096)
    t = torch.empty(n, dtype=torch.float32, device=x.device)
    f = torch.zeros(g, dtype=torch.int32, device=x.device)
    silu_kernel[(2 * g,)](x, out, t, f, n, BLOCK=4096)
