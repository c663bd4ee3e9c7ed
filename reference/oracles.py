"""What each kernel must compute, in a few lines of torch: read this before you write a kernel.

For an exercise `name` there are up to five functions. The first three take the kernel's inputs by
name, and the sizes and scalars that they name, on any device; they return a new tensor, or a tuple
of them for several outputs, and change nothing.

    name            the definition. The grader gives it float64 inputs: its result is the truth.
    name_torch      torch's own operator. The error it makes in the kernel's dtype sets how much
                    error a kernel may make, and its time is what a kernel's time is held against.
    name_magnitude  optional: how large the numbers behind each output element were, shape of the
                    output. Rounding error is allowed in proportion to it; where there is no such
                    function, in proportion to the output itself. Where it has a parameter `dtype`,
                    it is told the kernel's dtype, a torch.dtype: its own inputs are float64.
    name_inputs     optional: makes inputs that the spec's `values` can't describe.
    name_check      optional: decides where more than one result is right.

docs/spec.md explains the last two.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F


def silu(x: torch.Tensor) -> torch.Tensor:
    """x * sigmoid(x), element by element; x: any shape, floating.

    exp gets -|x| only, so it never overflows: exp(-x) would, at x = -1000, even in float64.
    """
    decayed = torch.exp(-x.abs())  # in (0, 1]
    sigmoid = torch.where(x >= 0, 1.0, decayed) / (1.0 + decayed)
    return x * sigmoid


def silu_torch(x: torch.Tensor) -> torch.Tensor:
    """torch's own SiLU, in the dtype of x."""
    return F.silu(x)


def silu_magnitude(x: torch.Tensor) -> torch.Tensor:
    """|silu(x)|, and a little beside it where a float32 sigmoid must give up.

    Below x = -88 exp(-x) is beyond float32 and the sigmoid 0, where the truth is of the order of
    2**-128; the second term lets that pass, and is too small to show anywhere else.
    """
    return silu(x).abs() + x.abs() * 2.0**-100


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Each row of x (rows, cols) over its root mean square, times weight (cols,)."""
    mean_square = x.square().mean(dim=-1, keepdim=True)
    return x * torch.rsqrt(mean_square + eps) * weight


def rmsnorm_torch(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """torch's own RMSNorm, in the dtype of x."""
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def gelu(x: torch.Tensor) -> torch.Tensor:
    """GELU by its tanh approximation: x / 2 * (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3).

    x: any shape, floating. (1 + tanh(u)) / 2 is sigmoid(2 * u), which stays exact where tanh(u) is
    so near -1 that the sum would lose its digits.
    """
    u = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)
    return x * torch.sigmoid(2.0 * u)


def gelu_torch(x: torch.Tensor) -> torch.Tensor:
    """torch's own GELU by the same approximation, in the dtype of x."""
    return F.gelu(x, approximate="tanh")


