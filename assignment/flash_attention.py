"""Flash attention: out = softmax(q @ k^T * sm_scale) @ v, and the log-sum-exp of every row.

The scores form a matrix of N_CTX by N_KV for each head. Written to memory and read again, it is
most of the traffic; and it need not exist. One program takes BLOCK_M rows of q and goes along k and
v in blocks, with the loop of softmax_online: for each row it keeps the largest score so far, m_i,
the sum so far, l_i, and beside them acc, the weighted sum of the rows of v so far. When a block
brings a larger score, all that was summed relative to the old maximum is multiplied by
exp(old - new), l_i and acc alike. At the end out is acc / l_i.

Causal: query i is at position i + N_KV - N_CTX among the keys (the last query sees every key) and
sees the keys up to its own position. With more queries than keys the first ones see none: their out
is 0, and their log-sum-exp, the logarithm of an empty sum, is -inf.
"""

import torch
import triton
import triton.language as tl

# The hardware has exp2 and no exp: exp(x) = exp2(x * LOG2_E), and log(y) = log2(y) * LN_2.
LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def flash_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, sm_scale, H, N_CTX, N_KV,
    stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn,
    stride_vz, stride_vh, stride_vn, stride_oz, stride_oh, stride_om,
    HEAD_DIM: tl.constexpr, IS_CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One program computes BLOCK_M rows of out, and their log-sum-exp, for one head."""
    # TODO: which rows, offs_m, of which head are this program's? Head h of batch z of q starts
    #   at q_ptr + z * stride_qz + h * stride_qh; k, v and out have strides of their own.
    # TODO: load the block of q once. Before the loop: m_i = -inf, l_i = 0, acc = 0, in float32.
    # TODO: for each block of keys:
    #   scores: tl.dot(q, the block of k turned), input_precision="ieee", then times sm_scale in
    #     float32 (q times sm_scale, rounded to half precision, would be off).
    #   keys that don't exist, and those a causal query may not see, get -inf.
    #   m_new, the factor exp(m_i - m_new), p = exp(scores - m_new): as in softmax_online, a row
    #     at a time. A row that has seen no key yet has m_new = -inf, and -inf - -inf is nan.
    #   l_i and acc: both times the factor; then add the sum of p, and p @ v (tl.dot takes p in
    #     the dtype of v).
    # TODO: causal programs may stop early: which is the last key that any of their rows sees?
    # TODO: out = acc / l_i and lse = m_i + log(l_i), but 0 and -inf for a row without keys.


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    sm_scale: float,
    causal: bool,
) -> None:
    """Write attention of q over k and v to out, and each row's log-sum-exp of scores to lse.

    q, out: shape (Z, H, N_CTX, HEAD_DIM); k, v: shape (Z, H, N_KV, HEAD_DIM), one dtype of float32,
    float16, bfloat16; HEAD_DIM one of 16, 32, 64, 128. The elements of a row lie side by side, the
    other strides are each tensor's own. lse: shape (Z, H, N_CTX), float32, contiguous. sm_scale is
    above 0. causal: query i sees the keys up to i + N_KV - N_CTX only. One that sees none: 0, -inf.
    """
    # TODO: a program for each block of BLOCK_M rows of each of the Z * H heads, in a grid of one
    #   dimension. HEAD_DIM and causal are known to the compiler: IS_CAUSAL=causal.
    # TODO: nothing of size N_CTX * N_KV is allocated, here or in the kernel.
    raise NotImplementedError("flash_attention: launch flash_attention_kernel here")
