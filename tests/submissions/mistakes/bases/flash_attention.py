"""Flash attention in its plainest form: one loop over all blocks of keys."""

import torch
import triton
import triton.language as tl


@triton.jit
def flash_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, sm_scale, H, N_CTX, N_KV,
    stride_qz, stride_qh, stride_qm, stride_kz, stride_kh, stride_kn,
    stride_vz, stride_vh, stride_vn, stride_oz, stride_oh, stride_om,
    HEAD_DIM: tl.constexpr, IS_CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """One program computes BLOCK_M rows of out for one head."""
    pid_m = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    z = head // H
    h = head % H
    q_ptr += z * stride_qz + h * stride_qh
    k_ptr += z * stride_kz + h * stride_kh
    v_ptr += z * stride_vz + h * stride_vh
    out_ptr += z * stride_oz + h * stride_oh

    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, HEAD_DIM)
    mask_m = offs_m < N_CTX
    q = tl.load(
        q_ptr + offs_m[:, None] * stride_qm + offs_d[None, :], mask=mask_m[:, None], other=0.0
    )

    m_i = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    for start in range(0, N_KV, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        mask_n = offs_n < N_KV
        kv_mask = mask_n[:, None]
        k = tl.load(k_ptr + offs_n[:, None] * stride_kn + offs_d[None, :], mask=kv_mask, other=0.0)
        v = tl.load(v_ptr + offs_n[:, None] * stride_vn + offs_d[None, :], mask=kv_mask, other=0.0)

        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale
        visible = mask_n[None, :]
        if IS_CAUSAL:
            visible = visible & (offs_n[None, :] <= offs_m[:, None] + N_KV - N_CTX)
        scores = tl.where(visible, scores, -float("inf"))

        m_new = tl.maximum(m_i, tl.max(scores, axis=1))
        m_safe = tl.where(m_new == -float("inf"), 0.0, m_new)
        p = tl.exp(scores - m_safe[:, None])
        alpha = tl.exp(m_i - m_safe)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        acc += tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m_i = m_new

    l_safe = tl.where(l_i == 0.0, 1.0, l_i)
    out = acc / l_safe[:, None]
    lse = m_i + tl.log(l_safe)
    tl.store(
        out_ptr + offs_m[:, None] * stride_om + offs_d[None, :], out, mask=mask_m[:, None]
    )
    tl.store(lse_ptr + head * N_CTX + offs_m, lse, mask=mask_m)


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    sm_scale: float,
    causal: bool,
) -> None:
    """Write attention of q over k and v to out, and each row's log-sum-exp of scores to lse."""
    Z, H, N_CTX, HEAD_DIM = q.shape
    N_KV = k.shape[2]
    BLOCK_M, BLOCK_N = 64, 32
    grid = (triton.cdiv(N_CTX, BLOCK_M), Z * H)
    flash_attention_kernel[grid](
        q, k, v, out, lse, sm_scale, H, N_CTX, N_KV,
        q.stride(0), q.stride(1), q.stride(2),
        k.stride(0), k.stride(1), k.stride(2),
        v.stride(0), v.stride(1), v.stride(2),
        out.stride(0), out.stride(1), out.stride(2),
        HEAD_DIM=HEAD_DIM, IS_CAUSAL=causal, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
        num_warps=4,
    )  # fmt: skip