def gelu_magnitude(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """|gelu(x)|, and some of |x| beside it: 1 + tanh(u) is off by a unit of 1's last place or so.

    At x = -5 that is all there is of the result; a kernel that uses tanh is right nevertheless. It
    is a unit of float32's, in which tanh is computed whatever the dtype: four of them, by the 64
    units of the floor in float32 and by the 2 in half precision.
    """
    return gelu(x).abs() + x.abs() * (1 / 16 if dtype is torch.float32 else 2 * _float32_of(dtype))


def transpose(input: torch.Tensor) -> torch.Tensor:
    """The matrix (rows, cols) with rows and columns exchanged: (cols, rows)."""
    return input.t().contiguous()


def copy_first_column(h_A: torch.Tensor) -> torch.Tensor:
    """The first column of a matrix (rows, cols): (rows,)."""
    return h_A[:, 0].clone()


def softmax(x: torch.Tensor) -> torch.Tensor:
    """The softmax of each row of x (rows, cols)."""
    return torch.softmax(x, dim=-1)


def softmax_torch(x: torch.Tensor) -> torch.Tensor:
    """torch's own softmax, in the dtype of x."""
    return torch.softmax(x, dim=-1)


def softmax_magnitude(x: torch.Tensor) -> torch.Tensor:
    """softmax(x), and a little beside it: what is below 2**-117 may as well be 0."""
    return softmax(x) + 2.0**-100


def gemm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The matrix product of a (M, K) and b (K, N)."""
    return a @ b


def gemm_torch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch's own product, in the dtype of a and b."""
    return a @ b


def gemm_magnitude(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """|a @ b|, which is rounded to the dtype, and |a| @ |b|, which is summed in float32.

    The latter counts in the proportion of the two roundings: in float32 it is nearly all there is,
    in half precision a sum kept in float32 adds hardly anything, and one kept in less shows.
    """
    return (a @ b).abs() + 4 * _float32_of(dtype) * (a.abs() @ b.abs())


def _float32_of(dtype: torch.dtype) -> float:
    """float32's rounding, measured in the dtype's: 1 for float32 itself, 2**-16 for bfloat16."""
    return torch.finfo(torch.float32).eps / torch.finfo(dtype).eps


def flash_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sm_scale: float, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """softmax(q @ k^T * sm_scale) @ v for each head, and the log-sum-exp of each row of scores.

    q: (Z, H, N_CTX, HEAD_DIM); k, v: (Z, H, N_KV, HEAD_DIM). Causal: query i sees the keys up to
    i + N_KV - N_CTX, so that the last one sees all. A query that sees no key has 0 and -inf.
    """
    visible = _visible(q, k, causal)
    heads = [
        _attention(*head, sm_scale, visible)
        for head in zip(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), strict=True)
    ]
    out, lse = (torch.stack(each) for each in zip(*heads, strict=True))
    return out.view_as(q), lse.view(q.shape[:-1])


def _visible(q: torch.Tensor, k: torch.Tensor, causal: bool) -> torch.Tensor:
    """Which of the keys (columns) a query (row) sees: bool (N_CTX, N_KV)."""
    n_ctx, n_kv = q.shape[-2], k.shape[-2]
    everything = torch.ones(n_ctx, n_kv, dtype=torch.bool, device=q.device)
    return everything.tril(n_kv - n_ctx) if causal else everything


def _attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sm_scale: float, visible: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """One head: q (N_CTX, HEAD_DIM), k and v (N_KV, HEAD_DIM)."""
    scores = (q @ k.t() * sm_scale).masked_fill(~visible, -math.inf)
    lse = scores.logsumexp(dim=-1)
    # Relative to 0 where there is nothing: exp(-inf) is the 0 that is wanted, and no nan.
    weights = torch.exp(scores - lse.nan_to_num(neginf=0.0)[:, None])
    return weights @ v, lse


def flash_attention_torch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sm_scale: float, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """torch's own attention in the dtype of q; the log-sum-exp is float32."""
    # Where it is timed: the fused kernel, which gives both, and takes 16-bit types only.
    if q.is_cuda and q.dtype is not torch.float32:
        fused = torch.ops.aten._scaled_dot_product_flash_attention
        return fused(q, k, v, 0.0, causal, scale=sm_scale)[:2]
    visible = _visible(q, k, causal)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=visible, scale=sm_scale)
    scores = (q.float() @ k.float().mT * sm_scale).masked_fill(~visible, -math.inf)
    return out.masked_fill(~visible.any(dim=-1, keepdim=True), 0.0), scores.logsumexp(dim=-1)


def flash_attention_magnitude(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    sm_scale: float,
    causal: bool,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the roundings of out and lse are in proportion to.

    A score is a float32 sum, off in proportion to `size`, the same sum of absolute values. The
    log-sum-exp is off by as much, a weight by as large a part of it. A weight is also rounded to
    the dtype, and so is out. Of many weights in half precision some are rounded up and some down:
    what is left is in proportion to the root of the sum of the squares, and six times that is never
    reached by chance. Otherwise 0 would be near enough to an average of thousands of values.
    """
    out, lse = flash_attention(q, k, v.abs(), sm_scale, causal)
    size = (q.abs() @ k.abs().mT).amax(dim=-1) * sm_scale
    sums = out * (1 + size[..., None]) * _float32_of(dtype)
    if dtype is not torch.float32:
        squares, lse_of_squares = flash_attention(q, k, v.square(), 2 * sm_scale, causal)
        together = torch.exp(lse_of_squares - 2 * lse).nan_to_num(nan=0.0)
        chance = 6 * (squares * together[..., None]).sqrt()
        right, _ = flash_attention(q, k, v, sm_scale, causal)
        sums += torch.minimum(out, right.abs() + chance)
    return sums, lse.abs() + 1 + size
