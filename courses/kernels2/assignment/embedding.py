"""Embedding: out[i] = table[index[i]].

Nothing is computed. An index is loaded, and what it names is copied: one program takes one row, so
that its threads read neighbours, wherever the row lies. The index is int64, and has to stay that
until it is an address: a table of 131,072 rows of 16,384 numbers has 2**31 elements.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def embedding_kernel(table_ptr, index_ptr, out_ptr, D, BLOCK: tl.constexpr):
    """One program copies one row of D elements, all of it in one block."""
    # TODO: load the index of this program's row. Which dtype has it?
    # TODO: load that row of the table, and store it.


def embedding(table: torch.Tensor, index: torch.Tensor, out: torch.Tensor) -> None:
    """Write the rows of table that index names to out.

    table: shape (V, D); index: (n,), int64, from 0 to V - 1, n >= 0; out: (n, D), of table's dtype.
    """
    # TODO: a program for each index; n may be 0.
    raise NotImplementedError("embedding: launch embedding_kernel here")
