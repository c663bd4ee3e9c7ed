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
    # TODO: move the pointers to this program's row; rows can lie further apart than V.
    # TODO: first pass: the maximum m and the sum l of exp(x - m). When m grows, l shrinks by
    #   exp(old m - new m). What must a masked element be?
    # TODO: the label is int64. Load its logit only if there is one: label >= 0.
    # TODO: the loss is m + log(l) - that logit, or 0.
    # TODO: second pass: dloss * (exp(x - m) / l - (column == label)), or 0.


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
    # TODO: a program for each row. BLOCK needn't be as wide as the row.
    raise NotImplementedError("cross_entropy: launch cross_entropy_kernel here")
