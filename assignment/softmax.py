"""Softmax: out[m, n] = exp(x[m, n] - max of row m) / sum over the row of the same.

Two reductions and a map over a row. exp overflows float32 from 88.8 on, float16 from 11.1 on, so
the largest element of the row is subtracted first: it cancels in the quotient, and what is left has
exponents of 0 and less. This is the whole of "numerically stable softmax".

`softmax` holds the row in registers: one read, one write. `softmax_online` never does. It goes
through the row in blocks and keeps two numbers, the largest element so far and the sum so far, and
corrects the sum whenever the largest changes. That costs a second read to write the result; in
exchange the row can be any length. Flash attention is this loop with a matrix product inside.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, stride_xm, stride_om, n_cols, BLOCK: tl.constexpr):
    """One program normalises one row, all of it in one block (n_cols <= BLOCK)."""
    # TODO: which row is this program's? Row m of x starts at x_ptr + m * stride_xm, and
    #   rows can lie further apart than n_cols. out has a stride of its own.
    # TODO: load the row with a mask and widen it to float32. What must a masked element be so
    #   that it is never the maximum, and its exponential adds nothing to the sum?
    # TODO: subtract the maximum, take exp, divide by the sum: tl.max, tl.exp, tl.sum.
    # TODO: store. The mask keeps what lies behind the row as it is.


def softmax(x: torch.Tensor, out: torch.Tensor) -> None:
    """Write the softmax of each row of x to out, a row at a time in one program.

    x, out: shape (rows, cols), the elements of a row side by side, rows any distance apart
    (x.stride(0) and out.stride(0), which can differ). One dtype of float32, float16, bfloat16.
    """
    # TODO: one program per row. BLOCK must be a power of two, and no less than cols:
    #   triton.next_power_of_2(cols).
    #   softmax_kernel[(rows,)](x, out, x.stride(0), ..., BLOCK=BLOCK)
    # Write to `out`; return nothing.
    raise NotImplementedError("softmax: launch softmax_kernel here")


# --- online --------------------------------------------------------------------------------------

ONLINE_BLOCK = 1024  # columns that softmax_online looks at together, however long the row is


@triton.jit
def softmax_online_kernel(x_ptr, out_ptr, stride_xm, stride_om, n_cols, BLOCK: tl.constexpr):
    """One program normalises one row of any length, BLOCK columns at a time, reading it twice."""
    # TODO: keep m_i, the largest element so far, and l_i, the sum so far of exp(x - m_i).
    #   What are they before the first block?
    # TODO: for each block of columns (for start in range(0, n_cols, BLOCK)):
    #   m_new is the larger of m_i and the block's maximum. Every term of l_i was taken relative
    #   to m_i: by which factor does l_i change when m_i becomes m_new?
    #   Correct l_i first, then add the block's terms, relative to m_new.
    # TODO: a second loop over the columns writes exp(x - m_i) / l_i.


def softmax_online(x: torch.Tensor, out: torch.Tensor) -> None:
    """Write the softmax of each row of x to out, holding no more than a block of a row.

    As for `softmax`. However long the rows are, no block of the kernel grows with them, and nothing
    is written but out.
    """
    # TODO: one program per row, as in softmax; but BLOCK stays the same for long rows.
    raise NotImplementedError("softmax_online: launch softmax_online_kernel here")
