"""Sparse matrix times vector: out[i] is the sum of value[j] * x[column[j]] over the row i.

CSR keeps a sparse matrix as three vectors: the values row after row, the column of each, and where
each row begins. Rows have any length, none among them. A program takes a row and goes along it a
block at a time; value and column come in order, x from wherever column says. (Bell and Garland,
"Implementing Sparse Matrix-Vector Multiplication on Throughput-Oriented Processors", 2009.)
"""

import torch
import triton
import triton.language as tl


@triton.jit
def spmv_kernel(offsets_ptr, column_ptr, value_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    """One program computes one element of out."""
    # TODO: where does this row begin, and where does the next one?
    # TODO: BLOCK elements at a time: their columns, their values, and of x what the columns
    #   name. A masked column is no index: the load of x needs the mask, too.
    # TODO: an empty row is 0, and has to be written.


def spmv(
    offsets: torch.Tensor,
    column: torch.Tensor,
    value: torch.Tensor,
    x: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """Write the product of a matrix in CSR with x to out.

    offsets: shape (rows + 1,), int32, from 0 to nnz, never falling; column: (nnz,), int32, from 0
    to cols - 1; value: (nnz,), x: (cols,), out: (rows,), float32; nnz >= 0.
    """
    # TODO: a program for each row.
    raise NotImplementedError("spmv: launch spmv_kernel here")
