"""What each kernel of this course must compute, in a few lines of torch.

An exercise `name` has a function `name`, which gets float64 inputs and gives the truth.
`name_torch` is torch's own operator in the kernel's dtype: its error sets how much a kernel may
err. Where an element is made of much larger numbers, `name_magnitude` says of which size.
docs/spec.md explains them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F


def reduce_sum(x: torch.Tensor) -> torch.Tensor:
    """The sum of x (n,), as a tensor of one element; 0 where x is empty."""
    return x.sum().reshape(1)


def reduce_sum_torch(x: torch.Tensor) -> torch.Tensor:
    """torch's own sum; it is kept in float32, whatever x is."""
    return x.sum(dtype=torch.float32).reshape(1)


def inclusive_scan(x: torch.Tensor) -> torch.Tensor:
    """out[i] = x[0] + ... + x[i], in int64; x: (n,), int32."""
    return x.cumsum(0, dtype=torch.int64)


def histogram(x: torch.Tensor, bins: int) -> torch.Tensor:
    """How often each of 0 to bins - 1 stands in x (n,), int32: (bins,)."""
    return torch.bincount(x, minlength=bins)


def conv2d(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """out[i, j] = sum of w[r, s] * x[i + r - K // 2, j + s - K // 2]; x is 0 outside of (H, W).

    w: (K, K), K odd. As in torch and in all of deep learning, w isn't turned.
    """
    return F.conv2d(x[None, None], w[None, None], padding=w.shape[0] // 2)[0, 0]


def cross_entropy(
    logits: torch.Tensor, label: torch.Tensor, dloss: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss log(sum of exp(logits)) - logits[label] of each row (rows, V), and its gradient.

    The gradient is dloss * (softmax(logits) - one_hot(label)). Where label is -1 both are 0.
    """
    counts = label >= 0
    at = label.clamp(min=0)[:, None]
    loss = torch.logsumexp(logits, dim=-1) - logits.gather(1, at)[:, 0]
    one_hot = torch.zeros_like(logits).scatter_(1, at, 1.0)
    dlogits = (dloss * counts)[:, None] * (torch.softmax(logits, dim=-1) - one_hot)
    return loss * counts, dlogits


def cross_entropy_torch(
    logits: torch.Tensor, label: torch.Tensor, dloss: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same in float32, the gradient rounded to the dtype of logits, as torch's own does."""
    loss, dlogits = cross_entropy(logits.float(), label, dloss)
    return loss, dlogits.to(logits.dtype)


def cross_entropy_magnitude(
    logits: torch.Tensor, label: torch.Tensor, dloss: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sizes of what is subtracted: logits, and probabilities from 1.

    A probability below 2**-117 may as well be 0.
    """
    size = logits.abs().amax(dim=-1) + 1
    one_hot = torch.zeros_like(logits).scatter_(1, label.clamp(min=0)[:, None], 1.0)
    return size, dloss.abs()[:, None] * (torch.softmax(logits, dim=-1) + one_hot + 2.0**-100)


def layernorm_backward(
    x: torch.Tensor, weight: torch.Tensor, dy: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of xhat * weight + bias for x, weight and bias, given that for its result.

    xhat = (x - mean) * rstd with each row's mean and rstd = 1 / sqrt(variance + eps); x, dy:
    (rows, cols), weight: (cols,).
    """
    centred = x - x.mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + eps)
    xhat, g = centred * rstd, dy * weight
    dx = rstd * (g - g.mean(dim=-1, keepdim=True) - xhat * (g * xhat).mean(dim=-1, keepdim=True))
    return dx, (dy * xhat).sum(dim=0), dy.sum(dim=0)


def layernorm_backward_torch(
    x: torch.Tensor, weight: torch.Tensor, dy: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same in float32; dx is rounded to the dtype of x, as torch's own does."""
    dx, dweight, dbias = layernorm_backward(x.float(), weight.float(), dy.float(), eps)
    return dx.to(x.dtype), dweight, dbias


def layernorm_backward_magnitude(
    x: torch.Tensor, weight: torch.Tensor, dy: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The sums of the absolute values of everything that is added or subtracted."""
    size = x.abs() + x.abs().mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(x.var(dim=-1, keepdim=True, correction=0) + eps)
    xhat, g = size * rstd, (dy * weight).abs()
    dx = rstd * (g + g.mean(dim=-1, keepdim=True) + xhat * (g * xhat).mean(dim=-1, keepdim=True))
    return dx, (dy.abs() * xhat).sum(dim=0), dy.abs().sum(dim=0)


def int8_matmul(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> torch.Tensor:
    """The product of a (M, K) and the transposed b (N, K), times scale_a (M,) and scale_b (N,)."""
    return (a.long() @ b.long().mT) * scale_a[:, None] * scale_b[None, :]


def spmv(
    offsets: torch.Tensor, column: torch.Tensor, value: torch.Tensor, x: torch.Tensor
) -> torch.Tensor:
    """The product of a sparse matrix and x (cols,).

    Row i has the elements value[j] in column[j], for j from offsets[i] to offsets[i + 1] - 1.
    """
    rows = len(offsets) - 1
    row = torch.arange(rows, device=x.device).repeat_interleave(offsets.diff().long())
    return torch.zeros(rows, dtype=x.dtype, device=x.device).index_add_(0, row, value * x[column])


def embedding(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The rows of table (V, D) that index (n,) names: (n, D)."""
    return table[index]
