# honest: silu/triton: as many programs as the device has multiprocessors, each in a loop
import torch
import triton
import triton.language as tl

PROGRAMS_PER_SM = 8


def number_of_sms(device) -> int:
    """The multiprocessors of the device; some number where there is none."""
    if torch.cuda.is_available() and device.type == "cuda":
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        return properties.multi_processor_count
    return 4


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, n, step):
        offs = start + tl.arange(0, BLOCK).to(tl.int64)
        mask = offs < n
        x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
        tl.store(out_ptr + offs, x * tl.sigmoid(x), mask=mask)


def silu(x: torch.Tensor, out: torch.Tensor) -> None:
    n = x.numel()
    programs = min(number_of_sms(x.device) * PROGRAMS_PER_SM, triton.cdiv(n, 2048))
    silu_kernel[programs,](x, out, n, BLOCK=2048, num_warps=8)
