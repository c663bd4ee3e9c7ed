"""Cross-entropy: loss = log(sum of exp(logits)) - logits[label], and its gradient, in one kernel.

The gradient of the loss is softmax(logits) - one_hot(label): all that it needs is there once the
loss is. So one program goes along a row twice: once for the maximum and the sum of exponentials,
kept together as it goes ("online": Milakov and Gimelshein, "Online normalizer calculation for
softmax", 2018), and once to write the gradient. Nothing of the size of logits is kept beside them.

A label is an index from outside. -1 means that the row doesn't count, and must not be followed.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(
    logits_ptr, label_ptr, dloss_ptr, loss_ptr, dlogits_ptr, stride_xm, stride_dm, V,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One program computes the loss and the gradient of one row, BLOCK columns at a time."""
    # BEGIN SOLUTION
    #| # TODO: move the pointers to this program's row; rows can lie further apart than V.
    #| # TODO: first pass: the maximum m and the sum l of exp(x - m). When m grows, l shrinks by
    #| #   exp(old m - new m). What must a masked element be?
    #| # TODO: the label is int64. Load its logit only if there is one: label >= 0.
    #| # TODO: the loss is m + log(l) - that logit, or 0.
    #| # TODO: second pass: dloss * (exp(x - m) / l - (column == label)), or 0.
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * stride_xm
    dlogits_ptr += row * stride_dm

    m = tl.full([], -float("inf"), dtype=tl.float32)
    l = tl.zeros([], dtype=tl.float32)  # noqa: E741
    for start in range(0, V, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + offs, mask=offs < V, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, axis=0))
        l = l * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), axis=0)  # noqa: E741
        m = m_new

    label = tl.load(label_ptr + row)
    counts = label >= 0
    target = tl.load(logits_ptr + label, mask=counts, other=0.0).to(tl.float32)
    tl.store(loss_ptr + row, tl.where(counts, m + tl.log(l) - target, 0.0))

    dloss = tl.where(counts, tl.load(dloss_ptr + row), 0.0)
    for start in range(0, V, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < V
        x = tl.load(logits_ptr + offs, mask=mask, other=0.0).to(tl.float32)
        gradient = tl.exp(x - m) / l - tl.where(offs == label, 1.0, 0.0)
        tl.store(dlogits_ptr + offs, dloss * gradient, mask=mask)
    # END SOLUTION


def cross_entropy(
    logits: torch.Tensor,
    label: torch.Tensor,
    dloss: torch.Tensor,
    loss: torch.Tensor,
    dlogits: torch.Tensor,
) -> None:
    """Write each row's loss to loss, and its gradient times dloss to dlogits.

    logits, dlogits: shape (rows, V), the elements of a row side by side, one dtype of float32,
    float16, bfloat16; each with a stride(0) of its own. label: (rows,), int64, from 0 to V - 1, or
    -1 for a row whose loss and gradient are 0. dloss, loss: (rows,), float32.
    """
    # BEGIN SOLUTION
    #| # TODO: a program for each row. BLOCK needn't be as wide as the row.
    #| raise NotImplementedError("cross_entropy: launch cross_entropy_kernel here")
    rows, V = logits.shape
    BLOCK = min(triton.next_power_of_2(V), 2048)
    cross_entropy_kernel[(rows,)](
        logits, label, dloss, loss, dlogits, logits.stride(0), dlogits.stride(0), V, BLOCK=BLOCK
    )
    # END SOLUTION
