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
    # BEGIN SOLUTION
    #| # TODO: which rows, offs_m, of which head are this program's? Head h of batch z of q starts
    #| #   at q_ptr + z * stride_qz + h * stride_qh; k, v and out have strides of their own.
    #| # TODO: load the block of q once. Before the loop: m_i = -inf, l_i = 0, acc = 0, in float32.
    #| # TODO: for each block of keys:
    #| #   scores: tl.dot(q, the block of k turned), input_precision="ieee", then times sm_scale in
    #| #     float32 (q times sm_scale, rounded to half precision, would be off).
    #| #   keys that don't exist, and those a causal query may not see, get -inf.
    #| #   m_new, the factor exp(m_i - m_new), p = exp(scores - m_new): as in softmax_online, a row
    #| #     at a time. A row that has seen no key yet has m_new = -inf, and -inf - -inf is nan.
    #| #   l_i and acc: both times the factor; then add the sum of p, and p @ v (tl.dot takes p in
    #| #     the dtype of v).
    #| # TODO: causal programs may stop early: which is the last key that any of their rows sees?
    #| # TODO: out = acc / l_i and lse = m_i + log(l_i), but 0 and -inf for a row without keys.
    pid = tl.program_id(0)
    blocks_m = tl.cdiv(N_CTX, BLOCK_M)
    first_m = (blocks_m - 1 - pid % blocks_m) * BLOCK_M  # causal: the longest programs start first
    # In int64, so that an index times a stride is right beyond 2**31 elements too.
    head = (pid // blocks_m).to(tl.int64)
    z, h = head // H, head % H
    offs_m = first_m + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD_DIM)
    rows_m, rows_n = offs_m[:, None].to(tl.int64), offs_n[:, None].to(tl.int64)
    k_ptrs = k_ptr + z * stride_kz + h * stride_kh + rows_n * stride_kn + offs_d[None, :]
    v_ptrs = v_ptr + z * stride_vz + h * stride_vh + rows_n * stride_vn + offs_d[None, :]

    rows = offs_m[:, None] < N_CTX
    q_ptrs = q_ptr + z * stride_qz + h * stride_qh + rows_m * stride_qm + offs_d[None, :]
    q = tl.load(q_ptrs, mask=rows, other=0.0)
    # exp(x) is exp2(x * log2(e)) in hardware: multiplied into the scale, it costs nothing.
    scale = sm_scale * LOG2_E

    m_i = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    end_n = offs_m * 0 + N_KV  # each row sees the keys before this one
    end = N_KV
    seen_by_all = N_KV
    if IS_CAUSAL:  # none of them above 0 where no row sees a key
        end_n = tl.minimum(N_KV, offs_m + 1 + N_KV - N_CTX)
        end = tl.minimum(N_KV, first_m + BLOCK_M + N_KV - N_CTX)
        seen_by_all = tl.minimum(N_KV, first_m + 1 + N_KV - N_CTX)
    # A mask is half as many instructions again: only the last blocks have one.
    unmasked = tl.maximum(seen_by_all, 0) // BLOCK_N * BLOCK_N
    for MASKED in tl.static_range(2):
        for start in range(unmasked if MASKED else 0, end if MASKED else unmasked, BLOCK_N):
            first_n = tl.cast(start, tl.int64)
            keys = (start + offs_n[:, None] < N_KV) if MASKED else True
            k = tl.load(k_ptrs + first_n * stride_kn, mask=keys, other=0.0)
            v = tl.load(v_ptrs + first_n * stride_vn, mask=keys, other=0.0)

            scores = tl.dot(q, tl.trans(k), input_precision="ieee")
            if MASKED:
                visible = start + offs_n[None, :] < end_n[:, None]
                scores = tl.where(visible, scores, -float("inf"))

            m_new = tl.maximum(m_i, tl.max(scores, axis=1) * scale)
            base = m_new
            if MASKED:  # a row that has seen no key: relative to 0, its exponentials are all 0
                base = tl.where(m_new == -float("inf"), 0.0, m_new)
            p = tl.exp2(scores * scale - base[:, None])
            alpha = tl.exp2(m_i - base)
            l_i = l_i * alpha + tl.sum(p, axis=1)
            acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
            m_i = m_new

    some = l_i > 0.0
    out = acc / tl.where(some, l_i, 1.0)[:, None]
    out_ptrs = out_ptr + z * stride_oz + h * stride_oh + rows_m * stride_om
    tl.store(out_ptrs + offs_d[None, :], out, mask=rows)
    lse = tl.where(some, m_i * LN_2 + tl.log(tl.where(some, l_i, 1.0)), -float("inf"))
    tl.store(lse_ptr + head * N_CTX + offs_m, lse, mask=offs_m < N_CTX)
    # END SOLUTION


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
    # BEGIN SOLUTION
    #| # TODO: a program for each block of BLOCK_M rows of each of the Z * H heads, in a grid of one
    #| #   dimension. HEAD_DIM and causal are known to the compiler: IS_CAUSAL=causal.
    #| # TODO: nothing of size N_CTX * N_KV is allocated, here or in the kernel.
    #| raise NotImplementedError("flash_attention: launch flash_attention_kernel here")
    Z, H, N_CTX, HEAD_DIM = q.shape
    N_KV = k.shape[2]
    # A program waits for each product, and others on its multiprocessor must have work: hence small
    # blocks, and with maxnreg no more registers for each thread than let four of them fit.
    if q.element_size() == 4:  # twice the shared memory for each element, and no matrix units
        BLOCK_M, BLOCK_N, num_warps, num_stages, maxnreg = 64, 32, 8, 2, None
    else:
        BLOCK_M, BLOCK_N, num_warps, num_stages = 64, 64, 4, 3
        maxnreg = 128 if HEAD_DIM <= 64 else None
    grid = (triton.cdiv(N_CTX, BLOCK_M) * Z * H,)
    flash_attention_kernel[grid](
        q, k, v, out, lse, sm_scale, H, N_CTX, N_KV,
        q.stride(0), q.stride(1), q.stride(2), k.stride(0), k.stride(1), k.stride(2),
        v.stride(0), v.stride(1), v.stride(2), out.stride(0), out.stride(1), out.stride(2),
        HEAD_DIM=HEAD_DIM, IS_CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
        num_warps=num_warps, num_stages=num_stages, maxnreg=maxnreg,
    )  # fmt: skip
    # END SOLUTION
